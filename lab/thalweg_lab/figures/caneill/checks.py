"""Parts of a claim as checks: one wins, one rises, one stays; and what was seen, in numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from thalweg_lab.figures.contract import ShapeCheck

PAPER: Final = "Caneill et al."
#: The slots of the paper's experiments on data.
SLOTS: Final = 6


def wins(what: str, better: float, worse: float, by: float = 1.0) -> ShapeCheck:
    """One is more than ``by`` times the other."""
    return ShapeCheck(what, better > by * worse, f"{number(better)} against {number(worse)}")


def rises(what: str, values: Sequence[float], slack: float = 0.0) -> ShapeCheck:
    """The last is more than the first, and none falls below the one before by more than ``slack`` of it."""
    steps = all(after >= before * (1 - slack) for before, after in itertools.pairwise(values))
    return ShapeCheck(what, steps and values[-1] > values[0], shown(values))


def within(what: str, value: float, low: float, high: float) -> ShapeCheck:
    """A number is between two others."""
    found = f"{number(value)} (from {number(low)} to {number(high)})"
    return ShapeCheck(what, low <= value <= high, found)


def shown(values: Sequence[float]) -> str:
    """Numbers in a row."""
    return ", ".join(map(number, values))


def number(value: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
