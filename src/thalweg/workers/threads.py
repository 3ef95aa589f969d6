"""The threads of a node runtime, and the memory, the policy and the Python objects that its flows share.

Who runs what:

* threading ``dynamic``: ``threads`` workers that a policy sends to the operators of all flows;
* threading ``dedicated``: a thread for each operator, left to the operating system;
* threading ``manual``: no thread, see :mod:`thalweg.workers.riding`.

A run has one for all operators but those of regions (:mod:`thalweg.flow.regions`), which have their own. Where all is
manual there is no need for workers: that is the serial engine.

A worker runs compiled code (:func:`thalweg.workers.worker_loop.loop.work`) and comes back to run what is Python: a
unit of an operator, a policy's pick, the plan of the next round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from thalweg.compiler.code.modules import announce
from thalweg.jit import when_compiling
from thalweg.scheduling.rounds import Policy, RoundPolicy
from thalweg.workers.contract import FlowEngine
from thalweg.workers.lockfree.atomics import EMPTY, load, store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import collected, free_handles, new_handle
from thalweg.workers.memory.layout import OpSpec
from thalweg.workers.memory.memory import Memory
from thalweg.workers.memory.placed import Placed
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.occupancy import Occupancy
from thalweg.workers.options import Options, require_policy
from thalweg.workers.picks import CompiledPick, Preemption, compiled_policy, preemption_of
from thalweg.workers.rounds import OperatorTraits, Rounds, traits_of
from thalweg.workers.worker_loop.loop import go_on_in_python, work
from thalweg.workers.worker_loop.round_barrier import end_round
from thalweg.workers.worker_loop.steps import wake_all

if TYPE_CHECKING:
    from thalweg.workers.tasks import Task

_LOG: Final = logging.getLogger("thalweg")
_FOR_EVER: Final = 1 << 40
#: How long a worker that is told to stop is waited for, seconds.
_GRACE: Final = 2.0
#: Operators of all flows at once that threading ``dedicated`` has threads for, and their ports.
_DEDICATED: Final = Reserve(operators=256, ports=1_024, own_threads=256)


def _announce_compilation() -> None:
    announce("the worker loop")
    _LOG.warning("compiling the worker loop, once for this version: about half a minute …")


class Workers:
    """The workers of one flow or several.

    Threads start with the first step of a flow and sleep while there is nothing to do; :meth:`stop` ends them. Flows
    may be added and removed at any time.

    Args:
        options: how many threads, under which policy.
        reserve: room for flows; None: much.
        most: workers at most that a policy sends; None: as options say.
    """

    def __init__(
        self, options: Options, *, reserve: Reserve | None = None, most: int | None = None
    ) -> None:
        self.options = options
        room = reserve or (_DEDICATED if options.threading == "dedicated" else Reserve())
        self._count = options.most_threads if most is None else most
        self.memory = Memory(workers=self._count, reserve=room)
        self.mem = self.memory.mem
        self.occupancy = Occupancy(
            self.mem, workers=int(self.mem[at.MAX_WORKERS]), most=self._count, changed=self._adapt
        )
        # Others are started when functions are seen to wait, a controller wants them, or an operator needs one at all.
        self._are_sent = self._count > 0 and options.threading == "dynamic"
        self.mem[[at.N_WORKERS, at.ACTIVE]] = options.threads if self._are_sent else 0
        wake_all(self.mem)
        self.objects: list[Any] = [None] * int(self.mem[at.HANDLE_COUNT])
        #: under a round policy
        self.rounds: Rounds | None = None
        self._owners: list[tuple[FlowEngine, Task] | None] = [None] * room.operators
        self._flows: dict[FlowEngine, Placed] = {}
        self._garbage = np.empty(64, np.int64)
        self._collecting = threading.Lock()
        #: guards which flows and threads there are
        self._changing = threading.RLock()
        self._threads: dict[int, threading.Thread] = {}
        self._has_begun = False
        self._keep: list[Any] = []
        self._pick = CompiledPick(0, lambda view, worker: -1)
        self._preemption: Preemption | None = None
        #: why all flows have ended, if that is nobody's alone
        self.error: BaseException | None = None
        self._policy = options.policy
        self._count_rows()
        self._set_policy(options.policy)

    def _count_rows(self) -> None:
        """Whose counts are to be looked at: of workers with one operator all, once there is one."""
        has_own = any(task.spec.own_thread for task in self.tasks().values())
        store(self.mem, at.N_COUNTED, int(self.mem[at.MAX_WORKERS if has_own else at.N_WORKERS]))

    # -- flows ----------------------------------------------------------------------------------------------

    def add(self, engine: FlowEngine) -> Placed:
        """A place for an engine's operators; its steps may be submitted from then on.

        Raises:
            EnvironmentProblem: there is no room for it.
            SchedulingError: the policy is none for it.
        """
        with self._changing:
            self.memory.reclaim(idle=not self._threads)
            specs = [task.spec for task in engine.tasks]
            missing = self.memory.handles_with(specs) - len(self.objects)
            self.objects += [None] * missing
            placed = self.memory.add(
                specs,
                rows_limit=engine.options.rows_limit,
                refs=engine.refs,
                clocks=engine.clock_count,
            )
            for place, task in zip(placed.places, engine.tasks, strict=True):
                self._owners[place] = engine, task
            self._flows[engine] = placed
            try:
                self._try_out(self._policy)
            except BaseException:
                self._take_out(engine)
                raise
            self._send_workers(specs)
            self._count_rows()
            self._tell_rounds()
            if self._has_begun:
                self._start_threads()
            wake_all(self.mem)
            return placed

    def _send_workers(self, specs: Sequence[OpSpec]) -> None:
        """Where a run without workers has got its first operators for them: there are some from now on."""
        needed = any(not one.own_thread and one.kind != at.INGRESS for one in specs)
        if self._are_sent or not needed:
            return
        self._are_sent = True
        store(self.mem, at.N_WORKERS, self.options.threads)
        store(self.mem, at.ACTIVE, self.options.threads)
        wake_all(self.mem)
        self._set_policy(self._policy)

    def remove(self, engine: FlowEngine) -> None:
        """Takes out an engine of which nothing is on its way."""
        with self._changing:
            if engine in self._flows:
                self._take_out(engine)
                self._tell_rounds()

    def _take_out(self, engine: FlowEngine) -> None:
        placed = self._flows.pop(engine)
        self.memory.remove(placed)
        self.occupancy.forget(placed.places)
        for place in placed.places:
            self._owners[place] = None

    def _try_out(self, policy: Policy | None) -> None:
        """Whether a policy of rounds can do with the flows that there are: it must not fail when it is too late."""
        if isinstance(policy, RoundPolicy) and self._are_sent and self._flows:
            Rounds.try_out(self.mem, self._traits(), policy)

    def _tell_rounds(self) -> None:
        if self.rounds is not None:
            self.rounds.update(self._traits())

    def _traits(self) -> dict[int, OperatorTraits]:
        """What never changes of the operators, by their place in the memory."""
        return {
            place: traits_of(task, engine.plan, rank)
            for engine, placed in self._flows.items()
            for rank, (place, task) in enumerate(zip(placed.places, engine.tasks, strict=True))
            if not task.spec.own_thread
        }

    # -- threads --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the missing threads; running ones go on."""
        if not self._has_begun:
            with self._changing:
                self._has_begun = True
                self._start_threads()

    def _start_threads(self) -> None:
        owners = (
            int(self.mem[op_at(self.mem, place) + at.OWNER]) - 1
            for place, task in self.tasks().items()
            if task.spec.own_thread
        )
        # Of those with one operator each is used again by the next flow that needs it.
        for worker in (*range(int(self.mem[at.N_WORKERS])), *owners):
            if worker in self._threads:
                continue
            name = f"thalweg-{worker}"
            thread = threading.Thread(target=self._work, args=[worker], name=name, daemon=True)
            self._threads[worker] = thread
            thread.start()

    @property
    def running(self) -> bool:
        """Whether threads have been started."""
        return self._has_begun

    def set_threads(self, count: int) -> None:
        """Suspends workers, or lets suspended ones go on: the first ``count`` run, at least one.

        Those that have one operator alone run in any case: nobody else would run it.
        """
        if not self._are_sent:
            return
        count = max(1, min(count, self._count))
        if count > int(self.mem[at.N_WORKERS]):
            with self._changing:
                store(self.mem, at.N_WORKERS, max(count, int(self.mem[at.N_WORKERS])))
                self._count_rows()
                if self._has_begun and not self.mem[at.STOP]:
                    self._start_threads()
        store(self.mem, at.ACTIVE, count)
        # Operators of a suspended worker are in nobody's list.
        end_round(self.mem)
        wake_all(self.mem)

    @property
    def threads(self) -> int:
        """How many workers may run now that are sent to operators; where none are, how many have one of their own."""
        own = sum(task.spec.own_thread for task in self.tasks().values())
        return int(load(self.mem, at.ACTIVE)) if self._are_sent else own

    @property
    def most(self) -> int:
        """How many workers there may be at most."""
        return self._count

    @property
    def useful(self) -> int:
        """How many workers there is a use for: all processors' and, of functions that wait, one for each that does."""
        return min(self._count, self.options.threads + self.occupancy.waiting_threads)

    def _adapt(self) -> None:
        """Functions wait more, or less, than they did; where a controller decides about threads it is told instead."""
        if self.options.controller is None and self._count > self.options.threads:
            self.set_threads(self.useful)

    def set_limit(self, place: int, limit: int) -> None:
        """From now on so many workers may be in an operator at a time; who is over that number ends its visit first.

        Args:
            place: the operator's, in the memory. It must be stateless or keyed.
            limit: at least one.
        """
        if int(self.mem[op_at(self.mem, place) + at.KIND]) not in (at.STATELESS, at.KEYED):
            raise ValueError("one worker at a time runs a stateful operator")
        store(self.mem, op_at(self.mem, place) + at.LIMIT, max(1, limit))
        wake_all(self.mem)

    def tasks(self) -> dict[int, Task]:
        """The operators of all flows, by their place in the memory; the ingress of a flow is none."""
        with self._changing:
            return {
                place: task
                for engine, placed in self._flows.items()
                for place, task in zip(placed.places[1:], engine.tasks[1:], strict=True)
            }

    def halt(self) -> None:
        """Tells all threads to end, also those that wait for room; waits for none."""
        store(self.mem, at.STOP, 1)
        wake_all(self.mem)

    def stop(self) -> None:
        """Ends the threads; steps on their way are dropped. One that hangs in a user's function is left behind."""
        self.halt()
        deadline = time.monotonic() + _GRACE
        for thread in list(self._threads.values()):
            thread.join(max(0.0, deadline - time.monotonic()))
        hanging = [thread.name for thread in self._threads.values() if thread.is_alive()]
        if hanging:
            _LOG.warning("%s: still in a user's function, left behind", ", ".join(hanging))

    def _work(self, worker: int) -> None:
        mem, me = self.mem, int(worker_at(self.mem, worker))
        try:
            with when_compiling(_announce_compilation):
                code = work(mem, worker)
            while code != at.STOPPED:
                if code == at.PYTHON:
                    self._run_timed(worker, me)
                elif code == at.CHOOSE:
                    mem[me + at.HELP] = self._pick.ask(mem, worker)
                    mem[me + at.PHASE] = at.PICKED
                elif code == at.STAYING and self._preemption is not None:
                    if self._preemption.ask(mem, worker):
                        mem[[me + at.UNITS, me + at.LOOKED]] = 0
                elif code == at.MEETING and self.rounds is not None:
                    self.rounds.prepare(worker)
                self.collect()
                goes_on = go_on_in_python(mem, worker) if code == at.PYTHON else at.STOPPED
                code = work(mem, worker) if goes_on == at.STOPPED else goes_on
        except BaseException as error:
            # A policy's, say: it is nobody's alone.
            self.error = self.error or error
            for engine in list(self._flows):
                engine.fail(error)
            self.halt()

    def _run_timed(self, worker: int, me: int) -> None:
        """Runs a unit, and says when it would have begun if it had not waited for the interpreter."""
        place = int(self.mem[me + at.OP])
        owner = self._owners[place]
        assert owner is not None, "a worker is in an operator of a flow that is gone"
        engine, task = owner
        took = self.occupancy.timed(worker, place, engine.run_unit, me, task)
        self.mem[me + at.STARTED] = time.monotonic_ns() - took

    # -- handles --------------------------------------------------------------------------------------------

    def new_handle(self) -> int:
        """A handle nobody uses, EMPTY when there is none right now."""
        handle = int(new_handle(self.mem))
        if handle == EMPTY:
            self.collect()
        return handle

    def collect(self) -> None:
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

    # -- policy ---------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy | None:
        """Who runs next; may be replaced at any time, but says nothing of operators with threads of their own.

        Raises:
            SchedulingError: it is none for the flows that there are; the one before goes on.
        """
        return self._policy

    @policy.setter
    def policy(self, policy: Policy | None) -> None:
        if policy is not None:
            require_policy(policy)
        with self._changing:
            self._try_out(policy)
            self._policy = policy
            self._set_policy(policy)
        wake_all(self.mem)

    def _set_policy(self, policy: Policy | None) -> None:
        """Tells the workers; the mode comes last, when all that it needs stands."""
        mem = self.mem
        preemption: Preemption | None = None
        if not self._are_sent or policy is None or getattr(policy, "native", "") == "free_list":
            mem[at.SLICE], mem[at.WINDOW] = self.options.quantum_ns or _FOR_EVER, _FOR_EVER
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
            mem[at.SLICE] = self.options.quantum_ns or policy.slice_ns
            mem[at.WINDOW] = policy.window_ns
            preemption = preemption_of(policy)
        self._preemption = preemption
        store(mem, at.PREEMPTS, preemption is not None)
        mem[at.TIMES_HELD] = self.options.times_held
        store(mem, at.MODE, mode)
