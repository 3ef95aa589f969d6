"""How long a peer that does not answer, or a table that others write, is waited for.

With growing pauses, said in the log with the first failure and every ten seconds, and not for ever. A call that fails
late, or never, is told of while it is open.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from thalweg.checks import refuse
from thalweg.connectors.contracts import Stop, never
from thalweg.connectors.open_calls import OPEN_CALLS
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.times import duration

Result = TypeVar("Result")

_LOG: Final = logging.getLogger("thalweg")
#: The pause before a call is made again, seconds: the first, and the longest.
PAUSE_S: Final = (0.05, 2.0)
#: How often a peer that does not answer is told of, seconds.
TELL_S: Final = 10.0


class WaitEnded(Exception):
    """The run was stopped while it waited for a peer."""


def patience_of(verb: str, patience: Any) -> float:
    """A verb's ``patience=`` in seconds.

    Raises:
        BuildError: it is no duration above 0.
    """
    if isinstance(patience, int):
        # Elsewhere an int counts microseconds of event time; here nobody means that.
        raise refuse(verb, "patience", 'a duration such as "30 seconds" or a timedelta', patience)
    try:
        patience_s = duration(patience) / 1e6
    except ValueError as error:
        raise BuildError(f"{verb}: patience: {error}") from None
    if patience_s <= 0:
        raise refuse(verb, "patience", "a duration above 0", patience)
    return patience_s


class PeerTrouble(NamedTuple):
    """How messages call what is waited for to be over: now, when patience is over, and when it is over."""

    now: str
    still: str
    over: str


SILENCE: Final = PeerTrouble("does not answer", "has not answered", "answers again")
#: Others write the same table, and a commit finds theirs before it.
CONFLICT: Final = PeerTrouble(
    "takes no commit, as others commit", "has met commits of others", "takes commits again"
)


class PeerWait:
    """Waits for one peer: a pause for each failure, longer each time, until it has answered again.

    Args:
        place: the peer, as messages call it.
        patience_s: how long it is waited for.
        stop: ends a pause.
        trouble: what is waited for to be over.
    """

    def __init__(
        self,
        place: str,
        patience_s: float,
        stop: Stop | None = None,
        trouble: PeerTrouble = SILENCE,
    ) -> None:
        self.place, self._patience_s = place, patience_s
        self._stop, self._trouble = stop or never(), trouble
        self._since = time.monotonic()
        self._told: float | None = None
        self._pause_s, self._longest_s = PAUSE_S

    def failed(self, reason: str) -> None:
        """A call has failed: waits a little.

        Raises:
            EnvironmentProblem: patience is over.
            WaitEnded: the run is to end.
        """
        waited = time.monotonic() - self._since
        if waited >= self._patience_s:
            raise EnvironmentProblem(
                f"{self.place} {self._trouble.still} for {waited:.0f} s: {reason}\n"
                "  patience= says how long it is waited for"
            )
        if self._told is None or waited - self._told >= TELL_S:
            self._told = waited
            left = self._patience_s - waited
            _LOG.warning(
                "%s %s (%s); it is waited for %.0f s more",
                self.place,
                self._trouble.now,
                reason,
                left,
            )
        if self._stop.wait(self._pause_s):
            raise WaitEnded
        self._pause_s = min(2 * self._pause_s, self._longest_s)

    def worked(self) -> None:
        """It answers."""
        if self._told is not None:
            _LOG.warning("%s %s", self.place, self._trouble.over)
        self._told, self._since = None, time.monotonic()
        self._pause_s = PAUSE_S[0]


def answered(
    wait: PeerWait,
    call: Callable[[], Result],
    may_pass: Callable[[Exception], bool],
    told: Callable[[Exception], str] = str,
) -> Result:
    """What the call gives, once it succeeds.

    Args:
        wait: for whom the call asks.
        call: may be made again.
        may_pass: whether the same again may succeed.
        told: what an error says, without secrets.

    Raises:
        Exception: of the call, one that will not pass.
        EnvironmentProblem: patience is over.
        WaitEnded: the run is to end.
    """
    while True:
        try:
            with OPEN_CALLS.watched(f"{wait.place} has not answered"):
                found = call()
        except Exception as error:
            if not may_pass(error):
                raise
            wait.failed(told(error) or type(error).__name__)
        else:
            wait.worked()
            return found
