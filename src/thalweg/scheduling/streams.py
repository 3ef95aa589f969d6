"""The free list of IBM Streams (Schneider & Wu, *Low-Synchronization, Mostly Lock-Free, Elastic Scheduling*, 4.1)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from thalweg.scheduling.policy import Pick, PickPolicy
from thalweg.scheduling.simple import least_recently_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class FreeList(PickPolicy):
    """The operator that has not run for the longest time; needs no measures.

    IBM's threads take an operator from the head of a lock-free list and put it back at the tail when they have drained
    its queue. The node runtime has that list itself, so there the time slice does not count; the pick here is what
    the list amounts to, for hosts without one.
    """

    #: The host's own form of this policy, which is used in place of the pick.
    native: ClassVar[str] = "free_list"

    def pick_function(self) -> Pick:
        return least_recently_run
