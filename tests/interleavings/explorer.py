"""Runs a concurrent program under every interleaving, up to a bound, and reports the first that goes wrong.

The logical threads run the plain Python forms of the structures, one at a time; before every atomic operation the
explorer decides who goes on. It searches depth first, from the start again for every schedule. By default the same
thread goes on, and when it waits, the one that has been idle for longest; a schedule may deviate from that a bounded
number of times (Emmi et al. 2011, "Delay-bounded scheduling"), and who begins or follows a thread that has returned is
free. A state that was reached before at no greater cost is not explored again: what a thread holds is a
function of what it has done and read, so memory and a hash of that are the state.

A thread that spins, gives way or parks, and finds memory as it was the last times, is not run again before another
thread has changed a word; so the explorer sees the difference between waiting and being stuck. All waiting is
a deadlock, too many steps are a livelock. Who gives way lets another thread run even if it has changed memory itself.

With ``weak=True`` a store may also be delayed, which costs one deviation: it stays in the thread's store buffer, seen
by that thread alone, until any later moment or until the thread's next read-modify-write or fence. That is the
memory model of x86 (Sewell et al. 2010), which reorders what Dekker's pattern relies on.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.interleavings.memory import Memory as Memory

from thalweg.workers.lockfree import atomics

WAITING = {"relax", "give_way", "park"}
READ_MODIFY_WRITE = {"add", "swap", "cas"}
_NOBODY = -1


class Violation(AssertionError):
    """A schedule under which the program does what it must not."""


class Unfinished(AssertionError):
    """The limit of schedules came before the last of them."""


class _Abandoned(BaseException):
    """Unwinds a logical thread whose run is over."""


@dataclasses.dataclass
class Program:
    """What is explored: the bodies of the logical threads, and a check after all of them have returned."""

    bodies: list[Callable[[], None]]
    check: Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Explored:
    """How much there was to explore."""

    schedules: int
    states: int


@dataclasses.dataclass
class _Choice:
    options: list[tuple[int, int]]
    taken: int = 0


@dataclasses.dataclass
class _Thread:
    """A logical thread within one run."""

    finished: bool = False
    waiting: bool = False
    #: Hash of everything it has done and read, and how many reads there have been.
    history: int = 0
    reads: int = 0
    #: Whether another thread has changed a word since this one last waited, and what memory was like then.
    news: bool = False
    known: frozenset[tuple[int, int]] = frozenset()
    fruitless: int = 0
    #: The step at which it was last chosen: of those that are ready the longest idle goes first.
    chosen: int = 0
    #: Delayed stores, oldest first.
    buffer: list[tuple[int, int]] = dataclasses.field(default_factory=list)


Make = Callable[[Memory], Program]


def _held_lock() -> threading.Lock:
    """A baton: who waits for it acquires, who passes it on releases."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Explorer:
    """The search, and the machine that one schedule runs on."""

    def __init__(self, make: Make, bound: int, *, weak: bool, prune: bool, steps: int) -> None:
        self.make, self.bound, self.weak, self.prune = make, bound, weak, prune
        self.step_limit = steps
        self.path: list[_Choice] = []
        self.least_cost: dict[int, int] = {}
        program = make(Memory())
        self.baton = [_held_lock() for _ in program.bodies]
        self.over = _held_lock()
        self.closed = False
        self.workers = [
            threading.Thread(target=self._work, args=(t,), daemon=True)
            for t in range(len(program.bodies))
        ]
        self._reset(Memory(), program)

    def _reset(self, memory: Memory, program: Program) -> None:
        self.memory, self.bodies = memory, program.bodies
        self.threads = [_Thread() for _ in program.bodies]
        self.current = _NOBODY
        self.depth = self.cost = self.steps = 0
        self.abandoned = False
        self.failure: BaseException | None = None
        self.atomic_word: int | None = None
        self.delaying = False
        self.story: list[str] = []

    # -- the search ----------------------------------------------------------------------------------------

    def explore(self, limit: int) -> Explored:
        """Runs all schedules; raises Violation at the first that fails, Unfinished beyond the limit."""
        with self._installed():
            for schedules in range(1, limit + 1):
                self._run_once()
                while self.path and self.path[-1].taken + 1 == len(self.path[-1].options):
                    self.path.pop()
                if not self.path:
                    return Explored(schedules, len(self.least_cost))
                self.path[-1].taken += 1
        raise Unfinished(f"not done after {limit:,} schedules")

    @contextmanager
    def _installed(self) -> Iterator[None]:
        before, atomics.switch = atomics.switch, self.switch
        for worker in self.workers:
            worker.start()
        try:
            yield
        finally:
            atomics.switch = before
            self.closed = True
            for baton, worker in zip(self.baton, self.workers, strict=True):
                baton.release()
                worker.join()

    def _run_once(self) -> None:
        memory = Memory()
        with self._quiet():
            program = self.make(memory)
        self._reset(memory, program)
        memory.begin(self)
        self._pass_on()
        self.over.acquire()
        memory.explorer = None
        if self.failure is None and not self.abandoned:
            try:
                with self._quiet():
                    program.check()
            except AssertionError as error:
                self.failure = error
        if self.failure is not None:
            told = "\n  ".join(self.story[-60:])
            raise Violation(f"{self.failure}\nthe last steps:\n  {told}") from self.failure

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Operations before and after the run are nobody's steps."""
        hook, atomics.switch = atomics.switch, lambda kind, a, i: True
        yield
        atomics.switch = hook

    def _choose(self, what: str, options: list[tuple[int, int]]) -> int:
        """One of the (option, cost), the first by default; remembers that there are others."""
        affordable = [option for option in options if self.cost + option[1] <= self.bound]
        if self.prune and self.depth == len(self.path):
            self._abandon_if_known(what)
        if len(affordable) == 1:
            option, cost = affordable[0]
            return option
        if self.depth == len(self.path):
            self.path.append(_Choice(affordable))
        choice = self.path[self.depth]
        assert choice.options == affordable, "the program is not deterministic"
        option, cost = choice.options[choice.taken]
        self.depth += 1
        self.cost += cost
        return option

    def _abandon_if_known(self, what: str) -> None:
        state = hash(
            (
                what,
                self.current,
                self.memory.contents(),
                tuple(self.memory.log),
                tuple(
                    (
                        t.finished,
                        t.waiting,
                        t.history,
                        t.reads,
                        t.news,
                        t.known,
                        t.fruitless,
                        *t.buffer,
                    )
                    for t in self.threads
                ),
            )
        )
        if self.least_cost.get(state, self.bound + 1) <= self.cost:
            self.abandoned = True
            raise _Abandoned
        self.least_cost[state] = self.cost

    # -- the machine ---------------------------------------------------------------------------------------

    def switch(self, kind: str, a: Any, i: int) -> bool:
        """The hook: the current thread is about to act."""
        me = self.current
        thread = self.threads[me]
        if self.abandoned:
            raise _Abandoned
        self.steps += 1
        if self.steps > self.step_limit:
            self._fail(Violation(f"livelock: more than {self.step_limit} steps"))
        if kind in WAITING:
            self._flush(me)
            self._turn_of_a_spin_loop(thread)
        self._reschedule(me, gives_way=kind == "give_way")
        if kind not in WAITING and kind != "load" and kind != "store":
            self._flush(me)
        # Also what reads nothing, or storing a value that is there already would look like no step at all.
        thread.history = hash((thread.history, kind, i))
        self.atomic_word = i if kind in READ_MODIFY_WRITE else None
        self.delaying = kind == "store" and self._delay(me)
        self.story.append(f"thread {me}: {kind} {i if i >= 0 else ''}{' delayed' * self.delaying}")
        return True

    def _turn_of_a_spin_loop(self, thread: _Thread) -> None:
        now = self.memory.contents()
        thread.fruitless = 0 if thread.news or thread.known != now else thread.fruitless + 1
        thread.news, thread.known = False, now
        # Twice, since the loop may stand in another one, which has not looked yet at what ended the inner one.
        thread.waiting = thread.fruitless >= 2

    def _reschedule(self, me: int, *, gives_way: bool) -> None:
        chosen = self._next_thread(gives_way=gives_way)
        if chosen != me:
            self._hand_to(chosen)
            self.baton[me].acquire()
            if self.abandoned:
                raise _Abandoned

    def _next_thread(self, *, gives_way: bool = False) -> int:
        """Who goes on; delayed stores may become visible first."""
        while True:
            ready = [t for t, thread in enumerate(self.threads) if self._is_ready(thread)]
            ready.sort(key=lambda t: ((t != self.current) != gives_way, self.threads[t].chosen))
            # Only so is it fair to threads that wait for one that is ready all the time.
            price = 0 if self.current == _NOBODY or self.threads[self.current].finished else 1
            options = [(t, price if rank else 0) for rank, t in enumerate(ready)]
            options += [(-1 - t, 0) for t, thread in enumerate(self.threads) if thread.buffer]
            if not options:
                self._fail(Violation("deadlock: every thread waits, and none will write"))
            chosen = self._choose("who", options)
            if chosen >= 0:
                self.threads[chosen].chosen = self.steps
                return chosen
            self._flush(-1 - chosen, 1)

    @staticmethod
    def _is_ready(thread: _Thread) -> bool:
        return not thread.finished and not thread.waiting

    def _hand_to(self, t: int) -> None:
        self.current = t
        self.baton[t].release()

    def _fail(self, failure: BaseException) -> None:
        self.failure, self.abandoned = failure, True
        raise _Abandoned

    def _work(self, me: int) -> None:
        """A system thread, which carries the same logical thread in every run."""
        while True:
            self.baton[me].acquire()
            if self.closed:
                return
            try:
                if not self.abandoned:
                    self.bodies[me]()
                    if self.threads[me].buffer:
                        # Others may run before the last stores become visible.
                        self.switch("fence", None, -1)
            except _Abandoned:
                pass
            except BaseException as error:
                self.failure, self.abandoned = error, True
            self.threads[me].finished = True
            self._pass_on()

    def _pass_on(self) -> None:
        """Gives the run to a thread that has not finished; without one, it is over."""
        unfinished = [t for t, thread in enumerate(self.threads) if not thread.finished]
        if unfinished and not self.abandoned:
            try:
                self._hand_to(self._next_thread())
                return
            except _Abandoned:
                pass
        if unfinished:
            self._hand_to(unfinished[0])
        else:
            self.over.release()

    # -- memory --------------------------------------------------------------------------------------------

    def reading(self, i: int, value: int) -> int:
        """What the current thread sees in a word."""
        thread = self.threads[self.current]
        for word, delayed in thread.buffer:
            if word == i:
                value = delayed
        # A word as at the start needs no entry: the numbers of the reads that have one tell the others apart.
        thread.reads += 1
        if value != self.memory.start[i]:
            thread.history = hash((thread.history, thread.reads, i, value))
        return value

    def changed(self) -> None:
        """A word has changed: that is news to the others."""
        for t, thread in enumerate(self.threads):
            if t != self.current:
                thread.news, thread.waiting = True, False

    def delays(self, i: int, value: int) -> bool:
        """Whether the write of the current thread goes to its store buffer instead."""
        buffer = self.threads[self.current].buffer
        if i == self.atomic_word or not (self.delaying or buffer):
            return False
        buffer.append((i, value))
        return True

    def _delay(self, me: int) -> bool:
        if not self.weak or self.threads[me].buffer:
            return False
        return bool(self._choose("delay", [(0, 0), (1, 1)]))

    def _flush(self, t: int, count: int | None = None) -> None:
        thread = self.threads[t]
        visible = thread.buffer[:count]
        del thread.buffer[:count]
        writer, self.current = self.current, t
        for i, value in visible:
            self.memory.write(i, value)
        self.current = writer


def explore(
    make: Make,
    bound: int = 2,
    *,
    weak: bool = False,
    prune: bool = True,
    steps: int = 1000,
    limit: int = 1_000_000,
) -> Explored:
    """Explores the program that ``make`` builds in a fresh memory, which it must do deterministically.

    Without ``prune``, states that were reached before are explored again.
    """
    return Explorer(make, bound, weak=weak, prune=prune, steps=steps).explore(limit)
