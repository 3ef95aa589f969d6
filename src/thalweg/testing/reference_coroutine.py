"""A coroutine operator in the serial reference runner: a row at a time, and on until it waits for what is not there."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.flow.loops.body import Body, fitted
from thalweg.flow.operators.coroutines import Control, Input, Output, Push, Queue
from thalweg.flow.operators.kept import Kept, call
from thalweg.flow.operators.nodes import Coroutine


class Took(NamedTuple):
    """What a row, or the end, made an operator do: the rows it pushed, each with the port of its stream; whether the
    row was dropped, since it has returned; and how many rows it left unread when it now returned."""

    pushed: list[tuple[str, Any]]
    dropped: bool
    unread: int


class ReferenceCoroutine:
    """One operator from the first row to its end.

    Attributes:
        last_time: the event time of its last row.
    """

    def __init__(self, node: Coroutine) -> None:
        kept = Kept.of(node, None)
        self.node = node
        self.last_time = kept.last_time
        self.queues = [Queue[Any](port.name) for port in node.in_ports]
        self._own = kept.own
        self._pushed: list[tuple[str, Any]] = []
        self._ports = {port.parameter: port for port in node.out_ports}
        inputs: list[Any] = [
            Control(queue) if port.control else Input(queue)
            for port, queue in zip(node.in_ports, self.queues, strict=True)
        ]
        outputs = [Output[Any](port.parameter) for port in node.out_ports]
        self.body = Body(
            node.name, node.told, lambda: call(node, inputs, outputs, kept.own), inputs, outputs
        )

    def put(self, port: int, row: Any, time: int) -> Took:
        """A row of an input, at a time (of a stream without time BEFORE_ALL)."""
        self.last_time = time
        was_done = self._go_on()
        if self.body.done:
            return self._took(was_done, dropped=True)
        self.queues[port].put(row)
        self._go_on()
        return self._took(was_done)

    def feed_back(self, port: int, row: Any) -> bool:
        """A row of a control port, for the next time that it goes on; False: it has returned."""
        if not self.body.done:
            self.queues[port].put(row)
        return not self.body.done

    def close(self) -> Took:
        """All inputs have ended."""
        was_done = self._go_on()
        for queue in self.queues:
            queue.closed = True
        self._go_on()
        return self._took(was_done)

    def _took(self, was_done: bool, dropped: bool = False) -> Took:
        pushed, self._pushed = self._pushed, []
        left = sum(len(queue.rows) for queue in self.queues)
        return Took(pushed, dropped, 0 if was_done or not self.body.done else left)

    def _go_on(self) -> bool:
        """Steps it as far as it can go; whether it had returned before."""
        body, was_done = self.body, self.body.done
        if not body.started:
            body.resume(None)
        while not body.done:
            if isinstance(body.request, Push):
                port = self._ports[body.request.output.name]
                self._pushed.append((port.name, fitted(self.node, port, body.request)))
                body.resume(True)
                continue
            assert body.request is not None
            answer = body.request.answer()
            if answer is None:
                break
            body.resume(answer)
        return was_done

    def states(self) -> dict[Any, Any]:
        """What is kept of it, as the state of its only key; nothing before its start."""
        if not self.body.started:
            return {}
        rows = [[] if self.body.done else list(queue.rows) for queue in self.queues]
        return {(): Kept(self._own, rows, self.last_time, self.body.done).state(self.node)}
