"""The engine of one slot with many threads: a plan's units on shared memory, with the output of a serial run.

Steps are those of the serial engine (:mod:`thalweg.engine.serial`). Here a step does not run through all units
at once: it is *submitted*, and every unit takes it in turn, so that many steps are on their way and many threads
work on them. Each unit sees every step, so a step's number is its serial
(see :mod:`thalweg.workers.worker_loop.dispatch`).

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

from thalweg.checks import meant
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import Prepared
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.units import Counts, Given, Moment
from thalweg.errors import BuildError, ThalwegError
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.nodes import Batches, Sink
from thalweg.plan.plan import Edge
from thalweg.stats import OperatorProgress
from thalweg.times import BEFORE_ALL
from thalweg.workers.failing import Failure, FirstFailure
from thalweg.workers.handle_engine import HandleEngine
from thalweg.workers.lockfree.atomics import EMPTY, store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import HAS_OBJECT
from thalweg.workers.memory.places import handle_at, op_at
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.memory.room import full_reader, sent
from thalweg.workers.options import DEFAULTS, Options
from thalweg.workers.progress import operator_progress
from thalweg.workers.python_units import drop, put_clocks, run
from thalweg.workers.riding import Bundle
from thalweg.workers.step_size import STEP_ROWS, StepSize
from thalweg.workers.tasks import Task
from thalweg.workers.threads import Workers
from thalweg.workers.wiring import least_threads, wire
from thalweg.workers.worker_loop.steps import (
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

_LOG: Final = logging.getLogger("thalweg")

#: A sleeping caller looks for a failure so often, microseconds.
_LOOK_US: Final = 50_000
#: One of the first steps is waited for so long, microseconds.
_ALONE_US: Final = 5_000
#: How long steps on their way are waited for when a flow is ended, seconds.
_GRACE: Final = 2.0


class HeldUp(Exception):
    """Threads would wait for each other: Python runs an operator, and its one lock lets one of them at a time run."""


class ParallelEngine(HandleEngine):
    """An :class:`~thalweg.engine.contract.Engine` whose units run in many threads.

    Steps that are submitted leave in their order, some calls later; :meth:`settle` waits for all of them. One thread
    at a time may submit. Where a function raises, that is the end: later steps are dropped, and the earlier ones run
    through, as in a serial run, since one of them may fail, too, and is then the one that is told.

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
        self._failures = FirstFailure()
        self._left: collections.deque[tuple[Edge, Chunk]] = collections.deque()
        self._leave = leave or (lambda edge, chunk, entry: self._left.append((edge, chunk)))
        #: in the order in which handles keep their clocks
        self.domains = sorted({0, *self.plan.domains})
        self._slots = {domain: slot for slot, domain in enumerate(self.domains)}
        self._is_dropping = self._is_stopped = False
        if workers is None:
            self._require_operators(self.options.boundaries or {})
        self._only_if_free, self._by_batches = only_if_free, by_batches
        self._set_up(needs_token, workers)

    def _require_operators(self, boundaries: Mapping[str, object]) -> None:
        """Refuses boundaries of what is no keyed operator; those of another stage are not this engine's."""
        known = {node.name for node in self.plan.keyed if node.key.fields}
        for name in boundaries:
            if name not in known:
                raise BuildError(
                    f"boundaries: flow {self.plan.flow!r} has no operator by key {name!r}{meant(name, known)}"
                )

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
        self.workers = workers or Workers(
            self.options, reserve=self._reserve(), most=self._most_sent
        )
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
        return Reserve.exactly(
            [specs], workers=self._most_sent, refs=self.refs, clocks=self.clock_count
        )

    @property
    def _most_sent(self) -> int:
        """How many workers there may be that are sent to operators; none where no operator needs one."""
        needed = any(not task.spec.own_thread for task in self.tasks[1:])
        return self.options.most_threads if needed or self.options.threading == "dynamic" else 0

    @property
    def beside(self) -> ParallelEngine | None:
        """Its threads."""
        return self

    @property
    def threads(self) -> int:
        """How many threads run operators now."""
        return self.workers.threads

    @property
    def shared_workers(self) -> Workers | None:
        """The workers; None while there are none."""
        return self.__dict__.get("workers")

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
        self.put(handle, self.tasks[0], self._ridden(bundle, handle))
        self._let_in(handle)
        if self._adapts and self._step_size.is_first:
            wait_until_settled(self.mem, self.source, _ALONE_US)
        self._check()
        return self._take_left()

    def _ridden(self, bundle: Bundle, handle: int) -> Bundle:
        """A step with what manual operators behind the sources give, which the thread that brings the rows runs."""
        ingress = self.tasks[0]
        if not ingress.riders:
            return bundle
        began = time.monotonic_ns()
        rows = sum(map(len, bundle.values()))
        try:
            found = ingress.with_riders(self, bundle, self.moment, handle)
        except Exception as error:
            self.fail(error)
            self.check()
            raise
        self._step_size.ride(rows, time.monotonic_ns() - began)
        if ingress.sets_clock:
            put_clocks(self, handle, self.moment)
        return found

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
        """Raises what the first operator or sink that failed raised, if one has; waits for the steps before it."""
        if self._failures.first is not None and self.error is None:
            self.fail(self._failures.wait(self._has_run, self._is_over, self._moved))
        if self.error is not None:
            raise self.error

    def _has_run(self, step: int) -> bool:
        """Whether a step has left all operators without readers."""
        operators = (self.op_at(index) for index in range(len(self.tasks)))
        return all(sent(self.mem, o) > step for o in operators if not self.mem[o + at.N_OUT])

    def _moved(self) -> int:
        """How many steps operators have put out, in all."""
        return sum(int(sent(self.mem, self.op_at(index))) for index in range(len(self.tasks)))

    def _is_over(self) -> bool:
        """Whether steps that are on their way stay there."""
        return is_halted(self.mem, self.source) or not self.workers.running

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

    # -- units ----------------------------------------------------------------------------------------------

    def run_unit(self, me: int, task: Task) -> None:
        """Runs the unit that a worker was returned with; behind one that has failed it puts out nothing."""
        step = int(self.mem[handle_at(self.mem, int(self.mem[me + at.INPUTS])) + at.SERIAL])
        if not (self._is_dropping or self._failures.is_behind(step, task.index)):
            try:
                run(self, me, task)
                return
            except BaseException as error:
                self._failures.note(Failure(step, task.index, error))
        drop(self, me, task)

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

    def _count_native(self) -> None:
        """Adds what machine code has counted since the last time."""
        for task in self.tasks:
            task.count(self.setting)
