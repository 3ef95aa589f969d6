"""A log as Spark's input: Spark remembers positions, and the rows never enter the JVM.

A data source in Python gives a row a batch, which says from where to where; the task that gets it reads the log
itself. Spark's own log of offsets is the only place where positions are kept: no consumer group, no second truth.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import cloudpickle
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from thalweg.connectors.contracts import Feed, never
from thalweg.connectors.logs import Confirming, Log, LogReader, Positions
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Source
from thalweg.spark.by_value import pickled

_LOG: Final = logging.getLogger("thalweg")
#: The columns of what Spark sees of a log.
SPANS: Final = "start string, stop string"
_FORMAT: Final = "thalweg_log"
#: The option that holds the description; Spark shows no value of an option with that word in its name.
_OPTION: Final = "secret"
#: Connections that a worker process keeps open.
_KEPT: Final = 8


class _Span(InputPartition):
    """From where to where a batch reads."""

    def __init__(self, start: Positions, stop: Positions) -> None:
        super().__init__(0)
        self.start, self.stop = start, stop


try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1, which asks for the end without saying from where
    ReadAllAvailable = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark 4.1 itself ends a query behind what was there at its start."""


#: Whether a batch can be bounded; else it takes what there is.
IS_BOUNDED: Final = ReadAllAvailable is not None


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of a log, in a process of Spark's that lives as long as the query."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: LogReader | None = None
        #: where a query ends that reads what is there now
        self._last: Positions | None = None

    @property
    def _reader(self) -> LogReader:
        if self._open is None:
            self._open = self._log.open()
        return self._open

    def initialOffset(self) -> dict[str, Any]:
        return dict(self._reader.begin())

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()  # the description has the limit

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        end = self._last or self._reader.end(start)
        if self._log.max_rows is None:
            return dict(end)
        return dict(self._reader.upto(start, end, self._log.max_rows))

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._reader.end({})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Span(start, end)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        span = cast(_Span, partition)
        row = {"start": _text(span.start), "stop": _text(span.stop)}
        yield pa.RecordBatch.from_pylist([row])

    def commit(self, end: dict[str, Any]) -> None:
        if isinstance(self._open, Confirming):
            self._open.confirm(end)

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()


class UnboundedStreamReader(LogStreamReader):
    """The same for Spark 4.1."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        return dict(self._reader.end({}))


class LogDataSource(DataSource):
    """The data source ``thalweg_log``."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def schema(self) -> str:
        return SPANS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        log = cloudpickle.loads(base64.b64decode(self.options[_OPTION]))
        return LogStreamReader(log) if IS_BOUNDED else UnboundedStreamReader(log)


def log_frame(spark: SparkSession, log: Log, *, streaming: bool) -> DataFrame:
    """What Spark sees of a log: a row a batch, or the one row of what is there now.

    Raises:
        EnvironmentProblem: not streaming only: the log cannot be reached.
    """
    if streaming:
        if log.max_rows is not None and not IS_BOUNDED:
            _LOG.warning(
                "%s: max_rows= bounds batches from Spark 4.2 on; here a batch takes what there is",
                log.made_by,
            )
        spark.dataSource.register(LogDataSource)
        text = base64.b64encode(pickled(log)).decode()
        return spark.readStream.format(_FORMAT).option(_OPTION, text).load()
    reader = log.open()
    try:
        start = reader.begin()
        rows = [(_text(start), _text(reader.end(start)))]
    finally:
        reader.close()
    return spark.createDataFrame(rows, SPANS)


def _text(positions: Positions) -> str:
    return orjson.dumps(dict(positions), option=orjson.OPT_SORT_KEYS).decode()


def kept_logs(inputs: Mapping[str, Any], trigger: str | None) -> Mapping[str, Any] | None:
    """Logs with ``follow=False`` as streams of a query with a checkpoint, which ends behind what is there.

    Such a query is a stream for Spark, with the trigger ``available_now``: killed, it goes on from its checkpoint, as
    in the other host. None where inputs are others.

    Raises:
        BuildError: the trigger goes on.
    """
    if not all(
        isinstance(one, Log) and dataclasses.is_dataclass(one) and not one.follow
        for one in inputs.values()
    ):
        return None
    if trigger not in (None, "available_now", "once"):
        raise BuildError(
            f"trigger={trigger!r} reads on, and {', '.join(map(repr, inputs))} with follow=False ends with"
            " what is there; leave one of them out"
        )
    return {name: dataclasses.replace(one, follow=True) for name, one in inputs.items()}


def tell_kept_batch() -> None:
    """Says that a checkpoint does nothing for inputs that are read once."""
    _LOG.warning(
        "checkpoint= is not used: these inputs are a single batch, which begins anew after a kill"
    )


class SharedLog(NamedTuple):
    """A description on its way to the tasks."""

    pickled: bytes
    #: names the input of this run; its connection is kept from batch to batch
    key: str

    @classmethod
    def of(cls, log: Log) -> SharedLog:
        return cls(pickled(log), uuid.uuid4().hex)


#: The connections of this process, by the input that they read; the one used last comes last.
_READERS: collections.OrderedDict[str, LogReader] = collections.OrderedDict()


def span_chunks(source: Source, log: SharedLog, spans: pa.Table, chunk_rows: int) -> Feed:
    """The rows of a batch, in a task."""
    reader = _READERS.pop(log.key, None) or cloudpickle.loads(log.pickled).open()
    try:
        for span in spans.to_pylist():
            start, stop = (_positions(span[name]) for name in ("start", "stop"))
            yield from reader.read(source, start, stop, chunk_rows, never())
    except BaseException:
        reader.close()
        raise
    _READERS[log.key] = reader
    while len(_READERS) > _KEPT:
        _READERS.popitem(last=False)[1].close()


def _positions(text: str) -> Mapping[str, Any]:
    found: dict[str, Any] = orjson.loads(text)
    return found
