"""Chains of machine-code operators on real workers, fed at a given rate: what policies do where time is real.

A graph of chains (:func:`thalweg.simulate.haren_chains`) becomes flows in one memory of the node runtime, with the
loop, the queues and the rounds of every run. An operator works for as long as its cost says and lets through as many
tuples as its selectivity says, drawn by the tuple's place in the input: so each way to schedule has the same work, and
its output is the same. Arrivals are those of the graph whatever the operators do (an open loop), and a tuple's latency
counts from when it was due: a source that must wait hides nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.compiler.runtime.calls import address_of
from thalweg.scheduling import RoundPolicy
from thalweg.simulate import Graph, Operator
from thalweg.workers.lockfree.parking import parking_init, parking_words
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import Int64s, OpSpec
from thalweg.workers.memory.memory import Memory
from thalweg.workers.memory.placed import Placed
from thalweg.workers.memory.places import worker_at
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.rounds.rounds import OperatorTraits, Rounds
from thalweg.workers.steps import wait_until_settled
from thalweg_lab import chain_code as code
from thalweg_lab.graphs import run_workers, warm_up

#: A thread an operator; the free list; or a policy of rounds.
Way = Literal["dedicated", "free list"] | RoundPolicy
#: Tuples that an operator's inbox holds, as in the simulator.
CAPACITY: Final = 1_000
#: Where there is to be work at any time: tuples of so many times as long.
_STOCK: Final = 4
_WAIT_US: Final = 50_000


@dataclasses.dataclass(frozen=True, slots=True)
class ChainRun:
    """What came of a run.

    Attributes:
        seconds: by the clock.
        cores: CPU time of the process a second.
        taken: by operator, tuples.
        given: by operator, tuples.
        latencies_ns: by query, of its tuples that have left, in the order of the input, int64.
        oldest_ns: by query, how long the first tuple that is still there has waited, 0 where there is none.
        queued: tuples that were due and neither in work nor gone, every 5 ms, int64.
    """

    seconds: float
    cores: float
    taken: Mapping[str, int]
    given: Mapping[str, int]
    latencies_ns: Sequence[npt.NDArray[np.int64]]
    oldest_ns: Sequence[int]
    queued: npt.NDArray[np.int64]


# -- the flows -------------------------------------------------------------------------------------------------


def _input(graph: Graph, seconds: float, seed: int) -> tuple[Int64s, Int64s]:
    """All sources' tuples, one source after the other, and the words of the sources."""
    due: list[list[int]] = []
    for source in graph.sources:
        times = source.arrivals.times_ns(random.Random(f"{seed} {source.name}"))
        due.append(list(itertools.takewhile(lambda t: t < seconds * 1e9, times)))
    ends = list(itertools.accumulate(map(len, due)))
    blocks = np.zeros((ends[-1], code.BLOCK_WORDS), np.int64)
    blocks[:, code.COUNT] = 1
    blocks[:, code.DUE] = list(itertools.chain.from_iterable(due))
    blocks[:, code.PLACE] = list(itertools.chain.from_iterable(range(len(one)) for one in due))
    sources = np.zeros((len(due), code.SOURCE_WORDS), np.int64)
    sources[:, code.END] = ends
    for word in (code.FIRST, code.NEXT, code.COME):
        sources[1:, word] = ends[:-1]
    return blocks, sources


def _contexts(graph: Graph) -> Int64s:
    read = {name for operator in graph.operators for name in operator.reads}
    contexts = np.zeros((len(graph.operators), code.CONTEXT_WORDS), np.int64)
    for number, operator in enumerate(graph.operators):
        contexts[number, [code.TURNS, code.SELECTIVITY, code.NUMBER, code.IS_LAST]] = (
            max(round(operator.cost_ns / code.turn_ns()), 1),
            round(operator.selectivity * code.ONE),
            number,
            operator.name not in read,
        )
    return contexts


def _specs(chain: Sequence[Operator], contexts: Int64s, capacity: int) -> list[OpSpec]:
    """A chain's ingress and operators, whose words are the first of these."""
    specs = [OpSpec("ingress", at.INGRESS, capacity=capacity)]
    specs += [
        OpSpec(
            operator.name, at.STATEFUL, reads=[(i, 0)], capacity=capacity, native=True, needs_token=False,
            fn=address_of(code.operate), ctx=int(contexts[i].ctypes.data), free_fn=address_of(code.free),
            limit=1, priority=operator.priority_class,
        )
        for i, operator in enumerate(chain)
    ]  # fmt: skip
    return specs


def _chains_of(graph: Graph) -> list[list[Operator]]:
    """By source, the operators behind it."""
    chains: dict[str, list[Operator]] = {source.name: [] for source in graph.sources}
    for operator in graph.operators:
        (read,) = operator.reads
        chain = chains.pop(read)
        chains[operator.name] = [*chain, operator]
    return list(chains.values())


def _traits(
    chains: Sequence[Sequence[Operator]], placed: Sequence[Placed]
) -> dict[int, OperatorTraits]:
    traits = {}
    for flow, chain in zip(placed, chains, strict=True):
        one = chain[0]
        traits[flow.first] = OperatorTraits("ingress", one.flow, one.priority_class)
        for rank, operator in enumerate(chain, start=1):
            traits[flow.first + rank] = OperatorTraits(
                operator.name, operator.flow, operator.priority_class, rank
            )
    return traits


def run(
    graph: Graph,
    way: Way,
    *,
    threads: int,
    seconds: float,
    to_the_end: bool = False,
    at_once: bool = False,
    capacity: int = CAPACITY,
    seed: int = 0,
) -> ChainRun:
    """Runs chains for so long.

    Args:
        graph: chains of operators with arrivals; kinds, limits and capacities are not looked at, each operator has one
            worker at a time.
        way: how workers are scheduled.
        threads: workers; ``dedicated`` has one an operator.
        seconds: how long tuples arrive.
        at_once: the tuples of four times as long are due at the begin, so there is always work.
        to_the_end: goes on until the last tuple has left; else it ends with the arrivals, and what waits, waits.
        capacity: tuples that an inbox holds; others wait at the source.
        seed: of the arrivals.
    """
    blocks, sources = _input(graph, seconds * (_STOCK if at_once else 1), seed)
    if at_once:
        blocks[:, code.DUE] = 0
    chains, contexts = _chains_of(graph), _contexts(graph)
    firsts = itertools.accumulate(map(len, chains[:-1]), initial=0)
    flows = [
        _specs(chain, contexts[first:], capacity)
        for chain, first in zip(chains, firsts, strict=True)
    ]
    memory = _memory(flows, way, threads)
    placed = [memory.add(specs, rows_limit=code.FOR_EVER) for specs in flows]
    sources[:, code.INGRESS] = [flow.first for flow in placed]
    rounds = _schedule(memory.mem, way, chains, placed)
    samples = np.zeros(int(seconds * 1e9 / code.SAMPLE_NS) + 1, np.int64)
    event = np.zeros(parking_words(), np.int64)
    parking_init(event, 0)

    def feed() -> _Feeding:
        length = code.FOR_EVER if to_the_end else round(seconds * 1e9)
        times = code.feed(memory.mem, event, sources, blocks, contexts, samples, length)
        for flow in placed:
            while to_the_end and not wait_until_settled(memory.mem, flow.first, _WAIT_US):
                pass
        # Workers go on for a moment.
        return _Feeding(*times, blocks.copy(), contexts.copy())

    # What is compiled at the first call is not to be measured.
    warm_up()
    code.feed(memory.mem, event, sources, blocks, contexts, samples, 0)
    fed, wall, cpu = run_workers(memory.mem, rounds, feed)
    by_source = np.split(fed.blocks, sources[1:, code.FIRST])
    names = [operator.name for operator in graph.operators]
    return ChainRun(
        seconds=wall,
        cores=cpu / wall,
        taken=dict(zip(names, fed.contexts[:, code.TAKEN].tolist(), strict=True)),
        given=dict(zip(names, fed.contexts[:, code.GIVEN].tolist(), strict=True)),
        latencies_ns=[_latencies(mine, fed.begin) for mine in by_source],
        oldest_ns=[_oldest(mine, fed.end - fed.begin) for mine in by_source],
        queued=samples[: fed.sampled],
    )


class _Feeding(NamedTuple):
    """When feeding began and ended, monotonic ns, how many samples it took, and what there was at its end."""

    begin: int
    end: int
    sampled: int
    blocks: Int64s
    contexts: Int64s


def _latencies(blocks: Int64s, begin: int) -> Int64s:
    """Of a source's tuples that have left, from when they were due, ns."""
    left = blocks[blocks[:, code.LEFT] > 0]
    return left[:, code.LEFT] - left[:, code.DUE] - begin


def _oldest(blocks: Int64s, now: int) -> int:
    """For how long the first of a source's tuples has been due that is neither dropped nor has left, ns."""
    there = np.flatnonzero((blocks[:, code.COUNT] > 0) & (blocks[:, code.LEFT] == 0))
    return max(now - int(blocks[there[0], code.DUE]), 0) if len(there) else 0


def _memory(flows: Sequence[Sequence[OpSpec]], way: Way, threads: int) -> Memory:
    workers = sum(map(len, flows)) if way == "dedicated" else threads
    reserve = Reserve.exactly(flows, workers=workers, refs=1, clocks=1)
    return Memory(workers=workers, reserve=reserve, own_threads=way == "dedicated")


def _schedule(
    mem: Int64s, way: Way, chains: Sequence[Sequence[Operator]], placed: Sequence[Placed]
) -> Rounds | None:
    """Tells the workers where to go."""
    mem[at.SLICE] = mem[at.WINDOW] = code.FOR_EVER
    if isinstance(way, RoundPolicy):
        rounds = Rounds(mem, _traits(chains, placed), way)
        mem[at.MODE] = at.BY_ROUND
        return rounds
    mem[at.MODE] = at.BY_FREE_LIST
    if way == "dedicated":
        mem[at.MODE] = at.DEDICATED
        for flow in placed:
            for place in range(flow.first + 1, flow.first + len(flow.ops)):
                mem[worker_at(mem, place) + at.FIXED] = place
    return None
