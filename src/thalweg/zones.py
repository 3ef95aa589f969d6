"""Local time: what the clocks of a time zone show, by the rules that Python's ``zoneinfo`` has.

A zone is looked at in *blocks* of 2**51 microseconds (71 years, block 0 from 1970): of each its *pieces*, in which the
offset from UTC is the same. So a look-up is a bisection, in Python as in machine code.
"""

from __future__ import annotations

import bisect
import datetime as _dt
import functools
import zoneinfo
from typing import Final, NamedTuple

_DAY: Final = 86_400_000_000
_SECOND: Final = 1_000_000
_BLOCK_BITS: Final = 51
#: Pieces of a block begin that much earlier, so that the day of its first instant is known whole.
_MARGIN: Final = 4 * _DAY
#: No zone has set its clocks and set them back in so short a time; a week is too long for several.
_STEP: Final = _dt.timedelta(days=1)
#: The instants that have a local time: datetime's years but for their ends.
_FIRST: Final = -62_135_596_800_000_000 + 8 * _DAY
_LAST: Final = 253_402_300_800_000_000 - 8 * _DAY
#: The instants that machine code knows, from 1970 to 2112.
KNOWN_UNTIL: Final = 2**52
_EPOCH: Final = _dt.datetime(1970, 1, 1, tzinfo=_dt.UTC)
_MICROSECOND: Final = _dt.timedelta(microseconds=1)
_NONE: Final = _dt.timedelta()


class Pieces(NamedTuple):
    """Where pieces begin, rising, and the offset of each: what is added to UTC, microseconds."""

    starts: tuple[int, ...]
    offsets: tuple[int, ...]


def known_pieces(zone: str) -> Pieces:
    """Those of the instants that machine code knows.

    Raises:
        ValueError: there is no such zone.
    """
    return _scanned(zone, 0, KNOWN_UNTIL)


def local(time: int, zone: str) -> int:
    """What the zone's clocks show at an instant: microseconds since their 1970-01-01 00:00."""
    pieces = _pieces(time, zone)
    return time + pieces.offsets[bisect.bisect_right(pieces.starts, time) - 1]


def day_start(time: int, zone: str) -> int:
    """The first instant of the local day that an instant is in."""
    starts, offsets = _pieces(time, zone)
    at = bisect.bisect_right(starts, time) - 1
    midnight = (time + offsets[at]) // _DAY * _DAY
    if at > 0:
        # Clocks set back over midnight: the day began before that.
        earlier = max(starts[at - 1], midnight - offsets[at - 1])
        if earlier < starts[at]:
            return earlier
    # Clocks set forward over midnight: the day begins there.
    return max(starts[at], midnight - offsets[at])


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar of all years."""
    # Eras of 400 years that begin in March, so that a leap day is a year's last.
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    months = (5 * of_year + 2) // 153
    day = of_year - (153 * months + 2) // 5 + 1
    month = months + 3 if months < 10 else months - 9
    year = years + era * 400
    return (year + 1 if month <= 2 else year), month, day


def _pieces(time: int, zone: str) -> Pieces:
    if not _FIRST <= time < _LAST:
        raise OverflowError(f"{time} us since 1970 is in no year that a time zone has")
    block = time >> _BLOCK_BITS
    return _scanned(zone, block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS)


@functools.lru_cache(maxsize=512)
def _scanned(zone: str, first: int, last: int) -> Pieces:
    info = _zone(zone)
    moment = _moment(max(first - _MARGIN, _FIRST - _MARGIN) // _SECOND * _SECOND)
    end, offset = _moment(min(last, _LAST)), moment.astimezone(info).utcoffset()
    found = [(moment, offset)]
    while moment < end:
        step = moment + _STEP
        if step.astimezone(info).utcoffset() != offset:
            step = _change(moment, offset, info)
            offset = step.astimezone(info).utcoffset()
            found.append((step, offset))
        moment = step
    starts = tuple((one - _EPOCH) // _MICROSECOND for one, _ in found)
    return Pieces(starts, tuple((one or _NONE) // _MICROSECOND for _, one in found))


def _moment(time: int) -> _dt.datetime:
    return _EPOCH + _dt.timedelta(microseconds=time)


def _change(
    moment: _dt.datetime, offset: _dt.timedelta | None, info: zoneinfo.ZoneInfo
) -> _dt.datetime:
    """When the offset stops being this, which it is at a moment and is not a step later; clocks change at seconds."""
    low, high = 0, _STEP // _dt.timedelta(seconds=1)
    while high - low > 1:
        middle = (low + high) // 2
        then = moment + _dt.timedelta(seconds=middle)
        if then.astimezone(info).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return moment + _dt.timedelta(seconds=high)


def _zone(zone: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"no time zone {zone!r} is known here; write one like 'Europe/Berlin'"
            " (a system without the database needs the package tzdata)"
        ) from None
    except TypeError:
        raise ValueError(f"a zone is a name like 'Europe/Berlin', not {zone!r}") from None
