"""A simulation of a large graph, in machine code: what a :class:`~thalweg.simulate.ElasticHost` needs of one."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from thalweg.errors import BuildError
from thalweg.simulate.arrivals import Saturated
from thalweg.simulate.graph import Graph, Operator
from thalweg.simulate.hardware import SLOTS, Hardware
from thalweg.simulate.large_graphs import large_code as at
from thalweg.simulate.large_graphs.large_runs import run_dedicated, run_workers
from thalweg.simulate.result import Counters, OperatorCounters, SimulatedThread
from thalweg.simulate.threads.dedicated import Dedicated
from thalweg.simulate.threads.workers import require_threads

#: Draws of a machine's noise, which then come again.
_DRAWS: Final = 4_096
#: Those that may wait at a queue at once, beyond whom nobody is told apart.
_RING: Final = 256
#: So many events, some seconds' worth, go by before others may run.
_EVENTS: Final = 1 << 40


class LargeSimulation:
    """Stateful operators that take tuples as they come, under the free list or a thread an operator.

    Of the graph only the shape, costs, capacities and who deals matter; sources always have a tuple. Queues begin half
    full. It is :class:`~thalweg.simulate.Simulation` without places in the order and without latencies, and many times
    as fast.

    Args:
        graph: of operators that are stateful, let each tuple through, and merge as they come.
        hardware: the machine that threads share.
        policy: None is the free list, with self-help; or a thread an operator.
        threads: at first.
        grain: for how many tuples each one stands.
        visit_ns: what it costs to find an operator, apart from the list of those that are free.

    Raises:
        BuildError: the graph has what this cannot do.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        hardware: Hardware,
        policy: Dedicated | None = None,
        threads: int = 1,
        grain: int = 1,
        visit_ns: float = 0.0,
    ) -> None:
        _require_simple(graph)
        self.graph = graph
        self.hardware = hardware
        self._grain = grain
        self._dedicated = policy is not None
        self._most = max(threads, hardware.processors, len(graph.operators) if policy else 1)
        self._state = _state(graph, hardware, policy, grain, visit_ns, self._most)
        self.set_threads(threads)
        for op in range(len(graph.operators)):
            at.look(self._state, op)

    @property
    def seconds(self) -> float:
        """Virtual time, s."""
        return float(self._state.clock[at.NOW]) * 1e-9

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return int(self._state.run[at.LEVEL])

    @property
    def events(self) -> int:
        """Units of work, and decisions, so far."""
        return int(self._state.run[at.EVENTS])

    def run(self, seconds: float) -> None:
        """Goes on for so long, in virtual time."""
        until = float(self._state.clock[at.NOW]) + seconds * 1e9
        go = run_dedicated if self._dedicated else run_workers
        go(self._state, until, _EVENTS)

    def run_events(self, events: int) -> None:
        """Goes on for so many units of work and decisions."""
        go = run_dedicated if self._dedicated else run_workers
        go(self._state, math.inf, events)

    def set_threads(self, threads: int) -> None:
        """From now on so many; who is over that number ends the unit in hand first."""
        require_threads(threads)
        if threads > self._most:
            raise BuildError(f"threads: expected up to {self._most}, got {threads}")
        self._state.run[at.LEVEL] = threads
        workers = self._state.workers
        # Those who sleep have nothing in hand.
        over = workers[threads:]
        over[over[:, at.STATE] == at.IDLE, at.STATE] = at.GONE

    def set_limit(self, operator: str, limit: int) -> None:
        """All operators are stateful: none has a limit to set."""
        raise BuildError(f"no limit of {limit} for operator {operator}")

    def late(self) -> tuple[str, ...]:
        """By name the operators that those threads work on which are over the level and have not gone yet."""
        over = self._state.workers[self.threads :]
        places = over[over[:, at.STATE] == at.WORKING, at.WHERE]
        return tuple(self.graph.operators[place].name for place in places.tolist())

    def counters(self) -> Counters:
        """What was counted so far."""
        state = self._state
        spent = state.busy if self._dedicated else state.spent[: self.threads]
        done, busy = state.ops[:, at.DONE].tolist(), state.busy.tolist()
        return Counters(
            now_ns=round(float(state.clock[at.NOW])),
            threads=tuple(SimulatedThread(round(one), 0, 0) for one in spent.tolist()),
            operators=tuple(
                OperatorCounters(count * self._grain, round(ns), 0, 1)
                for count, ns in zip(done, busy, strict=True)
            ),
            late=self.late(),
            rows_out=int(state.run[at.LEFT_FLOW]) * self._grain,
        )


def _require_simple(graph: Graph) -> None:
    for one in graph.operators:
        simple = one.kind == "stateful" and one.selectivity == 1 and one.draw_cost == "constant"
        merged = len(one.reads) == 1 or one.merge == "arrival"
        if not (simple and merged and one.capacity is not None and one.load is None):
            raise BuildError(
                f"operator {one.name}: a large simulation has stateful operators with a capacity and a constant cost"
                " that let each tuple through, and take tuples as they come"
            )
    if any(not isinstance(one.arrivals, Saturated) for one in graph.sources):
        raise BuildError("a large simulation has sources that are saturated")


def _state(
    graph: Graph,
    hardware: Hardware,
    policy: Dedicated | None,
    grain: int,
    visit_ns: float,
    most: int,
) -> at.LargeState:
    count = len(graph.operators)
    ops, edges, sources = _operators(graph, grain)
    runners = max(most, count)
    rng = np.random.default_rng(0)
    return at.LargeState(
        ops=ops,
        costs=np.array([one.cost_ns for one in graph.operators], np.float64),
        edges=edges,
        sources=sources,
        workers=_workers(most),
        spent=np.zeros(most),
        busy=np.zeros(count),
        lines=_lines(ops),
        rings=np.zeros((count + 1, _RING)),
        machine=_machine(hardware, policy, grain, visit_ns),
        draws=rng.standard_normal(_DRAWS),
        run=at.blank(at.RUN_WORDS),
        clock=np.zeros(at.TIME_WORDS),
        heap=at.blank(runners),
        times=np.zeros(runners),
        goes=np.full(count, -1),
    )


def _workers(most: int) -> at.Ints:
    workers = at.blank((most, at.WORKER_WORDS))
    workers[:, at.LEFT] = -1
    return workers


def _operators(graph: Graph, grain: int) -> tuple[at.Ints, at.Ints, at.Ints]:
    places = {one.name: place for place, one in enumerate(graph.operators)}
    names = {one.name for one in graph.sources}
    readers: list[list[int]] = [[] for _ in graph.operators]
    writers: list[list[int]] = [[] for _ in graph.operators]
    for place, one in enumerate(graph.operators):
        for read in one.reads:
            if read in places:
                readers[places[read]].append(place)
                writers[place].append(places[read])
    ops = at.blank((len(places), at.OP_WORDS))
    _spans(ops, at.READERS, readers)
    _spans(ops, at.WRITERS, writers)
    for place, one in enumerate(graph.operators):
        ops[place, at.CAPACITY] = _room(one, grain)
        ops[place, at.DEALS] = one.split == "deal" and bool(readers[place])
        ops[place, at.ENDLESS] = bool(names.intersection(one.reads))
        ops[place, at.WAITING] = max(_room(one, grain) // 2, 1)
        ops[place, at.RAN] = place - len(places)
    flat = [np.array([x for one in lists for x in one] or [0]) for lists in (readers, writers)]
    return ops, flat[0], flat[1]


def _spans(ops: at.Ints, word: int, lists: list[list[int]]) -> None:
    ends = np.cumsum([len(one) for one in lists])
    ops[:, word + 1] = ends
    ops[1:, word] = ends[:-1]


def _room(operator: Operator, grain: int) -> int:
    assert operator.capacity is not None
    return max(operator.capacity // grain, 1)


def _lines(ops: at.Ints) -> at.Ints:
    lines = at.blank((len(ops) + 1, at.LINE_WORDS))
    lines[:, at.LAST_IN] = lines[:, at.LAST_OUT] = -1
    alone = ops[:, at.WRITERS_END] - ops[:, at.WRITERS] <= 1
    lines[:-1, at.SLOTS] = np.where(alone, SLOTS, 1)
    lines[-1, at.SLOTS] = 1
    lines[:-1, at.LOCKED] = 1
    return lines


def _machine(
    hardware: Hardware, policy: Dedicated | None, grain: int, visit_ns: float
) -> at.Floats:
    words = np.zeros(at.MACHINE_WORDS)
    words[at.CORES], words[at.PROCESSORS] = hardware.cores, hardware.processors
    words[at.SMT_GAIN], words[at.BUS] = hardware.smt_gain, hardware.bus
    words[at.QUEUE_NS], words[at.LINE_NS] = hardware.queue_ns, hardware.line_ns
    words[at.ATOMIC_NS] = hardware.atomic_ns
    words[at.NOISE], words[at.NOISE_NS] = hardware.noise, hardware.noise_s * 1e9
    words[at.VISIT_NS], words[at.GRAIN] = visit_ns, grain
    words[at.QUANTUM_NS] = 1.0
    if policy is not None:
        words[at.SWITCH_NS], words[at.QUANTUM_NS] = policy.switch_ns, policy.quantum_ns
        words[at.FUTEX_NS] = policy.switch_ns
    return words
