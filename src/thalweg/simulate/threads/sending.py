"""How outputs leave reorder buffers where that takes time (Prasaad et al., section 3).

A worker that has done a unit adds it to the operator's buffer, and what is next there goes on, one unit after the
other. Under the *non-blocking* scheme (Fig. 4) one worker sends at a time, and who finds it sending goes on with other
work. Under the *lock-based* one (Fig. 2) adding and sending stand behind one lock, for which workers wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from thalweg.simulate.events import Events
from thalweg.simulate.hardware import Hardware
from thalweg.simulate.nodes import SimulatedNode
from thalweg.simulate.threads.workers import Worker

Reorder = Literal["non-blocking", "lock-based"]


class Sending:
    """Who sends what an operator put out, and who waits for that.

    Args:
        send_ns: what it takes to hand on a tuple, ns.
        reorder: the scheme.
        go_on: told of a worker that is through.
    """

    def __init__(
        self,
        events: Events,
        send_ns: float,
        reorder: Reorder,
        hardware: Hardware | None,
        go_on: Callable[[Worker], None],
    ) -> None:
        self._events = events
        self._send_ns = send_ns
        self._locks = reorder == "lock-based"
        self._line_ns = hardware.line_ns if hardware is not None else 0.0
        self._go_on = go_on

    def worked(self, worker: Worker) -> None:
        """A worker has done its unit."""
        node = _node(worker)
        if node.sender is not None and self._locks:
            node.locked_out.append(worker)
            return
        self._add(node, worker)
        if node.sender is not None:
            self._go_on(worker)
        else:
            node.sender = worker
            self._next(worker)

    def _add(self, node: SimulatedNode, worker: Worker) -> None:
        assert worker.unit is not None
        node.add(worker.unit)

    def _next(self, worker: Worker) -> None:
        """The sender sends what is next, or is through."""
        node = _node(worker)
        unit = node.next_done()
        if unit is None:
            node.sender = None
            self._go_on(worker)
            self._unlock(node)
            return
        tuples = len(unit.keys) * node.grain * node.operator.selectivity
        cost = round(self._send_ns * tuples)
        self._events.plan(self._events.net.now_ns + cost, self._sent, worker)

    def _sent(self, worker: Worker) -> None:
        _node(worker).send_next()
        self._next(worker)

    def _unlock(self, node: SimulatedNode) -> None:
        """The lock goes to who has waited longest; those who wait pull its cache line to and fro meanwhile."""
        if not node.locked_out:
            return
        handover = round(self._line_ns * len(node.locked_out) / 2)
        worker = node.locked_out.popleft()
        node.sender = worker
        self._events.plan(self._events.net.now_ns + handover, self._locked, worker)

    def _locked(self, worker: Worker) -> None:
        self._add(_node(worker), worker)
        self._next(worker)


def _node(worker: Worker) -> SimulatedNode:
    assert worker.node is not None
    return worker.node
