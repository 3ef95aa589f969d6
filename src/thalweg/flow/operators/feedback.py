"""Feedback: a stream that an operator upstream reads at a control port, and the loops that come of it.

Sahin & Gedik, section 3.2.2: a cycle must pass a control port, which nobody waits for and whose rows make nobody
produce. In a cycle of data ports operators would wait for each other's rows for ever.

A *loop* is all operators that can reach each other (a strongly connected component). Its operators run as one, a row
at a time, since what one row sends back must be there before the next (docs/coroutines.md). A loop is convex: no way
leads out of it and back in, so it has a place in the order of the flow as any operator.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NoReturn

from thalweg.errors import BuildError
from thalweg.flow.field_types import FieldType
from thalweg.flow.generics import Row
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node, OrderBy, Ref
from thalweg.flow.records import Schema

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream


@dataclasses.dataclass(eq=False)
class Feedback(Generic[Row]):
    """A stream that is still to come: given to a ``tw.Control`` port now, connected when the flow is further on.

    Made by :meth:`thalweg.flow.flow.Flow.feedback`. ``time`` and ``own`` are as of a stream without event time: a row
    that is sent back is there at once.
    """

    flow: Flow
    name: str
    schema: Schema
    time: FieldType | None = None
    own: None = None
    #: the operator whose stream is sent back; "" until it is connected
    _source: str = dataclasses.field(default="", init=False)

    @property
    def ref(self) -> Ref:
        """What ports read until it is connected: no node has the index 0."""
        return Ref(0, self.name)

    def __repr__(self) -> str:
        return f"Feedback({self.name!r}), which tw.Control ports of flow.operator read only"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Verbs of streams that are tried here: it has no rows of its own to give."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise BuildError(
                f"feedback {self.name!r} has no {name}: it is where rows come back to, to be read at a tw.Control port"
                f" (flow.operator(..., rule={self.name})); call the verb on the stream that is connected to it"
            )

    def connect(self, stream: Stream[Row]) -> None:
        """Sends the rows of a stream back to where the feedback was given.

        Args:
            stream: of an operator behind all those that read the feedback.

        Raises:
            BuildError: it has other records, does not come from an operator that reads the feedback, or the cycle
                runs through a data port or an operator with a clock; the message draws the cycle.
        """
        label = f"feedback {self.name!r}"
        if getattr(stream, "flow", None) is not self.flow:
            raise BuildError(f"{label}: connect takes a stream of this flow, got {stream!r}")
        if stream.schema != self.schema:
            raise BuildError(
                f"{label}: it carries {self.schema}, but the stream has {stream.schema}"
            )
        nodes = self.flow._nodes
        readers = [node for node in nodes if self.ref in _fed_back(node)]
        if not readers and self._source:
            raise BuildError(
                f"{label}: it is connected to {self._source!r} already, and takes one stream; connect the union of two"
            )
        if not readers:
            raise BuildError(
                f"{label}: no operator reads it; give it to a tw.Control port first: flow.operator(...,"
                f" rule={self.name})"
            )
        changed = list(nodes)
        for reader in readers:
            assert isinstance(reader, Coroutine)
            _check_cycle(label, nodes, reader, self.ref, stream.ref)
            changed[reader.index - 1] = _connected(reader, self.ref, stream.ref)
        loops_of(changed)
        nodes[:] = changed
        self._source = nodes[stream.ref.node - 1].name


def _fed_back(node: Node) -> list[Ref]:
    """What a node reads by feedback."""
    ports = node.in_ports if isinstance(node, Coroutine) else ()
    return [port.ref for port in ports if port.feedback]


def _connected(node: Coroutine, old: Ref, new: Ref) -> Coroutine:
    ports = (
        dataclasses.replace(port, ref=new) if port.ref == old else port for port in node.in_ports
    )
    return dataclasses.replace(node, in_ports=tuple(ports))


def _check_cycle(label: str, nodes: Sequence[Node], reader: Coroutine, old: Ref, new: Ref) -> None:
    path = _path(nodes, reader.index, new.node)
    if not path:
        raise BuildError(
            f"{label}: {nodes[new.node - 1].name!r} does not come from operator {reader.name!r}, which reads it, so"
            f" nothing is fed back; define {reader.name!r} behind it and give it the stream itself"
        )
    for port in reader.in_ports:
        if port.ref == old and not port.control:
            drawn = " -> ".join(node.name for node in [*path, reader])
            raise BuildError(
                f"{label}: the cycle runs through data port {port.name!r}, where operators would wait for each other's"
                f" rows for ever:\n  {drawn}.{port.name}\n"
                f"  annotate {port.parameter}: tw.Control[{port.record.name}] in {reader.function.where}"
            )


def _path(nodes: Sequence[Node], start: int, end: int) -> list[Node]:
    """The nodes of a shortest way downstream; none where there is no way."""
    came_from, front = {start: 0}, [start]
    following = _successors(nodes, feedback=False)
    while front and end not in came_from:
        fresh = [(one, two) for one in front for two in following[one] if two not in came_from]
        came_from |= {two: one for one, two in reversed(fresh)}
        front = [two for _, two in dict.fromkeys(fresh)]
    path, at = [], end if end in came_from else 0
    while at:
        path.append(nodes[at - 1])
        at = came_from[at]
    return path[::-1]


def _successors(nodes: Sequence[Node], *, feedback: bool) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {node.index: [] for node in nodes}
    for node in nodes:
        for ref in (*node.inputs, *(_fed_back(node) if feedback else ())):
            if ref.node:
                found[ref.node].append(node.index)
    return found


def check_connected(nodes: Sequence[Node]) -> None:
    """Refuses a feedback that is not connected.

    Raises:
        BuildError: naming it and who reads it.
    """
    for node in nodes:
        for ref in _fed_back(node):
            if not ref.node:
                raise BuildError(
                    f"operator {node.name!r} reads feedback {ref.port!r}, which is not connected; end it with"
                    f" {ref.port}.connect(stream)"
                )


def loops_of(nodes: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
    """The loops of a flow: of each its operators in order.

    Raises:
        BuildError: an operator in a loop has a watermark of its own.
    """
    following = _successors(nodes, feedback=True)
    reached = {node.index: _reach(following, node.index) for node in nodes if _fed_back(node)}
    loops = {
        tuple(sorted(n for n in there if start in _reach(following, n)))
        for start, there in reached.items()
    }
    for loop in loops:
        for index in loop:
            _check_member(nodes[index - 1], [nodes[i - 1].name for i in loop])
    return tuple(sorted(loops))


def _reach(following: dict[int, list[int]], start: int) -> set[int]:
    """The nodes downstream of one; itself only where a cycle leads back."""
    found, front = set[int](), [start]
    while front:
        fresh = {two for one in front for two in following[one]} - found
        found |= fresh
        front = list(fresh)
    return found


def _check_member(node: Node, loop: Sequence[str]) -> None:
    timed = isinstance(node, Keyed) and node.on_timer is not None
    if timed or isinstance(node, OrderBy):
        what = "timers" if timed else "a watermark of its own"
        raise BuildError(
            f"operator {node.name!r} has {what}, and is in a feedback loop ({', '.join(loop)}), which runs a row"
            " at a time: nothing can happen between two rows there; put the operator before or after the loop"
        )


def groups_of(nodes: Sequence[Node], loops: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """The nodes, those of a loop together, so that each group stands behind all that it reads; else in their order."""
    group_of: dict[int, tuple[int, ...]] = {node.index: (node.index,) for node in nodes}
    group_of |= {index: tuple(loop) for loop in loops for index in loop}
    before = {
        group: {group_of[ref.node] for i in group for ref in nodes[i - 1].inputs} - {group}
        for group in group_of.values()
    }
    behind: dict[tuple[int, ...], list[tuple[int, ...]]] = {group: [] for group in before}
    for group, others in before.items():
        for other in others:
            behind[other].append(group)
    missing = {group: len(others) for group, others in before.items()}
    free = [group for group, count in missing.items() if not count]
    heapq.heapify(free)
    while free:
        group = heapq.heappop(free)
        yield group
        for other in behind[group]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(free, other)
