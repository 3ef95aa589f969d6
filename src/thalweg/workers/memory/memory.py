"""Builds the memory of a node runtime, and allocates room for flows while others run.

The offsets are in :mod:`thalweg.workers.memory.layout`. A flow's operators take a run of the table of operators, its
ports one of the table of ports, its queues blocks of what is left. Workers may look at operators at any time, so a
flow's words stand before its operators can be found; and what a removed flow had is used again only when every
worker has gone through its loop once more (:meth:`Memory.reclaim`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from thalweg.times import NEVER
from thalweg.workers.lockfree.atomics import EMPTY, load, store
from thalweg.workers.lockfree.hybrid_queue import (
    hybrid_init,
    partitioned_init,
    shared_init,
)
from thalweg.workers.lockfree.parking import parking_words
from thalweg.workers.lockfree.reorder import reorder_init
from thalweg.workers.lockfree.rings import (
    mpmc_init,
    mpmc_len,
    mpmc_pop,
    mpmc_push,
    power_above,
    spsc_init,
    spsc_words,
)
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import (
    ENTRY_WORDS,
    GOES_ON,
    HYBRID,
    KEYED,
    PARTITIONED,
    SHARED,
    STATEFUL,
    STATELESS,
    STOPS,
    SUSPENDS,
    Int64s,
    OpSpec,
)
from thalweg.workers.memory.placed import Placed
from thalweg.workers.memory.reserve import (
    KEPT,
    Ranges,
    Reserve,
    handles_of,
    no_room,
    own_threads_of,
    queue_words_of,
    readers_of,
    reorder_words_of,
    whole_lines,
    words_of,
)
from thalweg.workers.memory.shape import MemoryShape

_QUEUE_INIT: Final = {HYBRID: hybrid_init, PARTITIONED: partitioned_init, SHARED: shared_init}


class Memory(MemoryShape):
    """The memory of a node runtime with the flows in it. One thread at a time may add, remove and reclaim."""

    # -- flows ----------------------------------------------------------------------------------------------

    def handles_with(self, ops: Sequence[OpSpec], *, fresh: int | None = None) -> int:
        """How many handles there will be at most when these operators are there, too.

        Args:
            fresh: how many of their own workers never had an operator before; None: it is not known.
        """
        kept = KEPT * (1 + (own_threads_of(ops) if fresh is None else fresh))
        more = max(handles_of(ops) + kept - self._spare_handles, 0)
        return int(self.mem[at.HANDLE_COUNT]) + more

    def _fresh_owners(self, first: int, count: int) -> int:
        """How many of these workers never had an operator before."""
        return max(first + count - self._fresh_owner, 0) if count else 0

    def add(
        self, ops: Sequence[OpSpec], *, rows_limit: int, refs: int = 1, clocks: int = 1
    ) -> Placed:
        """A place for a flow, ready to run.

        Args:
            ops: in topological order, the first is its ingress.
            rows_limit: rows on their way at which its source waits.
            refs: the most streams that one of them puts out.
            clocks: its time domains.

        Raises:
            EnvironmentProblem: there is no room for it.
        """
        widest = max((len(op.reads) for op in ops), default=0)
        for name, wanted in {"widest": widest, "refs": refs, "clocks": clocks}.items():
            if wanted > getattr(self.reserve, name):
                raise no_room(name, self.reserve)
        placed = self._placed(ops)
        readers = readers_of(ops)
        owners = _owners_of(ops, placed.owners)
        event = self._event(placed.submitter)
        ingress = placed.first
        number = placed.first_port
        for index, op in enumerate(ops):
            shared = {
                at.FIRST_PORT: number, at.SOURCE: ingress, at.ROOM: event,
                at.SETTLED: event + parking_words(), at.ROWS_LIMIT: rows_limit, at.SUBMITTER: placed.submitter,
                at.FLOW_OPS: len(ops),
            }  # fmt: skip
            for feeder, ref in op.reads:
                self._put_port(placed, number, ingress + feeder, index, ref)
                number += 1
            owner = owners[index]
            shared |= {at.OWNER: owner + 1, at.PARK: 0 if owner == EMPTY else self._park(owner)}
            self._put_operator(placed, index, readers[index], shared)
        fresh = self._fresh_owners(placed.owners, own_threads_of(ops))
        self._fresh_owner += fresh
        self._more_handles(placed.handles + KEPT * fresh)
        self._publish(placed)
        return placed

    def _placed(self, ops: Sequence[OpSpec]) -> Placed:
        ports = sum(len(op.reads) for op in ops)
        words = words_of(ops)
        wanted = {
            "operators": (self._operators, len(ops)), "ports": (self._ports, ports),
            "flows": (self._submitters, 1), "words": (self._queues, words),
            "own_threads": (self._owners, own_threads_of(ops)),
        }  # fmt: skip
        taken: list[tuple[Ranges, int, int]] = []
        missing = ""
        for name, (ranges, count) in wanted.items():
            first = ranges.take(count) if count else 0
            if first == EMPTY:
                missing = missing or name
            else:
                taken.append((ranges, first, count))
        fresh = self._fresh_owners(*taken[-1][1:])
        if not missing and self.handles_with(ops, fresh=fresh) > self.reserve.handles:
            missing = "handles"
        if missing:
            for ranges, first, count in taken:
                ranges.give(first, count)
            raise no_room(missing, self.reserve)
        first, first_port, submitter, queues, owners = (one[1] for one in taken)
        return Placed(
            ops, first, first_port, submitter, owners, handles_of(ops) + KEPT,
            queues=queues, words=words, next=queues,
        )  # fmt: skip

    def _block(self, placed: Placed, words: int) -> int:
        """The next words of the flow's own."""
        first = placed.next
        placed.next += whole_lines(words)
        assert placed.next <= placed.queues + placed.words, "more words than it said"
        self.mem[first : placed.next] = 0
        return first

    def _put_port(self, placed: Placed, number: int, feeder: int, index: int, ref: int) -> None:
        mem, reader = self.mem, placed.ops[index]
        size = power_above(reader.capacity + 1)
        first = self._places[at.PORTS] + number * at.PORT_WORDS
        mem[first : first + at.PORT_WORDS] = 0
        mem[first + at.FEEDER], mem[first + at.READER] = feeder, placed.first + index
        mem[first + at.REF], mem[first + at.ENTRIES_MASK] = ref, size - 1
        mem[first + at.ENTRIES] = self._block(placed, ENTRY_WORDS * size)
        if reader.kind == STATEFUL:
            mem[first + at.RING] = ring = self._block(placed, spsc_words(reader.capacity))
            spsc_init(mem, ring, reader.capacity)

    def _put_operator(
        self, placed: Placed, index: int, edges: Sequence[int], shared: dict[int, int]
    ) -> None:
        mem, op = self.mem, placed.ops[index]
        first = self._operator(placed.first + index)
        places = {
            at.EDGES: self._block(placed, len(edges) + 1),
            at.QUEUE: self._block(placed, queue_words_of(op)),
            at.REORDER: self._block(placed, reorder_words_of(op)),
            at.EARLIEST: self._block(placed, op.partitions),
        }
        names = {
            at.NATIVE: op.native, at.NEEDS_TOKEN: op.needs_token, at.FN: op.fn, at.CTX: op.ctx, at.MERGE: op.merge,
            at.N_IN: len(op.reads), at.N_OUT: len(edges), at.CAPACITY: op.capacity, at.PARTITIONS: op.partitions,
            at.QUEUE_KIND: op.queue_kind, at.LIMIT: op.limit, at.ORDERED: op.ordered, at.LOCKING: op.locking,
            at.TIMERS: op.timers, at.CLOCK: op.clock, at.ENDING_NO: op.ending_no, at.IS_SPLIT: op.is_split,
            at.PAYLOAD_WORD: op.payload_word, at.PRIORITY: op.priority, at.FREE_FN: op.free_fn,
        }  # fmt: skip
        words = np.zeros(at.OP_WORDS, np.int64)
        for word, value in (names | places | shared).items():
            words[word] = value
        # Until all of the flow stands it is none that runs. A thread of its own may look at it already.
        store(mem, first + at.KIND, at.GONE)
        mem[first + at.KIND + 1 : first + at.OP_WORDS] = words[at.KIND + 1 :]
        mem[places[at.EDGES] : places[at.EDGES] + len(edges)] = [
            placed.first_port + edge for edge in edges
        ]
        mem[places[at.EARLIEST] : places[at.EARLIEST] + op.partitions] = NEVER
        if op.kind == STATELESS:
            mpmc_init(mem, places[at.QUEUE], op.capacity)
        elif op.kind == KEYED:
            _QUEUE_INIT[op.queue_kind](mem, places[at.QUEUE], op.partitions, op.capacity)
        if op.kind != STATEFUL:
            reorder_init(mem, places[at.REORDER], op.capacity, 0)

    def _publish(self, placed: Placed) -> None:
        """Workers may look at the flow's operators from now on."""
        mem, last = self.mem, placed.places.stop
        at.all_counts(mem)[:, placed.first : last] = 0
        store(mem, at.N_PORTS, max(int(mem[at.N_PORTS]), placed.first_port + placed.ports))
        for place, op in zip(placed.places, placed.ops, strict=True):
            store(mem, self._operator(place) + at.KIND, op.kind)
        store(mem, at.N_OPS, max(int(mem[at.N_OPS]), last))
        for place, owner in zip(placed.places, _owners_of(placed.ops, placed.owners), strict=True):
            if owner != EMPTY:
                store(mem, self._worker(owner) + at.FIXED, place)
                store(mem, self._worker(owner) + at.FLAG, STOPS if mem[at.STOP] else GOES_ON)
        times = [self._times_listed(op) for op in placed.ops]
        # By turns: who finds one that cannot run at the head comes to another one next.
        for turn in range(max(times, default=0)):
            for index in range(1, len(times)):
                if turn < times[index]:
                    mpmc_push(mem, self._places[at.FREE_OPS], placed.first + index)

    def _times_listed(self, op: OpSpec) -> int:
        """How often an operator stands in the free list."""
        if op.own_thread:
            return 0
        return min(op.limit, self._sent) if op.kind in (STATELESS, KEYED) else 1

    def remove(self, placed: Placed) -> None:
        """Takes a flow out; nothing of it may be on its way. Its place is free after :meth:`reclaim`."""
        # All else stays: a worker that has just run the last unit may still be in the operator, and asks for its kind.
        for op in placed.places:
            store(self.mem, self._operator(op) + at.LIMIT, 0)
        for owner in _owners_of(placed.ops, placed.owners):
            if owner != EMPTY:
                store(self.mem, self._worker(owner) + at.FLAG, SUSPENDS)
                store(self.mem, self._worker(owner) + at.FIXED, EMPTY)
        placed.passes = self._passes()
        self._removed.append(placed)

    def _passes(self) -> list[int]:
        workers = int(self.mem[at.MAX_WORKERS])
        return [load(self.mem, self._worker(w) + at.PASSES) for w in range(workers)]

    def reclaim(self, *, idle: bool = False) -> int:
        """Frees the places of removed flows that no worker can know any more; how many must wait for that.

        Args:
            idle: no worker runs.
        """
        now = self._passes()
        waiting = []
        for placed in self._removed:
            if idle or all(
                old != new or not old for old, new in zip(placed.passes, now, strict=True)
            ):
                self._forget(placed)
                self._drop_listed(placed)
                self._give_back(placed)
                self._spare_handles += placed.handles
            else:
                waiting.append(placed)
        self._removed = waiting
        return len(waiting)

    def _forget(self, placed: Placed) -> None:
        for op in placed.places:
            store(self.mem, self._operator(op) + at.KIND, at.GONE)

    def _drop_listed(self, placed: Placed) -> None:
        """Takes a flow's operators out of the free list."""
        ring = self._places[at.FREE_OPS]
        for _ in range(int(mpmc_len(self.mem, ring))):
            op = int(mpmc_pop(self.mem, ring))
            if op != EMPTY and op not in placed.places:
                mpmc_push(self.mem, ring, op)

    def _give_back(self, placed: Placed) -> None:
        self._operators.give(placed.first, len(placed.ops))
        self._ports.give(placed.first_port, placed.ports)
        self._submitters.give(placed.submitter, 1)
        self._owners.give(placed.owners, own_threads_of(placed.ops))
        self._queues.give(placed.queues, placed.words)


def _owners_of(ops: Sequence[OpSpec], first: int) -> list[int]:
    """By operator, the worker that has it alone, the first of them given; EMPTY: it has none."""
    before = [own_threads_of(ops[:index]) for index in range(len(ops))]
    return [first + n if op.own_thread else EMPTY for op, n in zip(ops, before, strict=True)]


def lay_out(
    ops: Sequence[OpSpec], *, workers: int, clocks: int, refs: int, rows_limit: int
) -> Int64s:
    """A memory for these operators alone (operator 0 is the ingress), ready to run.

    Args:
        ops: in topological order.
        workers: how many workers there may ever be that are sent to any operator.
        clocks: time domains.
        refs: the most streams that an operator puts out.
        rows_limit: rows on their way at which the source waits.
    """
    reserve = Reserve.exactly([ops], workers=workers, refs=refs, clocks=clocks)
    memory = Memory(workers=workers, reserve=reserve)
    memory.add(ops, rows_limit=rows_limit, refs=refs, clocks=clocks)
    return memory.mem
