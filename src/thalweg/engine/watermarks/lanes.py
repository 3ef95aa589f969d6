"""The lanes of a source: lateness and output order follow from the order of each lane.

Rows of different lanes come in no order that means anything, so nothing here depends on it (docs/order.md). A row
waits at its time, a late one at its lane's greatest time; both leave in the order (time, lane, place in the lane) once
the watermark has passed them, and only then get the serials by which streams behind know their order. Lanes that count
from their first row, in the order of arrival (``lanes="arrival"``), are a plain :class:`Gate`'s business.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Final

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.ordering import serials
from thalweg.engine.watermarks.ingress import Gate, minus
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.idle import later
from thalweg.flow.operators.lanes import lane_order
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import SEQ, TIME
from thalweg.times import BEFORE_ALL, NEVER

#: Of waiting rows: whether they are late (1), and the number of their lane in the gate.
LATE: Final = "_late"
_LANE: Final = "_lane"


def gate_of(source: Source) -> Gate:
    """The gate of a source."""
    return LaneGate(source) if source.keeps_lanes and source.sorts else Gate(source)


@dataclasses.dataclass(slots=True)
class LaneGate(Gate):
    """The gate of a source with lanes; rows that wait carry TIME (their place in time), SEQ (of arrival) and LATE."""

    #: the lanes of the whole input where a host knows them before the end and the source does not say
    known: tuple[Any, ...] | None = None
    #: how many rows have left on time, and how many late ones: the serials of the next
    given: int = 0
    given_late: int = 0
    #: rows that have come since the others were put into order, and their least time
    _fresh: list[Chunk] = dataclasses.field(default_factory=list)
    _least: int = NEVER
    #: late rows that were taken, which leave next
    _leaving: list[Chunk] = dataclasses.field(default_factory=list)
    #: the number of each lane that has come, in the order of coming
    _numbers: dict[Any, int] = dataclasses.field(default_factory=dict)

    @property
    def order_names(self) -> tuple[str, ...]:
        return (TIME, SEQ, LATE)

    @property
    def expected(self) -> tuple[Any, ...] | None:
        """All lanes that there are; None while that is not known."""
        source = self.node
        assert isinstance(source, Source)
        return source.lanes if isinstance(source.lanes, tuple) else self.known

    @property
    def watermark(self) -> int:
        """No later row on time can have a time below it; BEFORE_ALL until each lane has given a row."""
        if self.closed:
            return NEVER
        if self.is_idle:
            return self._taken_to_be()
        active = [
            self.lanes.get(lane, BEFORE_ALL) for lane in self.known_lanes if lane not in self.idle
        ]
        least = min(active, default=BEFORE_ALL)
        return least if self.expected is None or least == BEFORE_ALL else least - self.node.lateness

    @property
    def known_lanes(self) -> tuple[Any, ...]:
        return self.expected or ()

    @property
    def slowest(self) -> Any:
        """The lane that holds the watermark back: one that has given nothing yet, else the one that is least far."""
        if self.expected is None:
            return None
        silent = (one for one in self.expected if one not in self.lanes and one not in self.idle)
        return next(silent, Gate.slowest.fget(self))  # type: ignore[attr-defined]

    def tick(self, now: int) -> None:
        """Every lane is at least so far."""
        for lane in self.expected or tuple(self.lanes):
            self.lanes[lane] = max(self.lanes.get(lane, BEFORE_ALL), now)

    @property
    def sure(self) -> int:
        tops = [self.lanes.get(lane, BEFORE_ALL) for lane in self.known_lanes]
        return later(min(tops, default=BEFORE_ALL), self.node.lateness)

    def _pass(self) -> None:
        """Lanes that come again count from what the domain has given out."""

    def _activate(self, lane: Any, time: int) -> None:
        if time > BEFORE_ALL:
            self.lanes[lane] = max(time, self.lanes.get(lane, BEFORE_ALL))
        self.idle.pop(lane, None)

    def _waking(self, chunk: Chunk) -> list[Any]:
        assert isinstance(self.node, Source) and self.node.lane is not None
        names = _encoded(chunk.column(self.node.lane)).dictionary.to_pylist()
        return sorted((name for name in names if name in self.idle), key=lane_order)

    # -- rows ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> Chunk | None:
        """The rows that wait, in the order in which they leave."""
        held = self._waiting.whole()
        if self._fresh:
            parts = [*([held] if held else []), *self._fresh]
            self.waiting = self._in_order(Chunk.concat(parts))
        return self._waiting.whole()

    @waiting.setter
    def waiting(self, rows: Chunk | None) -> None:
        self._waiting.put(rows)
        self._fresh, self._least = [], NEVER

    @property
    def waiting_rows(self) -> int:
        return sum(map(len, self._fresh)) + len(self._waiting)

    def _in_order(self, rows: Chunk) -> Chunk:
        names = sorted(self._numbers, key=lane_order)
        ranks = np.empty(len(names), np.int64)
        ranks[[self._numbers[name] for name in names]] = np.arange(len(names))
        order = rows.order
        return rows.take(np.lexsort((order[SEQ], ranks[order[_LANE]], order[TIME])))

    def accept(self, chunk: Chunk) -> Chunk:
        """Takes rows whose order within each lane is that of the lane; none leaves at once."""
        seq = serials(self.node.index, self.arrived, len(chunk))
        self.arrived += len(chunk)
        times, lanes = chunk.column(self.time_field).values, self._lanes_of(chunk)
        tops = self._tops_before(lanes, times)
        late = times < minus(tops, self.node.lateness)
        self.late += int(late.sum())
        order = {TIME: np.where(late, tops, times), SEQ: seq, LATE: late.astype(np.int64)}
        self._add(Chunk(chunk.schema, chunk.columns, len(chunk), {**order, _LANE: lanes}))
        return Chunk(chunk.schema, chunk.columns, len(chunk), {TIME: times, SEQ: seq}).slice(0, 0)

    def _add(self, rows: Chunk) -> None:
        if len(rows):
            self._fresh.append(rows)
            self._least = min(self._least, int(rows.order[TIME].min()))

    def _lanes_of(self, chunk: Chunk) -> Int64s:
        """The number of each row's lane."""
        assert isinstance(self.node, Source) and self.node.lane is not None
        found = _encoded(chunk.column(self.node.lane))
        names = found.dictionary.to_pylist()
        expected = self.expected
        assert expected is None or set(names) <= set(expected), "rows of other lanes do not fit"
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names]
        places = found.indices.to_numpy(zero_copy_only=False)
        lanes: Int64s = np.array(numbers, np.int64)[places]
        return lanes

    def _tops_before(self, lanes: Int64s, times: Int64s) -> Int64s:
        """The greatest time of each row's lane before it; moves the lanes on."""
        tops = np.empty(len(times), np.int64)
        by_lane = np.argsort(lanes, kind="stable")
        names = list(self._numbers)
        starts = np.flatnonzero(np.diff(lanes[by_lane], prepend=-1)).tolist()
        for start, stop in itertools.pairwise([*starts, len(times)]):
            places = by_lane[start:stop]
            lane = names[lanes[places[0]]]
            if self.may_be_idle:
                self.came.add(lane)
            before = np.concatenate([[self.lanes.get(lane, BEFORE_ALL)], times[places]])
            running = np.maximum.accumulate(before)
            tops[places] = running[:-1]
            self.lanes[lane] = int(running[-1])
        return tops

    def take(self, watermark: int, *, inclusive: bool = True) -> Chunk | None:
        """Removes the waiting rows up to ``watermark``, or below it; gives those on time (not :meth:`take_late`).

        More rows of the gate's own watermark may come, in lanes before those of rows that wait; in lanes that are idle
        also rows of the domain's.
        """
        inclusive = inclusive and watermark < (self.sure if self.idle else self.watermark)
        held = self._waiting.whole()
        first = held.order[TIME][0] if held else NEVER
        if min(first, self._least) > watermark:
            # Nothing need be put into order yet.
            self.released = max(self.released, watermark if inclusive else watermark - 1)
            return None
        found = self._up_to(watermark, inclusive=inclusive)
        if found is None:
            return None
        late = found.order[LATE] != 0
        if late.any():
            rows = found.take(np.flatnonzero(late))
            self._leaving.append(self._numbered(rows, self.given_late))
            self.given_late += len(rows)
            found = found.take(np.flatnonzero(~late))
        first, self.given = self.given, self.given + len(found)
        return self._numbered(found, first) if len(found) else None

    def take_parts(self, watermark: int, *, inclusive: bool = True) -> list[Chunk]:
        rows = self.take(watermark, inclusive=inclusive)
        return [] if rows is None else [rows]

    def _up_to(self, watermark: int, *, inclusive: bool) -> Chunk | None:
        """Removes and gives the rows up to a time, late ones among them."""
        _ = self.waiting  # puts them into order
        parts = Gate.take_parts(self, watermark, inclusive=inclusive)
        return parts[0] if parts else None

    def _numbered(self, rows: Chunk, first: int) -> Chunk:
        order = {TIME: rows.order[TIME], SEQ: serials(self.node.index, first, len(rows))}
        return Chunk(rows.schema, rows.columns, len(rows), order)

    def take_late(self) -> Chunk | None:
        """Removes and gives the late rows that the watermark has passed."""
        rows, self._leaving = self._leaving, []
        return Chunk.concat(rows) if rows else None

    def restore(self, rows: Chunk) -> None:
        """Puts in the rows that wait, in any order."""
        self.waiting = None
        lanes = {_LANE: self._lanes_of(rows)}
        self._add(Chunk(rows.schema, rows.columns, len(rows), {**rows.order, **lanes}))

    # -- facts --------------------------------------------------------------------------------------------

    @property
    def facts(self) -> dict[str, Any]:
        return {"given": self.given, "given_late": self.given_late}

    @facts.setter
    def facts(self, facts: dict[str, Any]) -> None:
        self.given, self.given_late = facts.get("given", 0), facts.get("given_late", 0)
        self._leaving = []


def _encoded(lanes: Column) -> pa.DictionaryArray:
    """Lanes as numbers into the different ones."""
    array = lanes.to_arrow()
    if lanes.type.kind in (Kind.TIMESTAMP, Kind.BOOL):
        array = array.cast(pa.int64())
    return array.dictionary_encode(null_encoding="encode")


def lanes_of_table(source: Source, column: pa.ChunkedArray) -> tuple[Any, ...]:
    """The lanes that a column holds, in order."""
    assert source.lane is not None
    kind = source.record.field(source.lane).type
    found = _encoded(Column.from_arrow(kind, column)).dictionary.to_pylist()
    return tuple(sorted(found, key=lane_order))
