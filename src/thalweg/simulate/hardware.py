"""What sharing a machine costs: cores, hardware threads, the memory bus, and cache lines that threads fight over.

Four effects make throughput over threads rise, level off and fall, each with one parameter or two:

- There are so many cores, and the hardware threads of a core share it (simultaneous multithreading). More threads than
  that get turns.
- All threads share the way to memory: each one that runs slows all others down a little.
- What another core wrote has to come from its cache. So a queue between two threads costs more than one that a thread
  uses alone: a line for each tuple where several write or read, since others have had it in between, but only one for
  all the tuples on it where one writes and one reads.
- Whoever may meet another at a queue must say so first: an atomic operation on each tuple that is put in. A thread
  that alone writes a queue need not (Schneider & Wu, 5.1, on dedicated threads).
- Who uses a queue keeps others from it, and those who wait slow down who has it: to hand it over among k waiting
  cores takes k/2 transfers of a cache line (Boyd-Wickizer et al., *Non-scalable locks are dangerous*, Linux Symposium
  2012, on ticket locks). So a queue that all threads use collapses: the more threads there are, the less it hands on.
  The list of free operators has no lock (Schneider & Wu, 4.1): there each one only waits for its turn.

Measured throughput varies on a real machine while nothing changes: ``noise`` makes all threads faster and slower by
turns, by the same draws for the same machine.

What is worked on, and in which order it leaves, is not affected: only times are.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections import deque
from typing import Final

from thalweg.errors import BuildError

#: Handles of 8 bytes on a cache line of 64: as many tuples come with one where a queue has one writer and one reader.
SLOTS: Final = 8
#: No noise makes a machine more than twice as fast.
_LEAST_MOOD: Final = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A machine.

    Attributes:
        cores: physical ones.
        smt: hardware threads of a core.
        smt_gain: what a core gets done with all its hardware threads, as a multiple of what it does with one.
        bus: by which share each running thread slows down the work of the others.
        queue_ns: a queue operation by a thread that has the queue in its cache, ns a tuple.
        line_ns: fetching a cache line from another core, ns.
        atomic_ns: an atomic operation on a line that is there already, ns: one for each tuple that is put into a queue
            which others might write at the same time.
        noise: the standard deviation of speed, as a share, where all processors are busy; less in proportion with
            fewer threads.
        noise_s: for how long a speed lasts, virtual s.

    Raises:
        BuildError: there is no core, a cost is negative, or speeds last no time.
    """

    cores: int
    smt: int = 1
    smt_gain: float = 1.0
    bus: float = 0.0
    queue_ns: float = 0.0
    line_ns: float = 0.0
    atomic_ns: float = 0.0
    noise: float = 0.0
    noise_s: float = 1.0

    def __post_init__(self) -> None:
        if self.cores < 1 or self.smt < 1 or not 1 <= self.smt_gain <= self.smt:
            raise BuildError(f"Hardware: cores and 1 ≤ smt_gain ≤ smt from 1 on, not {self!r}")
        if min(self.bus, self.queue_ns, self.line_ns, self.atomic_ns, self.noise) < 0:
            raise BuildError(f"Hardware: bus, costs and noise from 0 on, not {self!r}")
        if not self.noise_s > 0:
            raise BuildError(f"Hardware: noise_s above 0, not {self!r}")

    @property
    def processors(self) -> int:
        """Logical ones: the most threads that run at once."""
        return self.cores * self.smt

    def capacity(self, threads: int) -> float:
        """What so many threads get done at most, in threads that have a core each to themselves."""
        if threads <= self.cores:
            return float(threads)
        siblings = min(threads, self.processors) - self.cores
        more = siblings / (self.processors - self.cores) if siblings else 0.0
        return self.cores * (1 + (self.smt_gain - 1) * more)

    def slowdown(self, threads: int, now_ns: int = 0) -> float:
        """How much longer work takes while so many threads run, at a time."""
        if threads <= 1:
            return 1.0
        return self.on_bus(threads) * threads / self.capacity(threads) * self._mood(threads, now_ns)

    def _mood(self, threads: int, now_ns: int) -> float:
        """What noise makes of work at a time: a factor about 1."""
        if not self.noise:
            return 1.0
        drawn = _gauss(int(now_ns / (1e9 * self.noise_s)))
        share = min(threads, self.processors) / self.processors
        return max(1 + self.noise * share * drawn, _LEAST_MOOD)

    def on_bus(self, threads: int) -> float:
        """How much longer work takes for what others do to memory."""
        return 1 + self.bus * max(min(threads, self.processors) - 1, 0)


#: The machines of Schneider & Wu, section 5: 4 x 22 cores of 2 threads, and 2 x 12 cores of 8 less the one that was
#: disabled. Cores and threads are the paper's; docs/simulator.md says where the other figures come from.
XEON: Final = Hardware(cores=88, smt=2, smt_gain=1.2, bus=0.003, queue_ns=60, line_ns=300)
POWER8: Final = Hardware(cores=23, smt=8, smt_gain=2.2, bus=0.0005, queue_ns=80, line_ns=80)
#: That of Sahin & Gedik, section 5: 2 x 6 cores.
TWO_SIXES: Final = Hardware(cores=12, bus=0.002, queue_ns=60, line_ns=80)


@functools.lru_cache(maxsize=64)
def _gauss(number: int) -> float:
    """A standard normal draw by its number."""
    return random.Random(f"noise {number}").gauss(0.0, 1.0)


class Line:
    """A queue's cache lines: who used them last, and who is using them or waits.

    Times of use must not fall from call to call.

    Args:
        slots: tuples that come with a line from another core.
        locked: those who wait slow down who uses it.
    """

    __slots__ = ("_ends_ns", "_last", "_locked", "_slots")

    def __init__(self, *, slots: int = 1, locked: bool = True) -> None:
        self._slots = slots
        self._locked = locked
        #: When those who use it, or wait, are through, ns; those that are past are dropped at the next use.
        self._ends_ns: deque[float] = deque()
        #: Who last put something in, and who took something out.
        self._last = [-1, -1]

    def use_ns(
        self, hardware: Hardware, now_ns: int, who: int, uses: float, *, takes: bool
    ) -> float:
        """How long a thread is held up by so many operations from now on, its own time with the queue included.

        Args:
            uses: operations; with how much longer they take while others run, where that matters.
            takes: it takes something out of the queue, or else puts something in.
        """
        ends = self._ends_ns
        while ends and ends[0] <= now_ns:
            ends.popleft()
        waiting = len(ends)
        spinning = waiting if self._locked else 0
        misses = self._last[0] != who or self._last[1] != who
        self._last[takes] = who
        hold = uses * (hardware.queue_ns + hardware.line_ns * (misses / self._slots + spinning / 2))
        end = (ends[-1] if waiting else now_ns) + hold
        ends.append(end)
        return end - now_ns
