"""A simulated node runtime: built from a graph, run for as long as one likes, changed between."""

from __future__ import annotations

import random
from typing import Final

import numpy as np

from thalweg.errors import BuildError
from thalweg.scheduling.policy import WINDOW_NS, PickPolicy
from thalweg.scheduling.rounds import RoundPolicy
from thalweg.simulate.arrivals import Saturated
from thalweg.simulate.board import Board
from thalweg.simulate.dedicated import Dedicated, DedicatedThreads
from thalweg.simulate.events import Events
from thalweg.simulate.graph import Graph, Operator, Source
from thalweg.simulate.network import Feeder, Network, Port, SourceNode
from thalweg.simulate.nodes import KeyedNode, Node
from thalweg.simulate.picks import PickThreads
from thalweg.simulate.result import (
    Overhead,
    Simulated,
    SimulatedOperator,
    SimulatedSink,
    SimulatedSource,
)
from thalweg.simulate.rounds import RoundThreads
from thalweg.simulate.workers import Machine, ThreadModel

#: Who says what runs next: a policy that picks, one that plans rounds, or the operating system.
Policy = PickPolicy | RoundPolicy | Dedicated
#: How often the waiting tuples are noted, virtual seconds.
SAMPLE_S: Final = 0.1


class Simulation:
    """A graph that runs in virtual time under a policy.

    Example::

        >>> from thalweg.scheduling import FreeList
        >>> from thalweg.simulate import Constant, Graph, Operator, Simulation, Source
        >>> work = Operator(name="work", reads=("in",), cost_ns=1_000_000)
        >>> simulation = Simulation(Graph((Source("in", Constant(1_500)),), (work,)), policy=FreeList())
        >>> simulation.run(1.0)
        >>> simulation.result().rows_out
        1000
        >>> simulation.set_threads(2)
        >>> simulation.run(1.0)
        >>> simulation.result().rows_out
        2999

    Args:
        policy: whom a thread works for next, and with that the model of threading.
        threads: how many at first.
        overhead: what deciding costs.
        unit_tuples: tuples that an operator works on before it puts anything out. 1 is exact; with more, as with
            chunks, there are fewer events.
        sample_s: how often the waiting tuples are noted, s.
        seed: settles all that is drawn.

    Raises:
        BuildError: threads, or units, are less than one, or the policy is of no known sort.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        policy: Policy,
        threads: int = 1,
        overhead: Overhead | None = None,
        unit_tuples: int = 1,
        sample_s: float = SAMPLE_S,
        seed: int = 0,
    ) -> None:
        if unit_tuples < 1:
            raise BuildError(f"unit_tuples must be at least 1, not {unit_tuples}")
        self._net = Network()
        self._events = Events(self._net)
        self._sources, self._nodes = build(self._net, graph, seed)
        self._samples: list[tuple[int, int]] = []
        self._sample_ns = max(round(sample_s * 1e9), 1)
        window_ns = getattr(policy, "window_ns", WINDOW_NS)
        self._board = Board(self._net, self._nodes, window_ns)
        self._model = self._model_of(policy, overhead or Overhead(), unit_tuples)
        for source in self._sources:
            self._plan_arrival(source)
            source.flush()
        self._model.set_threads(threads)
        self._model.settle()
        self._events.plan(0, self._sample, None)

    @property
    def seconds(self) -> float:
        """Virtual time, s."""
        return self._net.now_ns / 1e9

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._model.level

    def run(self, seconds: float) -> None:
        """Goes on for so long, in virtual time."""
        self._events.run(self._net.now_ns + round(seconds * 1e9), self._model.settle)

    def set_threads(self, threads: int) -> None:
        """From now on so many threads; who is over that number ends the unit in hand first."""
        self._model.set_threads(threads)

    def set_limit(self, operator: str, limit: int) -> None:
        """From now on so many workers may be in an operator at a time.

        Raises:
            BuildError: there is no such operator, it is stateful, or the limit is less than one.
        """
        node = next((node for node in self._nodes if node.operator.name == operator), None)
        if node is None or node.operator.kind == "stateful" or limit < 1:
            raise BuildError(f"no limit of {limit} for operator {operator}")
        node.limit = limit
        self._net.touched.add(node)

    def result(self) -> Simulated:
        """What came of it so far."""
        now = self._net.now_ns
        return Simulated(
            seconds=now / 1e9,
            sources=tuple(SimulatedSource(s.name, s.arrived, len(s.out)) for s in self._sources),
            operators=tuple(_operator(node) for node in self._nodes),
            sinks=tuple(_sink(node) for node in self._nodes if not node.ports),
            threads=self._model.figures(),
            mean_queued=self._events.queued_ns / now if now else 0.0,
            most_queued=self._events.most_queued,
            sampled_queued=np.array(self._samples, np.int64).reshape(-1, 2),
            events=self._events.count,
            decisions=self._model.decisions,
        )

    def _model_of(self, policy: Policy, overhead: Overhead, unit_tuples: int) -> ThreadModel:
        machine = Machine(self._events, self._board, self._nodes, overhead, unit_tuples)
        if isinstance(policy, Dedicated):
            return DedicatedThreads(policy, machine)
        if isinstance(policy, RoundPolicy):
            return RoundThreads(policy, machine)
        if hasattr(policy, "pick_function"):
            return PickThreads(policy, machine)
        raise BuildError(
            f"{policy!r} is no policy\n"
            "  expected: one with pick_function(), a RoundPolicy, or Dedicated()"
        )

    def _arrive(self, source: SourceNode) -> None:
        source.arrive()
        self._plan_arrival(source)

    def _plan_arrival(self, source: SourceNode) -> None:
        at = next(source.times, None)
        if at is not None:
            self._events.plan_early(at, self._arrive, source)

    def _sample(self, _: None) -> None:
        self._samples.append((self._net.now_ns, self._net.queued))
        self._events.plan(self._net.now_ns + self._sample_ns, self._sample, None)


def simulate(
    graph: Graph,
    *,
    policy: Policy,
    seconds: float,
    threads: int = 1,
    overhead: Overhead | None = None,
    unit_tuples: int = 1,
    sample_s: float = SAMPLE_S,
    seed: int = 0,
) -> Simulated:
    """Runs a graph for so many virtual seconds; :class:`Simulation` says what the arguments mean."""
    simulation = Simulation(
        graph,
        policy=policy,
        threads=threads,
        overhead=overhead,
        unit_tuples=unit_tuples,
        sample_s=sample_s,
        seed=seed,
    )
    simulation.run(seconds)
    return simulation.result()


def build(net: Network, graph: Graph, seed: int) -> tuple[list[SourceNode], list[Node]]:
    """The running form of a graph, all empty."""
    feeders: dict[str, Feeder] = {}
    sources = [_source(net, source, seed) for source in graph.sources]
    nodes: list[Node] = []
    for source in sources:
        feeders[source.name] = source
    for index, operator in enumerate(graph.operators, start=1):
        made = KeyedNode if operator.kind == "keyed" else Node
        node = made(net, operator, index, seed)
        _connect(node, operator, [feeders[name] for name in operator.reads])
        feeders[operator.name] = node
        nodes.append(node)
    return sources, nodes


def _source(net: Network, source: Source, seed: int) -> SourceNode:
    times = source.arrivals.times_ns(random.Random(f"{seed} {source.name} arrivals"))
    saturated = isinstance(source.arrivals, Saturated)
    return SourceNode(net, source.name, times, saturated=saturated)


def _connect(node: Node, operator: Operator, read: list[Feeder]) -> None:
    """An inbox for each of those it reads, or one for all."""
    groups = [read] if operator.merge == "arrival" else [[feeder] for feeder in read]
    for group in groups:
        port = Port(node, group, [feeder for feeder in group if isinstance(feeder, Node)])
        node.inboxes.append(port)
        for feeder in group:
            feeder.ports.append(port)


def _operator(node: Node) -> SimulatedOperator:
    return SimulatedOperator(
        node.operator.name,
        node.rows_in,
        node.rows_out,
        node.waiting,
        node.most_waiting,
        node.in_work(),
        len(node.out),
        node.busy_ns,
        node.visits,
    )


def _sink(node: Node) -> SimulatedSink:
    times = np.array(node.exits, np.int64).reshape(-1, 2)
    return SimulatedSink(node.operator.name, times[:, 0].copy(), times[:, 1].copy())
