"""Which threads run an operator in a round: f, the inter-thread function of Haren (Palyvos-Giannas et al., 4.1)."""

from __future__ import annotations

import abc
import dataclasses
import heapq
import math
import random
from collections.abc import Collection, Sequence
from typing import TypeVar

from thalweg.brief import brief_repr
from thalweg.checks import is_int_from
from thalweg.errors import BuildError
from thalweg.scheduling.features import Feature
from thalweg.scheduling.round_view import RoundView

T = TypeVar("T")


@brief_repr
class Placement(abc.ABC):
    """Gives each thread its operators for one round, and keeps nothing between rounds.

    In the paper an operator stands in one thread's list. One that several threads may run at a time can stand in
    several here: each is a *share* of it.
    """

    __slots__ = ()

    def features(self) -> Collection[str | Feature]:
        """The features of operators that it reads."""
        return frozenset()

    def shares(self, view: RoundView, threads: int) -> Sequence[int]:
        """The number of threads of each operator: one, as in the paper, or none where it has no free place."""
        return [min(free, 1) for free in view.places()]

    @abc.abstractmethod
    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        """The operators of each thread, in any order; each operator has as many threads as it has shares."""

    def place(self, view: RoundView, threads: int) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
        """:meth:`shares` and :meth:`assign` at once, for placements that compute both together."""
        return self.shares(view, threads), self.assign(view, threads)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Balanced(Placement):
    """Balances work over threads; an operator with much work gets several threads, up to its limit.

    An operator's work is what it would take to work off all that waits now, and one more tuple of each source:
    c·W with W = waiting + Σ s·W over those it reads. It gets min(M, ceil(its share of the work × threads)) shares,
    each of equal weight; the heaviest are placed first, on the threads with the least so far (longest processing
    time first).

    Attributes:
        shares_at_most: of one operator; 1 is the paper's rule, None no limit but its own.
    """

    shares_at_most: int | None = None

    def __post_init__(self) -> None:
        most = self.shares_at_most
        if most is not None and not is_int_from(most, 1):
            raise BuildError(
                f"Balanced: shares_at_most must be an int of at least 1 or None, not {most!r}"
            )

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"worklist", "cost_ns", "selectivity"})

    def shares(self, view: RoundView, threads: int) -> Sequence[int]:
        places = view.places()
        return self._shares(places, _work(view, places), threads)

    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        return self.place(view, threads)[1]

    def _shares(self, places: Sequence[int], work: Sequence[float], threads: int) -> list[int]:
        total = sum(work) or 1.0
        most = threads if self.shares_at_most is None else min(self.shares_at_most, threads)
        # A share of work that is a hair above k threads by rounding is k; none is more than all threads.
        one = total / threads * (1 + 1e-9)
        return [
            min(free, most, 1 if own <= one else math.ceil(threads * own / total - 1e-9))
            for free, own in zip(places, work, strict=True)
        ]

    def place(self, view: RoundView, threads: int) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
        places = view.places()
        work = _work(view, places)
        shares = self._shares(places, work, threads)
        weight = [own / max(count, 1) for own, count in zip(work, shares, strict=True)]
        lists: list[list[int]] = [[] for _ in range(threads)]
        loads = [(0.0, thread) for thread in range(threads)]
        for operator in sorted(range(len(work)), key=weight.__getitem__, reverse=True):
            if shares[operator] == 1:
                load, thread = loads[0]
                lists[thread].append(operator)
                heapq.heapreplace(loads, (load + weight[operator], thread))
                continue
            lightest = [heapq.heappop(loads) for _ in range(shares[operator])]
            for load, thread in lightest:
                lists[thread].append(operator)
                heapq.heappush(loads, (load + weight[operator], thread))
        return shares, lists


def _work(view: RoundView, places: Sequence[int]) -> list[float]:
    """By operator, the time to work off what waits and one tuple of each source, ns; 0 where it has no place."""
    operators, tuples = view.operators, list[float]()
    for operator, feeders in zip(operators, view.feeders, strict=True):
        arriving = 0.0 if feeders else 1.0
        for feeder in feeders:
            arriving += operators[feeder].selectivity * tuples[feeder]
        tuples.append(operator.worklist + arriving)
    return [
        operator.cost_ns * count if free else 0.0
        for operator, count, free in zip(operators, tuples, places, strict=True)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class RoundRobinPlacement(Placement):
    """Assigns operators to threads round-robin."""

    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        return _dealt(_placed(view), threads)


@dataclasses.dataclass(frozen=True, slots=True)
class RandomPlacement(Placement):
    """Assigns operators at random, equally many to each thread, as in the paper's evaluation (7.2).

    Each round is shuffled anew, by seed and time, so nobody shares a thread with the same operators for ever.

    Attributes:
        seed: tells one sequence of rounds from another.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise BuildError(f"RandomPlacement: seed must be an int, not {self.seed!r}")

    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        operators = _placed(view)
        random.Random(f"{self.seed} {view.now_ns}").shuffle(operators)
        return _dealt(operators, threads)


@dataclasses.dataclass(frozen=True, slots=True)
class FlowPlacement(Placement):
    """Assigns flows round-robin: all operators of a flow run on one thread."""

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"flow"})

    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        flows: dict[str, list[int]] = {}
        for i in _placed(view):
            flows.setdefault(view.operators[i].flow, []).append(i)
        return [
            [i for flow in mine for i in flow] for mine in _dealt(list(flows.values()), threads)
        ]


def _placed(view: RoundView) -> list[int]:
    """The operators that threads may be sent to."""
    return [operator for operator, free in enumerate(view.places()) if free]


def _dealt(items: Sequence[T], threads: int) -> list[Sequence[T]]:
    """One item to each thread in turn."""
    return [items[thread::threads] for thread in range(threads)]
