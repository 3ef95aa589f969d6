"""Partitions of keyed operators from a sample: skew, costs, ranges of keys (Prasaad et al., section 4).

The keys are counted where they come to their operator; what a tuple and a partition cost is measured by running the
sample with one worker, in long steps and in short ones.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from thalweg.brief import brief_repr
from thalweg.checks import require_count
from thalweg.columns.canonical import nulls_of, python_values, ranks_of
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.keys import KeySpec
from thalweg.columns.state_units import StateUnits
from thalweg.embedded import run
from thalweg.engine.machine import usable_processors
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Keyed
from thalweg.plan.plan import make_plan
from thalweg.plan.ranges import (
    CLEARLY,
    Partitioning,
    Profile,
    by_range,
    choose,
    expected,
)
from thalweg.stats import OperatorProgress
from thalweg.testing.session import Session
from thalweg.workers.options import Options

#: Tuples of each source whose like show what a partition costs.
_FEW: Final = 512
#: A step has so many tuples as take so long, ns, and never more than so many.
_STEP_NS: Final = 2_000_000
_STEP_ROWS: Final = 16_384
_CHUNK_ROWS: Final = 512
#: Runs of each, the first of which meets cold code; and by how much of their time equal ones differ.
_RUNS: Final = 5
_NOISE: Final = 0.1


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class OperatorPartitions:
    """What was found of a keyed operator.

    Attributes:
        name, key: the operator, and the first field of its key.
        profile: its counts and costs.
        values: its keys' first fields in order, as the counts of the profile.
        hashed: as many partitions as a run would make, by hash.
        ranged: ranges, as many as pay.
        compared: other numbers of ranges.
    """

    name: str
    key: str
    profile: Profile
    values: Sequence[Any]
    hashed: Partitioning
    ranged: Partitioning
    compared: Sequence[Partitioning]

    @property
    def boundaries(self) -> tuple[Any, ...]:
        """Where each range but the first begins."""
        return tuple(self.values[place] for place in self.ranged.starts)

    @property
    def pays(self) -> bool:
        """Whether ranges promise clearly more than hashes do."""
        return self.ranged.speed_up >= CLEARLY * self.hashed.speed_up

    @property
    def tuples(self) -> int:
        return sum(self.profile.counts)

    def top(self, count: int) -> list[tuple[Any, float]]:
        """The keys that come most, and their shares of the tuples."""
        order = np.argsort(-np.asarray(self.profile.counts), kind="stable")[:count].tolist()
        return [
            (self.values[place], self.profile.counts[place] / max(self.tuples, 1))
            for place in order
        ]

    def advice(self) -> str:
        """One sentence."""
        by_hash, by_ranges = self.hashed, self.ranged
        (_, heaviest), *_others = self.top(1) or [(None, 0.0)]
        most = self.profile.threads
        if self.pays:
            return (
                f"take partition='range' with {by_ranges.parts} ranges: {by_ranges.speed_up:.2f} x with {most} threads,"
                f" by hash {by_hash.speed_up:.2f} x"
            )
        if heaviest * most > 1.0 and by_hash.speed_up < 0.9 * most:
            return f"stay with partition='hash': a key has {heaviest:.0%} of the tuples, and no partitioning cuts a key"
        return (
            f"stay with partition='hash': {by_hash.speed_up:.2f} x with {most} threads, and ranges promise no more than"
            f" {by_ranges.speed_up:.2f} x"
        )


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What a sample says of a flow's keyed operators."""

    threads: int
    operators: tuple[OperatorPartitions, ...]

    @property
    def boundaries(self) -> dict[str, tuple[Any, ...]]:
        """By operator for which ranges pay, where each but the first begins."""
        return {one.name: one.boundaries for one in self.operators if one.pays and one.boundaries}

    def options(self, **others: Any) -> Options:
        """Options of a run with these ranges, where any pay.

        Args:
            others: all else of :class:`thalweg.Options`.
        """
        given: dict[str, Any] = {"threads": self.threads, **others}
        if self.boundaries:
            given |= {"partition": "range", "boundaries": self.boundaries}
        return Options(**given)


def plan_partitions(
    flow: Flow, inputs: Mapping[str, Iterable[Any]], *, threads: int | None = None
) -> PartitionPlan:
    """Finds out from a sample by which partitions a flow's keyed operators should run.

    Args:
        flow: the flow; the sample goes through it four times, and parts of it some times more.
        inputs: a sample of each source, rows in arrival order.
        threads: workers of the run that is planned; None: all usable processors.
    """
    if threads is not None:
        require_count("threads", threads)
    plan, data = make_plan(flow), {name: list(rows) for name, rows in inputs.items()}
    counts, costs = _counted(flow, data), _costs(flow, data)
    workers = threads or usable_processors()
    found = [
        _found(node, counts[node.name], costs[node.name], workers)
        for node in plan.keyed
        if node.key.fields
    ]
    return PartitionPlan(workers, tuple(found))


def _counted(flow: Flow, data: Mapping[str, list[Any]]) -> dict[str, Counter[Any]]:
    """By keyed operator, how many tuples each key has."""
    session, found = Session(flow), dict[str, Counter[Any]]()
    for name, unit in session.by_key.items():
        unit.observer = _Observer(unit.spec, found.setdefault(name, Counter()))
    for source, rows in data.items():
        session.feed(source, rows)
    session.end()
    return found


class _Observer:
    """Counts the keys of the rows that come to an operator."""

    def __init__(self, spec: KeySpec, found: Counter[Any]) -> None:
        self._spec, self._found = spec, found

    def __call__(self, arrived: Chunk, keys: Sequence[Column], places: Int64s) -> None:
        self._found.update(self._spec.python_keys(keys, len(places)))


def _costs(flow: Flow, data: Mapping[str, list[Any]]) -> dict[str, tuple[float, float]]:
    """By keyed operator what a tuple takes, and a partition in a step, ns.

    The former from long steps. The latter from steps of one tuple: of the second half of some tuples, since with the
    first ones Python makes tables.
    """
    half = {name: rows[:_FEW] for name, rows in data.items()}
    both = {name: rows[: 2 * _FEW] for name, rows in data.items()}
    long, first, all_ = (
        [_profiled(flow, rows, chunk_rows) for _ in range(_RUNS)]
        for rows, chunk_rows in ((data, _CHUNK_ROWS), (half, 1), (both, 1))
    )
    found = {}
    for name in long[0]:
        row_ns = _a_tuple(_least(long, name))
        found[name] = row_ns, _a_unit(_least(first, name), _least(all_, name), row_ns)
    return found


def _profiled(
    flow: Flow, data: Mapping[str, list[Any]], chunk_rows: int
) -> dict[str, OperatorProgress]:
    result = run(flow, data, options=Options(threads=1, partitions=1), chunk_rows=chunk_rows)
    return {one.name: one for one in result.progress.operators}


def _least(runs: Sequence[Mapping[str, OperatorProgress]], name: str) -> OperatorProgress:
    return min((one[name] for one in runs), key=lambda one: one.busy_ns or 0)


def _a_tuple(one: OperatorProgress) -> float:
    return (one.busy_ns or 0) / max(one.rows_in, 1)


def _a_unit(first: OperatorProgress, both: OperatorProgress, row_ns: float) -> float:
    """What the units of the second half took besides their tuples; what equal runs differ by is nothing."""
    units, rows = both.units - first.units, both.rows_in - first.rows_in
    took = (both.busy_ns or 0) - (first.busy_ns or 0)
    more = took - rows * row_ns
    return more / units if units > 0 and more > _NOISE * took else 0.0


def _found(
    node: Keyed, counts: Counter[Any], costs: tuple[float, float], threads: int
) -> OperatorPartitions:
    spec = KeySpec(node.key.fields)
    values, tuples = _in_order(spec, counts)
    row_ns, unit_ns = costs
    # As steps are cut: by cost, and longer where what a partition costs by itself would be a large share.
    step_rows = int(min(_STEP_ROWS, max(1.0, _STEP_NS / max(row_ns, 1.0))))
    profile = Profile(tuples, row_ns, unit_ns, step_rows, threads)
    pieces = Options(threads=threads).pieces(node.key.buckets)
    hashed = expected(profile, _hashed(spec, counts, node.key.buckets, pieces))
    others = sorted({threads, 2 * threads, 4 * threads, 16 * threads})
    return OperatorPartitions(
        node.name, spec.names[0], profile, values, hashed, choose(profile),
        [by_range(profile, parts) for parts in others if parts < len(tuples)],
    )  # fmt: skip


def _in_order(spec: KeySpec, counts: Counter[Any]) -> tuple[list[Any], list[int]]:
    """The first fields of keys in the order of ranges, and how many tuples each has."""
    by_first: Counter[Any] = Counter()
    for key, count in counts.items():
        by_first[key[0] if len(spec.fields) > 1 else key] += count
    column = Column.from_python(spec.fields[0].type, list(by_first))
    tuples = np.fromiter(by_first.values(), np.int64, len(by_first))
    order = np.lexsort([ranks_of(column), ~nulls_of(column)])
    values = python_values(column)
    return [values[place] for place in order.tolist()], tuples[order].tolist()


def _hashed(spec: KeySpec, counts: Counter[Any], buckets: int, pieces: int) -> list[int]:
    """The tuples of each partition by hash."""
    units = StateUnits.of_buckets(buckets)
    owners = units.partitions(pieces)[
        units.of(spec.hashes(spec.columns_of(list(counts)), len(counts)))
    ]
    weights = np.fromiter(counts.values(), np.float64, len(counts))
    return [int(one) for one in np.bincount(owners, weights, minlength=pieces)]
