"""Round policies: every period, which operators each thread runs and in what order (Haren, Palyvos-Giannas et al.).

A round has two parts: f, the placement, gives operators to threads; g, the policy, gives each operator a vector of
numbers by which a thread orders its own. Both are asked between rounds, while no operator runs, and are pure.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
import numbers
import operator as operators
from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias

from thalweg.brief import brief_repr, counted
from thalweg.checks import is_length, require_int
from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling.features import BUILT_IN, Feature
from thalweg.scheduling.placement import Balanced, Placement
from thalweg.scheduling.policy import Int64s, PickLike
from thalweg.scheduling.round_view import OperatorStats, RoundView

__all__ = [
    "OperatorStats",
    "Periods",
    "Placement",
    "Policy",
    "Round",
    "RoundPolicy",
    "RoundView",
    "checked_priorities",
    "overdue",
    "plan_round",
    "required_features",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Periods:
    """A duration in scheduling periods P; it follows when P changes."""

    count: float


#: P and b of the paper's evaluation (7.2).
PERIOD_S: Final = 0.1
BATCH_ROWS: Final = 10
_BALANCED: Final = Balanced()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundPolicy(abc.ABC):
    """A policy that is asked once a period.

    A policy of one's own needs no more than :meth:`features` and :meth:`priorities`; it may have an ``__init__`` and
    attributes like any class, and need not be a dataclass.

    Attributes:
        period_s: P, how long a round lasts, s.
        batch_rows: b, tuples that an operator may process a visit; then the thread looks at its list again.
        starve_after_s: an operator that could run but did not for so long is run next, whatever its priority, s;
            None: never, as in the paper.
        stale_after_s: d, an operator that has not run for so long is run once at the begin of a round where the
            policy needs a feature that only running shows, s. The paper names no value; its code has 2 P.
        round_grace_s: a thread that is so late for the meeting between rounds is left out of the next one and keeps the
            operator that it is in, s.
        placement: f, which threads an operator goes to.

    Raises:
        BuildError: a parameter makes no sense.
    """

    period_s: float = PERIOD_S
    batch_rows: int = BATCH_ROWS
    starve_after_s: float | Periods | None = Periods(10)
    stale_after_s: float | Periods = Periods(2)
    round_grace_s: float | Periods = Periods(0.1)
    placement: Placement = _BALANCED

    def __post_init__(self) -> None:
        for name in ("period_s", "stale_after_s", "round_grace_s", "starve_after_s"):
            _require_length(self, name, getattr(self, name))
        require_int(self, 1, batch_rows=self.batch_rows)
        if not isinstance(self.placement, Placement):
            raise BuildError(
                f"{type(self).__name__}: placement must be a Placement, such as Balanced(), "
                f"not {self.placement!r}"
            )

    @property
    def name(self) -> str:
        """The name of the policy in messages."""
        return type(self).__name__

    @property
    def period_ns(self) -> int:
        """The scheduling period P, ns."""
        return self._ns(self.period_s)

    @property
    def starve_after_ns(self) -> int | None:
        """The longest that a runnable operator may wait, ns; None: no limit."""
        return None if self.starve_after_s is None else self._ns(self.starve_after_s)

    @property
    def stale_after_ns(self) -> int:
        """The age d at which a feature counts as stale, ns."""
        return self._ns(self.stale_after_s)

    @property
    def round_grace_ns(self) -> int:
        """How long the other threads wait for a late thread, ns."""
        return self._ns(self.round_grace_s)

    def _ns(self, length: float | Periods) -> int:
        seconds = length.count * self.period_s if isinstance(length, Periods) else length
        return max(round(seconds * 1e9), 1)

    @abc.abstractmethod
    def features(self) -> Collection[str | Feature]:
        """The features of operators that it reads: names of built-in features, and custom features."""

    @abc.abstractmethod
    def priorities(self, view: RoundView) -> Sequence[tuple[float, ...]]:
        """g: a priority vector for each operator. The greatest runs first; ties go to the lower index."""


def _require_length(policy: RoundPolicy, name: str, value: object) -> None:
    if value is None and name == "starve_after_s":
        return
    number = value.count if isinstance(value, Periods) and name != "period_s" else value
    if not is_length(number):
        raise BuildError(f"{policy.name}: {name} must be a length of time above 0, not {value!r}")


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """What each thread runs until the next round.

    Attributes:
        lists: by thread, its operators, the highest priority first.
        levels: of the same shape, a number a priority, 0 the highest of all threads: a thread goes on behind an
            operator that ran only to those of the same level, else it starts at the top again (Algorithm 1).
    """

    lists: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[int, ...], ...]


#: What ``policy=`` takes: asked at each visit, or once a round.
Policy: TypeAlias = PickLike | RoundPolicy


def required_features(policy: RoundPolicy) -> tuple[Feature, ...]:
    """What a host must measure for a policy and its placement, by name.

    Raises:
        SchedulingError: a name is no built-in feature, or two features of one's own have the same.
    """
    known: dict[str, Feature] = {}
    needs = policy.features()
    if isinstance(needs, str) or not isinstance(needs, Collection):
        raise SchedulingError(
            f"policy {policy.name}: features() must give a set of names and features, not {needs!r}",
            policy=policy.name,
        )
    for asked in {*needs, *policy.placement.features()}:
        found = asked if isinstance(asked, Feature) else BUILT_IN.get(asked)
        if found is None:
            raise SchedulingError(
                f"policy {policy.name}: needs an unknown feature: {asked!r}\n"
                f"  expected: one of {', '.join(sorted(BUILT_IN))}, or one of tw.scheduling.feature",
                policy=policy.name,
            )
        if known.setdefault(found.name, found) != found:
            raise SchedulingError(
                f"policy {policy.name}: needs two different features named {found.name!r}",
                policy=policy.name,
            )
    return tuple(known[name] for name in sorted(known))


def plan_round(policy: RoundPolicy, view: RoundView, threads: int) -> Round:
    """The next round: f, then g, then each thread's operators in their order (Haren, section 6).

    Args:
        policy: gives priorities and placement.
        view: the operators with fresh features.
        threads: how many take part, at least 1.

    Raises:
        SchedulingError: what the policy or its placement gives is no round: an operator is left out, or is there more
            often than it has shares; a priority is missing, NaN or no number; or one of them raised.
    """
    required_features(policy)
    return ordered(policy, view, assigned(policy, view, threads))


def ordered(policy: RoundPolicy, view: RoundView, lists: Sequence[Sequence[int]]) -> Round:
    """The second half of :func:`plan_round`: g, and each thread's operators in their order.

    Args:
        policy: gives priorities.
        view: the operators with fresh features.
        lists: by thread, its operators, as :func:`assigned` gives them.

    Raises:
        SchedulingError: what the policy gives are no priorities, or it raised.
    """
    vectors = checked_priorities(policy, view)
    # Operators of equal vectors stay in the order of their numbers, also with reverse.
    order = sorted(range(len(vectors)), key=vectors.__getitem__, reverse=True)
    place, level = [0] * len(order), [0] * len(order)
    highest = 0
    for at, operator in enumerate(order):
        highest += at > 0 and vectors[operator] != vectors[order[at - 1]]
        place[operator], level[operator] = at, highest
    in_order = tuple(tuple(sorted(mine, key=place.__getitem__)) for mine in lists)
    return Round(in_order, tuple(tuple(map(level.__getitem__, mine)) for mine in in_order))


def assigned(policy: RoundPolicy, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
    """The first half of :func:`plan_round`: f, checked: every operator is in as many lists as it has shares.

    Returns:
        By thread, its operators in any order.

    Raises:
        SchedulingError: what the placement gives is no assignment, or it raised.
    """
    if threads < 1:
        raise SchedulingError(
            f"policy {policy.name}: a round needs at least 1 thread, not {threads}",
            policy=policy.name,
        )
    placement = policy.placement
    name = f"{policy.name}, placement {type(placement).__name__}"
    try:
        given_shares, given_lists = placement.place(view, threads)
        shares = list(given_shares)
        lists = [list(map(operators.index, mine)) for mine in given_lists]
    except SchedulingError:
        raise
    except Exception as error:
        raise _raised(name, policy.name, error) from error
    count = len(view.operators)
    if len(lists) != threads or len(shares) != count:
        raise SchedulingError(
            f"policy {name}: lists for {counted(len(lists), 'thread')}"
            f" and shares for {counted(len(shares), 'operator')}\n"
            f"  expected: {counted(threads, 'thread')}, {counted(count, 'operator')}",
            policy=policy.name,
        )
    held = [0] * count
    for thread, mine in enumerate(lists):
        for operator in mine:
            if not 0 <= operator < count:
                raise _misplaced(name, policy.name, str(operator), f"is not below {count}")
            held[operator] += 1
        if len(set(mine)) != len(mine):
            twice = next(operator for operator in mine if mine.count(operator) > 1)
            called = view.operators[twice].name
            raise _misplaced(name, policy.name, called, f"is assigned to thread {thread} twice")
    places = view.places()
    for one, got, due, free in zip(view.operators, held, shares, places, strict=True):
        if due > free or (due < 1 and free > 0):
            problem = f"has {counted(due, 'share')}, but {counted(free, 'place')}"
            raise _misplaced(name, policy.name, one.name, problem)
        if got != due:
            problem = f"is assigned to {counted(got, 'thread')}, but has {counted(due, 'share')}"
            raise _misplaced(name, policy.name, one.name, problem)
    return lists


def checked_priorities(policy: RoundPolicy, view: RoundView) -> list[tuple[float, ...]]:
    """What a policy's g gives, if that is a vector of numbers an operator.

    Raises:
        SchedulingError: it is not, or the policy raised.
    """
    try:
        given = list(policy.priorities(view))
    except SchedulingError:
        raise
    except Exception as error:
        raise _raised(policy.name, policy.name, error) from error
    if len(given) != len(view.operators):
        raise SchedulingError(
            f"policy {policy.name}: {counted(len(given), 'priority')}\n"
            f"  expected: {len(view.operators)}, one for each operator",
            policy=policy.name,
        )
    if _are_plain(given):
        return given
    for operator, vector in zip(view.operators, given, strict=True):
        if not _is_vector(vector):
            raise SchedulingError(
                f"policy {policy.name}, operator {operator.name}: its priority is {vector!r}\n"
                "  expected: a tuple of numbers, none of them NaN",
                policy=policy.name,
                operator=operator.name,
            )
    return given


def _are_plain(vectors: list[Any]) -> bool:
    """Whether all are tuples of Python's own numbers, none of them NaN: what most policies give, told at once."""
    if set(map(type, vectors)) != {tuple} or not all(vectors):
        return False
    flat = list(itertools.chain.from_iterable(vectors))
    return set(map(type, flat)) <= {int, float} and not any(map(operators.ne, flat, flat))


def _is_vector(vector: object) -> bool:
    return (
        isinstance(vector, tuple)
        and len(vector) > 0
        and all(isinstance(n, numbers.Real) and not math.isnan(n) for n in vector)
    )


def _raised(name: str, policy: str, error: Exception) -> SchedulingError:
    return SchedulingError(f"policy {name}: it raised {error!r}", policy=policy)


def _misplaced(name: str, policy: str, operator: str, problem: str) -> SchedulingError:
    message = f"policy {name}: operator {operator} {problem}"
    return SchedulingError(message, policy=policy, operator=operator)


def overdue(
    waiting_since_ns: Sequence[int] | Int64s, now_ns: int, starve_after_ns: int | None
) -> int:
    """The aging rule: the operator that has been runnable for too long, the longest first; else -1.

    A host asks it before each visit and runs what it gives for one batch, so an operator waits at most
    ``starve_after``, and then one batch of each operator that has waited longer.

    Args:
        waiting_since_ns: by operator, since when it could run and did not, monotonic ns; negative where it cannot.
        now_ns: the time.
        starve_after_ns: how long is too long; None: nothing is.
    """
    if starve_after_ns is None:
        return -1
    oldest, since = -1, now_ns - starve_after_ns
    for operator in range(len(waiting_since_ns)):
        if waiting_since_ns[operator] >= 0 and (
            waiting_since_ns[operator] < since
            or (oldest < 0 and waiting_since_ns[operator] == since)
        ):
            oldest, since = operator, waiting_since_ns[operator]
    return oldest
