"""Parts of a claim as checks: what rises, what stays, who is above whom."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from thalweg_lab.figures.c_stream.virtual import Flowed
from thalweg_lab.figures.contract import Line, ShapeCheck

#: The paper's name on the scoreboard.
PAPER = "Sahin & Gedik, C-Stream"


def told(values: Sequence[float]) -> str:
    """Numbers in a row."""
    return " → ".join(f"{one:,.0f}" if abs(one) >= 100 else f"{one:.3g}" for one in values)


def rises(says: str, values: Sequence[float], *, slack: float = 0.05) -> ShapeCheck:
    """Whether each is at least as much as the one before, but for noise."""
    holds = all(after >= (1 - slack) * before for before, after in itertools.pairwise(values))
    return ShapeCheck(says, holds and values[-1] > values[0], told(values))


def falls(says: str, values: Sequence[float], *, slack: float = 0.05) -> ShapeCheck:
    """Whether each is at most as much as the one before, but for noise."""
    holds = all(after <= (1 + slack) * before for before, after in itertools.pairwise(values))
    return ShapeCheck(says, holds and values[-1] < values[0], told(values))


def between(says: str, value: float, least: float, most: float) -> ShapeCheck:
    """Whether a number is in a range."""
    return ShapeCheck(says, least <= value <= most, f"{value:.3g}, expected {least:g} to {most:g}")


def above(says: str, more: float, less: float, times: float = 1.0) -> ShapeCheck:
    """Whether one is at least so many times the other."""
    return ShapeCheck(says, more >= times * less, f"{more:,.4g} against {less:,.4g}")


def lines(found: Mapping[str, Mapping[Any, Flowed]], what: str) -> tuple[Line, ...]:
    """By plug-in, a quantity over what varies."""
    return tuple(
        Line(name, tuple(map(float, values)), tuple(getattr(one, what) for one in values.values()))
        for name, values in found.items()
    )
