"""Feedback: a stream that an operator upstream reads at a control port.

Sahin & Gedik, section 3.2.2: a cycle must pass a control port, which nobody waits for and whose rows make nobody
produce. In a cycle of data ports operators would wait for each other's rows for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NoReturn

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.generics import Row
from thalweg.flow.operators.feedback import fed_back, loops_of, path_between
from thalweg.flow.operators.nodes import Coroutine, Node, Ref
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
                runs through a data port or an operator with a watermark; the message draws the cycle.
        """
        label = f"feedback {self.name!r}"
        if getattr(stream, "flow", None) is not self.flow:
            raise BuildError(f"{label}: connect takes a stream of this flow, got {stream!r}")
        if stream.schema != self.schema:
            raise BuildError(
                f"{label}: it carries {self.schema}, but the stream has {stream.schema}"
            )
        nodes = self.flow._nodes
        readers = [node for node in nodes if self.ref in fed_back(node)]
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


def _connected(node: Coroutine, old: Ref, new: Ref) -> Coroutine:
    ports = (
        dataclasses.replace(port, ref=new) if port.ref == old else port for port in node.in_ports
    )
    return dataclasses.replace(node, in_ports=tuple(ports))


def _check_cycle(label: str, nodes: Sequence[Node], reader: Coroutine, old: Ref, new: Ref) -> None:
    path = path_between(nodes, reader.index, new.node)
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
