"""What a page may do besides showing, where its host allows it: described to the page, checked here, logged."""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from thalweg.errors import BuildError, ThalwegError

_LOG: Final = logging.getLogger("thalweg")
#: Of what was done so much is shown.
_KEPT: Final = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that the host can do now.

    Attributes:
        name: ``threads``, ``rescale``, ``policy``, ``savepoint``, ``end`` or ``stop``.
        flow: to which flow; empty for what all share.
        label: what its button says.
        explains: what comes of it, for who is asked to confirm it.
        does: does it, with a number, one of the choices, or None, and the address that asked, and says what was done.
        choices: one of them must be given.
        least, most: a number between them must be given, where ``least`` is not None.
        now: what holds now, as text.
        is_final: whether it cannot be undone.
    """

    name: str
    label: str
    explains: str
    does: Callable[[Any, str], str]
    flow: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    now: str = ""
    is_final: bool = False

    def described(self) -> dict[str, Any]:
        """What the page is told."""
        told = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        del told["does"]
        return told

    def value_of(self, given: Any) -> Any:
        """The value that was given, if it is one for this action.

        Raises:
            BuildError: it is none.
        """
        if self.choices:
            if given not in self.choices:
                raise BuildError(
                    f"{self.name}: expected one of {', '.join(self.choices)}, got {given!r}"
                )
        elif self.least is not None:
            most = "" if self.most is None else f" to {self.most:,}"
            fits = isinstance(given, int) and not isinstance(given, bool) and given >= self.least
            if not fits or (self.most is not None and given > self.most):
                raise BuildError(
                    f"{self.name}: expected a number from {self.least}{most}, got {given!r}"
                )
        elif given is not None:
            raise BuildError(f"{self.name}: takes no value, got {given!r}")
        return given


class Done(NamedTuple):
    """Something that was asked for."""

    at_s: float
    flow: str
    action: str
    text: str
    is_done: bool
    who: str


class Performer:
    """Does what is asked for, one after the other, and keeps the last of it.

    Args:
        actions: those that can be done now.
    """

    def __init__(self, actions: Callable[[], Iterable[Action]]) -> None:
        self._actions = actions
        self._lock = threading.Lock()
        self._log: collections.deque[Done] = collections.deque(maxlen=_KEPT)

    def described(self) -> list[dict[str, Any]]:
        """All that can be done now, for the page."""
        return [one.described() for one in self._actions()]

    def log(self) -> list[dict[str, Any]]:
        """What was asked for last, oldest first."""
        return [one._asdict() for one in list(self._log)]

    def perform(self, asked: Mapping[str, Any], who: str) -> Done:
        """Does it; what comes of it, also that it failed, is logged.

        Args:
            asked: ``action``, ``flow`` and ``value``.
            who: the address that asked.
        """
        name, flow = str(asked.get("action")), str(asked.get("flow") or "")
        with self._lock:
            try:
                text, is_done = self._done(name, flow, asked.get("value"), who), True
            except ThalwegError as error:
                text, is_done = str(error), False
            except Exception as error:
                _LOG.exception("page: %s failed", name)
                text, is_done = f"{type(error).__name__}: {error}", False
        done = Done(time.time(), flow, name, text, is_done, who)
        self._log.append(done)
        at = f"flow {flow!r}: " if flow else ""
        _LOG.warning(
            "page: %s%s%s, asked by %s", at, "" if is_done else f"{name} refused: ", text, who
        )
        return done

    def _done(self, name: str, flow: str, value: Any, who: str) -> str:
        for one in self._actions():
            if (one.name, one.flow) == (name, flow):
                return one.does(one.value_of(value), who)
        known = ", ".join(one.name for one in self._actions() if one.flow == flow) or "nothing"
        raise BuildError(f"{name!r} cannot be done now; what can be is: {known}")
