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
from typing import Final

from thalweg.columns.chunks import Chunk
from thalweg.engine.base import UnitsEngine
from thalweg.engine.build import Prepared
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.interpreted_keyed import InterpretedKeyed
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.units import Counts, Given, Moment
from thalweg.errors import ThalwegError
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.nodes import Batches, Keyed, Ref, Sink
from thalweg.plan.plan import Edge, stream_schema
from thalweg.stats import OperatorProgress
from thalweg.times import BEFORE_ALL, NEVER
from thalweg.workers.lockfree.atomics import EMPTY, store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import HAS_OBJECT
from thalweg.workers.memory.places import block_word, handle_at, op_at
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.memory.room import full_reader
from thalweg.workers.native.block_chunks import chunk_of, payload_of
from thalweg.workers.options import DEFAULTS, Options
from thalweg.workers.progress import operator_progress
from thalweg.workers.python_units import drop, run
from thalweg.workers.step_size import STEP_ROWS, StepSize
from thalweg.workers.steps import (
    is_halted,
    offer,
    settled,
    submit,
    wait_for_room,
    wait_until_admitted,
    wait_until_settled,
    wake_all,
    withdraw,
)
from thalweg.workers.threads import Workers
from thalweg.workers.wiring import Bundle, Task, least_threads, wire

_LOG: Final = logging.getLogger("thalweg")

#: A sleeping caller looks for a failure so often, microseconds.
_LOOK_US: Final = 50_000
#: One of the first steps is waited for so long, microseconds.
_ALONE_US: Final = 5_000
#: How long steps on their way are waited for when a flow is ended, seconds.
_GRACE: Final = 2.0


class HeldUp(Exception):
    """Threads would wait for each other: Python runs an operator, and its one lock lets one of them at a time run."""


class ParallelEngine(UnitsEngine):
    """An :class:`~thalweg.engine.contract.Engine` whose units run in many threads.

    Steps that are submitted leave in their order, some calls later; :meth:`settle` waits for all of them. One thread
    at a time may submit. Where a function raises, that is the end: what is still on its way is dropped.

    Args:
        leave: called for each chunk that leaves, by the worker that has it; by default chunks come back from
            :meth:`step`.
        needs_token: the sinks (by edge) whose ``leave`` is interpreted code of the user.
        chunk_rows: rows of a step; None lets them follow the operators' cost, so that none takes long for a step.
        workers: those of several flows; by default it has its own, and ends them with :meth:`stop`.
        priority_class: of the flow, for policies that ask for it.
        only_if_free: whether it is not to be made where threads would be held up.
        by_batches: whether a sink's function takes whole batches.

    Raises:
        HeldUp: they would be.
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
        only_if_free: bool = False,
        by_batches: bool = False,
    ) -> None:
        self.options = options
        self.priority_class = priority_class
        super().__init__(prepared, stage=stage, chunk_rows=chunk_rows or STEP_ROWS)
        self._adapts = chunk_rows is None
        self.error: BaseException | None = None
        self._left: collections.deque[tuple[Edge, Chunk]] = collections.deque()
        self._leave = leave or (lambda edge, chunk, entry: self._left.append((edge, chunk)))
        #: in the order in which handles keep their clocks
        self.domains = sorted({0, *self.plan.domains})
        self._slots = {domain: slot for slot, domain in enumerate(self.domains)}
        self._is_dropping = self._is_stopped = False
        self._only_if_free, self._by_batches = only_if_free, by_batches
        self._set_up(needs_token, workers)

    def _set_up(self, needs_token: frozenset[Edge], workers: Workers | None) -> None:
        """Makes operators of the units, and puts them where workers find them."""
        self.tasks: list[Task] = wire(self, needs_token)
        if self._only_if_free and self.is_held_up:
            raise HeldUp
        if self.options.controller is not None and workers is None:
            # Operators that block must not be able to block all.
            most = max(self.options.threads, least_threads(self.tasks))
            self.options = dataclasses.replace(self.options, threads=most)
        self._owns_workers = workers is None
        self.workers = workers or Workers(self.options, reserve=self._reserve())
        self.mem, self.objects = self.workers.mem, self.workers.objects
        #: where its ingress stands; the other operators stand behind it
        self.source = self.workers.add(self).first
        self.submitter = int(self.mem[op_at(self.mem, self.source) + at.SUBMITTER])
        self._step_size = StepSize(
            self.mem, [task.spec.partitions for task in self.tasks], source=self.source,
            submitter=self.submitter, step_ms=self.options.step_ms, quantum_ms=self.options.quantum_ms,
            may_wait=self.may_wait,
            by_batches=self._by_batches or any(isinstance(node, (Batches, MapAsync)) for node in self.plan.nodes),
        )  # fmt: skip
        self._share_bounds()
        self._sync_tables()

    def _reserve(self) -> Reserve:
        """The room of a memory for this flow alone."""
        specs = [task.spec for task in self.tasks]
        dedicated = self.options.threading == "dedicated"
        return Reserve.exactly(
            [specs],
            workers=len(specs) if dedicated else self.options.most_threads,
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
    def may_wait(self) -> bool:
        """Whether Python runs a function of the user's, which may sleep or ask somebody."""
        return any(task.spec.needs_token for task in self.tasks[1:] if not task.leaves)

    @property
    def beside(self) -> ParallelEngine | None:
        """Its threads."""
        return self

    @property
    def threads(self) -> int:
        """How many threads run operators now."""
        return self.workers.threads

    @property
    def refs(self) -> int:
        """The most streams that one of its operators puts out."""
        return max(1, *(len(task.refs) for task in self.tasks))

    @property
    def clock_count(self) -> int:
        """Its time domains, and the one of rows without event time."""
        return len(self.domains)

    @property
    def shared_workers(self) -> Workers | None:
        """The workers; None while there are none."""
        return self.__dict__.get("workers")

    def op_at(self, index: int) -> int:
        """Where the words of one of its operators begin."""
        return int(op_at(self.mem, self.source + index))

    # -- what hosts call ------------------------------------------------------------------------------------

    def step_rows(self) -> int:
        """As given, or as many as :meth:`thalweg.workers.step_size.StepSize.rows` says."""
        return self._step_size.rows(self.chunk_rows) if self._adapts else self.chunk_rows

    def step(
        self,
        given: Given,
        watermarks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """Submits a step, as soon as there is room; gives what has left since the last call."""
        self.workers.start()
        self.workers.occupancy.feeds()
        self._step_size.count(sum(map(len, given.values())))
        bundle: Bundle = {**given, **(arriving or {})}
        handle = self._new_handle()
        place = handle_at(self.mem, handle)
        self.mem[place + at.ENTRY] = time.monotonic_ns()
        number = self.plan.endings.index(min(ending)) + 1 if ending else 0
        self.mem[place + at.ENDING] = number
        self.mem[place + at.ROUND] = round
        for slot, domain in enumerate(self.domains):
            self.mem[place + at.CLOCKS + slot] = watermarks.get(domain, BEFORE_ALL)
        self.moment = Moment(dict(watermarks), ending, round)
        self.put(handle, self.tasks[0], bundle)
        self._let_in(handle)
        if self._adapts and self._step_size.is_first:
            wait_until_settled(self.mem, self.source, _ALONE_US)
        self._check()
        return self._take_left()

    def _let_in(self, handle: int) -> None:
        """Waits until a step is in: until there is room or, in rounds, a worker has come to the source."""
        mem, source = self.mem, self.source
        while not (is_offered := offer(mem, source, handle)) and not submit(mem, source, handle):
            self._check()
            wait_for_room(mem, source, _LOOK_US)
        try:
            while is_offered and not wait_until_admitted(mem, source, _LOOK_US):
                self._check()
        except BaseException:
            withdraw(mem, source)
            raise

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
        self.give_up()

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
        super().stop()
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
        return operator_progress(self)

    def totals(self) -> Counts:
        """See :meth:`thalweg.engine.contract.Engine.totals`."""
        found = super().totals()
        for task in self.tasks:
            for name, news in task.uncounted():
                its = found.setdefault(name, {})
                for what, number in news.items():
                    its[what] = its.get(what, 0) + number
        return found

    def pressed(self) -> Sequence[str] | None:
        """See :meth:`thalweg.engine.contract.Engine.pressed`."""
        return [
            task.spec.name
            for index, task in enumerate(self.tasks)
            if index and not task.leaves and full_reader(self.mem, self.source + index) != EMPTY
        ]

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
                run(self, me, task)
                return
            except BaseException as error:
                self.fail(error)
        drop(self, me, task)

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
        names = self.setting.columns(ref)
        if payload < 0:
            return chunk_of(block, schema, names, ())
        kept = self.objects[payload & at.PAYLOAD_MASK]
        held: Chunk = kept.views[payload >> at.PAYLOAD_SHIFT][0]
        return chunk_of(block, schema, names, held.columns, held.order)

    def _count_native(self) -> None:
        """Adds what machine code has counted since the last time."""
        for task in self.tasks:
            task.count(self.setting)

    # -- making ---------------------------------------------------------------------------------------------

    def _keyed(self, node: Keyed) -> KeyedUnit:
        made = [self._builder.keyed(node)]
        waits = isinstance(made[0], InterpretedKeyed)
        pieces = self.options.pieces(node.key.buckets, waits=waits) if node.key.fields else 1
        made += [self._builder.keyed(node) for _ in range(pieces - 1)]
        return KeyedUnit(self.setting, node, made, self._builder.key(node))

    def _share_bounds(self) -> None:
        """Machine code and the runtime keep the bounds of timers in the same words."""
        for index, task in enumerate(self.tasks):
            if task.keyed is not None and task.spec.kind == at.KEYED:
                first = int(self.mem[self.op_at(index) + at.EARLIEST])
                task.keyed.move_earliest(int(self.mem[at.BASE]) + 8 * first)
