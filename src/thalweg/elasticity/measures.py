"""How far two measures are apart."""

from __future__ import annotations

import math


def relative_difference(one: float, other: float) -> float:
    """By how much two measures, none of them negative, differ, as a share of the smaller one."""
    less, more = min(one, other), max(one, other)
    if less == more:
        return 0.0
    return (more - less) / less if less > 0 else math.inf
