"""Coroutine operators without inputs, stepped as the iterators that they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.in_process.iterables import IterableSource
from thalweg.flow.loops.body import Body, fitted
from thalweg.flow.operators.coroutines import Output, Push
from thalweg.flow.operators.generators import tagged
from thalweg.flow.operators.kept import Kept, call
from thalweg.flow.operators.nodes import Coroutine, Source
from thalweg.plan.plan import Plan


def made_rows(node: Coroutine) -> Iterator[Any]:
    """What the operator pushes, as rows of its source. Closed early, pushes answer False, so that it can end.

    Raises:
        OperatorError: it raised, did what it must not, or goes on though a push said that it is over.
    """
    ports = {port.parameter: port for port in node.out_ports}
    outputs = [Output[Any](name) for name in ports]
    own = Kept.of(node, None).own
    body = Body(node.name, node.told, lambda: call(node, [], outputs, own), [], outputs)
    body.resume(None)
    try:
        while isinstance(body.request, Push):
            port = ports[body.request.output.name]
            yield tagged(node, port, fitted(node, port, body.request))
            body.resume(True)
    except GeneratorExit:
        while not body.done:
            body.resume(False)
        raise


class GeneratorSource:
    """An operator without inputs as the input of its source: read by a thread of its own, about a chunk ahead."""

    live = True

    def __init__(self, node: Coroutine) -> None:
        self._node = node

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        """See :class:`thalweg.connectors.contracts.RowSource`."""
        return IterableSource(made_rows(self._node)).rows(source, chunk_rows, stop)

    def close(self) -> None:
        """Nothing is held: the iterator of rows ends the thread."""


def generators(plan: Plan) -> dict[str, GeneratorSource]:
    """The inputs of the sources of a plan that are operators, by name."""
    return {
        source.name: GeneratorSource(source.made_by)
        for source in plan.sources
        if source.made_by is not None
    }
