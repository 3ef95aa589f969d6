"""``tw.to_kafka``: rows as messages of a topic, at least once, in order, each with its number."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import pyarrow as pa

from thalweg.checks import known_keywords, one_of, refuse, require_optional_text
from thalweg.columns.chunks import Chunk
from thalweg.connectors.kafka.client import (
    CALL_S,
    Brokers,
    BrokerWait,
    Trouble,
    brokers_of,
    connected,
    library,
)
from thalweg.connectors.kafka.topics import GONE
from thalweg.connectors.names import is_kind
from thalweg.connectors.targets import TargetWriter
from thalweg.connectors.written.encode import as_named, check_fields, encoder
from thalweg.errors import BuildError, DataError, EnvironmentProblem, SchemaError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Sink
from thalweg.flow.records import Field, Schema

MessageFormat = Literal["json", "text", "bytes"]

#: The headers that number a row: the run, its batch, and the row's place in the batch.
QUERY: Final = "thalweg-query"
BATCH: Final = "thalweg-batch"
SERIAL: Final = "thalweg-serial"

#: What can be a key: as text, and bytes as they are.
_KEYS: Final = (Kind.STR, Kind.CATEGORY, Kind.BYTES, Kind.INT)
_KEY_SHAPES: Final = ("date", "timedelta", "Decimal")
#: Leaves the partition to the hash of the key.
_BY_KEY: Final = -1
#: How long is waited for deliveries before it is looked whether all is well, seconds.
_LOOK_S: Final = 1.0
#: librdkafka gives up on a message about so long after its time is over, seconds.
_GRACE_S: Final = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A topic of Kafka; made by :func:`to_kafka`."""

    brokers: Brokers
    topic: str
    key: str | None
    format: MessageFormat

    made_by = "tw.to_kafka(...)"

    def __repr__(self) -> str:
        return f"tw.to_kafka({self.brokers.servers!r}, {self.topic!r})"

    @property
    def place(self) -> str:
        return f"kafka:{self.brokers.servers}/{self.topic}"

    def check(self, sink: Sink) -> None:
        where = f"sink {sink.name!r}: {self.made_by}"
        record = sink.record
        if self.key is not None:
            if self.key not in record.names:
                raise BuildError(f"{where}: key={self.key!r}: {record} has no such field")
            kind = record.field(self.key).type
            if not is_kind(kind, _KEYS, _KEY_SHAPES):
                raise BuildError(
                    f"{where}: key={self.key!r} is {kind}; a key is str, bytes, int, date, timedelta or Decimal"
                )
        if self.format == "json":
            try:
                check_fields("json", record, where)
            except SchemaError as error:
                raise BuildError(str(error).replace("use Parquet", "use format='bytes'")) from None
        else:
            self._value_field(record, where)

    def _value_field(self, record: Schema, where: str = "") -> Field:
        """The one field that is the value.

        Raises:
            BuildError: there is none, or there are several.
        """
        kinds = (Kind.BYTES,) if self.format == "bytes" else (Kind.STR, Kind.CATEGORY)
        fields = [one for one in record.fields if one.name != self.key]
        if len(fields) != 1 or fields[0].type.kind not in kinds:
            wanted = "bytes" if self.format == "bytes" else "str"
            raise BuildError(
                f"{where}: format={self.format!r} takes one field, of type {wanted}, beside the key; {record} has"
                f" {', '.join(f'{one.name}: {one.type}' for one in fields) or 'none'}"
            )
        return fields[0]

    def open(self, sink: Sink, query: str) -> TargetWriter:
        library()
        return _KafkaWriter(self, sink, query)

    def encode(self, record: Schema) -> Callable[[pa.Table], Sequence[bytes | None]]:
        """The function from a table of the record to the values of messages."""
        if self.format == "json":
            lines = encoder("json", record, self.made_by)
            return lambda table: lines(Chunk.from_arrow(record, table)).split(b"\n")[:-1]
        name = self._value_field(record).name
        return lambda table: _bytes_of(table.column(name))


@known_keywords
def to_kafka(
    servers: str,
    topic: str,
    *,
    key: str | None = None,
    format: MessageFormat = "json",
    patience: str | int | datetime.timedelta = "1 minute",
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
) -> KafkaTarget:
    """Writes rows to a topic of Kafka, in order and at least once.

    A message has the headers ``thalweg-query``, ``thalweg-batch`` and ``thalweg-serial``: a reader that leaves out
    those that it had already has each row once. A batch counts as written once the brokers have all of it.

    Args:
        servers: ``"host:port"`` of a broker, or several with commas between.
        topic: where to; it should exist.
        key: the field that is the message's key; rows of one key keep their order. Rows without one
            go to the partitions in turn.
        format: of the values: ``"json"``, an object with all fields; ``"text"`` or ``"bytes"``, the one field beside
            the key.
        patience: how long a broker that does not answer is waited for.
        config: settings of librdkafka, such as those of security, or the path of a file with lines ``NAME=VALUE``.
            They are never shown.

    Raises:
        BuildError: an option is not known.
    """
    require_optional_text("to_kafka", key=key)
    if not isinstance(topic, str) or not topic:
        raise refuse("to_kafka", "topic", "the name of a topic", topic)
    format = one_of("to_kafka", "format", format, get_args(MessageFormat))
    return KafkaTarget(brokers_of("to_kafka", servers, config, patience), topic, key, format)


class _KafkaWriter:
    """Sends the batches of one sink."""

    def __init__(self, target: KafkaTarget, sink: Sink, query: str) -> None:
        self._target, self._query, self._record = target, query, sink.record
        self._encode = target.encode(sink.record)
        self._where = f"sink {sink.name!r}: topic {target.topic!r}"
        self._trouble = Trouble()
        #: the first row of the batch that was not delivered, and why
        self._failed: tuple[int, Any] | None = None
        #: of the topic; 0: not asked yet
        self._partitions = 0
        settings = target.brokers.settings(
            enable__idempotence=True,
            acks="all",
            # As the clients in Java do, so that a key is in the same partition whoever writes it.
            partitioner="murmur2_random",
            # The broker's limit holds, and its error names the row.
            message__max__bytes=500_000_000,
            message__timeout__ms=int(target.brokers.patience_s * 1_000),
            delivery__report__only__error=True,
            linger__ms=20,
            error_cb=self._trouble,
        )
        self._producer: Any = connected(library().Producer, settings)

    def write(self, batch: int, table: pa.Table) -> None:
        self._failed = None
        values = self._encode(table)
        key = self._target.key
        keys: list[bytes | None] = [None] * len(values)
        if key is not None:
            keys = _bytes_of(as_named(table.column(key), self._record.field(key).type))
        numbered = [(QUERY, self._query.encode()), (BATCH, b"%d" % batch)]
        if None in keys and not self._partitions:
            self._partitions = self._count_partitions()
        for row, (one, value) in enumerate(zip(keys, values, strict=True)):
            # A row that is written again goes where it was before, so that a reader can leave it out.
            partition = row % self._partitions if one is None else _BY_KEY
            headers = [*numbered, (SERIAL, b"%d" % row)]
            self._produce(batch, row, key=one, value=value, partition=partition, headers=headers)
        self._flush(batch)

    def close(self) -> None:
        self._producer.purge()

    def _count_partitions(self) -> int:
        wait = BrokerWait(self._target.brokers, self._trouble)
        while True:
            try:
                found = self._producer.list_topics(self._target.topic, timeout=CALL_S)
                topic = found.topics[self._target.topic]
                if topic.error is None and topic.partitions:
                    return len(topic.partitions)
                error = topic.error
            except library().KafkaException as problem:
                error = problem.args[0]
            self._producer.poll(0)
            wait.failed(error)

    def _produce(self, batch: int, row: int, **message: Any) -> None:
        delivered = functools.partial(self._delivered, row)
        while True:
            try:
                self._producer.produce(self._target.topic, on_delivery=delivered, **message)
                return
            except BufferError:
                self._producer.poll(0.1)
                self._check(batch)
            except library().KafkaException as error:
                self._failed = row, error.args[0]
                self._check(batch)

    def _delivered(self, row: int, error: Any, message: Any) -> None:
        if error is not None and (self._failed is None or row < self._failed[0]):
            self._failed = row, error

    def _flush(self, batch: int) -> None:
        """Waits until the brokers have all.

        Raises:
            ThalwegError: a row was not delivered.
        """
        wait = BrokerWait(self._target.brokers, self._trouble, grace_s=_GRACE_S)
        while self._producer.flush(_LOOK_S):
            self._check(batch)
            if self._trouble.last is not None:
                wait.failed(None, pauses=False)
        self._check(batch)
        wait.worked()

    def _check(self, batch: int) -> None:
        if self._failed is None:
            return
        row, error = self._failed
        self._producer.purge()
        place = f"{self._where}: row {row} of batch {batch}"
        if error.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"):
            raise DataError(f"{place} was refused: {error.str()}")
        if error.name() in GONE:
            raise EnvironmentProblem(
                f"{self._where}: Kafka at {self._target.brokers.servers} has no such topic; make it first"
            )
        trouble = self._trouble.last
        reason = error.str() if trouble is None else f"{error.str()}: {trouble.str()}"
        raise EnvironmentProblem(
            f"{place} was not delivered to Kafka at {self._target.brokers.servers}: {reason}"
        )


def _bytes_of(column: pa.ChunkedArray) -> list[bytes | None]:
    """A column's values as bytes: text in UTF-8, numbers as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary())
    found: list[bytes | None] = column.to_pylist()
    return found
