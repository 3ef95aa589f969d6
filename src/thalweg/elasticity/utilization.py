"""Moves the thread level by how busy threads are (Sahin & Gedik, *C-Stream*, section 4.1)."""

from __future__ import annotations

from thalweg.brief import brief_repr
from thalweg.checks import require_share
from thalweg.elasticity.controller import Controller
from thalweg.elasticity.samples import FEW_LOOKS, Limits, Sample, Suggestion
from thalweg.errors import BuildError


@brief_repr
class Utilization(Controller):
    """Adds a thread where the mean utilization is high, and removes one where it is low.

    It asks for no throughput: threads that get in each other's way look busy, so with it a level may be too high. But
    it never tries a level only to learn what it gives.

    Args:
        low: the mean utilization below which there is one thread less (U_l; section 5.2).
        high: the one above which there is one more (U_h; 0.90 is the more eager value that the paper tries too).
        smoothing: the weight of the last period in the mean over periods. 1 is the paper; its code has 0.17.
        steady: no thread less where those left would have more than ``high`` to do, so that it would come back at
            once. The paper has no such rule.
        max_cpu_share: the level rises only while no more than this share of the processors is in use, as in IBM
            Streams; None: always, as in the paper.

    Raises:
        BuildError: a parameter makes no sense.
    """

    looks = FEW_LOOKS

    def __init__(
        self,
        *,
        low: float = 0.90,
        high: float = 0.95,
        smoothing: float = 1.0,
        steady: bool = True,
        max_cpu_share: float | None = None,
    ) -> None:
        super().__init__()
        require_share(self, low=low, high=high, smoothing=smoothing)
        if max_cpu_share is not None:
            require_share(self, max_cpu_share=max_cpu_share)
        if not low < high or not smoothing:
            raise BuildError(
                f"Utilization: expected low < high and smoothing > 0, not low={low}, high={high}, "
                f"smoothing={smoothing}"
            )
        self.low = low
        self.high = high
        self.smoothing = smoothing
        self.steady = steady
        self.max_cpu_share = max_cpu_share
        self.start(self.limits)

    def start(self, limits: Limits) -> None:
        super().start(limits)
        #: The mean utilization over periods at the present level; None before the first.
        self._mean: float | None = None
        self._level = 0
        self._settled = False

    @property
    def settled(self) -> bool:
        return self._settled

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole:
            return ()
        found = self._decide(sample)
        self._settled = not found
        return found

    def _decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        level, mean = sample.threads, self._smooth(sample)
        limits = self.limits.with_stuck(sample.unsuspendable)
        target, why = level, ""
        if mean > self.high and self._acceptable(sample.cpu_share):
            target, why = level + 1, f"threads are {mean:.0%} busy, more than {self.high:.0%}"
        elif mean < self.low and not self._would_return(level, mean):
            target, why = level - 1, f"threads are {mean:.0%} busy, less than {self.low:.0%}"
        if limits.clamp(target) != target:
            target, why = (
                limits.clamp(target),
                f"levels go from {limits.minimum} to {limits.maximum}",
            )
        return (Suggestion("threads", None, level, target, why),) if target != level else ()

    def _smooth(self, sample: Sample) -> float:
        """The mean over periods, which begins anew with each level."""
        if self._mean is None or sample.threads != self._level:
            self._level, self._mean = sample.threads, sample.utilization
        self._mean += self.smoothing * (sample.utilization - self._mean)
        return self._mean

    def _acceptable(self, cpu_share: float | None) -> bool:
        return self.max_cpu_share is None or cpu_share is None or cpu_share <= self.max_cpu_share

    def _would_return(self, level: int, mean: float) -> bool:
        return self.steady and level > 1 and mean * level / (level - 1) > self.high
