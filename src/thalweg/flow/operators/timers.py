"""Several timers a key: the state has one timer for the engine, which stands at the first of the user's.

The user's timers are ints of the state; a field behind them, of type Timer, is the least of them after each call. When
it has come, the functions of all that are due are called in the order of their times, ties in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg.times import NEVER


class SeveralTimers:
    """The functions of an operator as the engine calls them.

    Args:
        process: the user's, for rows.
        functions: the user's, by timer.
        timers: the fields of the state, in their order.
        first: the field that holds the least of them.
        gives: the timers whose function gives several rows.
        many: whether ``process`` does.
    """

    def __init__(
        self,
        process: Callable[..., Any],
        functions: Mapping[str, Callable[..., Any]],
        timers: Sequence[str],
        first: str,
        *,
        gives: frozenset[str],
        many: bool,
    ) -> None:
        self._process = process
        self._functions = functions
        self._timers = timers
        self._first = first
        self._gives = gives
        self._many = many

    def process(self, state: Any, row: Any) -> Any:
        """What the user's function gives for a row; timers that it has set count when all of it has come."""
        made = self._process(state, row)
        if self._many:
            made = list(made or ())
        set_first(state, self._timers, self._first)
        return made

    def on_timer(self, state: Any, *at: Any) -> list[Any]:
        """What the functions give whose timers are due; ``at`` is the key, where there is one, and the time."""
        made: list[Any] = []
        for name in self._due(state, at[-1]):
            # One before it may have unset it, moved it, or dropped the state.
            if state._drop or _time(state, name) > at[-1]:
                continue
            setattr(state, name, NEVER)
            given = self._functions[name](state, *at)
            made += list(given or ()) if name in self._gives else [given]
        set_first(state, self._timers, self._first)
        return [one for one in made if one is not None]

    def _due(self, state: Any, time: int) -> list[str]:
        due = [name for name in self._timers if _time(state, name) <= time]
        return sorted(due, key=lambda name: _time(state, name))


def set_first(state: Any, timers: Sequence[str], first: str) -> None:
    """Sets the engine's timer to the least of the user's."""
    setattr(state, first, min(_time(state, name) for name in timers))


def disarm(state: Any, timers: Sequence[str], first: str, before: Sequence[int], time: int) -> int:
    """Unsets the timers that a timer has set at the end of the stream; those that stood before stay. How many.

    Args:
        state: behind the call.
        timers, first: as of :class:`SeveralTimers`.
        before: by timer, when it stood before the call.
        time: of the timer that fired.
    """
    count = 0
    for name, old in zip(timers, before, strict=True):
        now = _time(state, name)
        if now != NEVER and (now != old or old <= time):
            setattr(state, name, NEVER)
            count += 1
    set_first(state, timers, first)
    return count


def times_of(state: Any, timers: Sequence[str]) -> list[int]:
    """When each stands."""
    return [_time(state, name) for name in timers]


def _time(state: Any, name: str) -> int:
    """When a timer stands; None is never."""
    value = getattr(state, name)
    if value is None:
        setattr(state, name, NEVER)
        return NEVER
    return int(value)
