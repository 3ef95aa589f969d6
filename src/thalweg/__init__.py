"""Thalweg: ordered, elastic stream processing in Python, on Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from thalweg import times
from thalweg.checks import no_attribute
from thalweg.errors import (
    BuildError,
    CheckpointError,
    CheckpointMismatch,
    CompileRefused,
    DataError,
    EnvironmentProblem,
    OperatorError,
    SchedulingError,
    SchemaError,
    SourceClosed,
    ThalwegError,
)
from thalweg.flow.by_key.keyed import KeyedStream
from thalweg.flow.fields.hints import Category, Money, Timer, Timestamp, decimal
from thalweg.flow.flow import Flow
from thalweg.flow.operators import agg
from thalweg.flow.operators.agg import aggregate
from thalweg.flow.operators.coroutines import Control, Input, Output, wait_for_all, wait_for_any
from thalweg.flow.operators.rejected import Rejected
from thalweg.flow.state_class import drop, state
from thalweg.flow.streams import Stream
from thalweg.renamed import warn_renamed
from thalweg.times import (
    NEVER,
    days,
    duration,
    hours,
    microseconds,
    milliseconds,
    minutes,
    seconds,
    timestamp,
)
from thalweg.version import __version__

if TYPE_CHECKING:
    from thalweg import checkpoint, elasticity, locality, scheduling, spark, testing
    from thalweg.connectors import (
        batches,
        each,
        from_iterable,
        push_source,
        tcp_lines,
        to_files,
        to_tcp,
    )
    from thalweg.connectors.delta import delta, to_delta
    from thalweg.connectors.files import files
    from thalweg.connectors.iceberg import to_iceberg
    from thalweg.connectors.kafka import kafka, to_kafka
    from thalweg.connectors.live import http_post, mqtt, to_http, websocket
    from thalweg.connectors.nats import nats, to_nats
    from thalweg.connectors.postgres import postgres, postgres_changes, to_postgres
    from thalweg.connectors.redis import redis_stream, to_redis
    from thalweg.embedded import run, start
    from thalweg.workers.options import Options

_IO = "thalweg.connectors"
#: Loaded on first use: Spark, the test kit and the embedded host are not needed to build a flow.
_LAZY = {
    "checkpoint": None,
    "elasticity": None,
    "locality": None,
    "scheduling": None,
    "spark": None,
    "testing": None,
    "run": "thalweg.embedded",
    "start": "thalweg.embedded",
    "Options": "thalweg.workers.options",
    "batches": _IO,
    "delta": "thalweg.connectors.delta",
    "each": _IO,
    "files": _IO,
    "from_iterable": _IO,
    "kafka": "thalweg.connectors.kafka",
    "http_post": "thalweg.connectors.live",
    "mqtt": "thalweg.connectors.live",
    "nats": "thalweg.connectors.nats",
    "postgres": "thalweg.connectors.postgres",
    "postgres_changes": "thalweg.connectors.postgres",
    "push_source": _IO,
    "redis_stream": "thalweg.connectors.redis",
    "tcp_lines": _IO,
    "to_delta": "thalweg.connectors.delta",
    "to_files": _IO,
    "to_kafka": "thalweg.connectors.kafka",
    "to_iceberg": "thalweg.connectors.iceberg",
    "to_http": "thalweg.connectors.live",
    "to_nats": "thalweg.connectors.nats",
    "to_postgres": "thalweg.connectors.postgres",
    "to_redis": "thalweg.connectors.redis",
    "to_tcp": _IO,
    "websocket": "thalweg.connectors.live",
}


#: Where they were in 0.1: they are functions of times. ``hour`` is not among them any more, since who writes
#: ``tw.hour(1)`` means a duration, and would get 0.
_MOVED = ("date", "text", "weekday")


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        warn_renamed(f"tw.{name}", f"tw.times.{name}")
        return getattr(times, name)
    if name not in _LAZY:
        raise no_attribute("thalweg", name, __all__)
    home = _LAZY[name]
    if home is None:
        return importlib.import_module(f"thalweg.{name}")
    return getattr(importlib.import_module(home), name)


__all__ = [
    "NEVER",
    "BuildError",
    "Category",
    "CheckpointError",
    "CheckpointMismatch",
    "CompileRefused",
    "Control",
    "DataError",
    "EnvironmentProblem",
    "Flow",
    "Input",
    "KeyedStream",
    "Money",
    "OperatorError",
    "Options",
    "Output",
    "Rejected",
    "SchedulingError",
    "SchemaError",
    "SourceClosed",
    "Stream",
    "ThalwegError",
    "Timer",
    "Timestamp",
    "__version__",
    "agg",
    "aggregate",
    "batches",
    "checkpoint",
    "days",
    "decimal",
    "delta",
    "drop",
    "duration",
    "each",
    "elasticity",
    "files",
    "from_iterable",
    "hours",
    "http_post",
    "kafka",
    "locality",
    "microseconds",
    "milliseconds",
    "minutes",
    "mqtt",
    "nats",
    "postgres",
    "postgres_changes",
    "push_source",
    "redis_stream",
    "run",
    "scheduling",
    "seconds",
    "spark",
    "start",
    "state",
    "tcp_lines",
    "testing",
    "times",
    "timestamp",
    "to_delta",
    "to_files",
    "to_kafka",
    "to_iceberg",
    "to_http",
    "to_nats",
    "to_postgres",
    "to_redis",
    "to_tcp",
    "wait_for_all",
    "wait_for_any",
    "websocket",
]
