"""IBM Streams' way to find work (Schneider & Wu, section 4.1): a free list, the least recently run operator first."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from thalweg.scheduling.policy import Pick, PickPolicy


@dataclasses.dataclass(frozen=True, slots=True)
class FreeList(PickPolicy):
    """The runnable operator that has not run for longest, until its worklist is empty.

    The engine does it without a view, by a lock-free list of operators, so that a look costs the same with ten
    operators and with a thousand; it is the default.
    """

    native: ClassVar[str] = "free_list"

    def __post_init__(self) -> None:
        self.check()

    def pick_function(self) -> Pick:
        def free_list(view, worker):  # type: ignore[no-untyped-def]
            best = -1
            for op in range(1, len(view.kind)):
                if view.runnable[op] != 0 and (
                    best < 0 or view.last_run_ns[op] < view.last_run_ns[best]
                ):
                    best = op
            return best

        return free_list
