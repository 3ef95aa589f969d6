"""What is simulated: a graph of operators of given cost and selectivity, and the sources that feed it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final, Literal, get_args

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.simulate.arrivals import Arrivals, Saturated
from thalweg.simulate.draws import MOST_UNIFORM_SPREAD, Draw
from thalweg.simulate.loads import Load

Kind = Literal["stateless", "keyed", "stateful"]
Queue = Literal["hybrid", "partitioned", "shared"]
#: The numbers of kinds in a view, as in the node runtime.
KIND_CODES: Final[Mapping[str, int]] = {"stateless": 0, "keyed": 1, "stateful": 2}
INGRESS_CODE: Final = 3

#: Tuples that an inbox holds, and units that a reorder buffer does, unless said otherwise.
CAPACITY: Final = 1_000
WINDOW: Final = 1_000
BUCKETS: Final = 128


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where tuples enter. It has a thread of its own, outside the level of threads, and costs nothing."""

    name: str
    arrivals: Arrivals


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator: what it reads, what a tuple costs, how many it puts out, and who may work on it.

    One that nobody reads is a sink: what it puts out has left the flow.

    Attributes:
        name: unique in the graph.
        reads: names of sources and operators, an input port each.
        kind: stateless; keyed (tuples of one bucket one after the other); stateful (one after the other).
        cost_ns: worker time a tuple, ns.
        selectivity: tuples out a tuple in.
        draw_cost: each tuple costs the same, or what is drawn from that distribution around ``cost_ns``.
        cost_spread: the standard deviation of uniform and lognormal costs, as a share of ``cost_ns``.
        load: a factor over time of what tuples cost, at the time when work on them begins.
        draw_selectivity: exactly so many; or at random (what is over whole tuples is a chance of one more), where the
            expected number is ``selectivity`` for each tuple, or is drawn itself.
        selectivity_spread: the standard deviation of that number, as a share of ``selectivity``.
        limit: how many workers may be in it (the paper's M); None: as many as there are; 1 if stateful.
        capacity: tuples a port's inbox holds; None: any number.
        window: pieces of work that may be between entry and exit of its reorder buffer.
        split: readers each get every tuple, or one after the other in turn.
        merge: tuples of several ports are taken in the order of their entry into the flow, or as they come.
        buckets: over how many a keyed operator's keys are spread.
        top: the share of tuples that all go to one bucket, the others being spread evenly.
        sigma: buckets are ranges of values from N(0, sigma) within [-1, 1] instead: the smaller, the more skewed.
        queue: how a keyed operator's tuples are handed to workers.
        flow: which of several flows it belongs to.
        priority_class: for policies of several classes.
        tags: for a user's own policies.
    """

    name: str
    reads: tuple[str, ...]
    kind: Kind = "stateless"
    cost_ns: float = 1_000.0
    selectivity: float = 1.0
    draw_cost: Draw = "constant"
    cost_spread: float = 0.5
    load: Load | None = None
    draw_selectivity: Literal["exact", "random", "uniform", "exponential", "lognormal"] = "exact"
    selectivity_spread: float = 0.5
    limit: int | None = None
    capacity: int | None = CAPACITY
    window: int = WINDOW
    split: Literal["copy", "deal"] = "copy"
    merge: Literal["order", "arrival"] = "order"
    buckets: int = BUCKETS
    top: float = 0.0
    sigma: float | None = None
    queue: Queue = "hybrid"
    flow: str = ""
    priority_class: int = 0
    tags: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._require("kind", self.kind in get_args(Kind), "stateless, keyed or stateful")
        self._require("cost_ns", 0 < self.cost_ns < math.inf, "above 0, ns")
        self._require("selectivity", 0 <= self.selectivity < math.inf, "0 or more")
        self._require_spread("cost_spread", self.draw_cost)
        self._require_spread("selectivity_spread", self.draw_selectivity)
        self._require("reads", bool(self.reads), "at least one name")
        self._require("reads", len(set(self.reads)) == len(self.reads), "names that differ")
        self._require("limit", self.limit is None or self.limit >= 1, "at least 1, or None")
        self._require(
            "capacity", self.capacity is None or self.capacity >= 1, "at least 1, or None"
        )
        self._require("window", self.window >= 1, "at least 1")
        self._require("buckets", self.buckets >= 1, "at least 1")
        self._require("top", 0 <= self.top <= 1, "a share from 0 to 1")
        self._require("sigma", self.sigma is None or self.sigma > 0, "above 0, or None")
        self._require("queue", self.queue in get_args(Queue), "hybrid, partitioned or shared")
        alone = self.kind == "stateful" and self.limit not in (None, 1)
        self._require("limit", not alone, "1 for a stateful operator")

    def _require_spread(self, field: str, draw: str) -> None:
        most = MOST_UNIFORM_SPREAD if draw == "uniform" else math.inf
        self._require(field, 0 <= getattr(self, field) <= most, f"from 0 to {most:.3f}")

    def _require(self, field: str, holds: bool, expected: str) -> None:
        if not holds:
            raise BuildError(
                f"operator {self.name}: {field} must be {expected}, not {getattr(self, field)!r}"
            )


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """Sources and operators, each behind all that it reads.

    Raises:
        BuildError: a name stands twice, an operator reads one that does not stand before it, a source that always
            has a tuple meets an inbox without a limit, or one merges by order what has lost its order.
    """

    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]

    def __post_init__(self) -> None:
        known: dict[str, Source | Operator] = {}
        unordered: set[str] = set()
        for source in self.sources:
            _require_new(source.name, known)
            known[source.name] = source
        for operator in self.operators:
            _require_new(operator.name, known)
            for read in operator.reads:
                if read not in known:
                    raise BuildError(
                        f"operator {operator.name} reads {read}, which is not before it"
                    )
                _require_bound(known[read], operator)
            known[operator.name] = operator
            _follow_order(operator, unordered)


def _require_new(name: str, known: Mapping[str, object]) -> None:
    if name in known:
        raise BuildError(f"two sources or operators are named {name}")


def _require_bound(read: Source | Operator, reader: Operator) -> None:
    if (
        reader.capacity is None
        and isinstance(read, Source)
        and isinstance(read.arrivals, Saturated)
    ):
        raise BuildError(
            f"operator {reader.name} reads the saturated {read.name}: it needs a capacity"
        )


def _follow_order(operator: Operator, unordered: set[str]) -> None:
    """Adds an operator to those whose output has no order, where that is so."""
    lost = sorted(unordered.intersection(operator.reads))
    several = len(operator.reads) > 1
    if several and operator.merge == "order" and lost:
        raise BuildError(
            f"operator {operator.name} merges by order, but {lost[0]} gives tuples as they come"
        )
    if lost or (several and operator.merge == "arrival"):
        unordered.add(operator.name)
