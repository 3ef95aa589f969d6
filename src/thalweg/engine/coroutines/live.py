"""A coroutine operator of an engine between its start and its end: its ports, and a row at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from thalweg.brief import counted
from thalweg.engine.coroutines.frame import PortNetwork, State
from thalweg.errors import OperatorError
from thalweg.flow.loops.body import Body
from thalweg.flow.operators.coroutines import Control, Input, Output, Push, Queue, Wait
from thalweg.flow.operators.kept import Kept, call
from thalweg.flow.operators.nodes import Coroutine

_LOG: Final = logging.getLogger("thalweg")
#: Is given what the coroutine pushes.
Leave = Callable[[Push[Any]], None]


class Live:
    """A coroutine between its start and its end, with its ports."""

    def __init__(self, node: Coroutine, kept: Kept, leave: Leave) -> None:
        self._node = node
        self._own = kept.own
        self.last_time = kept.last_time
        self.queues = [Queue[Any](port.name) for port in node.in_ports]
        for queue, rows in zip(self.queues, kept.unread, strict=True):
            queue.rows.extend(rows)
        inputs: list[Any] = [
            Control(queue) if port.control else Input(queue)
            for port, queue in zip(node.in_ports, self.queues, strict=True)
        ]
        outputs = [Output[Any](port.parameter) for port in node.out_ports]
        body = Body(
            node.name, node.told, lambda: call(node, inputs, outputs, kept.own), inputs, outputs
        )
        self._network = PortNetwork(leave=leave)
        self._operator = self._network.add(body, self.queues, outputs)
        self.completed = kept.completed
        #: rows that came after it had returned, and rows that it left unread when it did
        self.dropped = self.unread = 0
        #: how often it has been woken
        self.runs = 0

    def put(self, port: int, row: Any) -> None:
        """A row of an input: the coroutine goes on as far as it can."""
        if self._operator.state is State.READY and not self.completed:
            self._go_on()
        if self.completed:
            self.dropped += 1
            return
        self._network.put(self.queues[port], row)
        if self._operator.state is State.READY:
            self.runs += 1
            self._go_on()
        self._check_room(self.queues[port])

    def feed_back(self, port: int, row: Any) -> None:
        """A row of a control port; it wakes nobody, and starts nobody."""
        if self.completed:
            self.dropped += 1
            return
        self._network.put(self.queues[port], row)
        self._check_room(self.queues[port])

    def close(self) -> None:
        """No more rows will come at any input: the coroutine goes to its end."""
        if self.completed:
            return
        self._go_on()
        idle = self._network.waiting().get(self._node.name, ())
        for queue in self.queues:
            self._network.close(queue)
        self._go_on()
        if self.unread:
            left = ", ".join(f"{queue.name} {len(queue.rows)}" for queue in self.queues)
            _LOG.info(
                "operator %r has ended; rows not read: %s; it was waiting for %s",
                self._node.name, left, " and ".join(idle) or "nothing",
            )  # fmt: skip

    def kept(self) -> Kept:
        """What must be kept of it."""
        unread = [[] if self.completed else list(queue.rows) for queue in self.queues]
        return Kept(self._own, unread, self.last_time, self.completed)

    def end(self) -> None:
        """Closes the coroutine where it stands."""
        self._network.abort()

    @property
    def lengths(self) -> list[int]:
        """By input, how many rows wait there."""
        return [len(queue.rows) for queue in self.queues]

    @property
    def missing(self) -> list[int]:
        """The inputs for which it waits; none while it runs, and at its end."""
        request = self._operator.body.request
        if self._operator.state is not State.READ_BLOCKED or not isinstance(request, Wait):
            return []
        queues = [port.queue for port in request.missing]
        return [place for place, queue in enumerate(self.queues) if queue in queues]

    def _go_on(self) -> None:
        self._network.run()
        if self._operator.state is State.COMPLETED and not self.completed:
            self.completed = True
            self.unread = sum(len(queue.rows) for queue in self.queues)

    def _check_room(self, queue: Queue[Any]) -> None:
        limit = self._node.max_waiting
        if limit is None or len(queue.rows) <= limit:
            return
        idle = " and ".join(self._network.waiting().get(self._node.name, ())) or "nothing"
        raise OperatorError(
            f"operator {self._node.name!r}: {counted(len(queue.rows), 'row')} wait at input {queue.name!r}, more than"
            f" max_waiting={limit}; the operator waits for {idle}\n"
            "  let that input deliver, or raise max_waiting",
            operator=self._node.name,
        )
