"""The engine of one slot with many threads: a plan's units on shared memory, with the output of a serial run.

Steps are those of the serial engine (:mod:`thalweg.runtime.engine`). Here a step does not run through all units
at once: it is *submitted*, and every unit takes it in turn, so that many steps are on their way and many threads
work on them. Each unit sees every step, so a step's number is its serial (see :mod:`thalweg.runtime.dispatch`).

Who runs what:

* threading ``dynamic``: ``threads`` workers that a policy sends to the operators;
* threading ``dedicated``: a thread for each operator, left to the operating system.

(``manual``, the caller's thread without queues, is the serial engine.)
"""

from __future__ import annotations

import collections
import functools
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from thalweg.errors import ThalwegError
from thalweg.jit import CACHE_DIR
from thalweg.operators.nodes import Keyed, Ref, Sink
from thalweg.plan import Edge
from thalweg.runtime import layout as at
from thalweg.runtime.atomics import EMPTY, store
from thalweg.runtime.build import Prepared
from thalweg.runtime.chunks import Chunk, Column
from thalweg.runtime.compiler.columns import address
from thalweg.runtime.compiler.modules import announce
from thalweg.runtime.dispatch import (
    HAS_OBJECT,
    block_word,
    collected,
    free_handles,
    handle_at,
    new_handle,
    op_at,
    submit,
    wait_for_room,
    wait_until_settled,
    wake_all,
    worker_at,
)
from thalweg.runtime.engine import CHUNK_ROWS, Engine, Leaving, stream_schema
from thalweg.runtime.keyed_unit import KeyedUnit, Parts
from thalweg.runtime.native.blocks import chunk_of, payload_of
from thalweg.runtime.options import DEFAULTS, Options, require_policy
from thalweg.runtime.picks import CompiledPick, compiled_policy
from thalweg.runtime.rounds import OperatorTraits, Rounds
from thalweg.runtime.units import Given, Moment
from thalweg.runtime.views import dearest_ns, tuples_waiting
from thalweg.runtime.wiring import Bundle, Task, wire
from thalweg.runtime.worker import CHOOSE, JOIN, MEETING, PICKED, PYTHON, RANGE, STOPPED, work
from thalweg.scheduling.rounds import RoundPolicy
from thalweg.stats import OperatorProgress
from thalweg.times import BEFORE_ALL, NEVER

_KINDS: Final = {at.STATELESS: "stateless", at.KEYED: "keyed", at.STATEFUL: "stateful"}
_LOG: Final = logging.getLogger("thalweg")

#: Rows of a step at most, where cost decides: several are on their way at once, so all workers have work.
STEP_ROWS: Final = 16_384
#: Rows of the first steps.
FIRST_ROWS: Final = 64
#: How long an operator is to take for a step, ns: twenty times what a step costs in Python, and not long to wait for.
STEP_NS: Final = 2_000_000
_FOR_EVER: Final = 1 << 40
#: Stands beside the compiled code when there is some.
_COMPILED: Final = pathlib.Path(CACHE_DIR) / "worker.done"
#: A sleeping caller looks for a failure so often, microseconds.
_LOOK_US: Final = 50_000
#: So long a unit in Python may wait for the interpreter's lock; longer, and its function sleeps, which is its cost, ns.
_INTERPRETER_NS: Final = 50_000_000
#: How long a worker that is told to stop is waited for, seconds.
_GRACE: Final = 2.0


@functools.cache
def _announce_compilation() -> None:
    """Says, once a process, that compiling takes a while; it is done once for each version of the package."""
    if not _COMPILED.exists():
        announce("the worker loop")
        _LOG.warning("compiling the worker loop, once for this version: about half a minute …")


@functools.cache
def _is_compiled() -> None:
    _COMPILED.touch()


class ParallelEngine(Engine):
    """An :class:`~thalweg.runtime.engine.Engine` whose units run in many threads.

    Steps that are submitted leave in their order, some calls later; :meth:`settle` waits for all of them. Threads
    start with the first step and sleep while there is nothing to do; :meth:`stop` ends them. One thread at a time
    may submit.

    Args:
        leave: called for each chunk that leaves, by the worker that has it; by default chunks come back from
            :meth:`step`.
        needs_token: the sinks (by edge) whose ``leave`` is interpreted code of the user.
        chunk_rows: rows of a step; None lets them follow the operators' cost, so that none takes long for a step.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        stage: int | None = None,
        chunk_rows: int | None = CHUNK_ROWS,
        options: Options = DEFAULTS,
        leave: Callable[[Edge, Chunk, int], None] | None = None,
        needs_token: frozenset[Edge] = frozenset(),
    ) -> None:
        self.options = options
        _announce_compilation()
        super().__init__(prepared, stage=stage, chunk_rows=chunk_rows or STEP_ROWS)
        self._adapts = chunk_rows is None
        self.error: BaseException | None = None
        self._left: collections.deque[tuple[Edge, Chunk]] = collections.deque()
        self._leave = leave or (lambda edge, chunk, entry: self._left.append((edge, chunk)))
        self._domains = sorted({0, *self.plan.domains})
        self._slots = {domain: slot for slot, domain in enumerate(self._domains)}
        self.tasks: list[Task] = wire(self, needs_token)
        specs = [task.spec for task in self.tasks]
        self._workers = len(specs) - 1 if options.threading == "dedicated" else options.threads
        self.mem = at.lay_out(
            specs,
            workers=self._workers,
            clocks=len(self._domains),
            refs=max(len(task.refs) for task in self.tasks),
            rows_limit=options.rows_limit,
        )
        self.objects: list[Any] = [None] * self._handle_count()
        self._keep: list[Any] = []
        self._garbage = np.empty(64, np.int64)
        self._collecting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._pick = CompiledPick(0, lambda view, worker: -1)
        #: under a round policy
        self.rounds: Rounds | None = None
        self._policy = options.policy
        self._set_policy(options.policy)
        self._share_bounds()
        self._sync_tables()

    # -- what hosts call ------------------------------------------------------------------------------------

    def step_rows(self) -> int:
        """As many rows as the dearest operator does in :data:`STEP_NS`, few before it is known what they cost."""
        if not self._adapts:
            return self.chunk_rows
        dearest = dearest_ns(self.mem)
        if dearest < 0:
            return FIRST_ROWS
        return max(1, min(self.chunk_rows, int(STEP_NS / max(dearest, 1.0))))

    def step(
        self,
        given: Given,
        clocks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """Submits a step, as soon as there is room; gives what has left since the last call."""
        self._start()
        bundle: Bundle = {**given, **(arriving or {})}
        handle = self._new_handle()
        place = handle_at(self.mem, handle)
        self.mem[place + at.ENTRY] = time.monotonic_ns()
        number = self.plan.endings.index(min(ending)) + 1 if ending else 0
        self.mem[place + at.ENDING] = number
        self.mem[place + at.ROUND] = round
        for slot, domain in enumerate(self._domains):
            self.mem[place + at.CLOCKS + slot] = clocks.get(domain, BEFORE_ALL)
        self.moment = Moment(dict(clocks), ending, round)
        self.put(handle, self.tasks[0], bundle)
        while not submit(self.mem, handle):
            self._check()
            wait_for_room(self.mem, _LOOK_US)
        self._check()
        return self._take_left()

    def settle(self) -> Iterator[Leaving]:
        """Waits until all steps have run through; gives what leaves."""
        while self._threads and not wait_until_settled(self.mem, _LOOK_US):
            self._check()
            yield self._take_left()
        self._check()
        self._count_native()
        yield self._take_left()

    def halt(self) -> None:
        """Tells all threads to end, also those that wait for room; waits for none."""
        store(self.mem, at.STOP, 1)
        wake_all(self.mem)

    def check(self) -> None:
        """Raises what the first operator or sink that failed raised, if one has."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Ends the threads; steps on their way are dropped. One that hangs in a user's function is left behind."""
        self.halt()
        deadline = time.monotonic() + _GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        hanging = [thread.name for thread in self._threads if thread.is_alive()]
        if hanging:
            _LOG.warning("%s: still in a user's function, left behind", ", ".join(hanging))

    def operators(self) -> list[OperatorProgress]:
        """What each operator has done, and how it stands; the ends of streams are not among them."""
        mem, found = self.mem, []
        totals = at.counts_of(mem).sum(axis=0)
        for index, task in enumerate(self.tasks):
            if not index or task.leaves:
                continue
            mine = totals[index]
            timed, ns = int(mine[at.S_TIMED]), int(mine[at.S_NS])
            rows_in, rows_out = int(mine[at.S_IN]), int(mine[at.S_OUT])
            counts = self.counts.get(task.spec.name, {})
            found.append(
                OperatorProgress(
                    name=task.spec.name,
                    kind=_KINDS[task.spec.kind],
                    rows_in=rows_in,
                    rows_out=rows_out,
                    rejected=counts.get("rejected", 0),
                    late=counts.get("late", 0),
                    units=int(mine[at.S_UNITS]),
                    busy_ns=int(mine[at.S_BUSY]),
                    cost_ns=ns / timed if timed else 0.0,
                    selectivity=rows_out / rows_in if rows_in else 1.0,
                    workers=int(mem[op_at(mem, index) + at.BUSY]),
                    queue_rows=int(tuples_waiting(mem, index)),
                )
            )
        return found

    def set_threads(self, count: int) -> None:
        """Suspends workers, or lets suspended ones go on: the first ``count`` run, at least one.

        Of threading ``dedicated`` all run: nobody else would run the operator of one that is suspended.
        """
        if self.options.threading == "dedicated":
            return
        store(self.mem, at.ACTIVE, max(1, min(count, self._workers)))
        # Operators of a suspended worker are in nobody's list.
        store(self.mem, at.ROUND_END, 0)
        wake_all(self.mem)

    def resume(self) -> None:
        super().resume()
        self._sync_tables()

    def _sync_tables(self) -> None:
        """Tells machine code where tables stand, and the runtime about the timers in them."""
        for index, task in enumerate(self.tasks):
            unit = task.unit
            if task.keyed is not None:
                task.keyed.sync()
                continue
            if unit is None or not task.spec.timers:
                continue
            first = self.mem[op_at(self.mem, index) + at.EARLIEST]
            for number, operator in enumerate(unit.operators):
                bounds = (table.next_timer for table in operator.tables.values())
                self.mem[first + number] = min(bounds, default=NEVER)

    # -- workers --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._threads:
            return
        for worker in range(self._workers):
            if self.options.threading == "dedicated":
                self.mem[worker_at(self.mem, worker) + at.FIXED] = worker + 1
            thread = threading.Thread(
                target=self._work, args=[worker], name=f"thalweg-{worker}", daemon=True
            )
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def _work(self, worker: int) -> None:
        mem, me = self.mem, int(worker_at(self.mem, worker))
        try:
            while (code := work(mem, worker)) != STOPPED:
                _is_compiled()
                if code == PYTHON:
                    self._run_timed(me)
                elif code == CHOOSE:
                    mem[me + at.HELP] = self._pick.ask(mem, worker)
                    mem[me + at.PHASE] = PICKED
                elif code == MEETING and self.rounds is not None:
                    self.rounds.prepare(worker)
                self._collect()
        except BaseException as error:
            self._fail(error)

    def _run_timed(self, me: int) -> None:
        """Runs a unit, and says when it would have begun if it had not waited for other threads."""
        began, cpu = time.monotonic_ns(), time.thread_time_ns()
        self._run(me)
        used, now = time.thread_time_ns() - cpu, time.monotonic_ns()
        slept = max(0, now - began - used - _INTERPRETER_NS)
        self.mem[me + at.STARTED] = now - used - slept

    def _run(self, me: int) -> None:
        """Runs the unit that a worker was returned with."""
        mem = self.mem
        phase, task = int(mem[me + at.PHASE]), self.tasks[int(mem[me + at.OP])]
        first, out = int(mem[me + at.INPUTS]), int(mem[me + at.SPARE])
        if phase == RANGE:
            assert task.unit is not None
            part = int(mem[me + at.PART])
            bound = task.run_part(self, first, part, self._moment(first))
            store(mem, int(mem[op_at(mem, task.index) + at.EARLIEST]) + part, bound)
        elif phase == JOIN:
            self.put(out, task, task.join(self, first, self._moment(first)))
        else:
            handles = mem[me + at.INPUTS : me + at.INPUTS + len(task.inputs)].tolist()
            moment = self._moment(out)
            result = task.run(self, handles, moment)
            if isinstance(result, Parts):
                self._put_parts(out, result)
                return
            if task.sets_clock:
                self._put_clocks(out, moment)
            self.put(out, task, result)

    def _moment(self, handle: int) -> Moment:
        place = handle_at(self.mem, handle)
        values = self.mem[place + at.CLOCKS : place + at.CLOCKS + len(self._domains)].tolist()
        clocks = {d: v for d, v in zip(self._domains, values, strict=True) if v != BEFORE_ALL}
        number = int(self.mem[place + at.ENDING])
        ending = frozenset([self.plan.endings[number - 1]]) if number else frozenset[int]()
        return Moment(clocks, ending, int(self.mem[place + at.ROUND]))

    def slot_of(self, domain: int) -> int:
        """Where handles keep a domain's clock."""
        return self._slots[domain]

    def leave(self, edge: Edge, chunk: Chunk, handle: int) -> None:
        """A chunk has reached the end of its way."""
        node = self.plan.node(edge.node)
        if isinstance(node, Sink):
            self.setting.count(node.label, **{"in": len(chunk)})
        self._leave(edge, chunk, int(self.mem[handle_at(self.mem, handle) + at.ENTRY]))

    def _fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self.halt()

    def _check(self) -> None:
        self.check()
        if self.mem[at.STOP]:
            raise ThalwegError("the engine was stopped")

    def _take_left(self) -> Leaving:
        out: Leaving = {}
        while self._left:
            edge, chunk = self._left.popleft()
            out.setdefault(edge, []).append(chunk)
        return out

    # -- handles --------------------------------------------------------------------------------------------

    def _handle_count(self) -> int:
        return int(self.mem[at.HANDLE_COUNT])

    def _new_handle(self) -> int:
        while (handle := int(new_handle(self.mem))) == EMPTY:
            self._check()
            self._collect()
            wait_for_room(self.mem, 1_000)
        return handle

    def _collect(self) -> None:
        """Lets go of objects that nobody reads any more."""
        if not self._collecting.acquire(blocking=False):
            return
        try:
            while count := collected(self.mem, self._garbage):
                for handle in self._garbage[:count].tolist():
                    self.objects[handle] = None
                free_handles(self.mem, self._garbage, count)
        finally:
            self._collecting.release()

    def put(self, handle: int, task: Task, bundle: Bundle) -> None:
        """Puts an operator's output under a handle."""
        mem = self.mem
        place = handle_at(mem, handle)
        self.objects[handle] = task.keep(self, handle, bundle)
        mem[place + at.OBJECT] = HAS_OBJECT
        mem[place + at.COUNT] = sum(map(len, bundle.values()))

    def set_block(self, handle: int, number: int, block: int) -> None:
        """Tells machine code where a handle's stream stands."""
        self.mem[block_word(self.mem, handle_at(self.mem, handle), number)] = block

    def block(self, handle: int) -> int:
        """The address of what machine code keeps under a handle."""
        return int(self.mem[block_word(self.mem, handle_at(self.mem, handle), 0)])

    def held(self, handle: int) -> int:
        """The handle that a handle keeps alive: of a split chunk its input."""
        return int(self.mem[handle_at(self.mem, handle) + at.HOLDS])

    def copied(self, handle: int, ref: Ref) -> Chunk:
        """A copy of the block that a handle owns."""
        block = self.block(handle)
        schema = stream_schema(self.plan, ref)
        payload = payload_of(block, len(schema.fields))
        columns: Sequence[Column] = ()
        if payload >= 0:
            kept = self.objects[payload & at.PAYLOAD_MASK]
            columns = kept.views[payload >> at.PAYLOAD_SHIFT][0].columns
        return chunk_of(block, schema, self.setting.columns(ref), columns)

    def _count_native(self) -> None:
        """Adds what machine code has counted since the last time."""
        for task in self.tasks:
            task.count(self.setting)

    def _put_parts(self, handle: int, parts: Parts) -> None:
        place = handle_at(self.mem, handle)
        self.objects[handle] = parts
        self.mem[place + at.OBJECT] = HAS_OBJECT
        self.mem[place + at.PARTS] = address(parts.rows)

    def _put_clocks(self, handle: int, moment: Moment) -> None:
        place = handle_at(self.mem, handle)
        for slot, domain in enumerate(self._domains):
            self.mem[place + at.CLOCKS + slot] = moment.clocks.get(domain, BEFORE_ALL)

    # -- making ---------------------------------------------------------------------------------------------

    def _keyed(self, node: Keyed) -> KeyedUnit:
        pieces = self.options.pieces(node.key.buckets) if node.key.fields else 1
        made = [self._builder.keyed(node) for _ in range(pieces)]
        return KeyedUnit(self.setting, node, made, self._builder.key(node))

    def _share_bounds(self) -> None:
        """Machine code and the runtime keep the bounds of timers in the same words."""
        for index, task in enumerate(self.tasks):
            if task.keyed is not None and task.spec.kind == at.KEYED:
                first = int(self.mem[op_at(self.mem, index) + at.EARLIEST])
                task.keyed.move_earliest(int(self.mem[at.BASE]) + 8 * first)

    @property
    def policy(self) -> Any:
        """Who runs next; may be replaced at any time, but under threading ``dedicated`` says nothing."""
        return self._policy

    @policy.setter
    def policy(self, policy: Any) -> None:
        if policy is not None:
            require_policy(policy)
        self._policy = policy
        self._set_policy(policy)
        wake_all(self.mem)

    def _set_policy(self, policy: Any) -> None:
        """Tells the workers; the mode comes last, when all that it needs stands."""
        mem = self.mem
        if self.options.threading == "dedicated":
            mem[at.SLICE] = mem[at.WINDOW] = _FOR_EVER
            mode = at.DEDICATED
        elif policy is None or getattr(policy, "native", "") == "free_list":
            mem[at.SLICE] = mem[at.WINDOW] = _FOR_EVER
            mode = at.BY_FREE_LIST
        elif isinstance(policy, RoundPolicy):
            mode = at.BY_ROUND
            if self.rounds is None:
                self.rounds = Rounds(mem, self._traits(), policy)
            else:
                self.rounds.policy = policy
        else:
            self._pick = compiled_policy(policy)
            self._keep.append(self._pick)  # a worker may still be in the one before
            mode = at.BY_PICK if self._pick.address else at.BY_PYTHON
            mem[at.PICK] = self._pick.address
            mem[at.SLICE], mem[at.WINDOW] = policy.slice_ns, policy.window_ns
        store(mem, at.MODE, mode)

    def _traits(self) -> list[OperatorTraits]:
        flow = self.plan.flow
        return [
            OperatorTraits(task.spec.name, flow, task.spec.priority, rank)
            for rank, task in enumerate(self.tasks)
        ]
