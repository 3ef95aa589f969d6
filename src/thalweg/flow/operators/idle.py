"""Idle sources and lanes: what is decided of them, as data, so that a run can be repeated (docs/idle.md).

Whether no row has come for a while is a question to the wall clock, which no repeat answers alike. So the answer is a
*decision*, and what follows from decisions and rows follows from nothing else: hosts make decisions and log them,
engines and the serial reference take them.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, NamedTuple, TypeAlias

from thalweg.checks import refuse
from thalweg.errors import BuildError
from thalweg.times import BEFORE_ALL, duration

#: How users say after how long a source is idle: wall time, never a number in the unit of an int ``order_by``.
GivenIdle: TypeAlias = str | dt.timedelta | None


class IdleDecision(NamedTuple):
    """What was decided of a source or one of its lanes.

    Attributes:
        source: its name.
        lane: the lane; None where the source has none.
        what: ``"idle"``: it holds no other back until a row comes, and where all are idle, time goes by it;
            ``"active"``: it counts again, and from nothing earlier than what the watermark has passed.
        time: the lane is taken to be so far: its rows below it, less the lateness, are late once it is active.
        after: how many rows of the source had come before it.
    """

    source: str
    lane: Any
    what: Literal["idle", "active"]
    time: int
    after: int


def idle_span(source: str, idle: GivenIdle, *, sorts: bool, knows_lanes: bool) -> int | None:
    """``idle=`` of a source in microseconds; None: it is never idle.

    Args:
        sorts: whether one watermark orders the source's rows.
        knows_lanes: whether its lanes, if it has some, are known before its end.

    Raises:
        BuildError: it is no duration above 0, or means nothing for the source.
    """
    if idle is None:
        return None
    where = f"source {source!r}"
    span = _span(where, idle)
    if not sorts:
        raise BuildError(
            f"{where}: idle= is about the watermark, which only a source with order_by= and order='total' has"
        )
    if not knows_lanes:
        raise BuildError(
            f"{where}: idle= needs lanes=[...] or lanes='arrival': without it the lanes are those of the whole input,"
            " which are known at its end, and until then its rows wait in any case"
        )
    return span


def idle_of_order(where: str, idle: GivenIdle, *, is_clocked: bool) -> int | None:
    """``idle=`` of an order_by in microseconds; None: it is never idle.

    Raises:
        BuildError: it is no duration above 0, or time cannot run on.
    """
    if idle is None:
        return None
    span = _span(where, idle)
    if not is_clocked:
        raise BuildError(
            f"{where}: idle= does nothing here: an int has no unit, so time cannot run on with the clock; make the"
            " field a tw.Timestamp, or leave idle= out"
        )
    return span


def _span(where: str, idle: GivenIdle) -> int:
    if isinstance(idle, int) or not isinstance(idle, str | dt.timedelta):
        # Elsewhere an int counts event time; this is time by the clock on the wall.
        raise refuse(where, "idle", 'a duration such as "10 seconds" or a timedelta', idle)
    try:
        span = duration(idle)
    except ValueError as error:
        raise BuildError(f"{where}: idle: {error}") from None
    if span <= 0:
        raise refuse(where, "idle", "a duration above 0", idle)
    return span


def later(time: int, lateness: int) -> int:
    """A time less the lateness; before all times nothing is taken off."""
    return time if time == BEFORE_ALL else time - lateness
