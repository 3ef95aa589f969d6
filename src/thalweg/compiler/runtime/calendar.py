"""Parts of times: the same arithmetic as :mod:`thalweg.times`; local times by a captured table of a zone's pieces.

The table is the header of a list of pairs (start, offset). Where it ends, Python goes on.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg import zones
from thalweg.compiler.runtime.support import get_i, inner

_DAY: Final = 86_400_000_000
_KNOWN_UNTIL: Final = zones.KNOWN_UNTIL
_civil: Final[Any] = inner(zones.civil)


@inner
def _piece(table: Any, time: Any) -> Any:
    """Where the piece stands that a time is in, and the first one."""
    if time < 0 or time >= _KNOWN_UNTIL:
        raise OverflowError("a time that the table of the zone does not have")
    data = get_i(table)
    low, high = 0, get_i(table + 24)
    while high - low > 1:
        middle = (low + high) >> 1
        if get_i(data + 16 * middle) <= time:
            low = middle
        else:
            high = middle
    return data + 16 * low, data


@inner
def time_local(table: Any, time: Any) -> Any:
    """``times.local(time, zone)``."""
    return time + get_i(_piece(table, time)[0] + 8)


@inner
def time_day_start(table: Any, time: Any) -> Any:
    """``times.date(time, zone)``, as :func:`thalweg.zones.day_start` finds it."""
    at, first = _piece(table, time)
    midnight = (time + get_i(at + 8)) // _DAY * _DAY
    if at > first:
        earlier = max(get_i(at - 16), midnight - get_i(at - 8))
        if earlier < get_i(at):
            return earlier
    return max(get_i(at), midnight - get_i(at + 8))


@inner
def time_hour(time: Any) -> Any:
    """``times.hour`` of a local time; so are the others."""
    return time % _DAY // 3_600_000_000


@inner
def time_minute(time: Any) -> Any:
    """``times.minute``."""
    return time % 3_600_000_000 // 60_000_000


@inner
def time_second(time: Any) -> Any:
    """``times.second``."""
    return time % 60_000_000 // 1_000_000


@inner
def time_weekday(time: Any) -> Any:
    """``times.weekday``."""
    return (time // _DAY + 3) % 7


@inner
def time_year(time: Any) -> Any:
    """``times.year``."""
    return _civil(time // _DAY)[0]


@inner
def time_month(time: Any) -> Any:
    """``times.month``."""
    return _civil(time // _DAY)[1]


@inner
def time_day(time: Any) -> Any:
    """``times.day``."""
    return _civil(time // _DAY)[2]
