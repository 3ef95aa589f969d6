"""What is measured of a run, as frozen records, and how times of tuples become throughput and latency.

A *marker* is a step of the input with the times at which it entered the flow and left it. Markers serve experiments
of bounded length, in the way of Prasaad et al., section 7: those of the start and the end are left out. A run
without an end keeps a histogram instead, whose size does not grow, and which adds up over threads and processes.
Nothing here reads a clock: times are given, monotonic ns.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

#: Neighbouring buckets of a histogram differ by 2 %, so a percentile is off by 1 % at most.
BUCKET_RATIO: Final = 1.02
_LOG_RATIO: Final = math.log(BUCKET_RATIO)
#: Buckets from 1 ns up to the greatest int64.
BUCKETS: Final = math.ceil(63 * math.log(2) / _LOG_RATIO) + 1
_NS: Final = 1e-9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProgress:
    """What an operator has done since the start, and how it stands; None where the host cannot tell.

    Attributes:
        name: the operator's name.
        kind: stateless, keyed or stateful.
        rows_in: tuples that it took.
        rows_out: tuples that it put out.
        late: of those it took, how many were late.
        rejected: of those it took, how many went to its rejected stream.
        units: pieces of work that workers did on it; 0 where nobody counts them.
        busy_ns: worker time in it, ns; of a fused chain the first operator has that of all.
        cost_ns: worker time a tuple, ns; as ``busy_ns``.
        selectivity: tuples out a tuple in.
        workers: how many work on it now.
        queue_rows: tuples that wait in its inbox now.
        fused_with: the first operator of the chain that runs it in one pass; empty where that is itself.
        runs: ``machine code``, ``Python``, or ``built in`` for an operator of the library's own without a function.
        reason: why Python runs it.
        rows_per_s: tuples that it took a second, lately.
        busy: worker time in it a second, lately: 1 is one thread's.
        back_pressured: the share of looks, lately, that found it waiting for room behind it.
        held_ns: how long a chunk was in it on average, from when a worker took it until what came of it left, in order;
            None unless ``Options(times_held=True)`` asks for it.
    """

    name: str
    kind: str
    rows_in: int
    rows_out: int
    late: int = 0
    rejected: int = 0
    units: int = 0
    busy_ns: int | None = None
    cost_ns: float | None = None
    selectivity: float = 1.0
    workers: int | None = None
    queue_rows: int | None = None
    fused_with: str = ""
    runs: str | None = None
    reason: str = ""
    rows_per_s: float | None = None
    busy: float | None = None
    back_pressured: float | None = None
    held_ns: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """Times from the entry of tuples to their exit, in seconds; each of ``count`` tuples counts once."""

    count: int
    mean: float
    p50: float
    p99: float
    max: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The threads of a run, how many of them may run an operator, or the routing table were changed, or were not.

    Attributes:
        seconds: since the run began.
        what: ``threads``, ``replicas``, ``slots`` or ``table``.
        operator: whose replicas; empty for all else.
        before: how many there were; the epoch of the table before.
        after: how many there are from then on; where it was refused, how many were asked for; the epoch of the table.
        reason: of the controller, or of the reconfiguration, with how many keys get another slot; or who asked for it.
        refused: why it was not done; empty where it was.
    """

    seconds: float
    what: str
    operator: str
    before: int
    after: int
    reason: str
    refused: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FaultyRow:
    """A row that was late, or rejected.

    Attributes:
        operator: that found it so, or source.
        what: ``late`` or ``rejected``.
        reason: why.
        row: as text, cut to what a line can bear.
        at_s: when, seconds since 1970.
    """

    operator: str
    what: str
    reason: str
    row: str
    at_s: float


def weighted_quantile(values: Int64s, weights: Int64s, q: float) -> int:
    """The least of the values that at least the share ``q`` of the weight does not exceed.

    Args:
        values: any order, at least one.
        weights: how often each value counts, not negative, not all 0.
        q: 0 to 1.
    """
    order = np.argsort(values, kind="stable")
    return int(values[order[_place(weights[order], q)]])


def _place(weights: Int64s, q: float) -> int:
    """Where in a row of weights the share ``q`` of them is reached."""
    reached = np.cumsum(weights)
    # A hair less: 0.07 * 100 is above 7.
    rank = max(math.ceil(q * int(reached[-1]) - 1e-6), 1)
    return int(np.searchsorted(reached, rank))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Markers:
    """Steps of a run: when each entered and left, monotonic ns, and how many tuples of the input it had.

    Raises:
        ValueError: the arrays differ in length, a step left before it entered, or has fewer tuples than none.
    """

    entry_ns: Int64s
    exit_ns: Int64s
    rows: Int64s

    def __post_init__(self) -> None:
        if not len(self.entry_ns) == len(self.exit_ns) == len(self.rows):
            raise ValueError("entry_ns, exit_ns and rows must have one length")
        if np.any(self.exit_ns < self.entry_ns):
            raise ValueError("a marker left before it entered")
        if np.any(self.rows < 0):
            raise ValueError("a marker has fewer rows than none")

    def __len__(self) -> int:
        return len(self.rows)

    def throughput(self, low: float = 0.2, high: float = 0.8) -> float:
        """Tuples a second while those between two percentiles of the tuples left; 0 without any.

        The time begins when the last tuple before them left: with all tuples, or too few to leave some out, when the
        first one entered.
        """
        steps, begin = self._steady(low, high)
        if not len(steps):
            return 0.0
        exits = self.exit_ns[steps]
        elapsed = int(exits[-1]) - begin
        return float(self.rows[steps].sum()) / (elapsed * _NS) if elapsed else math.inf

    def latency(self, low: float = 0.2, high: float = 0.8) -> Latency | None:
        """How long the tuples between two percentiles were on their way; None without any."""
        steps, _ = self._steady(low, high)
        if not len(steps):
            return None
        times, rows = self.exit_ns[steps] - self.entry_ns[steps], self.rows[steps]
        return Latency(
            int(rows.sum()),
            float(np.average(times, weights=rows)) * _NS,
            weighted_quantile(times, rows, 0.5) * _NS,
            weighted_quantile(times, rows, 0.99) * _NS,
            int(times.max()) * _NS,
        )

    def _steady(self, low: float, high: float) -> tuple[Int64s, int]:
        """The markers whose tuples all lie between two percentiles, by exit, and when their time begins.

        Where a marker is so large that there is none, all are taken.
        """
        order = np.lexsort((self.entry_ns, self.exit_ns))
        order = order[self.rows[order] > 0]
        if not len(order):
            return order, 0
        reached = np.cumsum(self.rows[order])
        inside = (reached - self.rows[order] >= low * reached[-1]) & (reached <= high * reached[-1])
        if not inside.any():
            inside[:] = True
        first = int(np.argmax(inside))
        begin = self.exit_ns[order[first - 1]] if first else self.entry_ns[order].min()
        return order[inside], int(begin)


class MarkerLog:
    """Collects markers while a run goes on. Several threads may add."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int, int]] = []

    def add(self, entry_ns: int, exit_ns: int, rows: int) -> None:
        """A step of so many tuples of the input entered and left."""
        self._steps.append((entry_ns, exit_ns, rows))

    def markers(self) -> Markers:
        """What was collected so far."""
        steps = np.array(self._steps, np.int64).reshape(-1, 3)
        return Markers(steps[:, 0].copy(), steps[:, 1].copy(), steps[:, 2].copy())


class LatencyHistogram:
    """Latencies of any number of tuples in 18 kB: percentiles within 1 %; count, mean and maximum exact.

    One thread at a time may add; those of several threads, or processes, are merged.

    Attributes:
        counts: int64[BUCKETS]; bucket b has the tuples from BUCKET_RATIO ** b ns on.
        total_ns: the sum of all latencies, ns.
        max_ns: the greatest latency, ns; 0 without any.
    """

    def __init__(self) -> None:
        self.counts: Int64s = np.zeros(BUCKETS, np.int64)
        self.total_ns = 0
        self.max_ns = 0

    def add(self, latency_ns: int, rows: int = 1) -> None:
        """``rows`` tuples were on their way for ``latency_ns``; less than 1 ns counts as 1 ns in percentiles."""
        self.counts[int(math.log(max(latency_ns, 1)) / _LOG_RATIO)] += rows
        self.total_ns += latency_ns * rows
        self.max_ns = max(self.max_ns, latency_ns)

    def merge(self, other: LatencyHistogram) -> None:
        """Adds what another histogram has."""
        self.counts += other.counts
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    def quantile_ns(self, q: float) -> float:
        """The time that the share ``q`` (0 to 1) of the tuples did not exceed, ns, within 1 %; nan without any."""
        if not self.counts.any():
            return math.nan
        middle = math.exp((_place(self.counts, q) + 0.5) * _LOG_RATIO)
        return min(middle, float(self.max_ns))

    def latency(self) -> Latency | None:
        """What it amounts to; None without any tuples."""
        count = int(self.counts.sum())
        if not count:
            return None
        return Latency(
            count,
            self.total_ns / count * _NS,
            self.quantile_ns(0.5) * _NS,
            self.quantile_ns(0.99) * _NS,
            self.max_ns * _NS,
        )
