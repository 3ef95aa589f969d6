"""Kafka: topics as logs that any host reads, and as targets that any host writes."""

from thalweg.connectors.kafka.sink import to_kafka
from thalweg.connectors.kafka.source import kafka

__all__ = ["kafka", "to_kafka"]
