"""Parts of times in a zone: what ``datetime`` says, in Python and compiled."""

from __future__ import annotations

import datetime as dt
import random
import zoneinfo
from typing import Final, NamedTuple

import pytest

import thalweg as tw
from thalweg import times, zones

PARTS: Final = ("year", "month", "day", "hour", "minute", "second")
#: Summer time of half an hour, clocks set over midnight both ways, a day left out, a pause in each Ramadan,
#: summer time of a week.
NAMES: Final = (
    "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "America/Havana", "Pacific/Apia",
    "Africa/Casablanca", "Africa/Cairo", "America/Recife", "Asia/Gaza", "Antarctica/Troll", "Asia/Kathmandu", "UTC",
)  # fmt: skip


def shown(time: int, zone: str) -> dt.datetime:
    there = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=time)
    return there.astimezone(zoneinfo.ZoneInfo(zone))


def instants(zone: str) -> list[int]:
    """Those around each change of the clocks in 2000 to 2030, and random ones of all years."""
    random_ = random.Random(zone)
    starts = [one for one in zones.known_pieces(zone).starts if 0 < one - 2**49 < 2**50]
    near = [one + off for one in starts for off in (-1, 0, 1, 1_800_000_000, 5_400_000_000)]
    return [*near, *(random_.randrange(-(2**55), 2**57) for _ in range(100))]


@pytest.mark.slow
def test_parts_are_those_of_datetime() -> None:
    """Each part of a time in a zone is datetime's; ``date`` is the first instant of that day."""
    for zone in NAMES:
        for time in instants(zone):
            there = shown(time, zone)
            made = [getattr(times, part)(time, zone) for part in PARTS]
            assert made == [getattr(there, part) for part in PARTS], (zone, time)
            assert times.weekday(time, zone) == there.weekday()
            start = times.date(time, zone)
            assert start <= time
            assert shown(start, zone).date() == there.date()
            assert shown(start - 1, zone).date() < there.date()


def test_utc_is_no_zone() -> None:
    """Without a zone all parts are those of UTC, for every int."""
    for time in (0, -1, 951_782_400_000_000 - 1, 2**62, -(2**62)):
        assert times.date(time) <= time < times.date(time) + times.DAY
        assert 1 <= times.month(time) <= 12
        assert times.local(time, None) == time
    leap = times.timestamp("2000-02-29T23:59:58Z")
    parts = [getattr(times, part)(leap) for part in PARTS]
    assert parts == [2000, 2, 29, 23, 59, 58]


def test_errors_say_what_to_write() -> None:
    """A zone that is not known, or a time outside of all years, says so."""
    with pytest.raises(ValueError, match="'Europe/Nowhere' is known here; write one like 'Europe"):
        times.hour(0, "Europe/Nowhere")
    with pytest.raises(ValueError, match="a zone is a name"):
        times.hour(0, zone=1)  # type: ignore[arg-type]
    with pytest.raises(OverflowError, match="in no year"):
        times.hour(2**62, "Europe/Berlin")


class Row(NamedTuple):
    ts: tw.Timestamp
    zone: str


class Local(NamedTuple):
    day: tw.Timestamp
    hour: int
    minute: int
    month: int
    shown: int


HOME: Final = "Europe/Berlin"


def local(row: Row) -> Local:
    minute = times.minute(time=row.ts, zone=HOME)
    hour = times.hour(row.ts, "Asia/Kathmandu")
    return Local(
        times.date(row.ts, HOME), hour, minute, times.month(row.ts), times.local(row.ts, HOME)
    )


def of_a_column(row: Row) -> Local:
    return Local(row.ts, times.hour(row.ts, row.zone), 0, 0, 0)


def test_zones_are_compiled() -> None:
    """A zone that is a literal or captured is compiled, also where only Python knows the offset; a column's is not."""
    rows = [Row(time, HOME) for time in (*instants(HOME)[:40], -5_000_000, 2**52, 2**53 + 7)]
    for function, words in ((local, " compiled"), (of_a_column, "zone that is no literal")):
        flow = tw.Flow("local")
        flow.source("rows", Row).map(function).sink("out")
        assert words in flow.explain()
        assert tw.run(flow, {"rows": rows}).rows("out") == [function(row) for row in rows]
