"""Policies that look at nothing, to compare the others with."""

from __future__ import annotations

import dataclasses

from thalweg.checks import require_int
from thalweg.scheduling.policy import FlowView, Pick, PickPolicy


def least_recently_run(view: FlowView, worker: int) -> int:
    """A pick: the operator that can run and has not for the longest time; of equals the earliest in the flow."""
    oldest = -1
    for i in range(len(view.kind)):
        if view.runnable[i] != 0 and (oldest < 0 or view.last_run_ns[i] < view.last_run_ns[oldest]):
            oldest = i
    return oldest


@dataclasses.dataclass(frozen=True, kw_only=True)
class Random(PickPolicy):
    """Any runnable operator, all equally likely.

    The choice is a hash of the seed, the worker and the time, so it is the same for the same view.

    Attributes:
        seed: tells one sequence of choices from another.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        PickPolicy.__post_init__(self)
        require_int(self, 0, seed=self.seed)

    def pick_function(self) -> Pick:
        seed = self.seed & 0xFFFF_FFFF

        def random(view: FlowView, worker: int) -> int:
            count = 0
            for i in range(1, len(view.kind)):
                if view.runnable[i] != 0:
                    count += 1
            if count == 0:
                return -1
            now = view.now_ns[0]
            mixed = 0
            for word in (seed, worker & 0xFFFF_FFFF, now & 0xFFFF_FFFF, now >> 32):
                # Products of 32 and 27 bits: Python's ints and machine words agree.
                mixed ^= word
                for _ in range(2):
                    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFF_FFFF
                mixed ^= mixed >> 16
            left = mixed % count
            for i in range(1, len(view.kind)):
                if view.runnable[i] != 0:
                    if left == 0:
                        return i
                    left -= 1
            return -1

        return random


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundRobin(PickPolicy):
    """The next runnable operator after the last, around the flow."""

    def pick_function(self) -> Pick:
        def round_robin(view: FlowView, worker: int) -> int:
            last, count = 0, len(view.kind)
            for i in range(1, count):
                if view.last_run_ns[i] > view.last_run_ns[last]:
                    last = i
            for step in range(1, count + 1):
                i = (last + step) % count
                if view.runnable[i] != 0:
                    return i
            return -1

        return round_robin
