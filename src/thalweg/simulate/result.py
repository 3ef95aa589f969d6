"""What a simulation gives: frozen records, times in virtual ns or seconds."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from thalweg.brief import brief_repr
from thalweg.stats import Latency, weighted_quantile

Int64s = npt.NDArray[np.int64]
_NS = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class Overhead:
    """What it costs a worker to decide, ns; nothing unless said otherwise.

    Each unit of work costs ``unit_ns`` beside its tuples, as steps do that are handed from operator to operator, and
    each tuple that an operator puts out ``send_ns``, one worker at a time (:mod:`thalweg.simulate.threads.sending`).
    A pick costs ``visit_ns + operator_ns · operators``, since it looks at all of them. Under a policy of rounds a visit
    costs ``visit_ns``, and each round ``round_ns + operator_ns · operators``, for which all workers wait. A worker
    that was asleep takes ``wake_ns`` more.
    """

    visit_ns: int = 0
    operator_ns: int = 0
    round_ns: int = 0
    wake_ns: int = 0
    unit_ns: int = 0
    send_ns: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedSource:
    """A source: tuples that arrived, and of these how many still wait for room."""

    name: str
    arrived: int
    backlog: int


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedOperator:
    """An operator at the end.

    Attributes:
        rows_in: tuples that it is through with; rows_out: tuples that it put out for them.
        waiting: tuples in its inboxes; most_waiting: the most that ever waited.
        in_work: tuples that were taken but have not left its reorder buffer.
        held: tuples put out for which a reader has no room.
        busy_ns: worker time in it.
        visits: how often a worker came.
        latency_s: how long tuples were in it on average, from when a worker took them until they left, in order: what
            Prasaad et al. call processing latency (7.2.2); 0 without any.
    """

    name: str
    rows_in: int
    rows_out: int
    waiting: int
    most_waiting: int
    in_work: int
    held: int
    busy_ns: int
    visits: int
    latency_s: float = 0.0


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SimulatedSink:
    """What left the flow at a sink, in order: when each tuple left, and when it had entered, ns."""

    name: str
    left_ns: Int64s
    born_ns: Int64s

    def after(self, seconds: float) -> SimulatedSink:
        """Only those that left after so many seconds, to leave out the start."""
        late = self.left_ns >= seconds / _NS
        return SimulatedSink(self.name, self.left_ns[late], self.born_ns[late])

    @property
    def latency(self) -> Latency | None:
        """How long the tuples were on their way, by clock time; None without any."""
        return _latency(self.left_ns - self.born_ns)


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedThread:
    """How a thread spent its time, ns: in operators, on deciding, neither; the three are its life."""

    busy_ns: int
    scheduling_ns: int
    idle_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorCounters:
    """An operator so far.

    Attributes:
        tuples: that were worked on.
        busy_ns: worker time in it.
        congested_ns: for how long its input was full; of several inputs the longest.
        limit: how many workers may be in it now.
    """

    tuples: int
    busy_ns: int
    congested_ns: int
    limit: int


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Counters:
    """A simulation so far.

    Attributes:
        threads: by number; those above the level do nothing, or not for long.
        operators: in the order of the graph.
        late: by name the operators that those threads work on which are over the level and have not gone yet.
        rows_out: tuples that left the flow.
    """

    now_ns: int
    threads: tuple[SimulatedThread, ...]
    operators: tuple[OperatorCounters, ...]
    late: tuple[str, ...]
    rows_out: int


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """A run in virtual time, up to now.

    Attributes:
        seconds: how long it was.
        mean_queued: tuples in all inboxes, averaged over time; most_queued: the most at once.
        sampled_queued: int64[samples, 2]: a time, ns, and the tuples in all inboxes then.
        grain: for how many tuples each entry of a sink stands; counts are of tuples.
        events: what happened, in number; decisions: picks, or rounds.
    """

    seconds: float
    sources: tuple[SimulatedSource, ...]
    operators: tuple[SimulatedOperator, ...]
    sinks: tuple[SimulatedSink, ...]
    threads: tuple[SimulatedThread, ...]
    mean_queued: float
    most_queued: int
    sampled_queued: Int64s
    events: int
    decisions: int
    grain: int = 1

    @property
    def latency(self) -> Latency | None:
        """Over all sinks."""
        return _latency(np.concatenate([sink.left_ns - sink.born_ns for sink in self.sinks]))

    @property
    def rows_out(self) -> int:
        """Tuples that left the flow."""
        return self.grain * sum(len(sink.left_ns) for sink in self.sinks)

    @property
    def rows_in(self) -> int:
        """Tuples that entered the flow: those that arrived and found room."""
        return sum(source.arrived - source.backlog for source in self.sources)

    @property
    def throughput(self) -> float:
        """Tuples a second that entered the flow."""
        return self.rows_in / self.seconds if self.seconds else 0.0

    def operator(self, name: str) -> SimulatedOperator:
        """The operator of that name."""
        return next(operator for operator in self.operators if operator.name == name)

    def sink(self, name: str) -> SimulatedSink:
        """The sink of that name."""
        return next(sink for sink in self.sinks if sink.name == name)


def _latency(times: Int64s) -> Latency | None:
    if not len(times):
        return None
    ones = np.ones(len(times), np.int64)
    return Latency(
        len(times),
        float(times.mean()) * _NS,
        weighted_quantile(times, ones, 0.5) * _NS,
        weighted_quantile(times, ones, 0.99) * _NS,
        int(times.max()) * _NS,
    )
