"""The queries of Haren's evaluation (Palyvos-Giannas et al., 7.1 and 7.4), scaled to so many cores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from thalweg.simulate import Constant, Graph, haren_chains, work_ns
from thalweg.simulate.arrivals import Arrivals

#: Operators of a chain.
LENGTH: Final = 12
QUERIES: Final = (5, 10, 15, 20)
#: Work that arrives with 20 queries, as a multiple of what the cores can do: less with fewer.
LOAD: Final = 1.15
#: The paper's queries of class HIGH, and of class LOW, and tuples a second of each.
HIGH: Final = 3
LOW: Final = 10
HIGH_PER_S: Final = 500.0
LOW_PER_S: Final = 1_000.0
#: In the dynamic scenario HIGH has ten times as many tuples for a quarter of the time.
BURST_PER_S: Final = 10 * HIGH_PER_S
BURST_TIME: Final = 0.25
BURST_MEAN_PER_S: Final = BURST_PER_S * BURST_TIME
#: Of the cores so much at most is what HIGH needs in a burst.
_BURST_SHARE: Final = 0.7


def single_class(queries: int, per_s: float, *, cores: float, seed: int = 0) -> Graph:
    """So many of 20 chains that are ``LOAD`` times what so many cores can do."""
    most = max(QUERIES)
    base_ns = LOAD * cores * 1e9 / per_s / work_ns(_chains([Constant(1.0)] * most, 1.0, seed))
    return _chains([Constant(per_s)] * queries, base_ns, seed)


def two_classes(
    load: float, high: Arrivals, high_per_s: float, *, cores: float, seed: int = 0
) -> Graph:
    """HIGH and LOW queries: from ``seed`` on the first draw in which a burst of HIGH alone is not too much.

    Args:
        load: work that arrives, as a multiple of what the cores can do.
        high: arrivals of each HIGH query, on average ``high_per_s``.
        cores: how many there are.
        seed: of costs and selectivities.
    """
    for draw in itertools.count(seed):
        own, all_work = (
            work_ns(_chains([Constant(1.0)] * count, 1.0, draw)) for count in (HIGH, HIGH + LOW)
        )
        per_s = own * high_per_s + (all_work - own) * LOW_PER_S
        base_ns = load * cores * 1e9 / per_s
        if own * base_ns * BURST_PER_S <= _BURST_SHARE * cores * 1e9:
            break
    classes = dict.fromkeys(range(HIGH, HIGH + LOW), 1)
    return _chains([high] * HIGH + [Constant(LOW_PER_S)] * LOW, base_ns, draw, classes)


def _chains(
    arrivals: Sequence[Arrivals],
    base_ns: float,
    seed: int,
    classes: Mapping[int, int] | None = None,
) -> Graph:
    return haren_chains(arrivals, base_ns=base_ns, length=LENGTH, classes=classes, seed=seed)
