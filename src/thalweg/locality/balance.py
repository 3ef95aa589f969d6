"""The second half of a cut: each operator within its limit, then every move that gains.

Greedy moves of single vertices, as the refinement of multilevel partitioning makes them (Karypis & Kumar, 1998), with a
limit for each operator where METIS has one for all, and with a cost for vertices that leave their home.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.hashing import Int64s
from thalweg.jit import njit
from thalweg.locality.statistics import KeyCount

#: How often all vertices are looked at, at most.
PASSES: Final = 20


class Vertex(NamedTuple):
    """A key, or what is left of a bucket (``key`` None)."""

    operator: int
    bucket: int
    key: KeyCount | None


@dataclasses.dataclass(frozen=True, slots=True)
class KeyGraph:
    """The graph in the form of METIS: the neighbours of vertex i are ``adjacent[starts[i]:starts[i + 1]]``.

    Attributes:
        vertices: what each vertex is: an operator's keys, and its buckets.
        operators: by vertex, the place of its operator.
        weights: ``int64[vertices, 2]``: tuples; 1 for a bucket, and 0 for a key.
        starts, adjacent, edges: the neighbours, and the tuples that lead there.
    """

    vertices: tuple[Vertex, ...]
    operators: Int64s
    weights: Int64s
    starts: Int64s
    adjacent: Int64s
    edges: Int64s


@dataclasses.dataclass(slots=True)
class Cut:
    """A cut on its way: parts by vertex, and ``loads`` (see :func:`loads_of`), which follow them.

    ``limits[operator]`` are the most tuples and buckets; ``homes`` (-1 for none) and ``costs`` of being elsewhere, in
    tuples, are by vertex.
    """

    graph: KeyGraph
    parts: Int64s
    loads: Int64s
    limits: Int64s
    homes: Int64s
    costs: Any

    @property
    def excess(self) -> int:
        """The tuples and buckets above the limits, of all operators and parts."""
        return int(np.maximum(self.loads - self.limits.T[:, :, None], 0).sum())

    @property
    def gain(self) -> float:
        """Tuples that stay on their slot, less what moves cost."""
        graph = self.graph
        left = np.repeat(self.parts, np.diff(graph.starts))
        local = graph.edges[left == self.parts[graph.adjacent]].sum() / 2
        away = (self.homes >= 0) & (self.homes != self.parts)
        return float(local - self.costs[away].sum())


def loads_of(graph: KeyGraph, cut: Int64s, operators: int, parts: int) -> Int64s:
    """The tuples, and the buckets, of each operator in each part: ``int64[2, operators, parts]``."""
    loads = np.zeros((2, operators, parts), np.int64)
    for kind in (0, 1):
        np.add.at(loads[kind], (graph.operators, cut), graph.weights[:, kind])
    return loads


def repair(cut: Cut) -> None:
    """Moves vertices out of parts that have too much, those first that lose least a tuple moved.

    What remains above a limit when no move helps is left: vertices can be too heavy to fit anywhere.
    """
    graph = _arrays(cut)
    for _ in range(PASSES):
        moves = 0
        for kind in (1, 0):
            order = _leavers(graph, cut.parts, cut.loads, cut.limits, kind)
            moves += _unload(graph, cut.parts, cut.loads, cut.limits, kind, order)
        if not moves:
            return


def improve(cut: Cut, order: Int64s) -> None:
    """Makes all moves of single vertices that gain, within the limits."""
    graph = _arrays(cut)
    for _ in range(PASSES):
        if not _climb(graph, cut.parts, cut.loads, cut.limits, order):
            return


def _arrays(cut: Cut) -> tuple[Any, ...]:
    """The graph as compiled code takes it."""
    graph = cut.graph
    lists = (graph.starts, graph.adjacent, graph.edges)
    return (*lists, graph.operators, graph.weights, cut.homes, cut.costs)


def _leavers(graph: Any, parts: Int64s, loads: Int64s, limits: Int64s, kind: int) -> Int64s:
    """The vertices with weight of parts that have too much, in the order in which they should leave."""
    operators, weights = graph[3], graph[4][:, kind]
    over = (loads[kind] > limits[:, kind : kind + 1])[operators, parts]
    vertices = np.flatnonzero(over & (weights > 0))
    losses = np.empty(len(vertices))
    _losses(graph, parts, loads.shape[2], vertices, losses)
    return vertices[np.argsort(losses / weights[vertices], kind="stable")]


@njit
def _ties(graph: Any, parts: Int64s, vertex: int, out: Any) -> None:
    """What being in each part is worth to a vertex: tuples to neighbours there, less the cost of not being at home."""
    starts, adjacent, edges, _, _, homes, costs = graph
    out[:] = 0.0
    for place in range(starts[vertex], starts[vertex + 1]):
        out[parts[adjacent[place]]] += edges[place]
    if homes[vertex] >= 0:
        out[homes[vertex]] += costs[vertex]


@njit
def _losses(graph: Any, parts: Int64s, count: int, vertices: Int64s, out: Any) -> None:
    """What each vertex loses at least when it leaves."""
    ties = np.empty(count)
    for i in range(len(vertices)):
        _ties(graph, parts, vertices[i], ties)
        here = ties[parts[vertices[i]]]
        ties[parts[vertices[i]]] = -np.inf
        out[i] = here - ties.max()


@njit
def _fits(graph: Any, loads: Int64s, limits: Int64s, vertex: int, part: int) -> bool:
    """Whether a part has room; an empty one has, even for what is too heavy to share a part."""
    operator = graph[3][vertex]
    for kind in range(2):
        weight, load = graph[4][vertex, kind], loads[kind, operator, part]
        if weight > 0 and load > 0 and load + weight > limits[operator, kind]:
            return False
    return True


@njit
def _move(graph: Any, parts: Int64s, loads: Int64s, vertex: int, to: int) -> None:
    operator = graph[3][vertex]
    for kind in range(2):
        weight = graph[4][vertex, kind]
        loads[kind, operator, parts[vertex]] -= weight
        loads[kind, operator, to] += weight
    parts[vertex] = to


@njit
def _unload(
    graph: Any, parts: Int64s, loads: Int64s, limits: Int64s, kind: int, order: Int64s
) -> int:
    """Moves vertices to where they fit, else to where they make less of an excess; the number of moves."""
    count = loads.shape[2]
    ties = np.empty(count)
    moves = 0
    for vertex in order:
        operator, weight, here = graph[3][vertex], graph[4][vertex, kind], parts[vertex]
        if loads[kind, operator, here] <= limits[operator, kind]:
            continue
        _ties(graph, parts, vertex, ties)
        to = -1
        for part in range(count):
            better = to < 0 or ties[part] > ties[to]
            if part != here and better and _fits(graph, loads, limits, vertex, part):
                to = part
        if to < 0:
            least = int(np.argmin(loads[kind, operator]))
            if loads[kind, operator, least] + weight < loads[kind, operator, here]:
                to = least
        if to >= 0:
            _move(graph, parts, loads, vertex, to)
            moves += 1
    return moves


@njit
def _climb(graph: Any, parts: Int64s, loads: Int64s, limits: Int64s, order: Int64s) -> int:
    """One look at each vertex; the number of moves."""
    ties = np.empty(loads.shape[2])
    moves = 0
    for vertex in order:
        here = parts[vertex]
        _ties(graph, parts, vertex, ties)
        to = here
        for part in range(len(ties)):
            if ties[part] > ties[to] and _fits(graph, loads, limits, vertex, part):
                to = part
        if to != here:
            _move(graph, parts, loads, vertex, to)
            moves += 1
    return moves
