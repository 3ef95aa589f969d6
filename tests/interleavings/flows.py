"""Flows on the explorer's memory: laid out and run by the runtime's own functions, as plain Python.

A *flow* is prepared once, outside of any schedule, by submitting steps and running visits one after the other. From
there its logical threads go on: a source that submits, and workers that visit operators as the worker loop does.
Units compute nothing; those of stateful operators without readers and of keyed ones are put into the memory's log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.interleavings.explorer import Make, Memory, Program
from tests.interleavings.plain import Structures
from tests.interleavings.workers import FOR_EVER

from thalweg.workers.lockfree.atomics import EMPTY, give_way, relax
from thalweg.workers.memory import layout
from thalweg.workers.memory.layout import INGRESS, KEYED, PYTHON, RANGE, STATEFUL, OpSpec
from thalweg.workers.memory.memory import lay_out

Body = Callable[[Memory], None]
#: Handles that every worker has at hand from the start, so that it shares no free list with others.
_AT_HAND = 4


def ingress(capacity: int = 1) -> OpSpec:
    """Operator 0, where steps enter."""
    return OpSpec("ingress", INGRESS, capacity=capacity)


def operator(kind: int, *feeders: int, capacity: int = 1, **others: int) -> OpSpec:
    """An operator that reads the first stream of each feeder."""
    limit = 1 if kind == STATEFUL else 1 << 30
    reads = [(feeder, 0) for feeder in feeders]
    return OpSpec("", kind, reads, capacity=capacity, limit=limit, needs_token=False, **others)


class Flow:
    """The memory of a flow, and what its threads do. ``rows`` are the rows of every step by partition."""

    def __init__(
        self,
        structures: Structures,
        ops: Sequence[OpSpec],
        *,
        workers: int = 2,
        rows: Sequence[int] = (),
    ) -> None:
        self.places, self.handles, self.room = (
            structures.places,
            structures.handles,
            structures.room,
        )
        self.steps, self.loop = structures.steps, structures.loop
        self.runnable, self.next_operator = structures.runnable, structures.next_operator
        self.pop, self.pending = structures.rings.mpmc_pop, structures.reorder.pending
        self.waking = structures.waking
        self.ops, self.workers, self.rows = ops, workers, rows
        structures.heap[:] = rows
        self.memory = Memory()
        self.memory.extend(
            lay_out(ops, workers=workers, clocks=0, refs=1, rows_limit=1 << 30).tolist()
        )
        for w in range(workers + 1):
            for _ in range(_AT_HAND):
                self.handles.recycle(self.memory, w, self.handles.new_handle(self.memory))

    # -- what threads do -----------------------------------------------------------------------------------

    def submit(self, mem: Memory) -> bool:
        """A new step, by the one source; False when there is no room."""
        me = self.places.worker_at(mem, self.workers)
        assert self.loop.has_spare(mem, me)
        handle = mem[me + layout.SPARE]
        at = self.places.handle_at(mem, handle)
        # The address of the rows is 0, where the heap begins.
        for word in (layout.OBJECT, layout.COUNT, layout.PARTS, layout.ENDING):
            mem[at + word] = 0
        # The source's own number goes along untouched, as serials do not where order is given up.
        mem[at + layout.ENTRY] = mem[self.places.op_at(mem, 0) + layout.IN]
        if not self.steps.submit(mem, 0, handle):
            return False
        mem[me + layout.SPARE] = EMPTY
        return True

    def submit_all(self, mem: Memory, steps: int) -> None:
        """So many steps; looks for the room."""
        for _ in range(steps):
            while not self.submit(mem):
                relax()

    def submit_and_settle(self, mem: Memory, steps: int) -> None:
        """So many steps; sleeps while there is no room, and then until all have passed."""
        for _ in range(steps):
            while not self.submit(mem):
                self.steps.wait_for_room(mem, 0, FOR_EVER)
        while not self.steps.wait_until_settled(mem, 0, FOR_EVER):
            pass

    def visit(self, mem: Memory, w: int, op: int) -> bool:
        """A worker's visit to an operator; whether it ran a unit. No slice is set, so one unit is all it runs."""
        worker, me = self.loop, self.places.worker_at(mem, w)
        mem[me + layout.HELP] = EMPTY
        if not worker.begin_visit(mem, w, me, op, False):
            return False
        self.waking.pass_on(mem, w)
        has_run = False
        code = worker._go_on(mem, w, me)
        while code:
            assert code == PYTHON, "no handle is left"
            has_run = True
            self._note_unit(mem, me, op)
            code = worker.resume_unit(mem, w, me) or worker._go_on(mem, w, me)
        worker.end_visit(mem, w, me)
        return has_run

    def _note_unit(self, mem: Memory, me: int, op: int) -> None:
        if self.ops[op].kind == KEYED or self._is_sink(op):
            number = mem[self.places.handle_at(mem, mem[me + layout.INPUTS]) + layout.ENTRY]
            part = mem[me + layout.PART] if mem[me + layout.PHASE] == RANGE else EMPTY
            mem.log.append((op, number, part))

    def _is_sink(self, op: int) -> bool:
        """Whether an operator takes the steps in order and puts out nothing."""
        return self.ops[op].kind == STATEFUL and not any(
            (op, 0) in reader.reads for reader in self.ops
        )

    def work_off(self, mem: Memory, w: int, steps: int) -> None:
        """Visits what can run, full readers first, until so many steps have passed all operators."""
        while not self.has_passed(mem, steps):
            if not self._visit_next(mem, w):
                relax()

    def work_off_or_sleep(self, mem: Memory, w: int, steps: int) -> None:
        """:meth:`work_off`, but sleeps while there is nothing to do, for ever if nobody wakes it."""
        while not self.has_passed(mem, steps):
            if self._visit_next(mem, w):
                continue
            key = self.waking.prepare_sleep(mem, w)
            if self.has_passed(mem, steps) or self.runnable.any_work(mem):
                self.waking.stay_awake(mem, w)
                give_way()
            else:
                self.waking.sleep(mem, w, key, FOR_EVER)
        # Of those who sleep at the end the last visit wakes one, and each of them the next.
        if mem[self.places.worker_at(mem, w) + layout.WOKEN]:
            self.waking.wake_worker(mem)

    def _visit_next(self, mem: Memory, w: int) -> bool:
        op = mem[self.places.worker_at(mem, w) + layout.HELP]
        if op == EMPTY:
            op = self.next_operator._any_runnable(mem)
        return bool(op != EMPTY and self.visit(mem, w, op))

    def has_passed(self, mem: Memory, steps: int) -> bool:
        """Whether so many steps have left every operator."""
        ops = (self.places.op_at(mem, op) for op in range(len(self.ops)))
        return all(self.room.sent(mem, o) >= steps for o in ops)

    # -- programs ------------------------------------------------------------------------------------------

    def program(self, steps: int, *bodies: Body) -> Make:
        """Threads that go on from here; then the rest of so many steps is worked off, and all is checked."""

        def make(mem: Memory) -> Program:
            mem.extend(self.memory)
            mem.log.extend(self.memory.log)
            return Program([lambda b=b: b(mem) for b in bodies], lambda: self.check(mem, steps))

        return make

    def check(self, mem: Memory, steps: int) -> None:
        """Nothing waits beside room; and in the end every step has passed once, in order, and left nothing."""
        self._check_waiting(mem)
        while (op := self.next_operator._any_runnable(mem)) != EMPTY:
            assert self.visit(mem, 0, op), "what can run does not"
            self._check_waiting(mem)
        assert self.has_passed(mem, steps), "a step is stuck"
        for op, spec in enumerate(self.ops):
            units = [(serial, part) for o, serial, part in mem.log if o == op]
            if spec.kind == KEYED:
                self._check_ranges(units, steps)
            elif self._is_sink(op):
                passed = units if all(one.ordered for one in self.ops) else sorted(units)
                assert passed == [(step, EMPTY) for step in range(steps)], "not once, in order"
        self._check_handles(mem)

    def _check_waiting(self, mem: Memory) -> None:
        for op, spec in enumerate(self.ops):
            if spec.kind != STATEFUL:
                buffer = mem[self.places.op_at(mem, op) + layout.REORDER]
                if self.pending(mem, buffer) != EMPTY:
                    assert self.room.full_reader(mem, op) != EMPTY, "an output waits beside room"

    def _check_ranges(self, units: list[tuple[int, int]], steps: int) -> None:
        for step in range(steps):
            parts = [part for serial, part in units if serial == step]
            assert parts.count(EMPTY) == 1, "not one merge for every step"
            assert parts[-1] == EMPTY, "merged before all ranges were done"
            wanted = [p for p, rows in enumerate(self.rows) if rows] or [step % len(self.rows)]
            assert sorted(parts[:-1]) == wanted, "not every range once"
        for p in range(len(self.rows)):
            serials = [serial for serial, part in units if part == p]
            assert serials == sorted(serials), "a partition's steps in disorder"

    def _check_handles(self, mem: Memory) -> None:
        """Every handle is free, once."""
        handles = list(iter(lambda: self.pop(mem, mem[layout.FREE]), EMPTY))
        for w in range(self.workers + 1):
            me = self.places.worker_at(mem, w)
            kept = me + layout.KEPT_HANDLES
            handles += mem[kept : kept + mem[me + layout.KEPT]]
            handles += [mem[me + layout.SPARE]] * (mem[me + layout.SPARE] != EMPTY)
        assert sorted(handles) == list(range(mem[layout.HANDLE_COUNT])), (
            "not every handle free, once"
        )
