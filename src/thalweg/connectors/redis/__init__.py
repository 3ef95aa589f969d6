"""Redis Streams: as logs that any host reads, and as targets that any host writes, each batch once."""

from thalweg.connectors.redis.source import redis_stream
from thalweg.connectors.redis.target import to_redis

__all__ = ["redis_stream", "to_redis"]
