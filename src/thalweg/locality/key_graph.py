"""The graph of keys, cut into parts so that keys that come together are in one part (Caneill et al., 3.3).

Each key of a keyed operator is a vertex, weighted by the tuples that the operator took of it; each pair of keys of
consecutive keyed operators is an edge, weighted by how often they came one after the other. A chain of several keyed
operators, or one with several successors (section 6 there), makes one graph. What is not known by name enters as one
vertex a bucket, without edges.

METIS cuts the graph under one bound for all weights together, in which every operator counts the same. The bound of
the paper is one for each operator (section 3.1), so a second step moves keys until each is kept
(:mod:`thalweg.locality.balance`), and then those that gain by it. A move away from where a key's state is costs
something, and is made only where it gains more.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.hashing import Int64s
from thalweg.locality.assignment import Assignment, HeavyKey, Report
from thalweg.locality.balance import Cut, KeyGraph, Vertex, improve, loads_of, repair
from thalweg.locality.evaluate import evaluate
from thalweg.locality.statistics import KeyCount, KeyLoads, OperatorKey, PairCount, Statistics

#: The greatest imbalance by default: METIS's default, and the paper's (4.3).
ALPHA: Final = 1.03
#: The greatest seed; METIS has 32 bits for it, and some are added.
SEEDS: Final = 2**31 - 1_000
#: The most keys that are pinned.
MAX_PINS: Final = 100_000
#: What it costs to move a key, in tuples that could have stayed on their slot.
MOVE_COST: Final = 1.0
#: How many cuts METIS makes, each with its own seed; the best is taken.
ATTEMPTS: Final = 4
#: A key without pairs is worth a vertex if it has so much of a part's tuples; others are moved with their bucket.
LONE_SHARE: Final = 0.01
#: The most buckets of a part by the mean: keys that are not known yet come to all buckets alike.
BUCKET_ALPHA: Final = 1.25
#: What an operator's tuples weigh together in METIS.
_SCALE: Final = 1_000_000


def key_graph(
    statistics: Statistics, *, parts: int, pinned: Container[OperatorKey] = ()
) -> KeyGraph:
    """The graph of keys; the order of vertices depends on the statistics' content only.

    Keys with pairs, heavy ones and those that are pinned already get a vertex, the others are part of their bucket's.
    """
    paired = {end for pair in statistics.pairs for end in (pair.left, pair.right) if pair.sure > 0}
    vertices: list[Vertex] = []
    weights: list[int] = []
    places: dict[OperatorKey, int] = {}
    for index, name in enumerate(statistics.operators):
        loads = statistics.loads[name]
        rest = list(loads.unpinned)
        for one in sorted(loads.keys, key=lambda one: (one.bucket, repr(one.key))):
            heavy = one.sure > LONE_SHARE * loads.total / parts
            if heavy or (name, one.key) in paired or (name, one.key) in pinned:
                places[name, one.key] = len(vertices)
                vertices.append(Vertex(index, one.bucket, one))
                weights.append(one.sure)
            else:
                rest[one.bucket] += one.sure
        vertices += [Vertex(index, bucket, None) for bucket in range(len(rest))]
        weights += rest
    operators = np.array([one.operator for one in vertices], np.int64)
    ends = [
        (places[pair.left], places[pair.right], pair.sure)
        for pair in statistics.pairs
        if pair.sure > 0 and pair.left != pair.right
    ]
    edges = _adjacency(np.array(ends, np.int64).reshape(-1, 3), len(vertices))
    buckets = [one.key is None for one in vertices]
    both = np.stack([np.array(weights, np.int64), np.array(buckets, np.int64)], axis=1)
    return KeyGraph(tuple(vertices), operators, both, *edges)


def _adjacency(ends: Int64s, size: int) -> tuple[Int64s, Int64s, Int64s]:
    """Both directions of each edge, sorted; edges between the same vertices are one."""
    both = np.concatenate([ends[:, [0, 1]], ends[:, [1, 0]]])
    tuples = np.concatenate([ends[:, 2], ends[:, 2]])
    codes, places = np.unique(both[:, 0] * size + both[:, 1], return_inverse=True)
    edges = np.zeros(len(codes), np.int64)
    np.add.at(edges, places.ravel(), tuples)
    starts = np.searchsorted(codes // max(size, 1), np.arange(size + 1))
    return starts.astype(np.int64), codes % max(size, 1), edges


def get_ready() -> None:
    """Loads METIS and compiles what :func:`partition` is made of: some seconds, once for each version.

    Else it is the first batch behind which a table is made that takes so much longer.

    Raises:
        EnvironmentProblem: METIS cannot be loaded.
    """
    loads = {
        name: KeyLoads(name, 2, tuple(KeyCount(key, key, 1) for key in (0, 1)), (0, 0))
        for name in "ab"
    }
    pairs = tuple(PairCount(("a", key), ("b", 1 - key), 1) for key in (0, 1))
    partition(Statistics(("a", "b"), loads, pairs), parts=2)


def wrong_numbers(*, alpha: float, move_cost: float, seed: int) -> Iterator[str]:
    """Says of each that is out of range what was expected."""
    if not 1 <= alpha < math.inf:
        yield f"alpha ≥ 1 and finite, got {alpha}"
    if not 0 <= move_cost < math.inf:
        yield f"move_cost ≥ 0 and finite, got {move_cost}"
    if not 0 <= seed <= SEEDS:
        yield f"seed from 0 to {SEEDS}, got {seed}"


def partition(
    statistics: Statistics,
    *,
    parts: int,
    alpha: float = ALPHA,
    seed: int = 0,
    current: Assignment | None = None,
    move_cost: float = MOVE_COST,
    max_pins: int = MAX_PINS,
) -> Assignment:
    """Computes where keys and buckets should be, from statistics.

    A key that is pinned already and did not come lately stays where it is, as long as there is room for its pin.

    The same arguments give the same assignment, in whatever order the statistics list their keys and pairs.

    Args:
        statistics: of recent tuples.
        parts: how many parts.
        alpha: the greatest imbalance of each operator: the tuples of its fullest part by the mean.
        seed: of METIS, and of the order in which moves are tried.
        current: where keys are now; None when nothing has state yet.
        move_cost: what moving a key from where it is now costs, in tuples.
        max_pins: the most keys to pin, those with the most tuples first.

    Raises:
        BuildError: ``parts`` is below 1, ``max_pins`` below 0, or another number out of range, see
            :func:`wrong_numbers`; ``current`` is of other operators or another number of buckets.
        EnvironmentProblem: METIS is needed and cannot be loaded.
    """
    wrong = list(wrong_numbers(alpha=alpha, move_cost=move_cost, seed=seed))
    if parts < 1:
        wrong.append(f"parts ≥ 1, got {parts}")
    if max_pins < 0:
        wrong.append(f"max_pins ≥ 0, got {max_pins}")
    if wrong:
        raise BuildError(f"partition: expected {', '.join(wrong)}")
    pinned = {} if current is None else current.keys
    graph = key_graph(statistics, parts=parts, pinned=pinned)
    homes = _homes(graph, statistics, current, parts)
    costs = np.where(homes < 0, 0.0, move_cost * _states(graph))
    limits = _limits(graph, len(statistics.operators), parts, alpha)
    settle = functools.partial(_settle, graph, homes, costs, limits, parts)
    cuts = [
        settle(_renamed(_metis(graph, parts, alpha, seed + i), homes, costs, parts), seed + i)
        for i in range(ATTEMPTS)
    ]
    if current is not None:
        cuts.append(settle(_spread(homes, graph, parts), seed))
    best = max(cuts, key=_worth)
    owners = _owners(graph, statistics, best.parts)
    left = {end: part for end, part in pinned.items() if part < parts and end[0] in owners}
    pins = _pins(graph, statistics, best.parts, owners, left)
    keys = dict(itertools.islice(pins, max_pins))
    made = Assignment(parts, keys, owners, Report(1.0, {}, alpha))
    return dataclasses.replace(made, report=_report(made, statistics, alpha, current))


def _worth(cut: Cut) -> tuple[float, float]:
    """What a cut is worth: first that it keeps the limits, then the tuples that it keeps."""
    return -cut.excess, cut.gain


def _homes(
    graph: KeyGraph, statistics: Statistics, current: Assignment | None, parts: int
) -> Int64s:
    """By vertex, the part where its state is; -1 where it has none, or the part is no more."""
    homes = np.full(len(graph.vertices), -1, np.int64)
    if current is None:
        return homes
    for name in statistics.operators:
        current.expect(name, len(statistics.loads[name].unpinned))
    for place, one in enumerate(graph.vertices):
        name = statistics.operators[one.operator]
        if one.key is None:
            homes[place] = current.buckets[name][one.bucket]
        else:
            homes[place] = current.part_of(name, one.key.key, one.bucket)
    homes[homes >= parts] = -1
    return homes


def _states(graph: KeyGraph) -> Any:
    """By vertex, how many keys have state there at most: a bucket may have one for each tuple."""
    tuples, buckets = graph.weights.T
    return np.where(buckets == 1, tuples, 1.0)


def _limits(graph: KeyGraph, operators: int, parts: int, alpha: float) -> Int64s:
    """By operator, the most tuples and buckets of a part that has more than one vertex."""
    limits = np.zeros((operators, 2), np.int64)
    for index in range(operators):
        tuples, buckets = graph.weights[graph.operators == index].T
        limits[index] = _limit(tuples, parts, alpha), _limit(buckets, parts, BUCKET_ALPHA)
    return limits


def _limit(weights: Int64s, parts: int, alpha: float) -> int:
    """The bound times the mean, where each vertex that is above it has a part of its own, and the rest the others."""
    rest, left = int(weights.sum()), parts
    for weight in np.sort(weights)[::-1].tolist():
        if left == 1 or weight <= alpha * rest / left:
            break
        rest -= weight
        left -= 1
    return max(int(alpha * rest / left), -(-rest // left))


def _metis(graph: KeyGraph, parts: int, alpha: float, seed: int) -> Int64s:
    """METIS's cut by multilevel k-way partitioning; recursive bisection does not keep the bound."""
    if parts == 1 or not len(graph.edges):
        return np.zeros(len(graph.vertices), np.int64)
    try:
        import pymetis
    except ImportError as error:
        raise EnvironmentProblem(
            f"a table of keys needs METIS, and pymetis cannot be loaded: {error}\nInstall it: pip install pymetis"
        ) from error
    tuples = graph.weights[:, 0]
    totals = np.bincount(graph.operators, tuples)
    weights = np.ceil(tuples * (_SCALE / np.maximum(totals, 1))[graph.operators])
    # pymetis reads past the end of arrays that are too short.
    size = len(graph.vertices)
    assert len(weights) == size == len(graph.starts) - 1
    assert len(graph.adjacent) == len(graph.edges) == graph.starts[-1]
    options = pymetis.Options(seed=seed, ufactor=max(1, round((alpha - 1) * 1_000)))
    cut = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(graph.starts.tolist(), graph.adjacent.tolist()),
        vweights=weights.astype(np.int64).tolist(),
        eweights=graph.edges.tolist(),
        recursive=False,
        options=options,
    )
    return np.array(cut.vertex_part, np.int64)


def _renamed(cut: Int64s, homes: Int64s, costs: Any, parts: int) -> Int64s:
    """The same cut with its parts named so that as much as can be stays where it is, greedily."""
    overlap = np.zeros((parts, parts))
    known = homes >= 0
    np.add.at(overlap, (cut[known], homes[known]), costs[known])
    names = np.full(parts, -1, np.int64)
    for place in np.argsort(-overlap, axis=None, kind="stable"):
        part, name = divmod(int(place), parts)
        if names[part] < 0 and name not in names:
            names[part] = name
    return names[cut]


def _spread(homes: Int64s, graph: KeyGraph, parts: int) -> Int64s:
    """Where things are now; what is nowhere goes to the parts in turn."""
    return np.where(homes < 0, np.arange(len(graph.vertices)) % parts, homes)


def _settle(
    graph: KeyGraph,
    homes: Int64s,
    costs: Any,
    limits: Int64s,
    parts: int,
    cut: Int64s,
    seed: int,
) -> Cut:
    """The cut with each operator within its limit, if that can be, and all moves made that gain."""
    order = np.random.default_rng(seed).permutation(len(graph.vertices))
    found = Cut(graph, cut, loads_of(graph, cut, len(limits), parts), limits, homes, costs)
    repair(found)
    improve(found, order)
    return found


def _owners(graph: KeyGraph, statistics: Statistics, cut: Int64s) -> dict[str, tuple[int, ...]]:
    """By operator, the part of each bucket."""
    names = statistics.operators
    parts: dict[str, list[int]] = {name: [] for name in names}
    # The vertices of an operator's buckets are in order.
    for one, part in zip(graph.vertices, cut.tolist(), strict=True):
        if one.key is None:
            parts[names[one.operator]].append(part)
    return {name: tuple(found) for name, found in parts.items()}


def _pins(
    graph: KeyGraph,
    statistics: Statistics,
    cut: Int64s,
    owners: Mapping[str, Sequence[int]],
    pinned: Mapping[OperatorKey, int],
) -> Iterator[tuple[OperatorKey, int]]:
    """Keys to pin and their parts: those that came, the heaviest first, then those that are pinned already."""
    came = set()
    order = np.argsort(-graph.weights[:, 0], kind="stable").tolist()
    for vertex in order:
        one, part = graph.vertices[vertex], int(cut[vertex])
        if one.key is not None:
            end = (statistics.operators[one.operator], one.key.key)
            came.add(end)
            # Where a key goes anyway by its bucket, a pin would only move its state from one unit to another.
            if part != owners[end[0]][one.bucket] or end in pinned:
                yield end, part
    yield from ((end, part) for end, part in pinned.items() if end not in came)


def _report(
    made: Assignment, statistics: Statistics, alpha: float, current: Assignment | None
) -> Report:
    outcome = evaluate(made, statistics)
    heavy = tuple(_heavy(statistics.loads.values(), made.parts, alpha))
    moved = dropped = 0
    if current is not None:
        moved = sum(
            current.part_of(name, one.key, one.bucket) != made.part_of(name, one.key, one.bucket)
            for name, loads in statistics.loads.items()
            for one in loads.keys
        )
        dropped = sum(end not in made.keys for end in current.keys)
    return Report(outcome.locality, outcome.imbalance, alpha, heavy, moved, dropped)


def _heavy(loads: Any, parts: int, alpha: float) -> list[HeavyKey]:
    found = []
    for one in loads:
        for key in one.keys:
            share = key.sure / max(one.total, 1)
            if share * parts > alpha:
                found.append(HeavyKey(one.operator, key.key, share, share * parts))
    return sorted(found, key=lambda heavy: -heavy.imbalance)
