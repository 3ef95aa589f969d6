"""Finds how many slots run batches best: what a batch costs and what a row costs, at each number that was tried.

A batch takes a time of its own, whatever its rows, and a time for each row that slots share. So the time of a batch
of any size is known for a number of slots that ran, and an upper bound of what others save is known before they run:
the time a batch stays, the time of rows is shared better at most. A number is tried where that would be worth it,
kept where it was, and tried again when rows cost something else. Light rows stay in one slot without a trial; heavy
ones spread.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from thalweg.brief import brief_repr
from thalweg.checks import require_int, require_share
from thalweg.elasticity.controller import Controller
from thalweg.elasticity.samples import Limits, Sample, Suggestion
from thalweg.errors import BuildError

#: Readings of a number of slots that are kept; the least of them counts, since others only add time.
_KEPT: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class BatchCost:
    """What batches cost with some number of slots.

    Attributes:
        batch_ns: of a batch, without its rows.
        row_ns: of a row, by the clock: what all slots work on it, shared by them.
    """

    batch_ns: float
    row_ns: float

    def of(self, rows: int) -> float:
        """The time of a batch of so many rows, ns."""
        return self.batch_ns + rows * self.row_ns

    def at_best(self, have: int, want: int) -> BatchCost:
        """What another number of slots would make of it if they shared the rows without loss.

        Args:
            have: how many it was measured with.
            want: the other number.
        """
        return BatchCost(self.batch_ns, self.row_ns * have / want)


@dataclasses.dataclass(frozen=True, slots=True)
class SlotChoice:
    """A number of slots, and why."""

    slots: int
    reason: str


def choose(
    costs: Mapping[int, BatchCost], rows: int, now: int, limits: Limits, *,
    worth_trying: float, worth_keeping: float,
) -> SlotChoice:  # fmt: skip
    """The number of slots for the next batch; pure.

    Args:
        costs: by number of slots, as measured under the present load; that of ``now`` is there.
        rows: of a batch.
        now: the present number.
        limits: of numbers.
        worth_trying: a number that has not run is tried where it saves this share of the time at best.
        worth_keeping: of numbers that have run, more slots are taken where they save this share.
    """
    here = costs[now].of(rows)
    told = f"a batch of {rows} rows takes {here / 1e6:.0f} ms with {now}"
    best = _best({slots: cost.of(rows) for slots, cost in costs.items()}, worth_keeping)
    if best != now:
        return SlotChoice(best, f"{told}, {costs[best].of(rows) / 1e6:.0f} ms with {best}")
    for want in _neighbours(now, limits):
        if want in costs:
            continue
        there = costs[now].at_best(now, want).of(rows)
        # Fewer are as good as more where they lose nothing to speak of.
        if there < (1 - worth_trying) * here or (want < now and there < (1 + worth_keeping) * here):
            return SlotChoice(want, f"{told}, and at best {there / 1e6:.0f} ms with {want}")
    shared = rows * costs[now].row_ns / here
    return SlotChoice(
        now, f"{told}, of which slots share {shared:.0%}; no other number saves enough"
    )


def _best(times: Mapping[int, float], worth: float) -> int:
    """The fewest slots than which no more save that share."""
    fewest, *more = sorted(times)
    best = fewest
    for slots in more:
        if times[slots] < (1 - worth) * times[best]:
            best = slots
    return best


def _neighbours(now: int, limits: Limits) -> Iterable[int]:
    found = min(2 * now, limits.maximum), max(now // 2, limits.minimum)
    return [one for one in found if one != now]


@brief_repr
class BatchCosts(Controller):
    """Slots by the cost of a batch and of a row; see the module.

    A *row* is a tuple that any operator takes, as in ``Sample.tuples``.

    Args:
        worth_trying: a number that has not run is tried where it could save this share of a batch's time.
        worth_keeping: more slots are kept where they do save this share.
        load_change: rows cost something else when their cost is off by this factor.
        readings: so many batches say what a number of slots costs; so many in a row, that the load is another.

    Raises:
        BuildError: a parameter makes no sense.
    """

    def __init__(
        self,
        *,
        worth_trying: float = 0.15,
        worth_keeping: float = 0.07,
        load_change: float = 1.5,
        readings: int = 2,
    ) -> None:
        super().__init__()
        require_share(self, worth_trying=worth_trying, worth_keeping=worth_keeping)
        require_int(self, 1, readings=readings)
        if not load_change > 1:
            raise BuildError(f"BatchCosts: load_change is a factor above 1, got {load_change!r}")
        self.worth_trying = worth_trying
        self.worth_keeping = worth_keeping
        self.load_change = load_change
        self.readings = readings
        self.start(self.limits)

    def start(self, limits: Limits) -> None:
        super().start(limits)
        self._seen: dict[int, collections.deque[BatchCost]] = {}
        self._other_load = 0
        #: what the last batch was followed by
        self.choice: SlotChoice | None = None

    @property
    def settled(self) -> bool:
        """Whether no number is being tried."""
        return self.choice is not None

    def reconsider(self) -> None:
        self._seen.clear()
        self.choice = None

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole or not sample.tuples:
            return ()
        now = sample.threads
        self._learn(now, cost_of(sample))
        if len(self._seen[now]) < self.readings:
            self.choice = None
            return ()
        costs = {slots: _least(seen) for slots, seen in self._seen.items()}
        self.choice = choose(
            costs, sample.tuples, now, self.limits,
            worth_trying=self.worth_trying, worth_keeping=self.worth_keeping,
        )  # fmt: skip
        if self.choice.slots == now:
            return ()
        return (Suggestion("threads", None, now, self.choice.slots, self.choice.reason),)

    def _learn(self, slots: int, cost: BatchCost) -> None:
        """Adds a reading; forgets all where rows have cost something else for some time."""
        seen = self._seen.setdefault(slots, collections.deque(maxlen=_KEPT))
        if seen and self._is_other_load(_least(seen), cost):
            self._other_load += 1
            if self._other_load < self.readings:
                return
            self._seen = {slots: collections.deque(maxlen=_KEPT)}
        self._other_load = 0
        self._seen[slots].append(cost)

    def _is_other_load(self, known: BatchCost, cost: BatchCost) -> bool:
        low, high = sorted([known.row_ns, cost.row_ns])
        return high > self.load_change * low


def cost_of(sample: Sample) -> BatchCost:
    """What a batch says of the cost of a batch and of a row."""
    work = sample.period_ns * sample.threads if sample.work_ns is None else sample.work_ns
    shared = min(work / sample.threads, sample.period_ns)
    return BatchCost(sample.period_ns - shared, shared / sample.tuples)


def _least(seen: Iterable[BatchCost]) -> BatchCost:
    """Of several readings, the least of each."""
    both = list(seen)
    return BatchCost(min(one.batch_ns for one in both), min(one.row_ns for one in both))
