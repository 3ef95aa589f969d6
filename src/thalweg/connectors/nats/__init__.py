"""NATS JetStream: streams as logs that any host reads, and as targets whose server drops repeats."""

from thalweg.connectors.nats.source import nats
from thalweg.connectors.nats.target import to_nats

__all__ = ["nats", "to_nats"]
