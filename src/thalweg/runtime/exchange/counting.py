"""Which keys come to a stage, and which follow each other: what a slot counts of a step (Caneill et al., 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.hashing import Int64s
from thalweg.locality import KeySketch, KeySummary, Statistics, keyed_operators
from thalweg.locality.links import links_of
from thalweg.operators.nodes import Keyed
from thalweg.plan import KEY, LEVEL, Edge, Plan
from thalweg.runtime.chunks import Chunk, Column
from thalweg.runtime.exchange.routes import Routes
from thalweg.runtime.keys import KeySpec


class _Taken(NamedTuple):
    """What an operator took in a step.

    Attributes:
        names: what the tuples' keys are called.
        order: the names of the tuples' order columns.
        rows: the place in ``names`` of a tuple by the values of these.
    """

    names: list[bytes]
    order: tuple[str, ...]
    rows: dict[tuple[Any, ...], int]


_NOTHING = _Taken([], (), {})


class KeyCounter:
    """Counts the keys of a stage in one slot, and the pairs of keys by which tuples come and go on.

    Which tuple made which is told by their places in the order of the flow: an output's begins with that of the tuple
    that made it, or names the key whose timer did.
    """

    def __init__(self, plan: Plan, routes: Routes, stage: int) -> None:
        self._routes = routes
        self._sketch = new_sketch(plan, _links(plan, routes))
        self._operators = {node.name: node for node in plan.keyed}
        #: those that begin in the stage
        self._links = [
            link
            for link in _links(plan, routes)
            if plan.stage(self._operators[link[0]].index) == stage
        ]
        #: by operator
        self._taken: dict[str, _Taken] = {}

    def take(self, edge: Edge, chunk: Chunk) -> None:
        """Tuples that came over an edge, in a step that :meth:`give` ends."""
        node = self._routes.by_key(edge)
        if node is None or not len(chunk):
            return
        spec, columns, places = self._routes.keys(node, chunk)
        self._sketch.take(node.name, spec.hashes(columns, len(places)), _names(spec, columns))
        if any(left == node.name for left, _ in self._links):
            order = tuple(chunk.order)
            values = _values(chunk, order)
            rows = {values[place]: i for i, place in enumerate(places.tolist())}
            names = spec.ordered_bytes(columns, len(places)).to_pylist()
            self._taken[node.name] = _Taken(names, order, rows)

    def give(self, edge: Edge, chunks: Sequence[Chunk]) -> None:
        """Tuples that go on over an edge, of what was taken in this step or fell due."""
        node = self._routes.by_key(edge)
        if node is None:
            return
        for left, right in self._links:
            if right == node.name:
                for chunk in chunks:
                    self._pair(left, node, chunk)

    def _pair(self, left: str, node: Keyed, chunk: Chunk) -> None:
        spec, columns, places = self._routes.keys(node, chunk)
        before = self._operators[left]
        names = _lefts(self._taken.get(left, _NOTHING), before.index, chunk, places)
        some = np.flatnonzero([name is not None for name in names])
        came = pa.array(names, pa.binary()).take(pa.array(some))
        columns = [column.take(some) for column in columns]
        keys = KeySpec(before.key.fields)
        self._sketch.pair(
            (left, node.name),
            keys.hashes(keys.decode_ordered(came), len(some)),
            spec.hashes(columns, len(some)),
            lambda rows: came.take(pa.array(rows)),
            _names(spec, columns),
        )

    def end_step(self) -> None:
        """The step is over."""
        self._taken = {}

    def summary(self) -> KeySummary:
        """What was counted since the last time."""
        found = self._sketch.summary()
        self._sketch.reset()
        return found


def new_sketch(plan: Plan, links: Sequence[tuple[str, str]]) -> KeySketch:
    """An empty sketch of all keyed operators."""
    return KeySketch({name: buckets for name, (_, buckets) in keyed_operators(plan).items()}, links)


def _links(plan: Plan, routes: Routes) -> list[tuple[str, str]]:
    """The links between operators that tuples are routed to."""
    homes = [(routes.home(left), routes.home(right)) for left, right in links_of(plan)]
    return list(
        dict.fromkeys((a, b) for a, b in homes if a is not None and b is not None and a != b)
    )


def statistics(plan: Plan, summary: KeySummary) -> Statistics:
    """The counts of all slots by key."""
    specs = {node.name: KeySpec(node.key.fields) for node in plan.keyed}

    def decode(operator: str, names: pa.BinaryArray) -> list[Any]:
        spec = specs[operator]
        return spec.python_keys(spec.decode_ordered(names), len(names))

    return summary.statistics(decode)


def _lefts(taken: _Taken, level: int, chunk: Chunk, places: Int64s) -> list[bytes | None]:
    """The name of the key that each of some tuples comes from; None for one that does not come from the operator.

    Args:
        taken: what the operator took.
        level: that of the tuples which its timers made.
        chunk: what goes on.
        places: of the tuples in it.
    """
    levels, keys = chunk.order[LEVEL].tolist(), chunk.order[KEY].to_pylist()
    values = _values(chunk, taken.order)
    found: list[bytes | None] = []
    for place in places.tolist():
        if levels[place] == level:
            found.append(keys[place])
        else:
            at = taken.rows.get(values[place])
            found.append(None if at is None else taken.names[at])
    return found


def _names(spec: KeySpec, columns: Sequence[Column]) -> Any:
    def names(rows: Int64s) -> pa.Array:
        return spec.ordered_bytes([column.take(rows) for column in columns], len(rows))

    return names


def _values(chunk: Chunk, order: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of order columns, a tuple a row; none where the chunk lacks one."""
    if not all(name in chunk.order for name in order):
        return [()] * len(chunk)
    columns = [
        values.to_pylist() if isinstance(values, pa.Array) else values.tolist()
        for values in (chunk.order[name] for name in order)
    ]
    return list(zip(*columns, strict=True))
