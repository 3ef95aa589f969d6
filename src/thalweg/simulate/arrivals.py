"""When tuples arrive: frozen descriptions that give times in virtual ns, the same for the same seed."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import random
from collections.abc import Iterator
from typing import Final

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.simulate.loads import Load

_NS: Final = 1_000_000_000


class Arrivals(abc.ABC):
    """How tuples reach a source. They wait there, without limit, while its readers have no room."""

    __slots__ = ()

    @abc.abstractmethod
    def times_ns(self, rng: random.Random) -> Iterator[int]:
        """Times of arrival since the start, ns, not falling."""


@dataclasses.dataclass(frozen=True, slots=True)
class Constant(Arrivals):
    """So many tuples a second at equal distances, the first at once.

    Raises:
        BuildError: the rate is not positive.
    """

    per_s: float

    def __post_init__(self) -> None:
        _require_positive(self, per_s=self.per_s)

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        return (round(i * _NS / self.per_s) for i in itertools.count())


@dataclasses.dataclass(frozen=True, slots=True)
class Poisson(Arrivals):
    """So many tuples a second on average, at random and independently of each other."""

    per_s: float

    def __post_init__(self) -> None:
        _require_positive(self, per_s=self.per_s)

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        at = 0.0
        while True:
            at += rng.expovariate(self.per_s) * _NS
            yield round(at)


@dataclasses.dataclass(frozen=True, slots=True)
class Bursts(Arrivals):
    """``per_s`` tuples a second for ``on_s`` seconds, then none for ``off_s``, and so on.

    The dynamic scenario of Palyvos-Giannas et al., section 7.4, is ``Bursts(5_000, on_s=5, off_s=15)``.
    """

    per_s: float
    on_s: float
    off_s: float

    def __post_init__(self) -> None:
        _require_positive(self, per_s=self.per_s, on_s=self.on_s, off_s=self.off_s)

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        burst = max(round(self.per_s * self.on_s), 1)
        for i in itertools.count():
            cycle, place = divmod(i, burst)
            yield round((cycle * (self.on_s + self.off_s) + place / self.per_s) * _NS)


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Steps(Arrivals):
    """A rate that changes: ``((seconds, per_s), ...)`` one after the other, at equal distances; then no more."""

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        for seconds, per_s in self.steps:
            _require_positive(self, seconds=seconds, per_s=per_s)

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        begin = 0.0
        for seconds, per_s in self.steps:
            for i in range(round(seconds * per_s)):
                yield round((begin + i / per_s) * _NS)
            begin += seconds


@dataclasses.dataclass(frozen=True, slots=True)
class Varying(Arrivals):
    """``per_s`` times the factor of a load, which may change all the time: at such distances, or at random.

    The distance to the next tuple follows from the factor when the last one arrived.
    """

    per_s: float
    load: Load
    at_random: bool = False

    def __post_init__(self) -> None:
        _require_positive(self, per_s=self.per_s)

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        seconds = 0.0
        while True:
            yield round(seconds * _NS)
            gap = rng.expovariate(1.0) if self.at_random else 1.0
            seconds += gap / (self.per_s * self.load.factor(seconds))


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class At(Arrivals):
    """At exactly these times, ns, and no more."""

    at_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(late < early for early, late in itertools.pairwise((0, *self.at_ns))):
            raise BuildError(f"At: times must not fall, from 0 on: {self.at_ns}")

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        return iter(self.at_ns)


@dataclasses.dataclass(frozen=True, slots=True)
class Saturated(Arrivals):
    """A tuple whenever its readers have room: a source that never keeps anyone waiting."""

    def times_ns(self, rng: random.Random) -> Iterator[int]:
        return iter(())


def _require_positive(arrivals: Arrivals, **values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise BuildError(f"{type(arrivals).__name__}: {name} must be above 0, not {value!r}")
