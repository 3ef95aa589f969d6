"""map_async as a frozen record: a coroutine function of a row, and how many calls of it there may be at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Errors, OperatorKind, Reader, Ref
from thalweg.flow.records import Schema
from thalweg.times import SECOND

#: The longest pause between two tries of a call.
LONGEST_PAUSE_S: Final = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Tries:
    """How often a call is made, and how long it may take.

    Attributes:
        timeout_s: after so long a call is given up; None: never.
        retries: how often it is made again, at most.
        backoff_s: the pause in front of the first retry; each further one is twice as long.
        on: the errors that are worth another call.
    """

    timeout_s: float | None
    retries: int
    backoff_s: float
    on: tuple[type[Exception], ...]

    def again(self, error: BaseException, made: int) -> bool:
        """Whether to call again after so many calls, the last of which raised this."""
        return made <= self.retries and isinstance(error, self.on)

    def pause_s(self, made: int) -> float:
        """How long to wait after so many calls."""
        return float(min(self.backoff_s * 2.0 ** min(made - 1, 60), LONGEST_PAUSE_S))

    def timed_out(self, made: int) -> TimeoutError:
        """The error of a call that was given up."""
        tries = f" ({made} tries)" if made > 1 else ""
        return TimeoutError(f"no answer within {self.timeout_s:g} s{tries}")

    def described(self) -> str:
        """For explain."""
        parts = []
        if self.timeout_s is not None:
            parts.append(f"timeout {self.timeout_s:g} s")
        if self.retries:
            parts.append(f"at most {self.retries} retries")
        return "".join(f", {part}" for part in parts)


@dataclasses.dataclass(frozen=True)
class MapAsync(Reader):
    """map_async: a coroutine a row; outputs in the order of the rows, however the calls end.

    No call is open between two steps of an engine, so there is no state: what a batch had in flight when its process
    died is called again with the batch.
    """

    input: Ref
    function: Function
    record: Schema
    errors: Errors
    concurrency: int
    tries: Tries
    #: makes what the function gets as its second argument, opened once by each that runs the operator
    client: Callable[[], Any] | None = dataclasses.field(default=None, compare=False)

    KIND = OperatorKind.STATELESS


def seconds_of(length_us: int) -> float:
    """A duration in seconds."""
    return length_us / SECOND
