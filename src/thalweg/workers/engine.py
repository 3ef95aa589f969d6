"""The engine of one slot with many threads: a plan's units on shared memory, with the output of a serial run.

Steps are those of the serial engine (:mod:`thalweg.engine.serial`). Here a step does not run through all units
at once: it is *submitted*, and every unit takes it in turn, so that many steps are on their way and many threads
work on them. Each unit sees every step, so a step's number is its serial (see :mod:`thalweg.workers.dispatch`).

The threads are those of :class:`~thalweg.workers.threads.Workers`: an engine has its own, or shares them with the
engines of other flows.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from thalweg.columns.chunks import Chunk, Column
from thalweg.compiler.columns import address
from thalweg.engine.build import Prepared
from thalweg.engine.keyed_unit import KeyedUnit, Parts
from thalweg.engine.serial import CHUNK_ROWS, Engine, Leaving
from thalweg.engine.units import Given, Moment
from thalweg.errors import ThalwegError
from thalweg.flow.operators.nodes import Keyed, Ref, Sink
from thalweg.plan.plan import Edge, stream_schema
from thalweg.stats import OperatorProgress
from thalweg.times import BEFORE_ALL, NEVER
from thalweg.workers.lockfree.atomics import EMPTY, store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import HAS_OBJECT
from thalweg.workers.memory.places import block_word, handle_at, op_at
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.native.blocks import chunk_of, payload_of
from thalweg.workers.options import DEFAULTS, Options
from thalweg.workers.rounds.rounds import Rounds
from thalweg.workers.step_costs import StepCosts
from thalweg.workers.steps import (
    is_halted,
    settled,
    submit,
    wait_for_room,
    wait_until_settled,
    wake_all,
)
from thalweg.workers.threads import Workers
from thalweg.workers.views import dearest_ns, tuples_waiting
from thalweg.workers.wiring import Bundle, Task, least_threads, wire

_KINDS: Final = {at.STATELESS: "stateless", at.KEYED: "keyed", at.STATEFUL: "stateful"}
_LOG: Final = logging.getLogger("thalweg")

#: Rows of a step at most, where cost decides: several are on their way at once, so all workers have work.
STEP_ROWS: Final = 16_384
#: Rows of the first steps.
FIRST_ROWS: Final = 64
#: How long an operator is to take for a step, ns: twenty times what a step costs in Python, and not long to wait for.
STEP_NS: Final = 2_000_000
#: The fixed part of what a step costs is at most about so large a share of it.
FIXED_SHARE: Final = 0.1
#: The lines of cost are fitted anew after so many steps.
_FIT_STEPS: Final = 8
#: The first steps double so often at most before it is known what they cost.
_FIRST_DOUBLINGS: Final = 5
#: So many counts of operators, one a worker, may be looked at a step to find out what rows cost: some microseconds.
_COUNTS_A_STEP: Final = 256
#: A sleeping caller looks for a failure so often, microseconds.
_LOOK_US: Final = 50_000
#: How long steps on their way are waited for when a flow is ended, seconds.
_GRACE: Final = 2.0


class ParallelEngine(Engine):
    """An :class:`~thalweg.engine.serial.Engine` whose units run in many threads.

    Steps that are submitted leave in their order, some calls later; :meth:`settle` waits for all of them. One thread
    at a time may submit. Where a function raises, that is the end: what is still on its way is dropped.

    Args:
        leave: called for each chunk that leaves, by the worker that has it; by default chunks come back from
            :meth:`step`.
        needs_token: the sinks (by edge) whose ``leave`` is interpreted code of the user.
        chunk_rows: rows of a step; None lets them follow the operators' cost, so that none takes long for a step.
        workers: those of several flows; by default it has its own, and ends them with :meth:`stop`.
        priority_class: of the flow, for policies that ask for it.
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
        workers: Workers | None = None,
        priority_class: int = 0,
    ) -> None:
        self.options = options
        self.priority_class = priority_class
        super().__init__(prepared, stage=stage, chunk_rows=chunk_rows or STEP_ROWS)
        self._adapts = chunk_rows is None
        self._step_rows, self._steps_until_look = FIRST_ROWS, 0
        self._steps_until_fit, self._least_rows = _FIT_STEPS, 0
        #: steps and rows that have come
        self._steps, self._submitted = 0, 0
        self.error: BaseException | None = None
        self._left: collections.deque[tuple[Edge, Chunk]] = collections.deque()
        self._leave = leave or (lambda edge, chunk, entry: self._left.append((edge, chunk)))
        self._domains = sorted({0, *self.plan.domains})
        self._slots = {domain: slot for slot, domain in enumerate(self._domains)}
        self.tasks: list[Task] = wire(self, needs_token)
        self._costs = StepCosts([task.spec.partitions for task in self.tasks])
        if options.controller is not None and workers is None:
            # Operators that block must not be able to block all.
            most = max(options.threads, least_threads(self.tasks))
            options = self.options = dataclasses.replace(options, threads=most)
        self._owns_workers = workers is None
        self.workers = workers or Workers(options, reserve=self._reserve())
        self.mem, self.objects = self.workers.mem, self.workers.objects
        self._is_dropping = self._is_stopped = False
        #: where its ingress stands; the other operators stand behind it
        self.source = self.workers.add(self).first
        self.submitter = int(self.mem[op_at(self.mem, self.source) + at.SUBMITTER])
        self._share_bounds()
        self._sync_tables()

    def _reserve(self) -> Reserve:
        """The room of a memory for this flow alone."""
        specs = [task.spec for task in self.tasks]
        dedicated = self.options.threading == "dedicated"
        return Reserve.exactly(
            [specs],
            workers=len(specs) if dedicated else self.options.threads,
            refs=self.refs,
            clocks=self.clock_count,
        )

    @property
    def is_native(self) -> bool:
        """Whether machine code runs all its operators, so that a step costs Python next to nothing."""
        return all(task.spec.native for task in self.tasks[1:] if not task.leaves)

    @property
    def is_held_up(self) -> bool:
        """Whether Python runs a function of the user's or a keyed operator: threads then wait for its one lock."""
        return any(
            not task.spec.native
            and (task.spec.needs_token or task.spec.is_split or task.unit is not None)
            for task in self.tasks[1:]
            if not task.leaves
        )

    @property
    def refs(self) -> int:
        """The most streams that one of its operators puts out."""
        return max(1, *(len(task.refs) for task in self.tasks))

    @property
    def clock_count(self) -> int:
        """Its time domains, and the one of rows without event time."""
        return len(self._domains)

    def op_at(self, index: int) -> int:
        """Where the words of one of its operators begin."""
        return int(op_at(self.mem, self.source + index))

    @property
    def rows_on_their_way(self) -> int:
        """Rows of chunks, a chunk behind each operator that still needs it; small chunks do not count."""
        return int(self.mem[self.op_at(0) + at.ROWS])

    @property
    def rounds(self) -> Rounds | None:
        """Under a round policy."""
        return self.workers.rounds

    @property
    def policy(self) -> Any:
        """Who runs next; may be replaced at any time, but under threading ``dedicated`` says nothing."""
        return self.workers.policy

    @policy.setter
    def policy(self, policy: Any) -> None:
        self.workers.policy = policy

    def set_threads(self, count: int) -> None:
        """As :meth:`thalweg.workers.threads.Workers.set_threads`."""
        self.workers.set_threads(count)

    # -- what hosts call ------------------------------------------------------------------------------------

    def step_rows(self) -> int:
        """As many rows as the dearest operator does in :data:`STEP_NS`, few before it is known what they cost.

        And so many that what a step costs by itself is a small share, as far as it takes ``Options.step_ms`` for that.
        """
        if not self._adapts:
            return self.chunk_rows
        if self._steps_until_look > 0:
            self._steps_until_look -= 1
            return self._step_rows
        self._steps_until_look = len(self.tasks) * int(self.mem[at.N_WORKERS]) // _COUNTS_A_STEP
        dearest = dearest_ns(self.mem, self.submitter, self.source)
        rows = self._first_rows() if dearest < 0 else int(STEP_NS / max(dearest, 1.0))
        self._step_rows = max(1, min(self.chunk_rows, max(rows, self._rows_worth_a_step())))
        return self._step_rows

    def _first_rows(self) -> int:
        """Few; more when many steps have been taken in and nobody has said yet what they cost."""
        return FIRST_ROWS << min(_FIRST_DOUBLINGS, self._steps // _FIT_STEPS)

    def _rows_worth_a_step(self) -> int:
        """So many that a step's fixed cost is a small share."""
        if self._steps_until_fit > 0 or not self._submitted:
            return self._least_rows
        self._steps_until_fit = _FIT_STEPS
        totals = at.counts_of(self.mem).sum(axis=0)[self.source : self.source + len(self.tasks)]
        self._costs.look(totals[:, at.S_UNITS], totals[:, at.S_IN], totals[:, at.S_BUSY])
        reach = totals[:, at.S_IN] / self._submitted
        most_ns = self.options.step_ms * 1e6
        rows = self._costs.rows_for(FIXED_SHARE, most_ns, reach)
        if not self._costs.is_known:
            # Steps of another size, as long as they are short, show which part of the cost is whose.
            rows = max(rows, min(2 * self._step_rows, self._costs.rows_for(1e-3, most_ns, reach)))
        self._least_rows = int(min(rows, self.chunk_rows))
        return self._least_rows

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
        self.workers.start()
        self._steps_until_fit -= 1
        self._steps += 1
        self._submitted += sum(map(len, given.values()))
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
        while not submit(self.mem, self.source, handle):
            self._check()
            wait_for_room(self.mem, self.source, _LOOK_US)
        self._check()
        return self._take_left()

    def settle(self) -> Iterator[Leaving]:
        """Waits until all steps have run through; gives what leaves."""
        while self.workers.running and not wait_until_settled(self.mem, self.source, _LOOK_US):
            self._check()
            yield self._take_left()
        self._check()
        self._count_native()
        yield self._take_left()

    @property
    def is_settled(self) -> bool:
        """Whether no step is on its way."""
        return bool(settled(self.mem, self.source))

    def halt(self) -> None:
        """Nobody is to wait for this flow any more, and what is on its way is dropped; waits for nothing."""
        self._is_dropping = True
        store(self.mem, self.op_at(0) + at.HALTED, 1)
        wake_all(self.mem)

    def fail(self, error: BaseException) -> None:
        """This is why the flow ends, unless there has been another reason before."""
        if self.error is None:
            self.error = error
        self.halt()

    def check(self) -> None:
        """Raises what the first operator or sink that failed raised, if one has."""
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Drops the steps on their way and ends its own threads, or leaves those that it shares.

        A function of the user's that hangs is left behind, and with it the flow's place among others.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        self.halt()
        if self._owns_workers:
            self.workers.stop()
            return
        deadline = time.monotonic() + _GRACE
        while self.workers.running and not settled(self.mem, self.source):
            if self.mem[at.STOP]:
                return
            if time.monotonic() > deadline:
                _LOG.warning("flow %r: still in a user's function, left behind", self.plan.flow)
                return
            time.sleep(1e-3)
        self.workers.remove(self)

    def operators(self) -> list[OperatorProgress]:
        """What each operator has done, and how it stands; the ends of streams are not among them."""
        mem, found = self.mem, []
        totals = at.counts_of(mem).sum(axis=0)[self.source :]
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
                    workers=int(mem[self.op_at(index) + at.BUSY]),
                    queue_rows=int(tuples_waiting(mem, self.source + index)),
                )
            )
        return found

    def resume(self) -> None:
        super().resume()
        self._sync_tables()

    def _sync_tables(self) -> None:
        """Tells machine code where tables stand, and the runtime about the timers in them."""
        for index, task in enumerate(self.tasks):
            unit = task.unit
            if task.keyed is not None and unit is not None:
                task.keyed.set_units(unit.units, unit.partitions)
                task.keyed.sync()
                continue
            if unit is None or not task.spec.timers:
                continue
            first = self.mem[self.op_at(index) + at.EARLIEST]
            for number, operator in enumerate(unit.operators):
                bounds = (table.next_timer for table in operator.tables.values())
                self.mem[first + number] = min(bounds, default=NEVER)

    # -- units ----------------------------------------------------------------------------------------------

    def run_unit(self, me: int, task: Task) -> None:
        """Runs the unit that a worker was returned with; of a flow that has failed it puts out nothing."""
        if not self._is_dropping:
            try:
                self._run(me, task)
                return
            except BaseException as error:
                self.fail(error)
        self._drop(me, task)

    def _drop(self, me: int, task: Task) -> None:
        mem = self.mem
        phase, first, out = (int(mem[me + word]) for word in (at.PHASE, at.INPUTS, at.SPARE))
        if phase == at.RANGE:
            # Machine code must not merge what was not run to the end; others may be at other parts of it yet.
            self.set_block(first, 0, 0)
        elif task.spec.is_split:
            self._put_no_parts(out, task)
        else:
            self.put(out, task, {})

    def _put_no_parts(self, handle: int, task: Task) -> None:
        reader = next(one for one in self.tasks if one.spec.reads == [(task.index, 0)])
        rows = np.zeros(reader.spec.partitions, np.int64)
        self._put_rows(handle, rows, rows)

    def _run(self, me: int, task: Task) -> None:
        mem, phase = self.mem, int(self.mem[me + at.PHASE])
        first, out = int(mem[me + at.INPUTS]), int(mem[me + at.SPARE])
        if phase == at.RANGE:
            assert task.unit is not None
            part = int(mem[me + at.PART])
            bound = task.run_part(self, first, part, self._moment(first))
            store(mem, int(mem[self.op_at(task.index) + at.EARLIEST]) + part, bound)
        elif phase == at.JOIN:
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

    def _check(self) -> None:
        is_over = is_halted(self.mem, self.source)
        self.check()  # a reason is there before the halt
        if is_over:
            raise ThalwegError("the engine was stopped")

    def _take_left(self) -> Leaving:
        out: Leaving = {}
        while self._left:
            edge, chunk = self._left.popleft()
            out.setdefault(edge, []).append(chunk)
        return out

    # -- handles --------------------------------------------------------------------------------------------

    def _new_handle(self) -> int:
        while (handle := self.workers.new_handle()) == EMPTY:
            self._check()
            wait_for_room(self.mem, self.source, 1_000)
        return handle

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
        self._put_rows(handle, parts, parts.rows)

    def _put_rows(self, handle: int, kept: Any, rows: at.Int64s) -> None:
        """Keeps an object under the handle of a split chunk, whose rows by partition stand there."""
        place = handle_at(self.mem, handle)
        self.objects[handle] = kept
        self.mem[place + at.OBJECT] = HAS_OBJECT
        self.mem[place + at.PARTS] = address(rows)

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
                first = int(self.mem[self.op_at(index) + at.EARLIEST])
                task.keyed.move_earliest(int(self.mem[at.BASE]) + 8 * first)
