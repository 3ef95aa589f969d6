"""Measures how long workers are in functions of the user's, and how much of that they wait; adds threads for it.

Three clocks are read around each unit in Python: the wall's, the thread's CPU time, and the CPU time that all threads
have spent under the interpreter's lock. What the last one has grown by, besides the thread's own, may have kept it from
going on. So may other programs that had the processor, which the system tells. A thread that never gave up its
processor by itself has not waited at all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from thalweg.elasticity.waiting import Waits
from thalweg.workers.lockfree.atomics import store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.places import op_at

try:
    import resource

    _THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)
except ImportError:  # pragma: no cover (other systems)
    _THREAD = None
#: Where nobody can say who held the interpreter's lock, a unit may have waited for it so long, ns.
_INTERPRETER_NS: Final = 50_000_000


def times_slept() -> int:
    """How often the calling thread has given up its processor by itself; -1 where the system does not tell."""
    return resource.getrusage(_THREAD).ru_nvcsw if _THREAD is not None else -1


class RunDelay(threading.local):
    """How long the calling thread could have run, but had no processor; always 0 where the system does not tell."""

    def __init__(self) -> None:
        try:
            # The file of the thread that opens it, for as long as that lives.
            self._file: Any = open("/proc/thread-self/schedstat", "rb", buffering=0)  # noqa: SIM115
        except OSError:
            self._file = None

    def ns(self) -> int:
        """All of it so far."""
        if self._file is None:
            return 0
        return int(os.pread(self._file.fileno(), 128, 0).split()[1])


class Occupancy:
    """Of all operators that Python runs in a memory.

    Args:
        mem: the memory.
        workers: how many there may ever be.
        most: how many threads may be in one operator at once while it waits.
        changed: called when some operator gets another number of threads, by the worker that found out.

    Attributes:
        cpu_ns: CPU time of units in Python by worker and operator, int64[workers, operators].
    """

    def __init__(
        self, mem: at.Int64s, *, workers: int, most: int, changed: Callable[[], None]
    ) -> None:
        self._mem, self._most, self._changed = mem, most, changed
        self.cpu_ns = np.zeros((workers, int(mem[at.MAX_OPS])), np.int64)
        self._waits: dict[int, Waits] = {}
        self._lock = threading.Lock()
        #: CPU time that was spent under the interpreter's lock; a lower bound
        self._locked_ns = 0
        self._fed = threading.local()
        self._delay = RunDelay()

    def forget(self, places: range) -> None:
        """These operators are gone, or there are others in their places."""
        with self._lock:
            for place in places:
                self._waits.pop(place, None)
        self.cpu_ns[:, places.start : places.stop] = 0

    @property
    def waiting_threads(self) -> int:
        """How many threads there is a use for besides those that compute."""
        with self._lock:
            return sum(one.freely for one in self._waits.values())

    def feeds(self) -> None:
        """The calling thread, which brings rows, has used the interpreter since it last said so."""
        now = time.thread_time_ns()
        before = getattr(self._fed, "ns", now)
        self._fed.ns = now
        self._locked_ns += now - before

    def timed(self, worker: int, place: int, run: Callable[..., Any], *given: Any) -> int:
        """Runs a unit; gives how long it took, ns, without the time that it waited for the interpreter."""
        delayed, locked, slept = self._delay.ns(), self._locked_ns, times_slept()
        began, cpu = time.monotonic_ns(), time.thread_time_ns()
        run(*given)
        used, took = time.thread_time_ns() - cpu, time.monotonic_ns() - began
        others = self._locked_ns - locked + self._delay.ns() - delayed
        self._locked_ns += used
        self.cpu_ns[worker, place] += used
        waited = max(took - used - others, took - used - _INTERPRETER_NS, 0)
        if slept >= 0 and times_slept() == slept:
            waited = 0
        if self._most > 1:
            self._learn(place, used + waited, used, waited)
        return used + waited

    def _learn(self, place: int, took: int, used: int, waited: int) -> None:
        with self._lock:
            waits = self._waits.get(place)
            if waits is None:
                waits = self._waits[place] = Waits(self._most)
            is_other = waits.add(took, used, waited)
        if is_other:
            store(self._mem, op_at(self._mem, place) + at.FREELY, waits.freely)
            self._changed()
