"""Loads that change: a factor over virtual time, for what an operator costs or how much arrives."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from typing import Literal

from thalweg.brief import brief_repr
from thalweg.errors import BuildError


class Load(abc.ABC):
    """A factor over time. 1 is as much as the operator, or the source, says itself."""

    __slots__ = ()

    @abc.abstractmethod
    def factor(self, seconds: float) -> float:
        """The factor at a virtual time, above 0."""


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Levels(Load):
    """``((from_s, factor), ...)``: each factor from its time on, and 1 before the first.

    Raises:
        BuildError: times do not rise, or a factor is not above 0.
    """

    levels: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        times = [at for at, _ in self.levels]
        if any(late <= early for early, late in itertools.pairwise(times)):
            raise BuildError(f"Levels: times must rise: {times}")
        _require_factors(self, *(factor for _, factor in self.levels))

    def factor(self, seconds: float) -> float:
        past = [factor for at, factor in self.levels if at <= seconds]
        return past[-1] if past else 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Ramp(Load):
    """1 until ``begin_s``, then in a straight line to ``to`` at ``end_s``, where it stays.

    Raises:
        BuildError: it ends before it begins, or the factor is not above 0.
    """

    begin_s: float
    end_s: float
    to: float

    def __post_init__(self) -> None:
        if not self.begin_s < self.end_s:
            raise BuildError(f"Ramp: begin_s must be less than end_s, not {self!r}")
        _require_factors(self, self.to)

    def factor(self, seconds: float) -> float:
        done = (seconds - self.begin_s) / (self.end_s - self.begin_s)
        return 1 + (self.to - 1) * min(max(done, 0.0), 1.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Periodic(Load):
    """Between 1 and ``to`` and back in each ``period_s``, from 1 at 0: as a wave, or half a period each.

    Raises:
        BuildError: the period, or the factor, is not above 0.
    """

    period_s: float
    to: float
    shape: Literal["wave", "steps"] = "wave"

    def __post_init__(self) -> None:
        if not self.period_s > 0:
            raise BuildError(f"Periodic: period_s must be above 0, not {self.period_s!r}")
        _require_factors(self, self.to)

    def factor(self, seconds: float) -> float:
        phase = seconds / self.period_s % 1.0
        share = (1 - math.cos(2 * math.pi * phase)) / 2 if self.shape == "wave" else phase >= 0.5
        return 1 + (self.to - 1) * share


def _require_factors(load: Load, *factors: float) -> None:
    if not all(0 < factor < math.inf for factor in factors):
        raise BuildError(f"{type(load).__name__}: factors must be above 0, not {factors}")
