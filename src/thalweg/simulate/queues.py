"""What policies are shown of the queues of a simulated flow, one by one."""

from __future__ import annotations

from typing import Final

import numpy as np

from thalweg.scheduling.policy import FLOATS, FlowView, Int64s, PortView
from thalweg.simulate.network import Feeder, born_ns
from thalweg.simulate.nodes import SimulatedNode

#: The capacity of an inbox that takes any number.
UNBOUNDED: Final = 2**62


class Queues:
    """The ports of a view, in the order of nodes and inboxes; edges stand with the port that they lead to.

    Attributes:
        view: the arrays, always the same ones.
    """

    def __init__(self, nodes: list[SimulatedNode]) -> None:
        self._ports = [port for node in nodes for port in node.inboxes]
        edges = [(at, feeder) for at, port in enumerate(self._ports) for feeder in port.feeders]
        sizes = dict.fromkeys(("writer", "target", "writes"), len(edges))
        sizes["conjunctive"] = len(nodes) + 1
        self.view = PortView._make(
            np.zeros(sizes.get(name, len(self._ports)), "f8" if name in FLOATS else "i8")
            for name in PortView._fields
        )
        self.view.operator[:] = [port.reader.index for port in self._ports]
        self.view.capacity[:] = [min(port.capacity, UNBOUNDED) for port in self._ports]
        self.view.writer[:] = [_index(feeder) for _, feeder in edges]
        self.view.target[:] = [at for at, _ in edges]
        # An inbox that several fill as they come is one port, and a merge by order waits for all of its ports.
        self.view.conjunctive[:] = 1.0
        #: As in the view, but -1 where nothing waits.
        self._head_ns = np.full(len(self._ports), -1, np.int64)
        self._came_ns = self._head_ns.copy()
        #: By operator: its ports, and its edges.
        self._of = _places(self.view.operator, len(nodes) + 1)
        self._from = _places(self.view.writer, len(nodes) + 1)

    def show(self, node: SimulatedNode, flow: FlowView) -> None:
        """Looks at a node's inboxes, and at its rates in the view of the flow."""
        view, ports, edges = self.view, self._of[node.index], self._from[node.index]
        a_second = 1e9 / flow.cost_ns[node.index]
        for at in ports:
            port = self._ports[at]
            queue = port.queue
            view.length[at] = len(queue)
            self._head_ns[at] = born_ns(queue[0]) if queue else -1
            self._came_ns[at] = port.sum_came_ns // len(queue) if queue else -1
            view.reads[at] = a_second / len(ports)
        for at in edges:
            along = len(edges) if node.deals else 1
            view.writes[at] = a_second * flow.selectivity[node.index] / along

    def at(self, now_ns: int) -> None:
        """Tells the time where nothing waits."""
        np.copyto(self.view.head_ns, np.where(self._head_ns < 0, now_ns, self._head_ns))
        np.copyto(self.view.enqueued_ns, np.where(self._came_ns < 0, now_ns, self._came_ns))


def _places(owners: Int64s, owned: int) -> list[list[int]]:
    """By owner, where its entries stand."""
    places: list[list[int]] = [[] for _ in range(owned)]
    for at, owner in enumerate(owners.tolist()):
        places[owner].append(at)
    return places


def _index(feeder: Feeder) -> int:
    """An operator's place in the view, or the ingress's, which stands for all sources."""
    return feeder.index if isinstance(feeder, SimulatedNode) else 0
