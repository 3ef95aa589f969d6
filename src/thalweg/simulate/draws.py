"""What is drawn for each tuple: factors around 1, by distribution, the same under a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final, Literal

#: Each tuple alike; or as the named distribution.
Draw = Literal["constant", "uniform", "exponential", "lognormal"]
#: With more, a uniform distribution around 1 would reach below 0.
MOST_UNIFORM_SPREAD: Final = 1 / math.sqrt(3)


def factors(draw: Draw, spread: float, rng: random.Random) -> Callable[[], float]:
    """A function that draws numbers with mean 1, not negative.

    Args:
        draw: the distribution.
        spread: the standard deviation, where the mean does not settle it: that of ``exponential`` is 1.
        rng: where chance comes from.
    """
    if draw == "uniform":
        half = spread * math.sqrt(3)
        return lambda: rng.uniform(1 - half, 1 + half)
    if draw == "lognormal":
        variance = math.log1p(spread * spread)
        return lambda: rng.lognormvariate(-variance / 2, math.sqrt(variance))
    if draw == "exponential":
        return lambda: rng.expovariate(1.0)
    return lambda: 1.0
