"""Where everything stands in the memory of a node runtime: one int64 array that all workers share.

The array holds the flow's operators with their worklists and reorder buffers, the handles of the chunks on their
way, the workers, and the counts. Compiled code reads it by the named offsets below; what several threads write
stands on cache lines of its own. Python builds it once (:func:`lay_out`) and never moves it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from thalweg.runtime.atomics import EMPTY
from thalweg.runtime.buckets import (
    hybrid_init,
    hybrid_words,
    partitioned_init,
    partitioned_words,
    shared_init,
    shared_words,
)
from thalweg.runtime.parking import parking_init, parking_words
from thalweg.runtime.reorder import reorder_init, reorder_words
from thalweg.runtime.rings import (
    mpmc_init,
    mpmc_push,
    mpmc_words,
    power_above,
    spsc_init,
    spsc_words,
)
from thalweg.times import BEFORE_ALL, NEVER

Int64s = npt.NDArray[np.int64]

#: A block's payload is a handle, and above these bits which of its streams holds the columns.
PAYLOAD_SHIFT: Final = 32
PAYLOAD_MASK: Final = (1 << PAYLOAD_SHIFT) - 1
#: Words of a cache line.
LINE: Final = 8

# -- the whole -------------------------------------------------------------------------------------------------
#: Constant words.
BASE: Final = 0  # the array's address
N_OPS: Final = 1
N_WORKERS: Final = 2  # workers that there may be
OPS: Final = 3  # where operators stand
HANDLES: Final = 4
HANDLE_WORDS: Final = 5
N_CLOCKS: Final = 6  # time domains whose clock a chunk carries
N_REFS: Final = 7  # streams that one operator may put out
WORKERS: Final = 8
FREE: Final = 9  # ring of handles nobody uses
GARBAGE: Final = 10  # ring of handles whose Python object must be let go
PARKED: Final = 11  # event count of idle workers
WAITING: Final = 12  # event count of sources that wait for room
FREE_OPS: Final = 13  # the free list of operators
STATS: Final = 14  # counts by worker and operator
PORTS: Final = 15
MODE: Final = 16  # how a worker finds its next operator
PICK: Final = 17  # address of the compiled pick
SLICE: Final = 18  # time slice, ns
WINDOW: Final = 19  # window of the worker time in a view, ns
ROWS_LIMIT: Final = 20  # rows on their way at which sources wait
STACKS: Final = 21
WORKER_WORDS: Final = 22
STACK_WORDS: Final = 23
HANDLE_COUNT: Final = 25
SETTLING: Final = 24  # event count of those who wait until all is done
ROUNDS: Final = 26  # event count of workers that wait for the next round
BATCH: Final = 27  # tuples of a visit within a round
GRACE: Final = 28  # how long the meeting between rounds waits for a worker, ns
STARVE: Final = 29  # after so long an operator that could run is run next, ns; 0: never
N_PORTS: Final = 30
#: Words that change, a line each.
STOP: Final = 4 * LINE  # 1: workers and sources leave
TOKEN: Final = 5 * LINE  # worker + 1 that runs interpreted code, 0: none
TOKEN_SINCE: Final = TOKEN + 1
BESIDE: Final = TOKEN + 2  # workers that run interpreted code beside a holder who seems to wait
ROWS: Final = 6 * LINE  # rows on their way
ACTIVE: Final = 7 * LINE  # workers that may run; those with a greater number are suspended
WINDOW_START: Final = 8 * LINE
ROUND_END: Final = 9 * LINE  # when the round is over, monotonic ns
ROUND_NO: Final = 9 * LINE + 1  # rounds so far
LEADER: Final = 10 * LINE  # worker + 1 that prepares the next round, 0: none
HEAD_WORDS: Final = 11 * LINE

#: Values of MODE.
BY_PICK: Final = 0
BY_FREE_LIST: Final = 1
DEDICATED: Final = 2
BY_PYTHON: Final = 3
BY_ROUND: Final = 4

# -- operators -------------------------------------------------------------------------------------------------
#: Constant words of an operator.
KIND: Final = 0
NATIVE: Final = 1  # 1: FN, SPLIT and MERGE are machine code
NEEDS_TOKEN: Final = 2
FN: Final = 3
CTX: Final = 4
MERGE: Final = 5
N_IN: Final = 6
FIRST_PORT: Final = 7
N_OUT: Final = 8
EDGES: Final = 9  # ports that read what it puts out
QUEUE: Final = 10  # its worklist
REORDER: Final = 11
CAPACITY: Final = 12  # chunks between its inbox and its output
PARTITIONS: Final = 13
QUEUE_KIND: Final = 14
LIMIT: Final = 15  # workers at most
ORDERED: Final = 16  # 0: outputs go on as they come
LOCKING: Final = 17  # 1: the lock-based reorder buffer
TIMERS: Final = 18  # 1: it has timers
EARLIEST: Final = 19  # a lower bound of the timers of each partition
CLOCK: Final = 20  # which clock rules its timers, -1 none
ENDING_NO: Final = 21  # the ending at which its last timers fire
PAYLOAD_WORD: Final = 22  # where its blocks name their payload, 0: they have none
IS_SPLIT: Final = 23  # 1: what it puts out is a chunk split by partition
PRIORITY: Final = 24
FREE_FN: Final = 25  # frees a block that it put out
PARK: Final = 26  # the event count on which a thread of its own sleeps
#: Words that change.
IN: Final = 4 * LINE  # chunks that have entered its inbox
OUT: Final = 5 * LINE  # chunks that have left (of an operator without reorder buffer)
BUSY: Final = 6 * LINE  # workers in it
BLOCKED: Final = 7 * LINE  # 1: an output waits for room downstream
FULL_EDGE: Final = 7 * LINE + 1  # the edge that had no room when its sender looked last; a hint
OP_WORDS: Final = 8 * LINE

#: Values of KIND.
STATELESS: Final = 0
KEYED: Final = 1
STATEFUL: Final = 2
INGRESS: Final = 3

#: Values of QUEUE_KIND.
HYBRID: Final = 0
PARTITIONED: Final = 1
SHARED: Final = 2

# -- input ports -----------------------------------------------------------------------------------------------
FEEDER: Final = 0
READER: Final = 1
REF: Final = 2  # which of the feeder's streams it reads
RING: Final = 3  # SPSC ring of a stateful operator's port
CREDIT: Final = 4  # chunks for which the feeder knows that there is room
ENTERED: Final = 5  # chunks that have come
ENTRIES: Final = 6  # ring of ENTRY_WORDS for each of the last chunks, by its number
ENTRIES_MASK: Final = 7
#: When the source handed the chunk over, ns, and the sum of the times at which chunks came, in units of 2**10 ns.
ENTRY_WORDS: Final = 2
PORT_WORDS: Final = LINE

# -- handles ---------------------------------------------------------------------------------------------------
SERIAL: Final = 0
READERS: Final = 1  # readers (and blocks with its payload) that still need it
LEFT: Final = 2  # ranges still to be done
PARTS: Final = 3  # address of the number of rows by partition
ENTRY: Final = 4  # monotonic ns at which the source handed the step over
COUNT: Final = 5  # rows
OBJECT: Final = 6  # 1: there is a Python object under this number
MAKER: Final = 7  # the operator it comes from
ENDING: Final = 8  # number of the ending that it brings, 0 none
HOLDS: Final = 9  # a handle that must outlive this one, -1 none
ROUND: Final = 10  # which round of that ending
CLOCKS: Final = 11  # then N_CLOCKS clocks, then N_REFS addresses of blocks

# -- workers ---------------------------------------------------------------------------------------------------
PHASE: Final = 0  # what Python was asked to do
OP: Final = 1
PART: Final = 2
SPARE: Final = 3  # a handle for the next output
HELP: Final = 4  # the operator to go on with
FIXED: Final = 5  # the operator of a dedicated thread
TOKEN_HELD: Final = 6  # HOLDS_TOKEN, RUNS_BESIDE, or 0
STARTED: Final = 7  # when the unit in Python began
UNITS: Final = 8  # units of this visit
BUDGET: Final = 9  # tuples left of this visit
SEED: Final = 10
VIEW: Final = 11  # address of its view
IDLE: Final = 12  # looks in a row that found nothing
REFUSED: Final = 13  # picks in a row that left work undone
LISTED: Final = 14  # 1: its operator must go back to the free list
KEPT: Final = 15  # how many free handles it keeps
SCRATCH: Final = 2 * LINE  # eight words for machine code
KEPT_HANDLES: Final = 3 * LINE
#: Values of TOKEN_HELD.
HOLDS_TOKEN: Final = 1
RUNS_BESIDE: Final = 2
#: Handles that a worker keeps for its next outputs instead of giving them back.
KEEP: Final = 32
LIST: Final = 3 * LINE + KEEP  # its operators of this round: three words an entry
LISTED_OPS: Final = LIST + 1  # how many
LIST_NEXT: Final = LIST + 2  # the entry behind the one that ran last
LIST_LEVEL: Final = LIST + 3  # and its level, -1: begin at the top
LIST_ROUND: Final = LIST + 4  # the round that those two belong to
AGED: Final = LIST + 5  # when it last looked for operators that wait for too long
LAGGING: Final = LIST + 6  # entries that may still be ONCE
#: The handles of the unit, a word a port; sized for the widest operator.
INPUTS: Final = 4 * LINE + KEEP

# -- lists of a round ------------------------------------------------------------------------------------------
E_OP: Final = 0
E_LEVEL: Final = 1  # equal numbers: equal priority
E_SINCE: Final = 2  # since when it could run and did not, monotonic ns, -1: it could not, or ONCE
LISTED_WORDS: Final = 3
#: In E_SINCE: run it once before all others, so that its measures are fresh.
ONCE: Final = -2

# -- split chunks ----------------------------------------------------------------------------------------------
#: In a chunk that machine code has split: the address of the number of rows by partition.
SPLIT_ROWS: Final = 1

# -- counts by worker and operator -----------------------------------------------------------------------------
S_UNITS: Final = 0
S_IN: Final = 1
S_OUT: Final = 2
S_TIMED: Final = 3  # tuples whose time was taken, of late: both are halved now and then
S_NS: Final = 4  # and that time
S_WINDOW: Final = 5
S_LAST: Final = 6
S_BUSY: Final = 7  # all time, ns; of units whose time was not taken what tuples take
STAT_WORDS: Final = LINE

#: A view (see thalweg.scheduling.policy): so many fields of a FlowView, an array of N_OPS words each; the time; the
#: number of ports; so many fields of a PortView, of N_PORTS words each; its last one, of N_OPS words.
VIEW_FIELDS: Final = 15
PORT_FIELDS: Final = 9


@dataclasses.dataclass(slots=True)
class OpSpec:
    """An operator as the runtime sees it.

    ``reads`` names for each input port the operator it reads and which of its streams.
    """

    name: str
    kind: int
    reads: Sequence[tuple[int, int]] = ()
    capacity: int = 64
    partitions: int = 1
    queue_kind: int = HYBRID
    limit: int = 1 << 30
    needs_token: bool = True
    ordered: bool = True
    locking: bool = False
    timers: bool = False
    clock: int = -1
    ending_no: int = -1
    is_split: bool = False
    priority: int = 0
    native: bool = False
    fn: int = 0
    ctx: int = 0
    merge: int = 0
    free_fn: int = 0
    payload_word: int = 0


def _line(words: int) -> int:
    return -(-words // LINE) * LINE


def lay_out(
    ops: Sequence[OpSpec], *, workers: int, clocks: int, refs: int, rows_limit: int
) -> Int64s:
    """The memory for these operators (operator 0 is the ingress), ready to run.

    Args:
        ops: in topological order.
        workers: how many workers there may ever be.
        clocks: time domains.
        refs: the most streams that an operator puts out.
        rows_limit: rows on their way at which sources wait.
    """
    edges: list[list[int]] = [[] for _ in ops]
    ports: list[tuple[int, int, int]] = []
    for index, op in enumerate(ops):
        for feeder, ref in op.reads:
            edges[feeder].append(len(ports))
            ports.append((feeder, index, ref))
    widest = max((len(op.reads) for op in ops), default=1)
    worker_words = _line(INPUTS + widest) + LINE
    handle_words = _line(CLOCKS + clocks + refs)
    deepest = [max((ops[ports[p][1]].capacity for p in out), default=0) for out in edges]
    handles = sum(op.capacity + more + 2 for op, more in zip(ops, deepest, strict=True))
    handles += (KEEP + 4) * (workers + 1) + 64
    at = HEAD_WORDS
    places: dict[str, int] = {}

    def place(name: str, words: int) -> int:
        nonlocal at
        places[name] = at
        at += _line(words) + LINE
        return places[name]

    place("ops", len(ops) * OP_WORDS)
    place("ports", len(ports) * PORT_WORDS)
    # One more for who submits: it is no worker, but lets go of handles, too.
    place("workers", (workers + 1) * worker_words)
    place("stats", workers * len(ops) * STAT_WORDS)
    view_words = _line(len(ops) * (VIEW_FIELDS + 1) + 2 + len(ports) * PORT_FIELDS)
    place("views", (workers + 1) * view_words)
    stack_words = _line(len(ports) + 1)
    place("stacks", (workers + 1) * stack_words)
    place("handles", handles * handle_words)
    place("free", mpmc_words(handles))
    place("garbage", mpmc_words(handles))
    place("parked", parking_words())
    place("waiting", parking_words())
    place("settling", parking_words())
    place("rounds", parking_words())
    place("lists", workers * len(ops) * LISTED_WORDS)
    listed = sum(min(op.limit, workers) if op.kind != STATEFUL else 1 for op in ops[1:])
    place("free_ops", mpmc_words(listed + 1))
    for index, op in enumerate(ops):
        place(f"edges {index}", len(edges[index]) + 1)
        place(f"queue {index}", _queue_words(op))
        place(f"reorder {index}", reorder_words(op.capacity) if op.kind != STATEFUL else 1)
        place(f"earliest {index}", op.partitions)
    for number, (_, reader, _ref) in enumerate(ports):
        place(f"entries {number}", ENTRY_WORDS * power_above(ops[reader].capacity + 1))
        if ops[reader].kind == STATEFUL:
            place(f"ring {number}", spsc_words(ops[reader].capacity))
    mem = _aligned(at)
    mem[BASE] = mem.__array_interface__["data"][0]
    mem[[N_OPS, N_WORKERS, HANDLE_WORDS, N_CLOCKS, N_REFS]] = [
        len(ops), workers, handle_words, clocks, refs,
    ]  # fmt: skip
    mem[[OPS, HANDLES, WORKERS, FREE, GARBAGE, PARKED, WAITING, FREE_OPS, STATS, PORTS, STACKS]] = [
        places[name]
        for name in (
            "ops", "handles", "workers", "free", "garbage", "parked", "waiting", "free_ops", "stats", "ports",
            "stacks",
        )
    ]  # fmt: skip
    mem[WORKER_WORDS], mem[STACK_WORDS] = worker_words, stack_words
    mem[ROWS_LIMIT] = rows_limit
    mem[ACTIVE] = workers
    mpmc_init(mem, places["free"], handles)
    mpmc_init(mem, places["garbage"], handles)
    for handle in range(handles):
        mpmc_push(mem, places["free"], handle)
    parking_init(mem, places["parked"])
    parking_init(mem, places["waiting"])
    parking_init(mem, places["settling"])
    parking_init(mem, places["rounds"])
    mem[SETTLING], mem[HANDLE_COUNT], mem[ROUNDS] = places["settling"], handles, places["rounds"]
    mem[N_PORTS] = len(ports)
    mpmc_init(mem, places["free_ops"], listed + 1)
    for number, port in enumerate(ports):
        first = places["ports"] + number * PORT_WORDS
        mem[first : first + 3] = port
        mem[first + ENTRIES] = places[f"entries {number}"]
        mem[first + ENTRIES_MASK] = power_above(ops[port[1]].capacity + 1) - 1
        if f"ring {number}" in places:
            mem[first + RING] = places[f"ring {number}"]
            spsc_init(mem, places[f"ring {number}"], ops[port[1]].capacity)
    first_port = 0
    for index, op in enumerate(ops):
        _put_operator(mem, places, index, op, first_port, edges[index])
        first_port += len(op.reads)
        for _ in range(min(op.limit, workers) if op.kind in (STATELESS, KEYED) else 1):
            if index:
                mpmc_push(mem, places["free_ops"], index)
    for worker in range(workers + 1):
        first = places["workers"] + worker * worker_words
        mem[[first + SPARE, first + HELP, first + FIXED, first + OP, first + PART]] = EMPTY
        mem[first + SEED] = worker
        view = places["views"] + worker * view_words
        mem[first + VIEW] = mem[BASE] + 8 * view
        mem[first + LIST] = places["lists"] + worker * len(ops) * LISTED_WORDS
        mem[first + LIST_LEVEL] = EMPTY
    return mem


def _queue_words(op: OpSpec) -> int:
    if op.kind == STATELESS:
        return mpmc_words(op.capacity)
    if op.kind == KEYED:
        words = {HYBRID: hybrid_words, PARTITIONED: partitioned_words, SHARED: shared_words}
        return words[op.queue_kind](op.partitions, op.capacity)
    return 1


def _put_operator(
    mem: Int64s, places: dict[str, int], index: int, op: OpSpec, port: int, edges: list[int]
) -> None:
    first = places["ops"] + index * OP_WORDS
    names = {
        KIND: op.kind, NATIVE: op.native, NEEDS_TOKEN: op.needs_token, FN: op.fn, CTX: op.ctx, MERGE: op.merge,
        N_IN: len(op.reads), FIRST_PORT: port, N_OUT: len(edges), EDGES: places[f"edges {index}"],
        QUEUE: places[f"queue {index}"], REORDER: places[f"reorder {index}"], CAPACITY: op.capacity,
        PARTITIONS: op.partitions, QUEUE_KIND: op.queue_kind, LIMIT: op.limit, ORDERED: op.ordered,
        LOCKING: op.locking, TIMERS: op.timers, EARLIEST: places[f"earliest {index}"], CLOCK: op.clock,
        ENDING_NO: op.ending_no, PAYLOAD_WORD: op.payload_word, IS_SPLIT: op.is_split, PRIORITY: op.priority,
        FREE_FN: op.free_fn, PARK: places["parked"],
    }  # fmt: skip
    for word, value in names.items():
        mem[first + word] = value
    mem[places[f"edges {index}"] : places[f"edges {index}"] + len(edges)] = edges
    mem[places[f"earliest {index}"] : places[f"earliest {index}"] + op.partitions] = NEVER
    queue = places[f"queue {index}"]
    if op.kind == STATELESS:
        mpmc_init(mem, queue, op.capacity)
    elif op.kind == KEYED:
        init = {HYBRID: hybrid_init, PARTITIONED: partitioned_init, SHARED: shared_init}
        init[op.queue_kind](mem, queue, op.partitions, op.capacity)
    if op.kind != STATEFUL:
        reorder_init(mem, places[f"reorder {index}"], op.capacity, 0)


def _aligned(words: int) -> Int64s:
    """Zeros that begin on a cache line."""
    whole = np.zeros(words + LINE, np.int64)
    offset = -(whole.__array_interface__["data"][0] // 8) % LINE
    return whole[offset : offset + words]


def counts_of(mem: Int64s) -> Int64s:
    """The counts of a memory, as they change: int64[workers, operators, STAT_WORDS]."""
    shape = int(mem[N_WORKERS]), int(mem[N_OPS]), STAT_WORDS
    first = int(mem[STATS])
    return mem[first : first + math.prod(shape)].reshape(shape)


def no_clocks(count: int) -> list[int]:
    """The clocks of a step that says nothing about time."""
    return [BEFORE_ALL] * count
