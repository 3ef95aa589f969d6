"""What policies reckon with, from counts: cost, selectivity, and selectivity from the source on.

An operator that has seen few tuples is taken to be an ordinary one, and no measure falls below a floor, so that no
formula divides by zero and none rests on a handful of tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from thalweg.scheduling.policy import Float64s

#: Measured values count only from so many tuples on.
SAMPLE_TUPLES: Final = 100
#: What an operator is taken to cost before, ns a tuple; and the least cost, about what a clock can tell.
PRIOR_COST_NS: Final = 1_000.0
LEAST_COST_NS: Final = 10.0
#: Tuples out a tuple in, before; and the least.
PRIOR_SELECTIVITY: Final = 1.0
LEAST_SELECTIVITY: Final = 1e-6


def cost_ns(busy_ns: int, tuples: int) -> float:
    """The CPU time per tuple, ns, of an operator that took ``busy_ns`` for that many tuples."""
    if tuples < SAMPLE_TUPLES:
        return PRIOR_COST_NS
    return max(busy_ns / tuples, LEAST_COST_NS)


def selectivity(rows_in: int, rows_out: int) -> float:
    """Output tuples per input tuple."""
    if rows_in < SAMPLE_TUPLES:
        return PRIOR_SELECTIVITY
    return max(rows_out / rows_in, LEAST_SELECTIVITY)


def cumulative_selectivity(
    selectivities: Sequence[float] | Float64s, feeders: Sequence[Sequence[int]]
) -> tuple[Float64s, Float64s]:
    """Tuples that reach each operator, and that it emits, per tuple of the source.

    In a pipeline that is the product of the selectivities in front of an operator, and the cs of Prasaad et al.,
    section 6.1. On a DAG tuples arrive by several paths, so products are summed over paths.

    Args:
        selectivities: tuples out a tuple in, by operator in topological order.
        feeders: by operator, whom it reads, an entry an input port; none: a source, which one tuple reaches.

    Returns:
        ``cumulative_in`` (without an operator's own selectivity) and ``cumulative_out`` (with it).

    Raises:
        ValueError: an operator reads one that does not stand before it.
    """
    arriving = np.ones(len(feeders))
    leaving = np.ones(len(feeders))
    for operator, read in enumerate(feeders):
        if any(not 0 <= feeder < operator for feeder in read):
            raise ValueError(f"operator {operator} reads {list(read)}: not in topological order")
        if read:
            arriving[operator] = sum(leaving[feeder] for feeder in read)
        leaving[operator] = arriving[operator] * selectivities[operator]
    return arriving, leaving
