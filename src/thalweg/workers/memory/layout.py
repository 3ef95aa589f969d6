"""The layout of a node runtime's memory: one int64 array that all workers share.

The array holds the operators of one flow or several with their worklists and reorder buffers, the handles of the
chunks on their way, the workers, and the counts. Compiled code reads it by the named offsets below; what several
threads write stands on cache lines of its own. Python builds it once and never moves it
(:mod:`thalweg.workers.memory.memory`); flows come and go within the room that it was given.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

#: A block's payload is a handle, and above these bits which of its streams holds the columns.
PAYLOAD_SHIFT: Final = 32
PAYLOAD_MASK: Final = (1 << PAYLOAD_SHIFT) - 1
#: Words of a cache line.
LINE: Final = 8

# -- the whole -------------------------------------------------------------------------------------------------
#: Constant words.
BASE: Final = 0  # the array's address
MAX_OPS: Final = 1  # operators that there may ever be
MAX_WORKERS: Final = 2  # workers that there may ever be; behind them stand those who submit
OPS: Final = 3  # where operators stand
HANDLES: Final = 4
HANDLE_WORDS: Final = 5
N_CLOCKS: Final = 6  # time domains whose clock a chunk carries
N_REFS: Final = 7  # streams that one operator may put out
WORKERS: Final = 8
FREE: Final = 9  # ring of handles nobody uses
GARBAGE: Final = 10  # ring of handles whose Python object must be let go
SLEEPERS: Final = 11  # which workers sleep, see lockfree.sleepers
FREE_OPS: Final = 13  # the free list of operators
STATS: Final = 14  # counts by worker and operator
PORTS: Final = 15
MODE: Final = 16  # how a worker finds its next operator
PICK: Final = 17  # address of the compiled pick
SLICE: Final = 18  # time slice, ns
WINDOW: Final = 19  # window of the worker time in a view, ns
PREEMPTS: Final = 20  # 1: after a unit the policy is asked whether the visit goes on
STACKS: Final = 21
WORKER_WORDS: Final = 22
STACK_WORDS: Final = 23
HANDLE_COUNT: Final = 25
SUSPENDED: Final = 24  # event count of suspended workers: what wakes idle ones does not wake them
ROUNDS: Final = 26  # event count of workers that wait for the next round
BATCH: Final = 27  # tuples of a visit within a round
GRACE: Final = 28  # how long the meeting between rounds waits for a worker, ns
TIMES_HELD: Final = 30  # 1: how long chunks are in operators is taken
STARVE: Final = 29  # after so long an operator that could run is run next, ns; 0: never
#: Words that change, a line each.
STOP: Final = 4 * LINE  # 1: workers and sources leave
TOKEN: Final = 5 * LINE  # worker + 1 that runs interpreted code, 0: none
TOKEN_SINCE: Final = TOKEN + 1
BESIDE: Final = TOKEN + 2  # workers that run interpreted code beside a holder who seems to wait
N_OPS: Final = 6 * LINE  # operators that there are or were; those of flows that are gone are GONE
N_PORTS: Final = N_OPS + 1  # their ports: never fewer than those of N_OPS operators have
N_WORKERS: Final = N_OPS + 2  # workers that have been started, without those that have one operator
N_COUNTED: Final = N_OPS + 3  # workers whose counts may say something, with those
ACTIVE: Final = 7 * LINE  # workers that may run; those with a greater number are suspended
WINDOW_START: Final = 8 * LINE
ROUND_END: Final = 9 * LINE  # when the round is over, monotonic ns
ROUND_NO: Final = 9 * LINE + 1  # rounds so far
ASKED: Final = 9 * LINE + 2  # how often a round was ended before its time, see end_round
LEADER: Final = 10 * LINE  # worker + 1 that prepares the next round, 0: none
MET_NS: Final = LEADER + 1  # how long those who prepared rounds have waited for the others, ns
HEAD_WORDS: Final = 11 * LINE

#: Values of MODE.
BY_PICK: Final = 0
BY_FREE_LIST: Final = 1
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
PARK: Final = 26  # the event count on which a thread of its own sleeps, 0: it has none
SOURCE: Final = 27  # the ingress of its flow
ROOM: Final = 28  # event count of the flow's source when it waits for room
SETTLED: Final = 29  # event count of those who wait until all of the flow is done
ROWS_LIMIT: Final = 30  # of an ingress: rows of its flow on their way at which it waits
SUBMITTER: Final = 31  # of an ingress: the worker's place of the thread that submits
#: Words that change.
IN: Final = 4 * LINE  # chunks that have entered its inbox
OUT: Final = 5 * LINE  # chunks that have left (of an operator without reorder buffer)
OFFERED: Final = (
    5 * LINE + 1
)  # of an ingress: handle + 1 of the step that waits for a worker to let it in, 0: none
ENTERING: Final = 5 * LINE + 2  # of an ingress, 1: a thread is letting a step in
BUSY: Final = 6 * LINE  # workers in it
ROWS: Final = 6 * LINE + 1  # of an ingress: rows of its flow on their way
BLOCKED: Final = 7 * LINE  # 1: an output waits for room downstream
FULL_EDGE: Final = 7 * LINE + 1  # the edge that had no room when its sender looked last; a hint
HALTED: Final = 7 * LINE + 2  # of an ingress, 1: its source is to wait no more
FLOW_OPS: Final = 7 * LINE + 3  # of an ingress: how many operators its flow has, itself the first
FREELY: Final = (
    7 * LINE + 4
)  # workers that may run its Python at once without the token, since it waits
OWNER: Final = 7 * LINE + 5  # worker + 1 whose only operator it is, 0: none
OP_WORDS: Final = 8 * LINE

#: Values of KIND.
STATELESS: Final = 0
KEYED: Final = 1
STATEFUL: Final = 2
INGRESS: Final = 3
GONE: Final = 4  # its place is free

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
TAKEN: Final = (
    11  # where TIMES_HELD: when a worker took what it comes from, monotonic ns, 0: nobody has
)
CLOCKS: Final = 12  # then N_CLOCKS clocks, then N_REFS addresses of blocks

# -- workers ---------------------------------------------------------------------------------------------------
PHASE: Final = 0  # what Python was asked to do
OP: Final = 1
PART: Final = 2
SPARE: Final = 3  # a handle for the next output
HELP: Final = 4  # the operator to go on with
FIXED: Final = 5  # the only operator of a worker, EMPTY: it is sent to any
TOKEN_HELD: Final = 6  # HOLDS_TOKEN, RUNS_BESIDE, RUNS_FREELY, or 0
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
#: Values of FLAG.
GOES_ON: Final = 0
SUSPENDS: Final = 1
STOPS: Final = 2
#: Values of PHASE: what a worker's unit in Python is.
NOTHING: Final = 0
WHOLE: Final = 1  # a chunk of a stateless or stateful operator
RANGE: Final = 2  # one partition of a chunk
JOIN: Final = 3  # the merge of a chunk's ranges
PICKED: Final = 4  # the policy was asked
#: What the worker loop returns.
STOPPED: Final = 0
PYTHON: Final = 1
COLLECT: Final = 2
CHOOSE: Final = 3
MEETING: Final = 4
STAYING: Final = 5
#: Values of TOKEN_HELD.
HOLDS_TOKEN: Final = 1
RUNS_BESIDE: Final = 2
RUNS_FREELY: Final = 3
#: Handles that a worker keeps for its next outputs instead of giving them back.
KEEP: Final = 32
LIST: Final = 3 * LINE + KEEP  # its operators of this round: three words an entry
LISTED_OPS: Final = LIST + 1  # how many
LIST_NEXT: Final = LIST + 2  # the entry behind the one that ran last
LIST_LEVEL: Final = LIST + 3  # and its level, -1: begin at the top
LIST_ROUND: Final = LIST + 4  # the round that those two belong to
AGED: Final = LIST + 5  # when it last looked for operators that wait for too long
LAGGING: Final = LIST + 6  # entries that may still be ONCE
VIEW_OPS: Final = LIST + 7  # the operators of its view
PASSES: Final = LIST + 8  # turns of its loop: between two of them it knows of no operator
BEGAN: Final = LIST + 9  # when its visit began, monotonic ns, where the policy preempts
LOOKED: Final = (
    LIST + 10
)  # UNITS when the policy was last asked whether the visit goes on, 0: it is not asked
EVENT: Final = LIST + 11  # the event count on which it sleeps
WOKEN: Final = (
    LIST + 12
)  # 1: it was woken, and has not found out yet whether others are needed, too
#: What others write, on a line of its own.
FLAG: Final = 5 * LINE + KEEP  # whether it goes on, is to suspend, or to stop, see waking
#: The handles of the unit, a word a port; sized for the widest operator.
INPUTS: Final = 6 * LINE + KEEP

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
S_HELD: Final = 8  # for how long chunks were in it, ns, where TIMES_HELD
S_SENT: Final = 9  # and how many
STAT_WORDS: Final = 2 * LINE

#: A view (see thalweg.scheduling.policy): so many fields of a FlowView, an array of VIEW_OPS words each; the time; the
#: number of ports; so many fields of a PortView, an array of a word a port each; its last one, of VIEW_OPS words.
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
    own_thread: bool = False
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


def counts_of(mem: Int64s) -> Int64s:
    """The counts of a memory, as they change: int64[workers, operators, STAT_WORDS]."""
    return all_counts(mem)[: int(mem[N_COUNTED]), : int(mem[N_OPS])]


def all_counts(mem: Int64s) -> Int64s:
    """As :func:`counts_of`, with the places that nobody has."""
    shape = int(mem[MAX_WORKERS]), int(mem[MAX_OPS]), STAT_WORDS
    first = int(mem[STATS])
    return mem[first : first + math.prod(shape)].reshape(shape)
