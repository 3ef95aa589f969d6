"""Where tuples enter: lateness, waiting until the watermark has passed, and the order of a time domain.

The rules of docs/order.md: a row is *late* when its time lies below its lane's earlier maximum minus L;
the watermark is the minimum over lanes of (maximum - L); rows with time up to the watermark are released, in the order
(time, source, arrival). All of it is vectorized, and none of it depends on how the input is cut into batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from thalweg.columns.chunks import Bools, Chunk, Column, Int64s
from thalweg.columns.ordering import empty_order, serials
from thalweg.engine.watermarks.release import Release, StepRows, cut_many, cut_one
from thalweg.engine.watermarks.waiting import Waiting
from thalweg.flow.operators.idle import IdleDecision, later
from thalweg.flow.operators.nodes import OrderBy, Source
from thalweg.plan.plan import SEQ, TIME
from thalweg.times import BEFORE_ALL, NEVER


@dataclasses.dataclass(slots=True)
class Gate:
    """One source (or order_by): its lanes, the rows that wait, and how many have arrived.

    ``waiting`` is sorted by (time, arrival) and carries the order columns TIME and SEQ.
    """

    node: Source | OrderBy
    lanes: dict[Any, int] = dataclasses.field(default_factory=dict)
    #: the greatest watermark so far: a lane that appears late does not turn it back
    passed: int = BEFORE_ALL
    #: rows with a time up to here have been released
    released: int = BEFORE_ALL
    arrived: int = 0
    _waiting: Waiting = dataclasses.field(default_factory=Waiting)
    #: how many had arrived when the state was last saved: waiting rows with later serials are new since then
    saved: int = 0
    #: its input has ended, so it holds no other gate back
    closed: bool = False
    #: how many rows it has found late
    late: int = 0
    #: by lane the last place in the source's own order of arrival, where a host looks at it
    arrivals: dict[Any, Any] = dataclasses.field(default_factory=dict)
    #: of a source with ``idle=``, the lanes that are idle, with how far they are taken to be
    idle: dict[Any, int] = dataclasses.field(default_factory=dict)
    #: of such a source, the greatest watermark that its domain has given out
    given_out: int = BEFORE_ALL
    #: of such a source with lanes in the order of arrival, whether it was idle and a row is about to come
    wakes: bool = False
    #: of such a source, the lanes to which rows have come since a host looked last
    came: set[Any] = dataclasses.field(default_factory=set)

    @property
    def order_names(self) -> tuple[str, ...]:
        """What is kept of the place of a row that waits."""
        return (TIME, SEQ)

    @property
    def waiting(self) -> Chunk | None:
        """The rows that wait, in the order in which they leave."""
        return self._waiting.whole()

    @waiting.setter
    def waiting(self, rows: Chunk | None) -> None:
        self._waiting.put(rows)

    @property
    def waiting_rows(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    @property
    def time_field(self) -> str:
        name = self.node.order_by if isinstance(self.node, Source) else self.node.field
        assert name is not None
        return name

    @property
    def watermark(self) -> int:
        """No later row on time can have a time below it; BEFORE_ALL until the first row."""
        if self.closed:
            return NEVER
        if self.is_idle:
            return max(self.passed, self._taken_to_be())
        tops = [top for lane, top in self.lanes.items() if lane not in self.idle]
        return max(self.passed, min(tops) - self.node.lateness) if tops else self.passed

    @property
    def edge(self) -> tuple[int, int]:
        """The least (time, source) that a later row on time can have."""
        return self.watermark, self.node.index

    @property
    def slowest(self) -> Any:
        """The lane that holds the watermark back; None also where all are idle."""
        active = [lane for lane in self.lanes if lane not in self.idle]
        return min(active, key=lambda lane: self.lanes[lane]) if active else None

    # -- idle lanes (flow/operators/idle.py) --------------------------------------------------------------

    @property
    def may_be_idle(self) -> bool:
        """Whether its source, or order_by, has ``idle=``."""
        return self.node.idle is not None

    @property
    def known_lanes(self) -> tuple[Any, ...]:
        """The lanes that there are, as far as that is known."""
        return tuple(self.lanes)

    @property
    def is_idle(self) -> bool:
        """Whether all lanes are, or it has given no row and is."""
        return (
            bool(self.idle)
            and not self.wakes
            and all(lane in self.idle for lane in self.known_lanes)
        )

    @property
    def sure(self) -> int:
        """No row of any lane on time can have a time below it, also where lanes that are idle come again at once."""
        if isinstance(self.node, Source) and self.node.lane is not None:
            return self.passed if self.is_idle else self.watermark
        return later(max(self.lanes.values(), default=BEFORE_ALL), self.node.lateness)

    def _taken_to_be(self) -> int:
        """The watermark where all lanes are idle: that of the one that is farthest."""
        return later(max([*self.lanes.values(), *self.idle.values()]), self.node.lateness)

    def decide(self, decision: IdleDecision) -> bool:
        """Takes a decision; whether a pause begins with it."""
        lane, time = decision.lane, decision.time
        if decision.what == "idle":
            begins = lane not in self.idle
            self.came.discard(lane)
            self.wakes = False
            self.idle[lane] = max(time, self.idle.get(lane, BEFORE_ALL))
            if not self.is_idle:
                self._pass()
            return begins
        self._activate(lane, time)
        return False

    def _pass(self) -> None:
        """The watermark of the lanes that are left has been passed."""
        self.passed = self.watermark

    def _activate(self, lane: Any, time: int) -> None:
        if isinstance(self.node, Source) and self.node.lane is not None:
            # Lanes in the order of arrival: the row itself says from where on which lane counts.
            self.passed = max(self.passed, later(time, self.node.lateness))
            self.wakes = True
            return
        self.lanes[lane] = max(time, self.lanes.get(lane, BEFORE_ALL))
        self.idle.pop(lane, None)

    def active_again(self, chunk: Chunk) -> list[IdleDecision]:
        """Decisions that rows of idle lanes call for, to be taken before them: they count from what was given out."""
        if not self.idle or not len(chunk):
            return []
        floor = self.given_out
        time = floor if floor == BEFORE_ALL else floor + self.node.lateness
        name, arrived = self.node.name, self.arrived
        times = {one: max(time, self.lanes.get(one, BEFORE_ALL)) for one in self._waking(chunk)}
        return [IdleDecision(name, one, "active", at, arrived) for one, at in times.items()]

    def _waking(self, chunk: Chunk) -> list[Any]:
        if isinstance(self.node, OrderBy) or self.node.lane is None:
            return [None]
        return (
            chunk.column(self.node.lane).take(np.zeros(1, np.int64)).to_python()
            if self.is_idle
            else []
        )

    def activate_all(self) -> None:
        """No lane is idle any more, since the source has no ``idle=`` now."""
        for lane in list(self.idle):
            time = self.given_out
            self._activate(lane, time if time == BEFORE_ALL else time + self.node.lateness)
        self.idle.clear()
        self.wakes = False

    def tick(self, now: int) -> None:
        """Every lane is at least so far; lanes that were not seen cannot be told from ones that never come."""
        has_lanes = isinstance(self.node, Source) and self.node.lane is not None
        for lane in list(self.lanes) or ([] if has_lanes else [None]):
            self.lanes[lane] = max(self.lanes.get(lane, BEFORE_ALL), now)

    def accept(self, chunk: Chunk) -> Chunk:
        """Takes rows in arrival order; gives the late ones that leave at once."""
        seq = serials(self.node.index, self.arrived, len(chunk))
        self.arrived += len(chunk)
        times = chunk.column(self.time_field).values
        late = self._late(chunk, times)
        self._woke()
        rows = Chunk(chunk.schema, chunk.columns, len(chunk), {TIME: times, SEQ: seq})
        if not late.any():
            self._waiting.add(rows)
            return rows.slice(0, 0)
        self._waiting.add(rows.take(np.flatnonzero(~late)))
        found = rows.take(np.flatnonzero(late))
        self.late += len(found)
        return found

    def _late(self, chunk: Chunk, times: Int64s) -> Bools:
        name = self.node.lane if isinstance(self.node, Source) else None
        if name is None:
            return self._late_in_lane(None, times)
        late = np.zeros(len(chunk), np.bool_)
        slowest = np.full(len(chunk), self._slowest_of_others(chunk.column(name)), np.int64)
        started = self.passed if self.is_idle else self.watermark
        for lane, places in _groups(chunk.column(name)):
            top = self.lanes.get(lane, BEFORE_ALL)
            late[places] = self._late_in_lane(lane, times[places])
            running = _running_top(top, places, times)
            if lane in self.idle:
                running[: places[0]] = NEVER
            np.minimum(slowest, running, out=slowest)
        return late | self._passed_before(slowest, started, times)

    def _slowest_of_others(self, lanes: Column) -> int:
        """The least top of the lanes that the chunk does not name; NEVER when it names all."""
        named = set(lanes.to_python())
        named.update(self.idle)
        return min((top for lane, top in self.lanes.items() if lane not in named), default=NEVER)

    def _passed_before(self, slowest: Int64s, started: int, times: Int64s) -> Bools:
        """Rows whose time the watermark had passed when they came: rows of lanes that appear late."""
        behind = minus(slowest, self.node.lateness)
        watermarks = np.maximum.accumulate(np.concatenate([[started], behind]))
        self.passed = int(watermarks[-1])
        passed: Bools = times < watermarks[:-1]
        return passed

    def _woke(self) -> None:
        """Lanes with rows are idle no more."""
        self.wakes = False
        for lane in self.came if self.idle else ():
            self.idle.pop(lane, None)

    def _late_in_lane(self, lane: Any, times: Int64s) -> Bools:
        if not len(times):
            return np.zeros(0, np.bool_)
        if self.may_be_idle:
            self.came.add(lane)
        top = self.lanes.get(lane, BEFORE_ALL)
        if times[0] >= top and not (times[1:] < times[:-1]).any():
            self.lanes[lane] = int(times[-1])
            return np.zeros(len(times), np.bool_)
        before = np.maximum.accumulate(np.concatenate([[top], times]))
        self.lanes[lane] = int(before[-1])
        late: Bools = times < minus(before[:-1], self.node.lateness)
        return late

    def take(self, watermark: int, *, inclusive: bool = True) -> Chunk | None:
        """Removes and gives the waiting rows with time up to ``watermark``, or below it."""
        parts = self.take_parts(watermark, inclusive=inclusive)
        return Chunk.concat(parts) if parts else None

    def take_parts(self, watermark: int, *, inclusive: bool = True) -> list[Chunk]:
        """The same in as many chunks as there are, none of them empty."""
        self.released = max(self.released, watermark if inclusive else watermark - 1)
        return self._waiting.take(watermark, inclusive=inclusive)

    def take_late(self) -> Chunk | None:
        """Removes and gives late rows that have waited and may leave; here none ever waits."""
        return None

    def restore(self, rows: Chunk) -> None:
        """Puts in the rows that wait, in any order."""
        self.waiting = rows.take(np.lexsort((rows.order[SEQ], rows.order[TIME])))

    @property
    def facts(self) -> dict[str, Any]:
        """What is saved besides the watermark and the waiting rows, as JSON values."""
        return {}

    @facts.setter
    def facts(self, facts: dict[str, Any]) -> None:
        pass


def minus(times: Int64s, lateness: int) -> Int64s:
    """Times minus the lateness, but not below the first of all times."""
    earlier: Int64s = np.maximum(times, BEFORE_ALL + lateness) - lateness
    return earlier


def _running_top(top: int, places: Int64s, times: Int64s) -> Int64s:
    """A lane's greatest time behind each row of a chunk; NEVER before its first row."""
    mine = np.full(len(times), BEFORE_ALL)
    mine[places] = times[places]
    tops = np.maximum(np.maximum.accumulate(mine), top)
    return np.where(tops == BEFORE_ALL, NEVER, tops)


def _groups(column: Column) -> Iterator[tuple[Any, Int64s]]:
    """The values of a column, each with its places, in order of first appearance."""
    values = column.to_python()
    places: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(value, []).append(place)
    for value, found in places.items():
        yield value, np.array(found, np.int64)


class Ingress:
    """The gates of one time domain and their common watermark."""

    def __init__(self, domain: int, gates: Sequence[Gate]) -> None:
        self.domain = domain
        self.gates = {gate.node.index: gate for gate in gates}
        #: the greatest watermark of a step so far: a later step never says less
        self.reached = BEFORE_ALL

    @property
    def watermark(self) -> int:
        """The minimum over the domain's gates that are not idle; where all are, that of the farthest one."""
        return self._edge()[0]

    def _edge(self) -> tuple[int, int]:
        """The least (time, source) of a later row on time; gates that are idle may come with one of just that time."""
        gates = [gate for gate in self.gates.values() if not gate.closed]
        if not any(gate.idle for gate in gates):
            return min(gate.edge for gate in self.gates.values())
        edges = [gate.edge for gate in gates if not gate.is_idle]
        time = min(edges)[0] if edges else max(gate.watermark for gate in gates)
        last = [index for watermark, index in edges if watermark == time]
        last += [gate.node.index for gate in gates if gate.idle and gate.sure <= time]
        return time, min(last)

    def give_out(self, watermark: int | None = None) -> None:
        """Sources that are idle take note of a watermark that holds from here on, by default that of now."""
        watermark = self.watermark if watermark is None else watermark
        for gate in self.gates.values():
            if gate.may_be_idle:
                gate.given_out = max(gate.given_out, watermark)

    @property
    def ended(self) -> bool:
        """Whether the inputs of all gates have ended; then only the end of the streams releases what waits."""
        return all(gate.closed for gate in self.gates.values())

    def release(self, step_rows: StepRows, *, everything: bool = False) -> Iterator[Release]:
        """Takes the rows that may go, at once; gives them cut into steps, each with its watermark.

        The last step's watermark is the domain's, or with ``everything`` the greatest time; it never goes back, also
        where nothing waits any more at the end. A step is given also when no row is released, since timers may be due.

        Args:
            step_rows: asked before each step, how many rows it should have.
            everything: also rows that still wait for the watermark.
        """
        # Of the rows at the watermark, those of later gates must wait for the first gate that may still give some.
        watermark, last = (NEVER, max(self.gates)) if everything else self._edge()
        taken = {
            i: parts
            for i, gate in self.gates.items()
            if (parts := gate.take_parts(watermark, inclusive=i <= last))
        }
        if everything:
            tops = [int(parts[-1].order[TIME][-1]) for parts in taken.values()]
            watermark = max(tops, default=BEFORE_ALL)
        watermark = self.reached = max(watermark, self.reached)
        self.give_out(watermark)
        if not taken:
            return iter([({}, watermark)])
        if len(taken) == 1:
            return cut_one(*taken.popitem(), step_rows, watermark)
        return cut_many(taken, step_rows, watermark)


def event_columns(rows: Chunk, names: Sequence[str]) -> Chunk:
    """Rows of a gate with the order columns that their stream carries."""
    missing = [name for name in names if name not in rows.order]
    order = {**rows.order, **empty_order(missing, len(rows))}
    return Chunk(rows.schema, rows.columns, len(rows), {name: order[name] for name in names})
