"""What a figure of a paper is here: one claim, what the paper has, how we measure it, and checks that can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

#: Whether numbers come from a clock, from virtual time, or from both.
Kind = Literal["real", "simulated", "real and simulated"]
#: What a measurement may cost: seconds for a look, minutes for a table.
Effort = Literal["quick", "full"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot: a ``y`` for each ``x``."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"line {self.name!r} has {len(self.x)} x and {len(self.y)} y")


@dataclass(frozen=True, slots=True)
class Panel:
    """Axes with their lines, as the paper's figure has them; ``log`` names axes with a logarithmic scale."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log: Literal["", "x", "y", "xy"] = ""


@dataclass(frozen=True, slots=True)
class ShapeCheck:
    """A part of the claim that holds or does not: who wins, where lines cross, whether one rises."""

    says: str
    holds: bool
    seen: str


@dataclass(frozen=True, slots=True)
class FigureResult:
    """What a measurement found: our numbers in a sentence, the panels to draw, and the shape of the claim."""

    ours: str
    panels: tuple[Panel, ...]
    checks: tuple[ShapeCheck, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A row of the scoreboard.

    ``through`` names the public call that the measurement goes through (``tw.run``, ``tw.start``, ``tw.spark.start``,
    ``tw.simulate.run`` ...), and ``on`` the flow and the data. ``measure`` says how it goes on by ``progress``.
    """

    paper: str
    number: int
    claim: str
    published: str
    kind: Kind
    through: str
    on: str
    measure: Callable[[Effort, Progress], FigureResult]


#: Told what is going on, in a few words; a figure calls it at least every few seconds.
Progress = Callable[[str], None]


class CannotMeasureHere(Exception):
    """Raised by ``measure`` where this machine lacks what the figure needs; the row says so, and is not red."""
