"""Finds the thread level with the most throughput: trends and trust (Schneider & Wu, IBM Streams, section 4.2).

A level is *trusted* once its throughput was seen under the present load. The rules of Fig. 7, in its order, move to
where throughput rises and prefer what is not yet trusted; they come to rest where throughput is clearly more than
below and not clearly less than above. What differs from the paper, and can be switched off by
``change_in_load="paper"``:

- Tuples count by what they cost (:mod:`thalweg.elasticity.work`).
- A trend that is too small to go by from one level to the next is followed if it may add up further above.
- A level found is kept until the load changes. The load has changed when throughput stays off its first value by a
  fifth for more than a few periods. The paper forgets everything at each change of 5 %, and says itself (5.4) that it
  therefore oscillates.
- Loads are remembered. When one comes back, its level is taken over at once.
- A level's readings are averaged, and it is read a second time before it is kept; where that shows noise, its
  neighbours are, too, as long as the search may last.
- The search ends after a number of periods with the best level seen so far.

In both, a trend is against the best level on that side, not only against the next one, so that small losses do not add
up; and :mod:`thalweg.elasticity.curve` says which levels are tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from thalweg.brief import brief_repr
from thalweg.checks import require_int, require_share
from thalweg.elasticity.controller import Controller
from thalweg.elasticity.curve import Curve
from thalweg.elasticity.measures import relative_difference
from thalweg.elasticity.samples import FEW_LOOKS, Limits, Sample, Suggestion
from thalweg.elasticity.work import Rates, Weights, rates_of
from thalweg.errors import BuildError


@dataclasses.dataclass(frozen=True, slots=True)
class _Load:
    """A load as it was: what levels gave under it, by operator, and the best of them."""

    rates: Mapping[int, Rates]
    best: int


@brief_repr
class ThreadLevels(Controller):
    """Thread levels by throughput.

    Args:
        sensitivity: throughputs that differ by no more than this share are equal (SENS; section 4.2.2).
        noisy_sensitivity: the same where readings of one level were seen to vary.
        max_cpu_share: the level rises only while no more than this share of the processors is in use (4.2.3).
        change_in_load: ``"credits"`` or ``"paper"``, see above.
        load_change: a throughput that is off the first one at its level by more than this share of the smaller one
            may be another load (LOAD_CHANGE in IBM Streams; ``"paper"`` takes the sensitivity).
        noise_credits: for how many periods in a row it may be (NOISE_LIMIT in IBM Streams).
        thrift: fewer threads are sought for the same throughput only where it saves this share of them.
        readings: how often a level is measured before it is kept.
        search_periods: after how many periods of search the best level so far is kept.
        remembered: how many loads are remembered.

    Raises:
        BuildError: a parameter makes no sense.
    """

    looks = FEW_LOOKS

    def __init__(
        self,
        *,
        sensitivity: float = 0.05,
        noisy_sensitivity: float = 0.02,
        max_cpu_share: float = 0.8,
        change_in_load: Literal["credits", "paper"] = "credits",
        load_change: float = 0.2,
        noise_credits: int = 5,
        thrift: float = 0.1,
        readings: int = 2,
        search_periods: int = 14,
        remembered: int = 4,
    ) -> None:
        super().__init__()
        if change_in_load not in ("credits", "paper"):
            raise BuildError(
                f"ThreadLevels: change_in_load must be 'credits' or 'paper', not {change_in_load!r}"
            )
        require_share(
            self, sensitivity=sensitivity, noisy_sensitivity=noisy_sensitivity,
            max_cpu_share=max_cpu_share, load_change=load_change, thrift=thrift,
        )  # fmt: skip
        require_int(self, 1, readings=readings, search_periods=search_periods)
        require_int(self, 0, noise_credits=noise_credits, remembered=remembered)
        self.sensitivity = sensitivity
        self.noisy_sensitivity = noisy_sensitivity
        self.max_cpu_share = max_cpu_share
        self.change_in_load = change_in_load
        self.load_change = load_change
        self.noise_credits = noise_credits
        self.thrift = thrift
        self.readings = readings
        self.search_periods = search_periods
        self.remembered = remembered
        #: The present limits: those of the host, raised by stuck threads.
        self._now: Limits
        self._loads: list[_Load]
        self._weights: Weights
        self._time: int
        self._curve: Curve
        #: The level at which the search ended; None: it goes on.
        self._kept: int | None
        #: How many periods of search there were since the load changed.
        self._searched: int
        self._credits: int
        #: Whether the paper's rules, which end no search, moved nothing in the last period.
        self._at_rest: bool
        self.start(self.limits)

    def start(self, limits: Limits) -> None:
        super().start(limits)
        self._now = limits
        self._loads = []
        self._weights = Weights(by_cost=self.change_in_load == "credits")
        self._time = 0
        self._forget()

    @property
    def settled(self) -> bool:
        """Whether the best level is found, so that nothing moves until the load changes."""
        return self._kept is not None or self._at_rest

    def reconsider(self) -> None:
        """Marks the levels above the present level as untried, since more threads may now help."""
        if self._kept is not None:
            self._curve.readings = {k: r for k, r in self._curve.readings.items() if k < self._kept}
        self._kept = None
        self._searched = 0

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole:
            return ()
        self._heed_limits(sample)
        found = self._decide(sample)
        self._at_rest = not found and self.change_in_load == "paper"
        return found

    def _decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        level = sample.threads
        if level != self._now.clamp(level):
            return self._move(level, self._now.clamp(level), self._why_outside(sample))
        self._weights.learn(sample)
        known = self._learn(level, rates_of(sample))
        if known is not None:
            why = f"the load is one seen before, which {known} threads served best"
            return self._move(level, known, why)
        if self._kept is not None:
            return ()
        return self._search(level, sample.cpu_share)

    def refused(self, suggestion: Suggestion, reason: str) -> None:
        """Excludes the refused level until the load changes."""
        if suggestion.what == "threads":
            self._curve.refuse(suggestion.target)
            self._kept = None

    # --- what is trusted ------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Trusts no level any more, and searches."""
        self._curve = Curve(
            self._now,
            self._weights,
            sensitivity=self.sensitivity,
            noisy_sensitivity=self.noisy_sensitivity,
            thrift=self.thrift,
            averaged=self.change_in_load == "credits",
        )
        self._kept = None
        self._at_rest = False
        self._searched = 0
        self._credits = self.noise_credits

    def _heed_limits(self, sample: Sample) -> None:
        """Searches on where threads got stuck, or free again."""
        limits = self.limits.with_stuck(sample.unsuspendable)
        if limits != self._now:
            self._now = self._curve.limits = limits
            self._kept = None
            self._searched = 0

    def _learn(self, level: int, rates: Rates) -> int | None:
        """Records a period, having first forgotten what no longer holds.

        Returns:
            The level to go to where the load is a known one; else None.
        """
        self._time += 1
        known = None
        if self._changed(level, rates):
            known = self._recall(level, rates)
        elif self._credits < self.noise_credits and level in self._curve.readings:
            # Noise, or already another load: in neither case what this level gives under the present one.
            self._curve.readings[level].last_time = self._time
            return None
        self._curve.record(level, rates, self._time)
        return known

    def _changed(self, level: int, rates: Rates) -> bool:
        """Whether the load is another (changeInLoad of Fig. 7)."""
        reading = self._curve.readings.get(level)
        if reading is None:
            return False
        off = self._apart(rates, reading.first)
        if self.change_in_load == "paper":
            return off > self.sensitivity and reading.last_time == self._time - 1
        if off <= self.load_change:
            self._credits = self.noise_credits
            return False
        # Back at a level after some time: what was seen meanwhile was seen under who knows which load.
        if reading.last_time < self._time - 1:
            return True
        self._credits -= 1
        return self._credits < 0

    def _apart(self, one: Rates, other: Rates) -> float:
        """By which share of the lower one two throughputs differ."""
        return relative_difference(self._weights.throughput(one), self._weights.throughput(other))

    def _recall(self, level: int, rates: Rates) -> int | None:
        """Forgets the curve, or goes back to one that has this throughput at this level; gives that one's level."""
        self._remember()
        self._forget()
        apart = {
            number: self._apart(rates, load.rates[level])
            for number, load in enumerate(self._loads)
            if level in load.rates
        }
        nearest = min(apart, key=apart.__getitem__, default=None)
        if nearest is None or apart[nearest] > self.load_change / 2:
            return None
        load = self._loads.pop(nearest)
        for known, seen in load.rates.items():
            self._curve.record(known, seen, 0)
        self._kept = load.best
        return load.best

    def _remember(self) -> None:
        """Keeps what was learned under the load that is over, if its best level was found."""
        if self._kept is None or self.change_in_load == "paper" or not self.remembered:
            return
        rates = {level: self._curve.mean(level) for level in self._curve.known()}
        self._loads = [*self._loads[1 - self.remembered :], _Load(rates, self._kept)]

    # --- where to go ----------------------------------------------------------------------------------------------

    def _search(self, level: int, cpu_share: float | None) -> tuple[Suggestion, ...]:
        """The rules of section 4.2.2, in the order of Fig. 7."""
        self._searched += 1
        if self.change_in_load == "credits" and self._searched >= self.search_periods:
            return self._keep(level)
        target, why = self._up(level)
        if target is not None:
            if self._acceptable(cpu_share):
                return self._move(level, target, why)
            # Held back by what others use: the search has not come to an end, and this period does not count.
            self._searched -= 1
        held_back = target is not None
        target, why = self._down(level)
        if target is not None:
            return self._move(level, target, why)
        if held_back or self.change_in_load == "paper":
            return ()
        further = self._curve.untried_further(level)
        if further is not None:
            if not self._acceptable(cpu_share):
                return ()
            return self._move(level, further, f"{self._gives(level)}, and {further} may be better")
        doubtful = self._curve.doubtful(level, self.readings)
        if doubtful is None:
            self._kept = level
            return ()
        return self._move(level, doubtful, f"throughput varies, and {doubtful} was seen too rarely")

    def _up(self, level: int) -> tuple[int | None, str]:
        """Rules 2, 3 and 1: where more threads are, or may be, better; None: nowhere."""
        curve = self._curve
        above = curve.best_above(level)
        if above is not None and curve.clearly(curve.value(above), curve.value(level)):
            return above, f"{self._gives(above)}, clearly more than {self._gives(level)}"
        untried = curve.untried_above(level)
        if untried is None:
            return None, ""
        if level == self._now.minimum:
            return untried, f"{level} is the minimum, where {untried} is untried"
        # With nothing known above, the trend is drawn on up to the maximum, which also a small one may make worth it.
        drawn_on = above is None and self.change_in_load == "credits"
        if not drawn_on and not self._trend_below(level):
            return None, ""
        return untried, f"{self._against_below(level)}, and {untried} may be better still"

    def _down(self, level: int) -> tuple[int | None, str]:
        """Rules 4 and 5: where fewer threads are, or may be, as good; None: nowhere."""
        curve = self._curve
        untried = curve.untried_below(level)
        if untried is not None:
            return untried, f"{self._gives(level)}, and {untried} may be as good"
        best = curve.best()
        if best < level and not self._trend_below(level):
            return best, f"{self._gives(best)}, and {self._gives(level)}, which is not clearly more"
        return None, ""

    def _trend_below(self, level: int) -> bool:
        """Whether this level gives clearly more than every trusted one below it (trendBelow of Fig. 7)."""
        below = self._curve.best_below(level)
        return below is not None and self._curve.clearly(
            self._curve.value(level), self._curve.value(below)
        )

    def _acceptable(self, cpu_share: float | None) -> bool:
        """Whether the level may rise (isCPUUsageAcceptable of Fig. 7)."""
        return cpu_share is None or cpu_share <= self.max_cpu_share

    def _keep(self, level: int) -> tuple[Suggestion, ...]:
        """Ends the search at the best level so far."""
        self._kept = best = self._curve.best()
        why = f"{self._searched} periods of search are over, and {self._gives(best)}, the most"
        return self._move(level, best, why)

    def _move(self, level: int, target: int, why: str) -> tuple[Suggestion, ...]:
        if target == level:
            return ()
        return (Suggestion("threads", None, level, target, why),)

    def _gives(self, level: int) -> str:
        return f"{level} gave {self._curve.value(level):,.0f} tuples/s"

    def _against_below(self, level: int) -> str:
        below = self._curve.best_below(level)
        return self._gives(level) + (f" after {self._gives(below)}" if below is not None else "")

    def _why_outside(self, sample: Sample) -> str:
        stuck = f", with {sample.unsuspendable} stuck" if sample.unsuspendable else ""
        return f"levels go from {self._now.minimum} to {self._now.maximum}{stuck}"
