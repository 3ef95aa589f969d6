"""Reads topics for a host: where they begin and end, and the messages between two positions as rows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from thalweg.connectors.contracts import Fed, Feed, Stop
from thalweg.connectors.fitting import cut_fed
from thalweg.connectors.kafka.fetching import Fetcher, lost
from thalweg.connectors.kafka.lanes import Lane, Message, lane_of, leaving
from thalweg.connectors.kafka.topics import EARLIEST, LATEST, Stopped, Topics
from thalweg.connectors.logs import Positions, spread
from thalweg.connectors.messages import MessageParser
from thalweg.errors import DataError, EnvironmentProblem
from thalweg.flow.operators.nodes import Source

if TYPE_CHECKING:
    from thalweg.connectors.kafka.source import KafkaLog

#: What stands before a header's name among what a broker says of a message.
HEADER: Final = "header "
#: Messages that are parsed at once, at least; and at most so many bytes of them, but for a single one.
BLOCK_ROWS: Final = 8_192
BLOCK_BYTES: Final = 64 << 20
#: How often, and with what pauses, is looked again at a partition that seems to be lost; seconds.
_TRIES: Final = 4
_TRY_S: Final = 0.25
#: How often it is asked where partitions begin, as a share of how often where they end.
_LOOK_BACK: Final = 25


class KafkaReader:
    """A :class:`~thalweg.connectors.logs.LogReader` of Kafka.

    Positions are the offsets of partitions by ``topic/partition``, and the ids of topics by their names.
    """

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._skips = log.on_loss == "skip"
        self._topics = Topics(log.brokers, log.topics)
        self._fetcher = Fetcher(log.brokers, self._topics, skips=self._skips)
        self._lanes: dict[str, Lane] = {}
        #: where lanes begin, as was last asked
        self._first: dict[str, int] = {}
        self._looks = itertools.count()
        self._parser: tuple[Source, MessageParser] | None = None

    def close(self) -> None:
        self._fetcher.close()
        self._topics.close()

    # -- positions ---------------------------------------------------------------------------------------

    def begin(self) -> Positions:
        lanes, start = self._topics.lanes(fresh=True), self._log.start
        self._must_exist()
        if start == "latest":
            return self._offsets(lanes, LATEST) | self._topics.ids()
        first = self._offsets(lanes, EARLIEST)
        if isinstance(start, tuple):
            unknown = [key for key, _ in start if key not in first]
            if unknown:
                raise DataError(
                    f"start: there is no partition {unknown[0]}; there are {', '.join(lanes)}"
                )
            return first | dict(start) | self._topics.ids()
        if start == "earliest":
            return first | self._topics.ids()
        since = self._offsets(lanes, -(-start // 1_000))
        last = self._offsets(lanes, LATEST)
        found = {key: last[key] if since[key] == LATEST else since[key] for key in lanes}
        return found | self._topics.ids()

    def end(self, since: Positions) -> Positions:
        known = _offsets_of(since)
        lanes = self._topics.lanes()
        if not since and not self._skips:
            self._must_exist()
        last = self._offsets(lanes, LATEST)
        for _ in range(_TRIES):
            if all(key in last and at <= last[key] for key, at in known.items()):
                break
            # It is gone, or a broker that has just taken over does not know yet how far it is.
            time.sleep(_TRY_S)
            lanes = self._topics.lanes(fresh=True)
            last = self._offsets(lanes, LATEST)
        if next(self._looks) % _LOOK_BACK == 0 or any(key not in self._first for key in lanes):
            self._first = self._offsets(lanes, EARLIEST)
        ids = self._topics.ids()
        self._look_for_losses(since, last, ids)
        return last | ids

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        first = {key: self._first.get(key, 0) for key in _offsets_of(end)}
        known = _offsets_of(start)
        renewed = _renewed(start, end)
        at = {
            key: known[key] if key in known and lane_of(key)[0] not in renewed else first[key]
            for key in first
        }
        whole = _offsets_of(end)
        # A partition that ends before its start is another one of its name; it is read whole.
        ahead = {key: stop for key, stop in whole.items() if stop >= at[key]}
        return {**end, **whole, **spread(at, ahead, rows)}

    def _must_exist(self) -> None:
        missing = self._topics.missing()
        if missing:
            raise EnvironmentProblem(
                f"Kafka at {self._log.brokers.servers} has no topic {missing[0]!r}; make it before it is read"
            )

    def _offsets(self, lanes: Sequence[str], at: int) -> dict[str, int]:
        """Where those lanes are at that time; without those that have gone in the meantime."""
        found = self._topics.offsets(lanes, at)
        return {key: offset for key, offset in found.items() if offset is not None}

    def _look_for_losses(
        self, since: Positions, last: Mapping[str, int], ids: Mapping[str, str]
    ) -> None:
        """Refuses positions from which nothing can be read on, or says what is skipped."""
        renewed = _renewed(since, ids)
        for key, at in _offsets_of(since).items():
            topic, _ = lane_of(key)
            lane = Lane(*lane_of(key))
            if key not in last:
                lost(lane, at, at, "it is not there any more", skips=self._skips)
            elif topic in renewed:
                why = "the topic was deleted and made again"
                lost(lane, at, at, why, skips=self._skips)
            elif at > last[key]:
                why = f"it ends at {last[key]}: it was cut, or the topic was deleted and made again"
                lost(lane, at, at, why, skips=self._skips)
            elif at < self._first.get(key, 0):
                why = f"retention has removed all before {self._first[key]}"
                if not self._skips:
                    lost(lane, at, self._first[key], why, skips=False)

    # -- rows --------------------------------------------------------------------------------------------

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        parse = self._parse_as(source)
        try:
            lanes = self._span(start, end, stop)
            self._fetcher.begin(lanes, stop)
            while not stop.is_set():
                if any(lane.is_hungry for lane in lanes):
                    self._fetcher.fill(lanes, stop)
                    continue
                messages = leaving(lanes)
                if not messages:
                    self._fetcher.end(lanes)
                    return
                for block in _blocks(messages, max(BLOCK_ROWS, chunk_rows)):
                    yield from cut_fed(self._rows(parse, block), chunk_rows)
        except Stopped:
            return

    def _span(self, start: Positions, end: Positions, stop: Stop) -> list[Lane]:
        """The lanes of a span in their order, each at its start."""
        known, renewed = _offsets_of(start), _renewed(start, end)
        stops = _offsets_of(end)
        unknown = [
            key
            for key in stops
            if key not in known or known[key] > stops[key] or lane_of(key)[0] in renewed
        ]
        if any(key in self._lanes for key in unknown):
            self._fetcher.forget()
            self._lanes = {key: one for key, one in self._lanes.items() if key not in unknown}
        first = self._topics.offsets(unknown, EARLIEST, stop)
        lanes = []
        for key, upto in stops.items():
            lane = self._lanes.setdefault(key, Lane(*lane_of(key)))
            at = known[key] if key not in first else first[key] or 0
            if lane.at != at:
                self._fetcher.move(lane, at)
            lane.begin(upto)
            lanes.append(lane)
        return sorted(lanes, key=lambda lane: lane.order)

    def _parse_as(self, source: Source) -> MessageParser:
        if self._parser is None or self._parser[0] is not source:
            made = MessageParser(source, self._log.options, self._log.made_by)
            self._parser = source, made
        return self._parser[1]

    def _rows(self, parser: MessageParser, messages: Sequence[Message]) -> Fed:
        values = [one.value() for one in messages]
        beside = {what: _beside(what, messages) for what, _ in self._log.options.fields}
        return parser.parse(values, beside, lambda row: place_of(messages[row]))


def place_of(message: Message) -> str:
    """Where a message stands, for messages to people."""
    return f"topic {message.topic()!r} partition {message.partition()} offset {message.offset()}"


def _offsets_of(positions: Mapping[str, Any]) -> dict[str, int]:
    """The offsets of positions, without the ids of topics."""
    return {key: at for key, at in positions.items() if "/" in key}


def _renewed(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """The topics that have another id."""
    return {key for key, one in new.items() if "/" not in key and old.get(key, one) != one}


def _blocks(messages: Sequence[Message], rows: int) -> Iterator[Sequence[Message]]:
    """The messages in parts of bounded numbers of rows and bytes."""
    for start in range(0, len(messages), rows):
        block = messages[start : start + rows]
        ends = np.cumsum(np.fromiter(map(len, block), np.int64, len(block)))
        at = 0
        while at < len(block):
            limit = (ends[at - 1] if at else 0) + BLOCK_BYTES
            to = max(at + 1, int(np.searchsorted(ends, limit, side="right")))
            yield block[at:to] if to - at < len(block) else block
            at = to


def _beside(what: str, messages: Sequence[Message]) -> Any:
    """What the broker says of messages, as an Arrow array."""
    if what == "topic_field":
        return pa.array([one.topic() for one in messages], pa.string())
    if what == "partition":
        return pa.array([one.partition() for one in messages], pa.int64())
    if what == "offset":
        return pa.array([one.offset() for one in messages], pa.int64())
    if what == "key":
        return pa.array([one.key() for one in messages], pa.binary())
    if what == "timestamp":
        times = [one.timestamp() for one in messages]
        known = [1_000 * time if kind else None for kind, time in times]
        return pa.array(known, pa.timestamp("us", tz="UTC"))
    if what == "headers":
        return _header_lists(messages)
    name = what.removeprefix(HEADER)
    return pa.array([_header(one, name) for one in messages], pa.binary())


def _header(message: Message, name: str) -> bytes | None:
    """The value of a header, the last of that name."""
    found = None
    for one, value in message.headers() or ():
        if one == name:
            found = value
    return found


def _header_lists(messages: Sequence[Message]) -> pa.Array:
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    lists = [
        [{"name": name, "value": value} for name, value in one.headers() or ()] for one in messages
    ]
    return pa.array(lists, kind)
