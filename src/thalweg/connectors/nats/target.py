"""``tw.to_nats``: rows as messages of a subject, each with an id by which the server drops repeats."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.checks import known_keywords, require_text
from thalweg.columns.chunks import Chunk
from thalweg.connectors.nats.client import CALL_S, NatsConnection, NatsServers, library, servers_at
from thalweg.connectors.once import shown_row
from thalweg.connectors.targets import TargetWriter
from thalweg.connectors.written.encode import check_fields, encoder
from thalweg.errors import BuildError, DataError, EnvironmentProblem, SchemaError
from thalweg.flow.operators.nodes import Sink

#: The header by which JetStream knows a message again.
MESSAGE_ID: Final = "Nats-Msg-Id"
#: Messages that wait for the server's word at the same time.
_IN_FLIGHT: Final = 2_000


@dataclasses.dataclass(frozen=True, slots=True)
class NatsTarget:
    """A subject of NATS; made by :func:`to_nats`."""

    servers: NatsServers
    subject: str

    made_by = "tw.to_nats(...)"

    def __repr__(self) -> str:
        return f"tw.to_nats({self.servers.place!r}, {self.subject!r})"

    @property
    def place(self) -> str:
        return f"{self.servers.place}/{self.subject}"

    def check(self, sink: Sink) -> None:
        try:
            check_fields("json", sink.record, f"sink {sink.name!r}: {self.made_by}")
        except SchemaError as error:
            raise BuildError(str(error).replace("; use Parquet", "")) from None

    def open(self, sink: Sink, query: str) -> TargetWriter:
        library()
        return NatsWriter(self, sink, query)


class NatsWriter:
    """Sends the batches of one sink."""

    def __init__(self, target: NatsTarget, sink: Sink, query: str) -> None:
        self._target = target
        self._record = sink.record
        self._lines = encoder("json", sink.record, target.made_by)
        self._where = f"sink {sink.name!r}: {target.place}"
        self._id = f"{query}/{sink.name}"
        self._connection = NatsConnection(target.servers)

    def write(self, batch: int, table: pa.Table) -> None:
        """Sends a batch, until the server has confirmed all of it.

        Raises:
            DataError: a row is larger than the server takes; names it.
            EnvironmentProblem: the server cannot be reached, or no stream takes the subject.
        """
        values = self._lines(Chunk.from_arrow(self._record, table)).split(b"\n")[:-1]
        missing = list(range(len(values)))

        async def send(client: Any, jetstream: Any) -> None:
            self._refuse_large(batch, table, values, client.max_payload)
            while missing:
                part = missing[:_IN_FLIGHT]
                try:
                    await self._send(jetstream, batch, values, part)
                except library().js.errors.NoStreamResponseError:
                    await self._must_be_taken(jetstream)
                    raise
                del missing[: len(part)]

        self._connection.call(send)

    def close(self) -> None:
        self._connection.close()

    async def _send(
        self, jetstream: Any, batch: int, values: Sequence[bytes], rows: Sequence[int]
    ) -> None:
        """Sends rows in order and waits for the server's word on each.

        Raises:
            NoStreamResponseError: no stream takes the subject.
            TimeoutError: no word came; all of them are sent again, and the server drops those that it has.
        """
        sent = []
        for row in rows:
            headers = {MESSAGE_ID: f"{self._id}/{batch}/{row}"}
            sent.append(
                await jetstream.publish_async(
                    self._target.subject, values[row], wait_stall=CALL_S, headers=headers
                )
            )
        async with asyncio.timeout(CALL_S):
            await asyncio.gather(*sent)

    async def _must_be_taken(self, jetstream: Any) -> None:
        """Refuses a subject that no stream takes; one whose stream does not answer yet may pass."""
        try:
            await jetstream.find_stream_name_by_subject(self._target.subject)
        except library().js.errors.NotFoundError:
            raise EnvironmentProblem(
                f"{self._where}: no stream takes this subject; make one first"
            ) from None

    def _refuse_large(
        self, batch: int, table: pa.Table, values: Sequence[bytes], most: int
    ) -> None:
        for row, value in enumerate(values):
            size = len(value) + len(self._id) + 64  # with its headers
            if size > most:
                raise DataError(
                    f"{self._where}: batch {batch}, row {row} is refused: {len(value)} bytes, and the server takes"
                    f" {most} with headers\n  row: {shown_row(table.slice(row, 1), 0)}"
                )


@known_keywords
def to_nats(
    url: str,
    subject: str,
    *,
    patience: str | int | datetime.timedelta = "1 minute",
    config: Mapping[str, Any] | None = None,
) -> NatsTarget:
    """Writes a sink's rows as JSON to a subject of NATS, for the stream that takes it, in order.

    Needs the package nats-py (``pip install 'thalweg[nats]'``). A message has the header ``Nats-Msg-Id`` with query,
    sink, batch and place: a batch that is written again within the stream's ``duplicate_window`` (two minutes, unless
    the stream says otherwise) is dropped by the server; later it is there twice, under the same ids.

    Args:
        url: ``nats://user:password@host:4222``, or several with commas between; a password is shown nowhere.
        subject: where to; a stream must take it.
        patience: how long a server that does not answer is waited for.
        config: options of ``nats.connect``, such as ``user_credentials``; never shown.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("to_nats", subject=subject)
    if any(one in subject for one in "*> \t\r\n"):
        raise BuildError(f"to_nats: subject: expected one subject without * and >, got {subject!r}")
    return NatsTarget(servers_at("to_nats", url, config, patience), subject)
