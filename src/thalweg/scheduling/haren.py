"""The policies of Haren's evaluation (Palyvos-Giannas et al., 7.2 and 7.4): FCFS, Highest Rate, Chain and Multi-Class.

Each aims at one thing: FCFS at the maximum latency, Highest Rate at the mean latency, Chain at the tuples that are held
in queues. They see a flow as a graph of costs and selectivities, and compare operators of all flows with each other.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from thalweg.brief import brief_repr
from thalweg.checks import require_class
from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling.features import Feature
from thalweg.scheduling.policy import INGRESS
from thalweg.scheduling.round_view import RoundView
from thalweg.scheduling.rounds import RoundPolicy, checked_priorities

#: A flow may have exponentially many paths; so many are looked at in the time of a round.
MOST_PATHS: Final = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstComeFirstServed(RoundPolicy):
    """FCFS: the operator whose oldest waiting tuple entered the flow first.

    Where none waits, the oldest on its way to it counts. To put such operators last, as the paper's head time alone
    would, lets old tuples pass one empty inbox a round and no more: through a chain of 12 in 12 periods at best.
    """

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"head_ns"})

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        return [(age,) for age in view.oldest_ages_ns()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HighestRate(RoundPolicy):
    """HR: the operator with the highest global output rate: tuples that reach the end per ns (Sharaf et al.).

    S(o) = s·Σ S(d) and C(o) = c + s·Σ C(d) over the operators d that read o; S = s and C = c where nobody does. The
    priority is S/C. On a fan-out both sums count every branch, so S is the tuples that come out for one that goes in.
    """

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"cost_ns", "selectivity"})

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        count = len(view.operators)
        leaving, taking = [0.0] * count, [0.0] * count
        for i in reversed(range(count)):
            operator, readers = view.operators[i], view.readers[i]
            branches, behind = 0.0 if readers else 1.0, 0.0
            for reader in readers:
                branches += leaving[reader]
                behind += taking[reader]
            leaving[i] = operator.selectivity * branches
            taking[i] = operator.cost_ns + operator.selectivity * behind
        return [(out / time,) for out, time in zip(leaving, taking, strict=True)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chain(RoundPolicy):
    """Chain (Babcock et al.): the operator that removes most tuples per ns, alone or with its successors.

    A tuple's way through the flow is a line from (0, 1) over the points (T, S): T what it has cost so far, S how much
    is left of it. The operators below one segment of the line's lower envelope get that segment's slope: one that
    itself drops little goes first too if what follows drops much. Of equal slopes the oldest waiting tuple is
    first, and sources come last, for they only add tuples.

    Attributes:
        fanout: Chain is defined on chains. ``error`` refuses an operator with several readers or inputs; ``max`` gives
            each operator the steepest of its slopes on all ways from a source to an end.
        end: what the last operator leaves. ``released``: nothing, tuples have left the memory (S = 0 after a sink);
            ``kept``: what its selectivity says. With ``released`` a cheap sink can put all of a chain below one
            segment, and then the order is that of FCFS.
    """

    fanout: Literal["error", "max"] = "error"
    end: Literal["released", "kept"] = "released"

    def __post_init__(self) -> None:
        RoundPolicy.__post_init__(self)
        _require_one_of(self, "fanout", ("error", "max"))
        _require_one_of(self, "end", ("released", "kept"))

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"cost_ns", "selectivity", "head_ns", "kind"})

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        if self.fanout == "error":
            self._require_chains(view)
        slopes = [-math.inf] * len(view.operators)
        for path in self._paths(view):
            costs = [view.operators[i].cost_ns for i in path]
            left = [view.operators[i].selectivity for i in path]
            if self.end == "released":
                left[-1] = 0.0
            for i, slope in zip(path, lower_envelope(costs, left), strict=True):
                if slope > slopes[i]:
                    slopes[i] = slope
        return list(zip(slopes, view.oldest_ages_ns(), strict=True))

    def _require_chains(self, view: RoundView) -> None:
        for operator, readers, feeders in zip(
            view.operators, view.readers, view.feeders, strict=True
        ):
            branches = operator.kind != INGRESS and len(readers) > 1
            if branches or len(feeders) > 1:
                problem = f"has {len(readers)} readers" if branches else f"reads {len(feeders)}"
                raise SchedulingError(
                    f"policy {self.name}: operator {operator.name} {problem}\n"
                    "  expected: flows that are chains; Chain(fanout='max') takes the best of all paths",
                    policy=self.name,
                    operator=operator.name,
                )

    def _paths(self, view: RoundView) -> tuple[tuple[int, ...], ...]:
        """All ways from behind a source to an end."""
        begins = tuple(
            i
            for i, (operator, feeders) in enumerate(zip(view.operators, view.feeders, strict=True))
            if operator.kind != INGRESS
            and (not feeders or any(view.operators[f].kind == INGRESS for f in feeders))
        )
        paths = _paths_from(begins, view.readers)
        if len(paths) > MOST_PATHS:
            raise SchedulingError(
                f"policy {self.name}: the flows have more than {MOST_PATHS} paths",
                policy=self.name,
            )
        return paths


@functools.lru_cache(maxsize=4)
def _paths_from(
    begins: tuple[int, ...], readers: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """All ways from some operators to an end, at most one more than may be; the same flows are asked for each round."""
    found: list[tuple[int, ...]] = []
    begun: list[tuple[int, ...]] = [(i,) for i in begins]
    while begun and len(found) <= MOST_PATHS:
        path = begun.pop()
        if not readers[path[-1]]:
            found.append(path)
        begun += [(*path, reader) for reader in readers[path[-1]]]
    return tuple(found)


def lower_envelope(costs: Sequence[float], selectivities: Sequence[float]) -> list[float]:
    """The slopes of a chain's progress chart: the tuples that each operator removes per ns of work.

    From the point before operator i the envelope goes to the point j behind it with the steepest
    (S_i - S_j) / (T_j - T_i), and operators i+1 to j get that slope (Babcock et al., Chain). Neighbouring segments are
    merged as long as the later one is as steep, which comes to the same in linear time.

    Args:
        costs: ns a tuple, above 0, in the order of the chain.
        selectivities: tuples out a tuple in; below 0 slope where they are above 1.

    Returns:
        A slope an operator, never rising along the chain.
    """
    #: Slope, what a tuple that enters costs, how much of it is left behind, and how many operators these are.
    segments: list[tuple[float, float, float, int]] = []
    for own_cost, selectivity in zip(costs, selectivities, strict=True):
        cost, left, operators = own_cost, selectivity, 1
        slope = (1 - left) / cost
        while segments and segments[-1][0] <= slope:
            _, cost_before, left_before, before = segments.pop()
            cost = cost_before + left_before * cost
            left *= left_before
            operators += before
            slope = (1 - left) / cost
        segments.append((slope, cost, left, operators))
    return [slope for slope, _, _, operators in segments for _ in range(operators)]


@brief_repr
@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiClass(RoundPolicy):
    """A policy for each priority class: operators of class 0 first, then those of class 1, and so on (7.4).

    Inside a class its own policy decides; values of different policies are never compared. Of the policies of classes
    only features and priorities count: period, batch, aging and placement are those of this one. A class's policy
    sees the flows that have operators of the class, whole.

    Attributes:
        classes: a policy a class, 0 the most urgent, e.g. ``{0: FirstComeFirstServed(), 1: HighestRate()}``.
    """

    classes: Mapping[int, RoundPolicy] = dataclasses.field(kw_only=False)

    def __post_init__(self) -> None:
        RoundPolicy.__post_init__(self)
        if not isinstance(self.classes, Mapping) or not self.classes:
            raise BuildError(f"MultiClass: a policy for each class, not {self.classes!r}")
        for number, policy in self.classes.items():
            require_class("MultiClass", number)
            if not isinstance(policy, RoundPolicy):
                raise BuildError(f"MultiClass: class {number} needs a round policy, not {policy!r}")

    def features(self) -> frozenset[str | Feature]:
        own: frozenset[str | Feature] = frozenset({"priority_class", "flow"})
        return own.union(*(policy.features() for policy in self.classes.values()))

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        vectors: list[tuple[float, ...]] = [()] * len(view.operators)
        for number, members in sorted(self._members(view).items()):
            flows = {view.operators[i].flow for i in members}
            seen = [i for i, operator in enumerate(view.operators) if operator.flow in flows]
            inner = checked_priorities(self.classes[number], _part(view, seen))
            place = {i: at for at, i in enumerate(seen)}
            for i in members:
                vectors[i] = (-float(number), *inner[place[i]])
        return vectors

    def _members(self, view: RoundView) -> dict[int, list[int]]:
        """By class, its operators."""
        members: dict[int, list[int]] = {}
        for operator in view.operators:
            if operator.priority_class not in self.classes:
                where = f" of flow {operator.flow}" if operator.flow else ""
                raise SchedulingError(
                    f"policy {self.name}: operator {operator.name}{where} is of class {operator.priority_class}\n"
                    f"  expected: one that has a policy: {sorted(self.classes)}",
                    policy=self.name,
                    operator=operator.name,
                )
            members.setdefault(operator.priority_class, []).append(operator.index)
        return members


def _part(view: RoundView, members: Sequence[int]) -> RoundView:
    """A view of some operators only, which are numbered anew; edges to others are left out."""
    place = {i: at for at, i in enumerate(members)}

    def kept(edges: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(place[j] for j in edges[i] if j in place) for i in members)

    operators = tuple(view.operators[i]._replace(index=place[i]) for i in members)
    return RoundView(operators, kept(view.readers), kept(view.feeders), view.now_ns)


def _require_one_of(policy: RoundPolicy, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(policy, name)
    if value not in allowed:
        names = " or ".join(map(repr, allowed))
        raise BuildError(f"{policy.name}: {name} must be {names}, not {value!r}")
