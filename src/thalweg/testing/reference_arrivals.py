"""What the serial reference runner knows of time at sources: lateness, watermarks, who is idle (docs/order.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

from thalweg.flow.operators.idle import IdleDecision, later
from thalweg.flow.operators.nodes import OrderBy, Source
from thalweg.plan.plan import Plan
from thalweg.testing.reference_keys import canonical
from thalweg.testing.reference_lanes import ReferenceLanes
from thalweg.times import BEFORE_ALL

#: The lane of what has none.
_ONE: Final = None
#: Where a row stands: its time, its source, and its place among the source's rows.
Place = tuple[int, int, Any]


class ReferenceArrivals:
    """Rows as they arrive, one at a time, and the watermarks behind them.

    ``decisions`` say which sources and lanes are idle, and when; each stands behind as many rows of its source as it
    names. Nothing here looks at a clock.
    """

    def __init__(self, plan: Plan, decisions: Iterable[IdleDecision]) -> None:
        self.plan = plan
        #: by source or order_by and lane, the greatest time
        self.greatest: dict[tuple[int, Any], int] = {}
        self.watermark: dict[int, int] = {}
        self.lanes = {s.index: ReferenceLanes(s) for s in plan.sources if s.keeps_lanes}
        #: by source, the lanes that are idle, with how far they are taken to be
        self.idle: dict[int, dict[Any, int]] = {}
        self._arrived: dict[int, int] = {}
        self._numbers = itertools.count()
        self._ahead = {
            node.index: [one for one in decisions if one.source == node.name]
            for node in plan.nodes
            if isinstance(node, (Source, OrderBy))
        }

    def arrive(self, node: Source | OrderBy, row: Any, time: int) -> Place | None:
        """The place of a row in time; None of a late one."""
        if isinstance(node, Source) and node.keeps_lanes:
            place = self.lanes[node.index].arrive(row, time)
            self.watermark[node.index] = self._watermark_of_lanes(node)
            return None if place is None else (time, node.index, place)
        name = node.lane if isinstance(node, Source) else None
        lane = (node.index, canonical(getattr(row, name)) if name else _ONE)
        if isinstance(node, OrderBy):
            self._wake(node)
        greatest = self.greatest.get(lane, BEFORE_ALL)
        watermark = self.watermark.get(node.index, BEFORE_ALL)
        self.greatest[lane] = max(greatest, time)
        self._idle_lanes(node.index).pop(lane[1], None)
        self._go_on(node)
        if time < greatest - node.lateness or time < watermark:
            return None
        return (time, node.index, next(self._numbers))

    def _wake(self, node: OrderBy) -> None:
        """A row of an order_by that is idle: it counts again, from the watermark that was given out."""
        if self._idle_lanes(node.index):
            self.watermark[node.index] = self._taken_to_be(node)
            self._idle_lanes(node.index).clear()

    def _go_on(self, node: Source | OrderBy) -> None:
        """The watermark is that of the lanes that are not idle; it never goes back."""
        idle = self._idle_lanes(node.index)
        tops = [
            top
            for (index, lane), top in self.greatest.items()
            if index == node.index and lane not in idle
        ]
        if tops:
            before = self.watermark.get(node.index, BEFORE_ALL)
            self.watermark[node.index] = max(before, min(tops) - node.lateness)

    # -- decisions ----------------------------------------------------------------------------------------

    def decide_before_row(self, source: Source | OrderBy) -> list[IdleDecision]:
        """Takes the decisions that stand before the next row of a source; gives those that began a pause."""
        return self._decide(source, self._arrived.get(source.index, 0))

    def took_row(self, source: Source | OrderBy) -> None:
        """A row has arrived."""
        self._arrived[source.index] = self._arrived.get(source.index, 0) + 1

    def _decide(self, source: Source | OrderBy, arrived: int) -> list[IdleDecision]:
        ahead, began = self._ahead[source.index], []
        while ahead and ahead[0].after <= arrived:
            decision = ahead.pop(0)
            idle = self._idle_lanes(source.index)
            if decision.what == "active":
                self._activate(source, decision)
                continue
            if decision.lane not in idle:
                began.append(decision)
            idle[decision.lane] = max(decision.time, idle.get(decision.lane, BEFORE_ALL))
            self._move(source)
        return began

    def _activate(self, source: Source | OrderBy, decision: IdleDecision) -> None:
        """A lane counts again, and is at least as far as the decision says."""
        lane, time = decision.lane, decision.time
        assert isinstance(source, Source), "an order_by is active again with its next row"
        if source.keeps_lanes:
            tops = self.lanes[source.index].tops
            tops[lane] = max(time, tops.get(lane, BEFORE_ALL))
        elif source.lane is None:
            place = (source.index, _ONE)
            self.greatest[place] = max(time, self.greatest.get(place, BEFORE_ALL))
        else:
            before = self.watermark.get(source.index, BEFORE_ALL)
            self.watermark[source.index] = max(before, later(time, source.lateness))
            return  # its row will say which lane it is
        self._idle_lanes(source.index).pop(lane, None)
        self._move(source)

    def _move(self, source: Source | OrderBy) -> None:
        if isinstance(source, Source) and source.keeps_lanes:
            self.watermark[source.index] = self._watermark_of_lanes(source)
        else:
            self._go_on(source)

    def _idle_lanes(self, index: int) -> dict[Any, int]:
        return self.idle.setdefault(index, {})

    def _watermark_of_lanes(self, source: Source) -> int:
        return self.lanes[source.index].watermark(self._idle_lanes(source.index))

    # -- the watermark of a domain ------------------------------------------------------------------------

    def edge(self, domain: int) -> tuple[int, int]:
        """The least (time, source) that a row still to come can have.

        What is idle holds nothing back, but may come again with a row of just that time. Where all sources are idle,
        the one that is taken to be farthest says what time it is.
        """
        members = [
            node
            for node in self.plan.nodes
            if isinstance(node, (Source, OrderBy)) and self.plan.domains[node.index - 1] == domain
        ]
        active = [
            (self.watermark.get(node.index, BEFORE_ALL), node.index)
            for node in members
            if not self.is_idle(node)
        ]
        time = min(active)[0] if active else max(map(self._taken_to_be, members))
        last = [index for watermark, index in active if watermark == time]
        last += [
            node.index
            for node in members
            if self._idle_lanes(node.index) and self._sure(node) <= time
        ]
        return time, min(last)

    def _sure(self, node: Source | OrderBy) -> int:
        """No row on time can be below it, also where all that is idle comes again at once."""
        if node.index in self.lanes:
            return self.lanes[node.index].watermark({})
        return self.watermark.get(node.index, BEFORE_ALL)

    def is_idle(self, node: Source | OrderBy) -> bool:
        """Whether all lanes of a source are idle; of one that has given no row, whether that was said of it."""
        idle = self._idle_lanes(node.index)
        if not idle:
            return False
        if isinstance(node, Source) and node.keeps_lanes:
            assert isinstance(node.lanes, tuple)
            return all(lane in idle for lane in node.lanes)
        return all(lane in idle for index, lane in self.greatest if index == node.index)

    def _taken_to_be(self, node: Source | OrderBy) -> int:
        """The watermark of an idle source: of the lane that is taken to be farthest."""
        tops = [top for (index, _), top in self.greatest.items() if index == node.index]
        if node.index in self.lanes:
            tops = list(self.lanes[node.index].tops.values())
        tops += self._idle_lanes(node.index).values()
        floor = (
            BEFORE_ALL if node.index in self.lanes else self.watermark.get(node.index, BEFORE_ALL)
        )
        return max(floor, later(max(tops), node.lateness))

    def has_passed(self, edge: tuple[int, int], time: int, index: int) -> bool:
        """Whether no row still to come can have a place before one of this time and source."""
        watermark, last = edge
        if time != watermark or index > last:
            return time < watermark
        if index not in self.lanes:
            return True
        # A source with lanes may give more rows of the time of its own watermark, in any lane, also an idle one.
        return time < self.lanes[index].watermark({})
