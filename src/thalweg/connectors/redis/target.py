"""``tw.to_redis``: rows as entries of a stream, each batch once.

A batch is one transaction (MULTI … EXEC) of its entries and of a key that holds the batch's number, under WATCH: who
finds the number there leaves the batch out, and of two processes that write at once one is refused.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from thalweg.checks import known_keywords, require_optional_text, require_rows, require_text
from thalweg.columns.chunks import Chunk
from thalweg.connectors.once import Left, Numbers
from thalweg.connectors.redis.client import RedisServer, library, server_at
from thalweg.connectors.targets import TargetWriter
from thalweg.connectors.written.encode import check_fields, encoder, plain_values, plainer
from thalweg.errors import BuildError, EnvironmentProblem, SchemaError
from thalweg.flow.operators.nodes import Sink
from thalweg.flow.records import Schema

#: Rows of a batch as the fields of entries.
_Entries = Callable[[pa.Table], list[dict[Any, Any]]]


@dataclasses.dataclass(frozen=True, slots=True)
class RedisTarget:
    """A stream of Redis; made by :func:`to_redis`."""

    server: RedisServer
    stream: str
    value: str | None
    maxlen: int | None

    made_by = "tw.to_redis(...)"

    def __repr__(self) -> str:
        return f"tw.to_redis({self.server.place!r}, {self.stream!r})"

    @property
    def place(self) -> str:
        return f"{self.server.place}/{self.stream}"

    def check(self, sink: Sink) -> None:
        where = f"sink {sink.name!r}: {self.made_by}"
        if not sink.record.fields:
            raise BuildError(f"{where}: {sink.record} has no fields; an entry needs one")
        if self.value is not None:
            try:
                check_fields("json", sink.record, where)
            except SchemaError as error:
                text = str(error).replace("use Parquet", "leave out value=")
                raise BuildError(text) from None

    def open(self, sink: Sink, query: str) -> TargetWriter:
        library()
        return RedisWriter(self, sink, query)

    def encoder(self, record: Schema) -> _Entries:
        """The function from a table of the record to entries."""
        if self.value is None:
            return lambda table: _entries(record, table)
        name, lines = self.value, encoder("json", record, self.made_by)
        return lambda table: [
            {name: line} for line in lines(Chunk.from_arrow(record, table)).split(b"\n")[:-1]
        ]


class RedisWriter:
    """Writes the batches of one sink to a stream."""

    def __init__(self, target: RedisTarget, sink: Sink, query: str) -> None:
        self._target = target
        self._encode = target.encoder(sink.record)
        self._where = f"sink {sink.name!r}: {target.place}"
        # In a cluster a transaction stays in one slot: braces name what is hashed.
        stream = target.stream
        tag = stream if "{" in stream else f"{{{stream}}}"
        self._key = f"thalweg:{tag}:{query}:{sink.name}"
        self._numbers = Numbers(self._where)
        self._client = target.server.connect()

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes a batch in one transaction.

        Raises:
            EnvironmentProblem: the server cannot be reached, or another process writes the same batches.
        """
        entries = self._encode(table)
        server = self._target.server
        server.call(server.wait(), lambda: self._try(batch, entries))

    def close(self) -> None:
        self._client.close()

    def _try(self, batch: int, entries: list[dict[Any, Any]]) -> None:
        key, stream, maxlen = self._key, self._target.stream, self._target.maxlen
        with self._client.pipeline(transaction=True) as pipe:
            while True:
                pipe.watch(key)
                if not self._numbers.is_new(batch, _left(pipe.get(key))):
                    return
                # Within EXEC an entry that fails would not hold up the number.
                kind = pipe.type(stream)
                if kind not in (b"stream", b"none"):
                    raise EnvironmentProblem(
                        f"{self._where}: the key is there already and holds a {kind.decode()}; expected a stream"
                    )
                pipe.multi()
                for entry in entries:
                    pipe.xadd(stream, entry, maxlen=maxlen, approximate=True)
                pipe.set(key, f"{batch} {self._numbers.writer}")
                try:
                    pipe.execute()
                except library().WatchError:
                    continue  # it is read again, and says whose it is
                self._numbers.note(batch)
                return


def _left(found: bytes | None) -> Left | None:
    if found is None:
        return None
    batch, _, writer = found.decode().partition(" ")
    return Left(int(batch), writer)


def _entries(record: Schema, table: pa.Table) -> list[dict[Any, Any]]:
    """Rows as fields of text; what is null is left out, but that an entry has a field."""
    columns = []
    for field, column in zip(record.fields, Chunk.from_arrow(record, table).columns, strict=True):
        values = plain_values(column, plainer(field.type))
        columns.append([None if one is None else _cell(one) for one in values])
    out = []
    for row in zip(*columns, strict=True):
        pairs = zip(record.names, row, strict=True)
        entry = {name: cell for name, cell in pairs if cell is not None}
        out.append(entry or {"": b""})
    return out


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value


@known_keywords
def to_redis(
    url: str,
    stream: str,
    *,
    value: str | None = None,
    maxlen: int | None = None,
    patience: str | int | datetime.timedelta = "1 minute",
) -> RedisTarget:
    """Writes a sink's rows to a stream of Redis or Valkey, each batch once, in every host.

    Needs the package redis (``pip install 'thalweg[redis]'``). A batch is one transaction, with a key
    ``thalweg:{stream}:…`` that holds its number. It lasts as the server keeps its data: one that loses what it had
    confirmed loses rows and number alike.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://…`` or ``unix://…``; a password is shown nowhere.
        stream: the stream's key; it is made by the first row.
        value: the one field of an entry, which then holds the row as JSON; None: an entry has the row's fields as text,
            without those that are null.
        maxlen: about how many entries the stream keeps; older ones are trimmed.
        patience: how long a server that does not answer is waited for.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("to_redis", stream=stream)
    require_optional_text("to_redis", value=value)
    if maxlen is not None:
        require_rows("to_redis", maxlen=maxlen)
    return RedisTarget(server_at("to_redis", url, patience), stream, value, maxlen)
