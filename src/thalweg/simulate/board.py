"""What policies are shown of a simulated flow: kept up to date where something changed, not made anew."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.scheduling.measures import cost_ns, cumulative_selectivity, selectivity
from thalweg.scheduling.policy import FLOATS, FlowView, Int64s, PortView
from thalweg.simulate.graph import INGRESS_CODE
from thalweg.simulate.network import Feeder, Network, born_ns
from thalweg.simulate.nodes import SimulatedNode

#: Cumulative selectivities are reckoned anew when a selectivity has moved by so much of itself.
_DRIFT: Final = 0.01


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


class Board:
    """Who can run, and the view of all nodes for a policy that picks.

    Attributes:
        ready: the nodes that can run, and since when, or since nobody came, ns; right after :meth:`settle`.
        changed: nodes whose figures have changed since this was last cleared, which the view does.
    """

    def __init__(self, net: Network, nodes: list[SimulatedNode], window_ns: int) -> None:
        """``window_ns`` is the time over which worker time adds up."""
        self.ready: dict[SimulatedNode, int] = {}
        self._net = net
        self._nodes = nodes
        self.changed: set[SimulatedNode] = set(nodes)
        self._window_ns = window_ns
        self._window_start_ns = 0
        self._queues = Queues(nodes)
        self._view = _blank_view(nodes, self._queues)
        self._head_ns = np.full(len(nodes) + 1, -1, np.int64)
        self._feeders = [_feeders(node) for node in nodes]
        #: By node, its feeders that have no other reader, and the others.
        self._only = [
            np.array([f for f in feeders if len(nodes[f - 1].ports) == 1], np.int64)
            for feeders in self._feeders
        ]
        self._shared = [
            [f for f in feeders if len(nodes[f - 1].ports) > 1] for feeders in self._feeders
        ]
        #: By operator with several readers, who they are; and of these operators, those whose output may have changed.
        self._readers = {
            node.index: np.array([port.reader.index for port in node.ports], np.int64)
            for node in nodes
            if len(node.ports) > 1
        }
        self._fuller: set[int] = set()
        self._sinks = np.array([node.index for node in nodes if not node.ports], np.int64)
        self._reckoned = np.zeros(len(nodes) + 1)

    def settle(self) -> None:
        """Looks again at the nodes that were touched."""
        net, ready, runnable = self._net, self.ready, self._view.runnable
        now = net.now_ns
        for node in net.changed | net.touched:
            can_run = node.can_run()
            if can_run != (node in ready):
                if can_run:
                    ready[node] = now
                else:
                    del ready[node]
                runnable[node.index] = can_run
        self.changed |= net.changed
        net.changed.clear()
        net.touched.clear()

    def restart(self, node: SimulatedNode) -> None:
        """A worker came to a node, or went: since when it can run counts anew."""
        if self.ready.pop(node, None) is not None:
            self._view.runnable[node.index] = False
        self._net.changed.add(node)

    def view(self) -> FlowView:
        """The flow now; the same arrays each time."""
        self.settle()
        view, now = self._view, self._net.now_ns
        if now - self._window_start_ns >= self._window_ns:
            self._new_window(now)
        for node in self.changed:
            self._show(node)
        self.changed.clear()
        for feeder in self._fuller:
            view.output[feeder] = view.worklist[self._readers[feeder]].max()
        self._fuller.clear()
        view.output[self._sinks] = -1
        np.copyto(view.head_ns, np.where(self._head_ns < 0, now, self._head_ns))
        view.now_ns[0] = now
        self._queues.at(now)
        moved = np.abs(view.selectivity - self._reckoned) > _DRIFT * self._reckoned
        if moved.any():
            self._reckon()
        return view

    def _new_window(self, now: int) -> None:
        """Forgets the worker time of the window that is over."""
        self._window_start_ns = now
        for node in self._nodes:
            node.window_ns = 0
        self._view.window_ns[:] = 0

    def _show(self, node: SimulatedNode) -> None:
        view, i = self._view, node.index
        view.worklist[i] = node.waiting
        view.cost_ns[i] = cost_ns(node.busy_ns, node.worked)
        view.selectivity[i] = selectivity(node.rows_in, node.rows_out)
        view.workers[i] = node.workers
        view.limit[i] = node.limit
        view.window_ns[i] = node.window_ns
        view.last_run_ns[i] = node.last_run_ns
        self._head_ns[i] = node.oldest_ns()
        self._queues.show(node, view)
        view.output[self._only[i - 1]] = node.waiting
        self._fuller.update(self._shared[i - 1])

    def _reckon(self) -> None:
        view = self._view
        self._reckoned[:] = view.selectivity
        feeders = [[], *(_inputs(node) for node in self._nodes)]
        view.cumulative_in[:], view.cumulative_out[:] = cumulative_selectivity(
            view.selectivity, feeders
        )


def _feeders(node: SimulatedNode) -> list[int]:
    """Indices of the operators that a node reads."""
    return [feeder.index for port in node.inboxes for feeder in port.nodes]


def _inputs(node: SimulatedNode) -> list[int]:
    """The same with a 0 for each source."""
    read = [feeder for port in node.inboxes for feeder in port.feeders]
    return [feeder.index if isinstance(feeder, SimulatedNode) else 0 for feeder in read]


def _blank_view(nodes: list[SimulatedNode], queues: Queues) -> FlowView:
    """A view in which only what never changes is filled in; index 0 is the ingress."""
    n = len(nodes) + 1
    columns: dict[str, Any] = {
        name: np.zeros(n, np.float64 if name in FLOATS else np.int64) for name in FlowView._fields
    }
    columns |= {"now_ns": np.zeros(1, np.int64), "ports": queues.view}
    view = FlowView(**columns)
    view.kind[:] = [INGRESS_CODE, *(node.kind for node in nodes)]
    view.rank[:] = np.arange(n)
    view.selectivity[0] = 1.0
    view.priority_class[:] = [0, *(node.operator.priority_class for node in nodes)]
    return view
