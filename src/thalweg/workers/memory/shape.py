"""Where each table of a node runtime's memory stands, and what is in it before the first flow."""

from __future__ import annotations

import numpy as np

from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.lockfree.parking import parking_init, parking_words
from thalweg.workers.lockfree.rings import (
    mpmc_init,
    mpmc_push,
    mpmc_words,
)
from thalweg.workers.lockfree.sleepers import sleepers_words
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import (
    LINE,
    Int64s,
)
from thalweg.workers.memory.placed import Placed
from thalweg.workers.memory.reserve import (
    KEPT,
    SPARE,
    Ranges,
    Reserve,
    whole_lines,
)


class MemoryShape:
    """The memory's tables, for as many operators, ports, workers and handles as there is room for.

    Args:
        workers: how many workers there may ever be that are sent to any operator. Behind them stand those that have
            one operator alone, each with an event count of its own.
        reserve: how much room there is for flows.
    """

    def __init__(self, *, workers: int, reserve: Reserve) -> None:
        self.reserve, self._sent = reserve, workers
        workers += reserve.own_threads
        self._top = at.HEAD_WORDS
        self._listed = workers * reserve.operators
        self._worker_words = whole_lines(at.INPUTS + reserve.widest) + LINE
        self._handle_words = whole_lines(at.CLOCKS + reserve.clocks + reserve.refs)
        threads = workers + reserve.flows
        view = whole_lines(
            reserve.operators * (at.VIEW_FIELDS + 1) + 2 + reserve.ports * at.PORT_FIELDS
        )
        self._places = {
            at.OPS: self._row(reserve.operators * at.OP_WORDS),
            at.PORTS: self._row(reserve.ports * at.PORT_WORDS),
            # Who submits is no worker, but lets go of handles, too.
            at.WORKERS: self._row(threads * self._worker_words),
            at.STATS: self._row(workers * reserve.operators * at.STAT_WORDS),
            at.STACKS: self._row(threads * whole_lines(reserve.ports + 1)),
            at.HANDLES: self._row(reserve.handles * self._handle_words),
            at.FREE: self._row(mpmc_words(reserve.handles)),
            at.GARBAGE: self._row(mpmc_words(reserve.handles)),
            at.FREE_OPS: self._row(mpmc_words(self._listed + 1)),
            at.SLEEPERS: self._row(sleepers_words(workers)),
            at.ROUNDS: self._row(parking_words()),
            at.SUSPENDED: self._row(parking_words()),
        }
        views = self._row(threads * view)
        self._events = self._row(reserve.flows * 2 * parking_words())
        lists = self._row(workers * reserve.operators * at.LISTED_WORDS)
        self._sleeping = self._row(workers * parking_words())
        queues = self._row(reserve.words)
        self.mem = _aligned(self._top)
        self._operators = Ranges(0, reserve.operators)
        self._ports = Ranges(0, reserve.ports)
        self._submitters = Ranges(workers, reserve.flows)
        self._owners = Ranges(self._sent, reserve.own_threads)
        self._queues = Ranges(queues, reserve.words)
        self._spare_handles = 0
        self._removed: list[Placed] = []
        self._fill_head(workers)
        for worker in range(threads):
            self._fill_worker(worker, views + worker * view)
            if worker < workers:
                first = lists + worker * reserve.operators * at.LISTED_WORDS
                self.mem[self._worker(worker) + at.LIST] = first
        # Who wakes others may be late: event counts stay where they are.
        for submitter in range(workers, threads):
            parking_init(self.mem, self._event(submitter))
            parking_init(self.mem, self._event(submitter) + parking_words())
        for worker in range(workers):
            self.mem[self._worker(worker) + at.EVENT] = self._park(worker)
            parking_init(self.mem, self._park(worker))
        #: the first worker with one operator alone that has never had one: it keeps handles from its first flow on
        self._fresh_owner = self._sent
        self._more_handles(KEPT * self._sent + SPARE)

    def _park(self, worker: int) -> int:
        """The event count on which a worker sleeps."""
        return self._sleeping + worker * parking_words()

    def _event(self, submitter: int) -> int:
        """Where the two event counts of a flow stand."""
        number = submitter - int(self.mem[at.MAX_WORKERS])
        return self._events + number * 2 * parking_words()

    def _row(self, words: int) -> int:
        first = self._top
        self._top += whole_lines(words) + LINE
        return first

    def _operator(self, op: int) -> int:
        return self._places[at.OPS] + op * at.OP_WORDS

    def _worker(self, worker: int) -> int:
        return self._places[at.WORKERS] + worker * self._worker_words

    def _fill_head(self, workers: int) -> None:
        mem, reserve, places = self.mem, self.reserve, self._places
        for word, place in places.items():
            mem[word] = place
        mem[at.BASE] = mem.__array_interface__["data"][0]
        mem[[at.MAX_OPS, at.MAX_WORKERS]] = reserve.operators, workers
        mem[[at.N_CLOCKS, at.N_REFS]] = reserve.clocks, reserve.refs
        mem[[at.WORKER_WORDS, at.HANDLE_WORDS]] = self._worker_words, self._handle_words
        mem[at.STACK_WORDS] = whole_lines(reserve.ports + 1)
        mem[[at.N_WORKERS, at.ACTIVE]] = self._sent
        mem[at.N_COUNTED] = workers
        for ring in (at.FREE, at.GARBAGE):
            mpmc_init(mem, places[ring], reserve.handles)
        mpmc_init(mem, places[at.FREE_OPS], self._listed + 1)
        parking_init(mem, places[at.ROUNDS])
        parking_init(mem, places[at.SUSPENDED])

    def _fill_worker(self, worker: int, view: int) -> None:
        mem, first = self.mem, self._worker(worker)
        mem[[first + word for word in (at.SPARE, at.HELP, at.FIXED, at.OP, at.PART)]] = EMPTY
        mem[first + at.SEED] = worker
        mem[first + at.VIEW] = mem[at.BASE] + 8 * view
        mem[first + at.LIST_LEVEL] = EMPTY

    def _more_handles(self, wanted: int) -> None:
        """Makes handles, but for those that removed flows have left."""
        mem, known = self.mem, int(self.mem[at.HANDLE_COUNT])
        spare = min(self._spare_handles, wanted)
        self._spare_handles -= spare
        mem[at.HANDLE_COUNT] = known + wanted - spare
        for handle in range(known, known + wanted - spare):
            mpmc_push(mem, self._places[at.FREE], handle)


def _aligned(words: int) -> Int64s:
    """Zeros that begin on a cache line."""
    whole = np.zeros(words + LINE, np.int64)
    offset = -(whole.__array_interface__["data"][0] // 8) % LINE
    return whole[offset : offset + words]
