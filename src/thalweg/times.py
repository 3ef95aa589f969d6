"""Event time: integers of microseconds since 1970 UTC, and the few helpers that keep them readable.

A ``Timestamp`` is a plain ``int`` in interpreted and in compiled functions alike, so arithmetic on it is
exact for every year that fits 64 bits, also before 1970.
"""

from __future__ import annotations

import datetime as _dt
import re
from typing import Final

from thalweg import zones

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

#: The time that never comes: an unarmed timer, the clock at the end of a stream.
NEVER: Final = 2**63 - 1
#: Event times lie between minus this and this, so that adding a gap or taking a lateness off stays in 64 bits.
EXTREME: Final = 2**62
#: Before every time: the clock of a source that has delivered nothing yet.
BEFORE_ALL: Final = -(2**63)

_UNITS: Final = {
    "us": 1,
    "microsecond": 1,
    "ms": 1000,
    "millisecond": 1000,
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "min": MINUTE,
    "minute": MINUTE,
    "h": HOUR,
    "hour": HOUR,
    "d": DAY,
    "day": DAY,
    "w": 7 * DAY,
    "week": 7 * DAY,
}
_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")


def microseconds(n: int) -> int:
    """A duration of n microseconds."""
    return n


def milliseconds(n: int) -> int:
    """A duration of n milliseconds, in microseconds."""
    return n * 1000


def seconds(n: int) -> int:
    """A duration of n seconds, in microseconds."""
    return n * 1_000_000


def minutes(n: int) -> int:
    """A duration of n minutes, in microseconds."""
    return n * 60_000_000


def hours(n: int) -> int:
    """A duration of n hours, in microseconds."""
    return n * 3_600_000_000


def days(n: int) -> int:
    """A duration of n days, in microseconds."""
    return n * 86_400_000_000


def local(time: int, zone: str | None) -> int:
    """What the clocks of a zone show at a Timestamp: microseconds since their 1970-01-01 00:00.

    A zone is a name like ``"Europe/Berlin"``, None is UTC. In the hour that clocks repeat both times give the same.

    Raises:
        ValueError: there is no such zone.
        OverflowError: the year is not one of 1 to 9999.
    """
    return time if zone is None else zones.local(time, zone)


def year(time: int, zone: str | None = None) -> int:
    """The year of a Timestamp, in UTC or in a zone, see :func:`local`."""
    return zones.civil(local(time, zone) // DAY)[0]


def month(time: int, zone: str | None = None) -> int:
    """The month of a Timestamp, 1 to 12, in UTC or in a zone."""
    return zones.civil(local(time, zone) // DAY)[1]


def day(time: int, zone: str | None = None) -> int:
    """The day of the month of a Timestamp, 1 to 31, in UTC or in a zone."""
    return zones.civil(local(time, zone) // DAY)[2]


def hour(time: int, zone: str | None = None) -> int:
    """The hour of the day of a Timestamp, 0 to 23, in UTC or in a zone."""
    return local(time, zone) % DAY // HOUR


def minute(time: int, zone: str | None = None) -> int:
    """The minute of the hour of a Timestamp, 0 to 59, in UTC or in a zone."""
    return local(time, zone) % HOUR // MINUTE


def second(time: int, zone: str | None = None) -> int:
    """The second of the minute of a Timestamp, 0 to 59, in UTC or in a zone."""
    return local(time, zone) % MINUTE // SECOND


def weekday(time: int, zone: str | None = None) -> int:
    """The day of the week of a Timestamp, in UTC or in a zone: Monday is 0."""
    return (local(time, zone) // DAY + 3) % 7


def date(time: int, zone: str | None = None) -> int:
    """The first instant of the day that a Timestamp is in, itself a Timestamp; the day is that of UTC or of a zone.

    That is midnight, but where a zone's clocks are set forward over it.
    """
    return time // DAY * DAY if zone is None else zones.day_start(time, zone)


def text(time: int) -> str:
    """A Timestamp as ISO 8601 in UTC, ``2026-01-31T12:00:00.000000Z``; for people, never for keys.

    Years outside 1 to 9999, which the calendar of the standard library lacks, come as microseconds.
    """
    try:
        moment = _dt.datetime(1970, 1, 1) + _dt.timedelta(microseconds=time)
    except OverflowError:
        return f"{time}us"
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}Z"


def timestamp(text: str | _dt.datetime) -> int:
    """A Timestamp from ISO 8601 text or a datetime; UTC where it has no zone.

    Raises:
        ValueError: the text is not ISO 8601.
    """
    if not isinstance(text, str | _dt.datetime):
        raise ValueError(f"a timestamp is made of ISO 8601 text or a datetime, not {text!r}")
    moment = _dt.datetime.fromisoformat(text) if isinstance(text, str) else text
    if moment.tzinfo is not None:
        moment = moment.astimezone(_dt.UTC).replace(tzinfo=None)
    return (moment - _dt.datetime(1970, 1, 1)) // _dt.timedelta(microseconds=1)


def duration(value: str | int | _dt.timedelta) -> int:
    """A duration in microseconds from ``"2 minutes"``, ``"1h 30min"``, a timedelta or a number of microseconds.

    Raises:
        ValueError: the text is not a duration; the message names the units.
    """
    if isinstance(value, bool):
        raise ValueError(f"a duration is text like '2 minutes' or a number, not {value!r}")
    if isinstance(value, int):
        return value
    if isinstance(value, _dt.timedelta):
        return value // _dt.timedelta(microseconds=1)
    if not isinstance(value, str):
        raise ValueError(
            f"a duration is text like '2 minutes', a timedelta or a whole number, not {value!r}"
        )
    total, at = 0.0, 0
    while at < len(value):
        part = _DURATION.match(value, at)
        unit = part and _UNITS.get(
            part[2].lower().removesuffix("s") or "s", _UNITS.get(part[2].lower())
        )
        if part is None or unit is None:
            raise ValueError(
                f"not a duration: {value!r}; write for example '30 seconds', '2 minutes' or '1h 30min'"
                " (us, ms, s, min, h, day, week)"
            )
        total += float(part[1]) * unit
        at = part.end()
    if not value.strip():
        raise ValueError("an empty text is not a duration; write for example '2 minutes'")
    return round(total)
