"""A simulated node runtime: built from a graph, run for as long as one likes, changed between."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Mapping
from typing import Final

import numpy as np

from thalweg.brief import counted
from thalweg.errors import BuildError
from thalweg.scheduling.policy import WINDOW_NS, PickPolicy
from thalweg.scheduling.rounds import RoundPolicy
from thalweg.simulate.arrivals import Saturated
from thalweg.simulate.board import UNBOUNDED, Board
from thalweg.simulate.events import Events
from thalweg.simulate.graph import Graph, Operator, Source
from thalweg.simulate.hardware import Hardware
from thalweg.simulate.keyed_nodes import KeyedNode, PartitionedNode, SharedNode
from thalweg.simulate.network import Feeder, Network, Port, SourceNode
from thalweg.simulate.nodes import SimulatedNode
from thalweg.simulate.result import (
    Counters,
    OperatorCounters,
    Overhead,
    Simulated,
    SimulatedOperator,
    SimulatedSink,
    SimulatedSource,
)
from thalweg.simulate.snapshots import simulated_snapshot
from thalweg.simulate.threads.dedicated import Dedicated, DedicatedThreads
from thalweg.simulate.threads.manual import Manual, ManualThread
from thalweg.simulate.threads.picks import PickThreads
from thalweg.simulate.threads.rounds import RoundThreads
from thalweg.simulate.threads.sending import Reorder
from thalweg.simulate.threads.workers import Signals, SimulatedMachine, ThreadModel
from thalweg.snapshot import Snapshot

#: Who says what runs next: a policy that picks, one that plans rounds, the operating system, or nobody.
Policy = PickPolicy | RoundPolicy | Dedicated | Manual
#: How often the waiting tuples are noted, virtual seconds.
SAMPLE_S: Final = 0.1
#: By the queue of keyed operators; the others have none to choose.
_NODES: Final[Mapping[str, type[SimulatedNode]]] = {
    "": SimulatedNode,
    "hybrid": KeyedNode,
    "partitioned": PartitionedNode,
    "shared": SharedNode,
}


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
        hardware: the machine that threads share; None: one that has a core for each, and costs nothing.
        grain: for how many tuples each one stands that is simulated: it costs so many times as much, and takes as
            much room. 1 is exact; with more there are fewer events yet than with larger units.
        reorder: who sends on what operators put out, where that takes time (``overhead.send_ns``).
        self_help: a thread that leaves an operator since a reader has no room runs the reader next, a quarter of what
            its inbox holds (Schneider & Wu, 4.1.4). Only under policies that pick.
        signals: ``own``: what a thread looks at after each tuple is its own, and who has work wakes one that sleeps.
            ``shared``: all look at the same words, and all that sleep are woken. Costs something on ``hardware`` only,
            and under policies that pick.
        filled: how full inboxes are at the start, as a share of their capacity: a long pipeline takes long to fill,
            and a thousand operators are measured when it is. Not where operators merge by order.
        sample_s: how often the waiting tuples are noted, s.
        seed: settles all that is drawn.

    Raises:
        BuildError: threads, units, or the grain are less than one, the policy is of no known sort, or inboxes are to be
            filled that cannot be.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        policy: Policy,
        threads: int = 1,
        overhead: Overhead | None = None,
        unit_tuples: int = 1,
        hardware: Hardware | None = None,
        grain: int = 1,
        reorder: Reorder = "non-blocking",
        self_help: bool = False,
        signals: Signals = "own",
        filled: float = 0.0,
        sample_s: float = SAMPLE_S,
        seed: int = 0,
    ) -> None:
        if unit_tuples < 1 or grain < 1:
            raise BuildError(
                f"unit_tuples and grain must be at least 1, not {unit_tuples} and {grain}"
            )
        self.graph = graph
        self.hardware = hardware
        self._grain = grain
        self._net = Network()
        self._events = Events(self._net)
        self._sources, self._nodes = build(self._net, graph, seed, grain)
        self._samples: list[tuple[int, int]] = []
        self._sample_ns = max(round(sample_s * 1e9), 1)
        window_ns = getattr(policy, "window_ns", WINDOW_NS)
        self._board = Board(self._net, self._nodes, window_ns)
        machine = SimulatedMachine(
            self._events, self._board, self._nodes, overhead or Overhead(), unit_tuples, hardware, grain, reorder,
            self_help, signals,
        )  # fmt: skip
        self._model = _model(policy, machine)
        if filled:
            _fill(self._net, self._nodes, filled)
        self._policy = type(policy).__name__
        for source in self._sources:
            self._plan_arrival(source)
            source.flush()
        self._model.set_threads(threads)
        self._model.settle()
        self._events.plan(0, self._sample, None)

    def __repr__(self) -> str:
        return f"<Simulation of {counted(len(self.graph.operators), 'operator')}, {self.seconds:.6g} s so far>"

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
        self._net.changed.add(node)

    def late(self) -> tuple[str, ...]:
        """By name the operators that those threads work on which are over the level and have not gone yet."""
        return tuple(node.operator.name for node in self._model.late())

    def counters(self) -> Counters:
        """What was counted so far, for who looks at what comes between two moments."""
        return Counters(
            now_ns=self._net.now_ns,
            threads=self._model.figures(),
            operators=tuple(_counters(node) for node in self._nodes),
            late=self.late(),
            rows_out=self._grain * sum(len(node.exits) // 2 for node in self._nodes if not node.ports),
        )  # fmt: skip

    def snapshot(self) -> Snapshot:
        """What it does now, as every host says it: docs/snapshot.md."""
        return simulated_snapshot(self.graph, self.result(), self._model.level, self._policy)

    def result(self) -> Simulated:
        """What came of it so far."""
        now, grain = self._net.now_ns, self._grain
        return Simulated(
            seconds=now / 1e9,
            sources=tuple(
                SimulatedSource(s.name, s.arrived * grain, len(s.out) * grain)
                for s in self._sources
            ),
            operators=tuple(_operator(node) for node in self._nodes),
            sinks=tuple(_sink(node) for node in self._nodes if not node.ports),
            threads=self._model.figures(),
            mean_queued=grain * self._events.queued_ns / now if now else 0.0,
            most_queued=grain * self._events.most_queued,
            sampled_queued=np.array(self._samples, np.int64).reshape(-1, 2) * np.array([1, grain]),
            grain=grain,
            events=self._events.count,
            decisions=self._model.decisions,
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


def _model(policy: Policy, machine: SimulatedMachine) -> ThreadModel:
    if isinstance(policy, Dedicated):
        return DedicatedThreads(policy, machine)
    if isinstance(policy, Manual):
        return ManualThread(policy, machine)
    if isinstance(policy, RoundPolicy):
        return RoundThreads(policy, machine)
    if hasattr(policy, "pick_function"):
        return PickThreads(policy, machine)
    raise BuildError(
        f"{policy!r} is no policy\n"
        "  expected: one with pick_function(), a RoundPolicy, Dedicated(), or Manual()"
    )


def simulate(
    graph: Graph,
    *,
    policy: Policy,
    seconds: float,
    threads: int = 1,
    overhead: Overhead | None = None,
    unit_tuples: int = 1,
    hardware: Hardware | None = None,
    grain: int = 1,
    reorder: Reorder = "non-blocking",
    self_help: bool = False,
    signals: Signals = "own",
    filled: float = 0.0,
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
        hardware=hardware,
        grain=grain,
        reorder=reorder,
        self_help=self_help,
        signals=signals,
        filled=filled,
        sample_s=sample_s,
        seed=seed,
    )
    simulation.run(seconds)
    return simulation.result()


def build(
    net: Network, graph: Graph, seed: int, grain: int = 1
) -> tuple[list[SourceNode], list[SimulatedNode]]:
    """The running form of a graph, all empty."""
    feeders: dict[str, Feeder] = {}
    sources = [_source(net, source, seed, grain) for source in graph.sources]
    nodes: list[SimulatedNode] = []
    for source in sources:
        feeders[source.name] = source
    for index, exact in enumerate(graph.operators, start=1):
        operator = _coarse(exact, grain)
        node = _NODES[operator.queue if operator.kind == "keyed" else ""](
            net, operator, index, seed, grain
        )
        _connect(node, operator, [feeders[name] for name in operator.reads])
        feeders[operator.name] = node
        nodes.append(node)
    return sources, nodes


def _fill(net: Network, nodes: list[SimulatedNode], share: float) -> None:
    """Puts tuples into all inboxes, those that are furthest on first."""
    if not 0 < share < 1:
        raise BuildError(f"filled: expected a share from 0 to below 1, got {share!r}")
    for node in reversed(nodes):
        for port in node.inboxes:
            if port.merges or port.capacity >= UNBOUNDED:
                raise BuildError(
                    f"filled: operator {node.operator.name} merges by order, or has no capacity"
                )
            for _ in range(int(port.capacity * share)):
                port.push(net.new_key())


def _coarse(operator: Operator, grain: int) -> Operator:
    """An operator with room for as many tuples where one stands for several."""
    if grain == 1:
        return operator
    capacity = operator.capacity
    return dataclasses.replace(
        operator,
        capacity=None if capacity is None else max(capacity // grain, 1),
        window=max(operator.window // grain, 1),
    )


def _source(net: Network, source: Source, seed: int, grain: int) -> SourceNode:
    times = source.arrivals.times_ns(random.Random(f"{seed} {source.name} arrivals"))
    times = itertools.islice(times, grain - 1, None, grain)
    saturated = isinstance(source.arrivals, Saturated)
    return SourceNode(net, source.name, times, saturated=saturated)


def _connect(node: SimulatedNode, operator: Operator, read: list[Feeder]) -> None:
    """An inbox for each of those it reads, or one for all."""
    groups = [read] if operator.merge == "arrival" else [[feeder] for feeder in read]
    for place, group in enumerate(groups):
        nodes = [feeder for feeder in group if isinstance(feeder, SimulatedNode)]
        port = Port(node, group, nodes, place, merges=len(groups) > 1)
        node.inboxes.append(port)
        for feeder in group:
            feeder.ports.append(port)


def _operator(node: SimulatedNode) -> SimulatedOperator:
    grain = node.grain
    return SimulatedOperator(
        node.operator.name,
        node.rows_in * grain,
        node.rows_out * grain,
        node.waiting * grain,
        node.most_waiting * grain,
        node.in_work() * grain,
        len(node.out) * grain,
        node.busy_ns,
        node.visits,
        node.held_ns * 1e-9 / node.rows_in if node.rows_in else 0.0,
    )


def _counters(node: SimulatedNode) -> OperatorCounters:
    return OperatorCounters(
        node.worked * node.grain,
        node.busy_ns,
        max(port.congested_ns() for port in node.inboxes),
        node.limit,
    )


def _sink(node: SimulatedNode) -> SimulatedSink:
    times = np.array(node.exits, np.int64).reshape(-1, 2)
    return SimulatedSink(node.operator.name, times[:, 0].copy(), times[:, 1].copy())
