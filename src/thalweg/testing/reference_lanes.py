"""The lanes of a source in the serial reference runner (docs/order.md, Lanes)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from thalweg.flow.operators.idle import later
from thalweg.flow.operators.nodes import Source
from thalweg.testing.reference_keys import canonical, sort_key
from thalweg.times import BEFORE_ALL

#: Where a row stands among those of its time: its lane, and its number among all rows of the source.
Place = tuple[Any, int]


@dataclasses.dataclass
class ReferenceLanes:
    """What a source knows of its lanes: how far each is, and the late rows, which wait for the watermark."""

    source: Source
    tops: dict[Any, int] = dataclasses.field(default_factory=dict)
    #: (greatest time of the lane when it came, place, row)
    late: list[tuple[int, Place, Any]] = dataclasses.field(default_factory=list)
    _arrivals: itertools.count[int] = dataclasses.field(default_factory=itertools.count)

    def arrive(self, row: Any, time: int) -> Place | None:
        """The place of a row; None of a late one, which is kept: its own lane alone says whether it is late."""
        assert self.source.lane is not None
        lane = canonical(getattr(row, self.source.lane))
        top = self.tops.get(lane, BEFORE_ALL)
        self.tops[lane] = max(top, time)
        place = (sort_key(lane), next(self._arrivals))
        if time >= top - self.source.lateness:
            return place
        self.late.append((top, place, row))
        return None

    def watermark(self, idle: Mapping[Any, int]) -> int:
        """That of the lane that is least far of those that are not idle, once each of these has come.

        Lanes of the whole input are known at its end.
        """
        declared = self.source.lanes
        if not isinstance(declared, tuple):
            return BEFORE_ALL
        active = [self.tops.get(lane, BEFORE_ALL) for lane in declared if lane not in idle]
        if BEFORE_ALL in active:
            return BEFORE_ALL
        if active:
            return min(active) - self.source.lateness
        return later(max([*self.tops.values(), *idle.values()]), self.source.lateness)
