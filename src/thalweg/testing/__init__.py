"""The kit for tests of flows: run, feed piece by piece, compare with the serial reference, look at samples."""

from thalweg.testing.kit import (
    Result,
    Session,
    assert_recut,
    assert_same,
    counts_of_parts,
    depends_on_cuts,
    difference,
    random_cuts,
    reference,
    row_difference,
    run,
    states_of,
)

__all__ = [
    "Result",
    "Session",
    "assert_recut",
    "assert_same",
    "counts_of_parts",
    "depends_on_cuts",
    "difference",
    "random_cuts",
    "reference",
    "row_difference",
    "run",
    "states_of",
]
