"""The kit for tests of flows: run, feed piece by piece, compare with the serial reference, look at samples.

Nothing here needs Spark, threads or sleeping: time is what the rows say, or what :meth:`Session.tick` is told.

* :func:`run` runs the engine over rows, cut into batches and chunks as you like;
* :func:`reference` runs the serial reference runner, one tuple at a time (the oracle);
* :func:`assert_same` compares the two over random cuts, compiled and interpreted: what a test of a flow wants;
* :class:`Session` takes rows by hand and shows outputs and state in between;
* :func:`plan_partitions` finds ranges of keys for the partitions of keyed operators in a sample;
* :func:`assert_recut` checks that a ``map_batches`` function does not depend on how a stream is cut.
"""

from typing import Any

from thalweg.flow.operators.idle import IdleDecision
from thalweg.renamed import warn_renamed
from thalweg.testing.compare import (
    assert_same,
    counts_of_parts,
    depends_on_cuts,
    difference,
    random_cuts,
    row_difference,
)
from thalweg.testing.partitions import OperatorPartitions, PartitionPlan, plan_partitions
from thalweg.testing.recut import assert_recut
from thalweg.testing.runs import reference, run
from thalweg.testing.session import CheckedResult, Session, states_of


def __getattr__(name: str) -> Any:
    if name != "Result":
        raise AttributeError(f"module 'thalweg.testing' has no attribute {name!r}")
    warn_renamed("tw.testing.Result", "tw.testing.CheckedResult")
    return CheckedResult


__all__ = [
    "CheckedResult",
    "IdleDecision",
    "OperatorPartitions",
    "PartitionPlan",
    "Session",
    "assert_recut",
    "assert_same",
    "counts_of_parts",
    "depends_on_cuts",
    "difference",
    "plan_partitions",
    "random_cuts",
    "reference",
    "row_difference",
    "run",
    "states_of",
]
