"""Runs a driver loop for one row: from its top until it waits for more than there is, with nothing of it left behind.

So the loop may go on anywhere: in another thread, in another slot, after a restart. What a row finds is what stands in
the state of its key, or nothing. A loop that would not come through that is an error (:meth:`RowLoop.run`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from thalweg.flow.failures import refusal
from thalweg.flow.fields.user_rows import is_library
from thalweg.flow.loops.body import Body, fitted
from thalweg.flow.operators.coroutines import Control, Input, Output, Push, Queue
from thalweg.flow.operators.kept import call
from thalweg.flow.operators.nodes import Coroutine, InPort

#: Makes a row of what was pushed to an output, given by its place.
Tagged = Callable[[int, Any], Any]


class RowTaken(NamedTuple):
    """What a row made a loop do.

    Attributes:
        pushed: the rows it pushed, in order.
        returned: whether it has returned; else it waits.
    """

    pushed: list[Any]
    returned: bool


class _RowPort(Queue[Any]):
    """The rows at an input that stand in a list of somebody else's, who keeps what is not read."""

    __slots__ = ("_held",)

    def __init__(self, name: str, rows: list[Any]) -> None:
        super().__init__(name)
        self._held = rows
        self.rows = rows  # type: ignore[assignment]

    def take(self, count: int) -> list[Any]:
        self.taken += count
        taken = self._held[:count]
        del self._held[:count]
        return taken


class RowLoop:
    """A coroutine operator whose loop is started for each row.

    Args:
        node: the operator; ``own`` is the state that its function asks for.
        tagged: makes one record of the rows of several outputs; None where there is but one.
    """

    def __init__(self, node: Coroutine, tagged: Tagged | None = None) -> None:
        self._node = node
        self._tagged = tagged
        self._places = {port.parameter: place for place, port in enumerate(node.out_ports)}
        kinds = {one.kind for one in inspect.signature(node.function.call).parameters.values()}
        own_way = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY
        #: whether all parameters can be given by name, which is quicker
        self._by_name = kinds.isdisjoint(own_way)
        self._shows = not is_library(node.function.call)

    def run(self, own: Any, unread: Sequence[list[Any]]) -> RowTaken:
        """Runs the loop over what waits at its inputs.

        Args:
            own: the state that the function asks for; it is changed in place, as the lists are.
            unread: by input, the rows that wait; those that are read are taken out.

        Raises:
            OperatorError: it raised, or broke a rule: without a state of its own it pushed before it waited, or waits
                in the middle of its loop, where its place would be lost.
        """
        node = self._node
        ports = zip(node.in_ports, unread, strict=True)
        inputs = [self._input(port, rows) for port, rows in ports]
        outputs = [Output[Any](port.parameter) for port in node.out_ports]
        body = Body(
            node.name, node.told, lambda: self._start(inputs, outputs, own), inputs, outputs
        )
        pushed: list[Any] = []
        first = self._steps(body, pushed)
        if not body.done:
            if node.own is None and (pushed or any(port.queue.taken for port in inputs)):
                self._check_place(body, first)
            body.close()
        return RowTaken(pushed, body.done)

    def _input(self, port: InPort, rows: list[Any]) -> Any:
        made: Any = (Control if port.control else Input)(_RowPort(port.name, rows))
        if self._shows:
            made.outward = port.record.outward
        return made

    def _start(self, inputs: list[Any], outputs: list[Any], own: Any) -> Any:
        node = self._node
        if not self._by_name:
            return call(node, inputs, outputs, own)
        given = dict(node.constants)
        given.update(
            (port.parameter, made) for port, made in zip(node.in_ports, inputs, strict=True)
        )
        given.update((one.name, one) for one in outputs)
        if node.state_parameter:
            given[node.state_parameter] = own
        return node.function.call(**given)

    def _steps(self, body: Body, pushed: list[Any]) -> tuple[int, ...] | None:
        """Goes on until it returns or waits for what is not there; gives the place of its first wait."""
        first: tuple[int, ...] | None = None
        body.resume(None)
        while not body.done:
            request = body.request
            if isinstance(request, Push):
                if first is None and self._node.own is None:
                    raise self._refuse(
                        "pushes before it waits, which each row would make it do again"
                    )
                pushed.append(self._made(request))
                body.resume(True)
                continue
            assert request is not None
            first = body.place if first is None else first
            answer = request.answer()
            if answer is None:
                break
            body.resume(answer)
        return first

    def _made(self, push: Push[Any]) -> Any:
        place = self._places[push.output.name]
        row = fitted(self._node, self._node.out_ports[place], push)
        return row if self._tagged is None else self._tagged(place, row)

    def _check_place(self, body: Body, first: tuple[int, ...] | None) -> None:
        if body.place != first:
            where = body.where
            body.close()
            raise self._refuse(
                f"waits in the middle of its loop{where}, and what it has read would be forgotten"
            )

    def _refuse(self, what: str) -> Exception:
        return refusal(
            self._node.name, self._node.told,
            f"it {what}: a loop by key, or without state, starts from its top at each row; wait once, at the top, for"
            " all that is read, and by key hold in a class with @tw.state what must outlive a wait",
        )  # fmt: skip
