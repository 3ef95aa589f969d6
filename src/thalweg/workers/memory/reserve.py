"""The room that flows take in the memory of a node runtime, and which parts of it are free."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence
from typing import Final

from thalweg.errors import EnvironmentProblem
from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.lockfree.hybrid_queue import hybrid_words, partitioned_words, shared_words
from thalweg.workers.lockfree.reorder import reorder_words
from thalweg.workers.lockfree.rings import mpmc_words, power_above, spsc_words
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import (
    ENTRY_WORDS,
    HYBRID,
    KEYED,
    LINE,
    PARTITIONED,
    SHARED,
    STATEFUL,
    STATELESS,
    OpSpec,
)

_QUEUE_WORDS: Final = {HYBRID: hybrid_words, PARTITIONED: partitioned_words, SHARED: shared_words}
#: Handles that workers and those who submit may keep, and some to spare.
KEPT: Final = at.KEEP + 4
SPARE: Final = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """The room of a memory: how much all flows together may have that are there at once.

    What is not used takes no physical memory. ``words`` are those of queues and reorder buffers; ``widest`` is the
    most inputs that an operator has, ``refs`` the most streams that it puts out, ``clocks`` the most time domains of
    a flow, ``flows`` how many flows, ``own_threads`` how many operators with a thread of their own.
    """

    operators: int = 2_048
    ports: int = 4_096
    handles: int = 1 << 18
    words: int = 1 << 25
    widest: int = 64
    refs: int = 64
    clocks: int = 32
    flows: int = 64
    own_threads: int = 64

    @staticmethod
    def of_flows(count: int) -> Reserve:
        """The default for 64 flows or fewer, and as much a flow for more."""
        usual = Reserve()
        times = -(-count // usual.flows)
        return dataclasses.replace(
            usual, operators=times * usual.operators, ports=times * usual.ports, handles=times * usual.handles,
            words=times * usual.words, flows=times * usual.flows, own_threads=times * usual.own_threads,
        )  # fmt: skip

    @staticmethod
    def exactly(
        flows: Sequence[Sequence[OpSpec]], *, workers: int, refs: int, clocks: int
    ) -> Reserve:
        """The room for these flows and no other."""
        specs = [op for ops in flows for op in ops]
        own = own_threads_of(specs)
        kept = KEPT * (workers + own + len(flows)) + SPARE
        return Reserve(
            operators=len(specs),
            ports=sum(len(op.reads) for op in specs),
            handles=sum(handles_of(ops) for ops in flows) + kept,
            words=sum(words_of(ops) for ops in flows),
            widest=max((len(op.reads) for op in specs), default=1),
            refs=refs,
            clocks=clocks,
            flows=len(flows),
            own_threads=own,
        )


def no_room(name: str, reserve: Reserve) -> EnvironmentProblem:
    """The error of a flow that does not fit."""
    return EnvironmentProblem(
        f"no room for one more flow: it needs more {name} than are left of the {getattr(reserve, name)} "
        f"that were reserved\n  pass reserve=thalweg.workers.memory.reserve.Reserve({name}=...) with more of them"
    )


class Ranges:
    """Which parts of a row of places are free: the first that is long enough is taken."""

    def __init__(self, first: int, count: int) -> None:
        self._free = [(first, count)] if count else []

    def take(self, count: int) -> int:
        """The first of so many places side by side, EMPTY when there are none."""
        for number, (first, length) in enumerate(self._free):
            if length >= count:
                left = [(first + count, length - count)] if length > count else []
                self._free[number : number + 1] = left
                return first
        return EMPTY

    def give(self, first: int, count: int) -> None:
        """These are free again."""
        if not count:
            return
        number = bisect.bisect(self._free, (first, count))
        if number < len(self._free) and first + count == self._free[number][0]:
            count += self._free.pop(number)[1]
        if number and sum(self._free[number - 1]) == first:
            before, length = self._free.pop(number - 1)
            first, count, number = before, length + count, number - 1
        self._free.insert(number, (first, count))


def whole_lines(words: int) -> int:
    return -(-words // LINE) * LINE


def own_threads_of(ops: Sequence[OpSpec]) -> int:
    """How many of these have a thread of their own."""
    return sum(op.own_thread for op in ops)


def readers_of(ops: Sequence[OpSpec]) -> list[list[int]]:
    """By operator, the ports that read it, counted from the flow's first."""
    edges: list[list[int]] = [[] for _ in ops]
    number = 0
    for op in ops:
        for feeder, _ in op.reads:
            edges[feeder].append(number)
            number += 1
    return edges


def handles_of(ops: Sequence[OpSpec]) -> int:
    """The handles that can be in a flow's queues and buffers at once."""
    deepest = [0] * len(ops)
    for op in ops:
        for feeder, _ in op.reads:
            deepest[feeder] = max(deepest[feeder], op.capacity)
    return sum(op.capacity + more + 2 for op, more in zip(ops, deepest, strict=True))


def words_of(ops: Sequence[OpSpec]) -> int:
    """The words of a flow's queues and buffers."""
    total = 0
    for op, edges in zip(ops, readers_of(ops), strict=True):
        own = [len(edges) + 1, queue_words_of(op), reorder_words_of(op), op.partitions]
        ports = [ENTRY_WORDS * power_above(op.capacity + 1)]
        ports += [spsc_words(op.capacity)] if op.kind == STATEFUL else []
        total += sum(map(whole_lines, own)) + len(op.reads) * sum(map(whole_lines, ports))
    return total


def queue_words_of(op: OpSpec) -> int:
    if op.kind == STATELESS:
        return mpmc_words(op.capacity)
    if op.kind == KEYED:
        return _QUEUE_WORDS[op.queue_kind](op.partitions, op.capacity)
    return 1


def reorder_words_of(op: OpSpec) -> int:
    return 1 if op.kind == STATEFUL else reorder_words(op.capacity)
