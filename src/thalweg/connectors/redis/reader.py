"""Reads a stream for a host: entries by id, and whether some were trimmed before they were read.

The server counts the entries that a stream ever had, and those that it has. A position is the id of the last entry
that was read, and how many the stream had had until then: so what is missing is known, and how much it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.logs import Positions
from thalweg.connectors.messages import MessageParser, told_missing
from thalweg.connectors.redis.client import library
from thalweg.connectors.waiting import WaitEnded
from thalweg.errors import DataError, EnvironmentProblem
from thalweg.flow.operators.nodes import Source

if TYPE_CHECKING:
    from thalweg.connectors.redis.source import RedisLog

_LOG: Final = logging.getLogger("thalweg")
#: Entries that one call asks for.
PAGE: Final = 5_000
#: Entries of a round where the description leaves it open; so many are kept from planning to reading.
AHEAD: Final = 20_000
#: Before the first entry that there can be.
NOTHING: Final = "0-0"
_LAST_OF_MS: Final = 2**64 - 1
#: The lane of the one position, and the count that stands beside it.
_AT, _ADDED = "", "added"

_Entry = tuple[bytes, Mapping[bytes, bytes]]


class RedisStreamState(NamedTuple):
    """What the server says of a stream."""

    #: the id of the last entry that it ever had
    last: str = NOTHING
    #: of the first that it has; None: it has none
    first: str | None = None
    #: how many it ever had
    added: int = 0
    #: how many are not there any more
    gone: int = 0


class _StreamPlace(NamedTuple):
    """Behind an entry, with the number of entries that there had been until then; None: not known."""

    at: str
    added: int | None

    def behind(self, entries: Sequence[_Entry]) -> _StreamPlace:
        """The place behind those that come next."""
        if not entries:
            return self
        added = None if self.added is None else self.added + len(entries)
        return _StreamPlace(entries[-1][0].decode(), added)


class _MetEntries(NamedTuple):
    """Entries that were met when a batch was planned."""

    start: str
    entries: list[_Entry]
    stop: str


class RedisReader:
    """A :class:`~thalweg.connectors.logs.LogReader` of a stream."""

    def __init__(self, log: RedisLog) -> None:
        self._log = log
        self._where = f"stream {log.stream!r}"
        self._skips = log.on_loss == "skip"
        self._client = log.server.connect()
        self._held: _MetEntries | None = None
        #: how many entries were gone when it was last said that some were skipped
        self._told = 0
        self._parser: tuple[Source, MessageParser] | None = None

    def close(self) -> None:
        self._client.close()

    # -- positions ---------------------------------------------------------------------------------------

    def begin(self) -> Positions:
        start = self._log.start
        state, _ = self._ask(NOTHING, NOTHING, 1)
        if state == RedisStreamState():
            told_missing(
                f"Redis at {self._log.server.place} has no {self._where}", self._log.missing
            )
        if start == "earliest":
            return {_AT: NOTHING, _ADDED: state.gone}
        if start == "latest":
            return {_AT: state.last, _ADDED: state.added}
        if isinstance(start, str):
            return {_AT: start}
        before = max(0, -(-start // 1_000)) - 1
        return {_AT: f"{before}-{_LAST_OF_MS}" if before >= 0 else NOTHING}

    def end(self, since: Positions) -> Positions:
        state, _ = self._ask(NOTHING, NOTHING, 1)
        if since:
            self._look_for_losses(_place(since), state)
        return {_AT: state.last, _ADDED: state.added}

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        begin = place = _start(start, end)
        upto = str(end[_AT])
        if self._log.max_rows is None:
            rows = min(rows, AHEAD)
        met: list[_Entry] = []
        at_end = place.at == upto
        while rows > 0 and not at_end:
            asked = min(PAGE, rows)
            page = self._page(place, upto, asked)
            place, rows = place.behind(page), rows - asked
            at_end = len(page) < asked or place.at == upto
            if len(met) < AHEAD:
                met += page
        if met and met[-1][0].decode() == place.at:
            self._held = _MetEntries(begin.at, met, place.at)
        return end if at_end else _positions(place)

    def _look_for_losses(self, since: _StreamPlace, state: RedisStreamState) -> None:
        """Refuses positions behind which entries are missing, or says how many are skipped."""
        if _is_renewed(since, state.last, state.added):
            if not state.added:
                why = "it is not there any more"
            else:
                why = f"it ends with {state.last}: it was deleted and made again"
            return self._lost(f"{self._where} cannot be read on behind entry {since.at}: {why}")
        passed = state.first is None or _key(state.first) > _key(since.at)
        if since.added is None or not passed or state.gone <= since.added:
            return None
        many = state.gone - since.added
        if not self._skips or state.gone > self._told:
            self._told = state.gone
            first = f"; the first that is there is {state.first}" if state.first else ""
            self._lost(
                f"{self._where}: {many} entries behind {since.at} cannot be read any more: they were trimmed or"
                f" deleted{first}"
            )
        return None

    def _lost(self, told: str) -> None:
        if not self._skips:
            raise DataError(f"{told}\n  to go on without them, set on_loss='skip'")
        _LOG.warning("%s; skipped", told)

    # -- entries -----------------------------------------------------------------------------------------

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        parser = self._parse_as(source)
        try:
            for page in self._pages(start, end, stop):
                for first in range(0, len(page), chunk_rows):
                    yield self._rows(parser, page[first : first + chunk_rows])
        except WaitEnded:
            return

    def _rows(self, parser: MessageParser, entries: Sequence[_Entry]) -> Any:
        ids = [one.decode() for one, _ in entries]
        times = [1_000 * int(one.partition("-")[0]) for one in ids]
        beside = {
            "entry_id": ids,
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
        name = self._log.value
        values: Any = [
            fields if name is None else fields.get(name.encode()) for _, fields in entries
        ]
        return parser.parse(values, beside, lambda row: f"{self._where} entry {ids[row]}")

    def _parse_as(self, source: Source) -> MessageParser:
        if self._parser is None or self._parser[0] is not source:
            self._parser = source, self._log.parser(source)
        return self._parser[1]

    def _pages(self, start: Positions, end: Positions, stop: Stop) -> Iterator[list[_Entry]]:
        place, upto = _start(start, end), str(end[_AT])
        held, self._held = self._held, None
        if held is not None and held.start == place.at and _key(held.stop) <= _key(upto):
            yield held.entries
            place = place.behind(held.entries)
        while place.at != upto and not stop.is_set():
            page = self._page(place, upto, PAGE, stop)
            yield page
            place = place.behind(page)
            if len(page) < PAGE:
                return

    def _page(
        self, place: _StreamPlace, upto: str, count: int, stop: Stop | None = None
    ) -> list[_Entry]:
        """The next entries, of which none is missing.

        Raises:
            DataError: some are.
        """
        state, page = self._ask(place.at, upto, count, stop)
        self._look_for_losses(place, state)
        return page

    def _ask(
        self, at: str, upto: str, count: int, stop: Stop | None = None
    ) -> tuple[RedisStreamState, list[_Entry]]:
        """The state of the stream, and entries behind a place, at one moment."""
        stream = self._log.stream

        def call() -> list[Any]:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.xinfo_stream(stream)
                pipe.xrange(stream, min=f"({at}", max=upto, count=count)
                found: list[Any] = pipe.execute(raise_on_error=False)
            for one in found:
                if isinstance(one, Exception) and str(one) != "no such key":
                    raise one
            return found

        server = self._log.server
        said, page = server.call(server.wait(stop), call)
        if isinstance(said, library().ResponseError):
            return RedisStreamState(), []
        if "entries-added" not in said:
            raise EnvironmentProblem(
                f"Redis at {server.place} is too old: a stream needs Redis 7 or Valkey"
            )
        first, added = said["recorded-first-entry-id"], said["entries-added"]
        return RedisStreamState(
            said["last-generated-id"].decode(),
            first.decode() if said["length"] else None,
            added,
            added - said["length"],
        ), page


def _key(at: str) -> tuple[int, int]:
    """An id as numbers, which compare."""
    time, _, number = at.partition("-")
    return int(time), int(number)


def _place(positions: Positions) -> _StreamPlace:
    added = positions.get(_ADDED)
    return _StreamPlace(str(positions[_AT]), None if added is None else int(added))


def _positions(place: _StreamPlace) -> Positions:
    return {_AT: place.at} if place.added is None else {_AT: place.at, _ADDED: place.added}


def _is_renewed(place: _StreamPlace, last: str, added: int) -> bool:
    """Whether a stream that ends so is another one than that in which the place was."""
    return (
        place.added is not None
        and place.added > 0
        and (_key(last) < _key(place.at) or added < place.added)
    )


def _start(start: Positions, end: Positions) -> _StreamPlace:
    """Where a span begins: of a stream that was made again, with its first entry."""
    if not start:
        return _StreamPlace(NOTHING, None)
    place, last = _place(start), _place(end)
    if last.added is not None and _is_renewed(place, last.at, last.added):
        return _StreamPlace(NOTHING, None)
    return place
