"""How long the rows of a join wait for a partner; sums of times and ``within`` stay inside 64 bits."""

from __future__ import annotations

from typing import Final

import numpy as np

from thalweg.columns.chunks import Bools, Int64s
from thalweg.times import NEVER

_LEAST: Final = -(2**63)
#: The last time at which a timer can stand.
_LAST: Final = NEVER - 1


def below(clock: int, within: int) -> int:
    """The time below which rows cannot meet one that still comes; NEVER at the end."""
    return NEVER if clock == NEVER else max(clock - within, _LEAST)


def timers(times: Int64s, within: int) -> Int64s:
    """When a row of each time is out of reach of all that can still come."""
    reach = min(within, NEVER)
    found: Int64s = np.where(times > _LAST - reach, _LAST, times + np.int64(reach))
    return found


def timer(time: int, within: int) -> int:
    """:func:`timers` of one time."""
    return min(time + within, _LAST)


def in_reach(times: Int64s, within: int, clock: int) -> Bools:
    """Whether rows can meet one that still comes."""
    found: Bools = timers(times, within) >= clock
    return found
