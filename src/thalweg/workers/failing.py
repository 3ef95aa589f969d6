"""Which of the failures of a flow is told: the one at which a serial run would end.

Steps are on their way beside each other, so a later one may fail first. Those before it run through, and where one of
them fails, too, that is told instead. Later ones are dropped. A function that hangs is not waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

#: How often is looked whether the steps before one that failed have run, seconds.
_LOOK_S: Final = 1e-3
#: While none of them moves they are waited for so long, seconds: a function may hang.
_GRACE_S: Final = 2.0


class Failure(NamedTuple):
    """What an operator raised in a step."""

    step: int
    operator: int
    error: BaseException


class FirstFailure:
    """Of the steps that failed the first one, and in it the first operator; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Failure | None = None

    @property
    def first(self) -> Failure | None:
        """The first one so far."""
        return self._first

    def is_behind(self, step: int, operator: int) -> bool:
        """Whether a serial run would have ended before an operator takes a step."""
        first = self._first
        return first is not None and (step, operator) >= first[:2]

    def note(self, failure: Failure) -> None:
        """One more."""
        with self._lock:
            if not self.is_behind(failure.step, failure.operator):
                self._first = failure

    def wait(
        self,
        has_run: Callable[[int], bool],
        is_over: Callable[[], bool],
        moved: Callable[[], int],
    ) -> BaseException:
        """Waits until no step can fail before the first one that has, or none moves any more; gives its error.

        Args:
            has_run: whether a step has left all operators.
            is_over: whether nobody is to wait any more.
            moved: grows with each operator that a step has left.
        """
        assert self._first is not None
        before, since_s = moved(), time.monotonic()
        while not (has_run(self._first.step) or is_over()):
            time.sleep(_LOOK_S)
            if (now := moved()) != before:
                before, since_s = now, time.monotonic()
            elif time.monotonic() - since_s > _GRACE_S:
                break
        return self._first.error
