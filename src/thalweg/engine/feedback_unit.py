"""A loop of feedback as one unit: its operators depth-first, a row at a time, as in the serial run.

What a row makes the operators send back is at the control port before the next row of the loop comes, so rows cannot
go through in chunks, and nobody else can run in between. That is the price: about 0.1 ms a row and operator. Outputs
leave as chunks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from thalweg.columns.chunks import Chunk
from thalweg.engine.coroutines.unit import CoroutineUnit, merged_rows
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.units import Given, Moment, Setting
from thalweg.flow.operators.nodes import Node, Ref
from thalweg.plan.plan import Edge
from thalweg.plan.units import Unit

#: Within the loop time stands still: its operators have no timers.
_STILL: Final = Moment({})
#: What an edge's reader sees of a stream's chunk, and of a stream without rows.
Branched = Callable[[Chunk, Ref, Edge], Chunk]
Nothing = Callable[[Ref, Edge], Chunk]


class LoopUnit:
    """The operators of a loop.

    Attributes:
        members: their units, by node.

    Args:
        setting: the engine's.
        unit: the loop.
        members: see above.
        branched: the chunk of a stream as the reader at an edge sees it.
        nothing: the same where the stream has no rows.
    """

    def __init__(
        self,
        setting: Setting,
        unit: Unit,
        members: Mapping[int, Any],
        *,
        branched: Branched,
        nothing: Nothing,
    ) -> None:
        plan = setting.plan
        self.members = members
        self._setting = setting
        self._inputs = plan.inputs_of(unit.nodes)
        self._columns = plan.merged_columns([ref for ref, _ in self._inputs])
        self._branched = branched
        self._empty = {
            index: [nothing(ref, Edge(index, port)) for port, ref in enumerate(node.inputs)]
            for index, node in self._nodes(unit)
        }
        #: by stream, who reads it here
        self._inner: dict[Ref, list[Edge]] = {}
        #: the streams that others read, too
        self._outer: set[Ref] = set()
        for ref, edges in plan.readers.items():
            if ref.node in members:
                self._inner[ref] = [edge for edge in edges if edge.node in members]
                if len(self._inner[ref]) < len(edges):
                    self._outer.add(ref)
        self._left: dict[Ref, list[Chunk]] = {}

    def _nodes(self, unit: Unit) -> Iterator[tuple[int, Node]]:
        for index in unit.nodes:
            yield index, self._setting.plan.node(index)

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """What leaves the loop of what the rows set going, in their order, and then its operators that end now."""
        self._left = {ref: [] for ref in self._outer}
        _, ports, places = merged_rows(inputs, self._columns)
        for port, place in zip(ports, places, strict=True):
            self._receive(self._inputs[port][1], inputs[port].slice(place, place + 1))
        for index, unit in self.members.items():
            ends = isinstance(unit, CoroutineUnit) and moment.ending
            # A join forgets what is out of reach of the clock.
            if ends or (isinstance(unit, KeyedUnit) and unit.node.on_timer is not None):
                self._emit(index, unit.run(self._empty[index], moment))
        return {ref: Chunk.concat(parts) for ref, parts in self._left.items() if parts}

    def _receive(self, edge: Edge, row: Chunk) -> None:
        """A row at an input of one of its operators, and all that comes of it."""
        inputs = list(self._empty[edge.node])
        inputs[edge.port] = row
        self._emit(edge.node, self.members[edge.node].run(inputs, _STILL))

    def _emit(self, index: int, given: Given) -> None:
        unit = self.members[index]
        if isinstance(unit, CoroutineUnit):
            for ref, place in unit.in_order():
                self._push(ref, given[ref].slice(place, place + 1))
            return
        for ref, chunk in given.items():
            for place in range(len(chunk)):
                self._push(ref, chunk.slice(place, place + 1))

    def _push(self, ref: Ref, row: Chunk) -> None:
        """A row of a stream: back first, then on."""
        for edge in self._setting.plan.feedback.get(ref, ()):
            self.members[edge.node].feed_back(edge.port, row.rows()[0])
        if ref in self._outer:
            self._left[ref].append(row)
        for edge in self._inner.get(ref, ()):
            self._receive(edge, self._branched(row, ref, edge))
