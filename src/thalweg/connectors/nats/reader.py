"""Reads a stream for a host: messages by sequence, and whether some were removed before they were read."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from thalweg.connectors.contracts import Fed, Feed, Stop
from thalweg.connectors.logs import Positions
from thalweg.connectors.messages import MessageParser, told_missing
from thalweg.connectors.nats.client import NatsConnection, library
from thalweg.connectors.nats.pulling import BATCH, NatsMessage, Pull
from thalweg.connectors.waiting import WaitEnded
from thalweg.errors import DataError, EnvironmentProblem
from thalweg.flow.operators.nodes import Source

if TYPE_CHECKING:
    from thalweg.connectors.nats.source import NatsLog

_LOG: Final = logging.getLogger("thalweg")
#: The lane of the one position, and what tells the stream from another one of its name.
_AT, _CREATED = "", "created"


class NatsReader:
    """A :class:`~thalweg.connectors.logs.LogReader` of a stream.

    A position is the sequence of the next message, and the time at which the stream was made.
    """

    def __init__(self, log: NatsLog) -> None:
        self._log = log
        self._where = f"stream {log.stream!r}"
        self._skips = log.on_loss == "skip"
        self._connection = NatsConnection(log.servers)
        self._pull: Pull | None = None
        #: the sequence up to which the consumer's messages were given on
        self._at = 0
        #: messages that are of a later span
        self._ahead: list[NatsMessage] = []
        self._told = 0
        self._parser: tuple[Source, MessageParser] | None = None

    def close(self) -> None:
        self._pull = None
        self._connection.close()

    # -- positions ---------------------------------------------------------------------------------------

    def begin(self) -> Positions:
        info, start = self._info(), self._log.start
        self._look_for_subject(info)
        if start == "earliest":
            return self._place(info, info.state.first_seq)
        if start == "latest":
            return self._place(info, info.state.last_seq + 1)
        if isinstance(start, tuple):
            return self._place(info, self._at_time(start[0]) or info.state.last_seq + 1)
        return self._place(info, int(start))

    def end(self, since: Positions) -> Positions:
        info = self._info()
        if since:
            self._look_for_losses(since, info)
        return self._place(info, info.state.last_seq + 1)

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        at, last = _sequence(start, end), int(end[_AT])
        return {**end, _AT: min(last, at + rows)}

    def _place(self, info: Any, sequence: int) -> Positions:
        return {_AT: max(1, sequence), _CREATED: info.created.isoformat()}

    def _at_time(self, micros: int) -> int | None:
        """The sequence of the first message from a time on; None: there is none."""
        time = datetime.datetime.fromtimestamp(micros / 1e6, datetime.UTC)

        async def first(client: Any, jetstream: Any) -> int | None:
            pull = Pull(client, jetstream, self._log.stream, None)
            await pull.begin(opt_start_time=time)
            found = await pull.next(1)
            await pull.end()
            # For a time to come, the server begins with the first message.
            late = bool(found) and found[0].time_ns // 1_000 >= micros
            return found[0].sequence if late else None

        return self._connection.call(first)

    def _info(self, stop: Stop | None = None) -> Any:
        try:
            return self._connection.call(
                lambda _, jetstream: jetstream.stream_info(self._log.stream), stop
            )
        except EnvironmentProblem as error:
            if isinstance(error.__cause__, library().js.errors.NotFoundError):
                raise EnvironmentProblem(
                    f"NATS at {self._log.servers.place} has no {self._where}; make it before it is read"
                ) from None
            raise

    def _look_for_subject(self, info: Any) -> None:
        """Says that no message has the subject that is asked for, or refuses it."""
        name, subject = self._log.stream, self._log.subject
        if subject is None:
            return
        found = self._connection.call(
            lambda _, jetstream: jetstream.stream_info(name, subjects_filter=subject)
        )
        if not found.state.subjects:
            taken = ", ".join(info.config.subjects or ())
            told_missing(
                f"{self._where} has no message of subject {subject!r} yet, and takes {taken or 'those of others'}",
                self._log.missing,
            )

    def _look_for_losses(self, since: Positions, info: Any) -> None:
        """Refuses positions from which messages are missing, or says what is skipped."""
        at, state, config = int(since[_AT]), info.state, info.config
        if since.get(_CREATED, info.created.isoformat()) != info.created.isoformat():
            why = "the stream was deleted and made again"
            self._lost(at, f"message {at} cannot be read any more: {why}")
        elif at > state.last_seq + 1:
            self._lost(at, f"message {at} cannot be read any more: it ends at {state.last_seq}")
        elif at < state.first_seq and not _is_compacted(config) and self._told < state.first_seq:
            self._told = state.first_seq
            self._lost(
                at,
                f"messages {at} to {state.first_seq - 1} cannot be read any more: the stream's limits, or a purge,"
                f" have removed all before {state.first_seq}",
            )

    def _lost(self, at: int, told: str) -> None:
        if not self._skips:
            self._told = 0
            raise DataError(f"{self._where}: {told}\n  to go on without them, set on_loss='skip'")
        _LOG.warning("%s: %s; skipped", self._where, told)

    # -- messages ----------------------------------------------------------------------------------------

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        parser = self._parse_as(source)
        try:
            for messages in self._messages(start, end, stop):
                for first in range(0, len(messages), chunk_rows):
                    yield self._rows(parser, messages[first : first + chunk_rows])
        except WaitEnded:
            return

    def _rows(self, parser: MessageParser, messages: Sequence[NatsMessage]) -> Fed:
        times = pa.array([one.time_ns // 1_000 for one in messages], pa.timestamp("us", tz="UTC"))
        beside = {
            "subject_field": [one.subject for one in messages],
            "sequence": [one.sequence for one in messages],
            "timestamp": times,
        }
        values = [one.value for one in messages]
        return parser.parse(
            values, beside, lambda row: f"{self._where} message {messages[row].sequence}"
        )

    def _parse_as(self, source: Source) -> MessageParser:
        if self._parser is None or self._parser[0] is not source:
            made = MessageParser(source, self._log.options, self._log.made_by)
            self._parser = source, made
        return self._parser[1]

    def _messages(
        self, start: Positions, end: Positions, stop: Stop
    ) -> Iterator[list[NatsMessage]]:
        at, upto = _sequence(start, end), int(end[_AT])
        if at != self._at:
            self._pull, self._ahead = None, []
        self._at = at
        while self._at < upto and not stop.is_set():
            found = self._ahead or self._next(stop)
            if not found or found[0].sequence > self._at:
                self._look_for_losses({**end, _AT: self._at}, self._info(stop))
            now = [one for one in found if one.sequence < upto]
            self._ahead = found[len(now) :]
            if now:
                yield now
                self._at = now[-1].sequence + 1
            if self._ahead or not found:
                break
        self._at = upto

    def _next(self, stop: Stop) -> list[NatsMessage]:
        async def fetched(client: Any, jetstream: Any) -> list[NatsMessage]:
            pull, self._pull = self._pull, None
            if pull is None:
                pull = Pull(client, jetstream, self._log.stream, self._log.subject)
                await pull.begin(opt_start_seq=self._at)
            found = await pull.next(BATCH)
            self._pull = pull  # one that failed is not asked again
            return found

        return self._connection.call(fetched, stop)


def _sequence(start: Positions, end: Positions) -> int:
    """Where a span begins; of a stream that was made again with its first message."""
    if not start or start.get(_CREATED, end.get(_CREATED)) != end.get(_CREATED):
        return 1
    at = int(start[_AT])
    return at if at <= int(end[_AT]) else 1


def _is_compacted(config: Any) -> bool:
    """Whether messages go because newer ones of their subject have come, and for no other reason."""
    limits = (config.max_age, config.max_msgs, config.max_bytes)
    return (config.max_msgs_per_subject or 0) > 0 and all((one or 0) <= 0 for one in limits)
