"""Texts and numbers as Timestamps: ISO 8601, other patterns, counts from 1970 on; and what to do where one is none.

Files, messages and rows given as Python objects are read in this one language.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Final, Literal

from thalweg.times import timestamp

EpochUnit = Literal["s", "ms", "us", "ns"]
Nanoseconds = Literal["reject", "truncate"]

#: How many nanoseconds an epoch integer counts in.
UNIT_NS: Final[dict[str, int]] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
#: The Timestamps of years 1 and 9999, the first and the last that ISO 8601 text can name.
FIRST: Final = timestamp("0001-01-01")
LAST: Final = timestamp("9999-12-31T23:59:59.999999")

TOO_FINE: Final = "finer than a microsecond; nanoseconds='truncate' rounds it down"

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
    r"(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
#: A fraction of a second with more digits than strptime takes.
_LONG_FRACTION = re.compile(r"(\.\d{6})(\d+)", re.ASCII)
#: A number that may be a time since 1970, also with a fraction.
_NUMBER = re.compile(r"[ \t]*[+-]?(\d+)(?:\.\d*)?[ \t]*", re.ASCII)
#: The units of epoch numbers of these years and some before and after them, by the number of digits.
_LIKELY: Final[dict[int, EpochUnit]] = {10: "s", 13: "ms", 16: "us", 19: "ns"}

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


class Unfit(ValueError):
    """A value is not in the language of its type; the message says why."""


def in_64_bits(value: int) -> int:
    """The value itself.

    Raises:
        Unfit: it does not fit a signed 64-bit integer.
    """
    if not INT_MIN <= value <= INT_MAX:
        shown = repr(value) if value.bit_length() <= 200 else f"an int of {value.bit_length()} bits"
        raise Unfit(f"{shown if len(shown) <= 60 else shown[:57] + '...'} does not fit 64 bits")
    return value


def iso(text: str, nanoseconds: Nanoseconds) -> int:
    """The Timestamp of ISO 8601 text; without a zone it is UTC.

    Raises:
        Unfit: it is another text, no time, or too fine.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        raise Unfit(_no_iso(text))
    year, month, day, hour, minute, second, fraction, _, sign, off_h, off_m = match.groups()
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise Unfit("not a time of day")
    if int(off_h or 0) > 23 or int(off_m or 0) > 59:
        raise Unfit("not an offset from UTC")
    try:
        days = dt.date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise Unfit(str(error)) from None
    minutes = int(hour or 0) * 60 + int(minute or 0)
    offset = int(off_h or 0) * 60 + int(off_m or 0)
    minutes += offset if sign == "-" else -offset
    digits = (fraction or "").ljust(6, "0")
    _cut(digits[6:], nanoseconds)
    micros = int(digits[:6])
    return in_calendar((days * 1440 + minutes) * 60_000_000 + int(second or 0) * 10**6 + micros)


def _no_iso(text: str) -> str:
    found = _NUMBER.fullmatch(text)
    if found:
        return no_time(found[1])
    guess = next(likely_formats(text), None)
    if guess is None:
        return "not an ISO 8601 time; timestamp_formats= reads others"
    return f"not an ISO 8601 time; timestamp_formats=[{guess!r}] reads times like this"


def no_time(digits: str) -> str:
    """Why a number is no Timestamp, and which option reads it; ``digits`` are those in front of its point."""
    if len(digits) == 8:
        return "a number, not an ISO 8601 time; timestamp_formats=['%Y%m%d'] reads dates like this"
    unit = _LIKELY.get(len(digits.lstrip("0")))
    likely = f"epoch_unit={unit!r}" if unit else "epoch_unit='s', 'ms', 'us' or 'ns'"
    return f"a number, not an ISO 8601 time; if it counts from 1970 on, set {likely}"


def _cut(finer: str, nanoseconds: Nanoseconds) -> None:
    """Refuses the digits behind those of the microseconds, if they say something and are not to be cut off."""
    if nanoseconds == "reject" and finer.strip("0"):
        raise Unfit(TOO_FINE)


def micros(value: int, unit: EpochUnit, nanoseconds: Nanoseconds) -> int:
    """A number of that unit since 1970 as a Timestamp.

    Raises:
        Unfit: it does not fit 64 bits, or is finer than a microsecond and not to be cut.
    """
    whole, rest = divmod(in_64_bits(value) * UNIT_NS[unit], 1000)
    if rest and nanoseconds == "reject":
        raise Unfit(TOO_FINE)
    return in_64_bits(whole)


def in_calendar(time: int) -> int:
    """The Timestamp itself, if a calendar has it.

    Raises:
        Unfit: it is not in the years 1 to 9999.
    """
    if not FIRST <= time <= LAST:
        raise Unfit("outside the years 1 to 9999 in UTC")
    return time


def by_formats(formats: tuple[str, ...], nanoseconds: Nanoseconds) -> Callable[[str], int]:
    """The function from text to Timestamp by the first of the patterns of strptime that fits; it raises Unfit."""

    def parse(text: str) -> int:
        for one in formats:
            # Their %f takes six digits.
            short = _LONG_FRACTION.sub(r"\1", text) if "%f" in one else text
            try:
                moment = dt.datetime.strptime(short, one)
            except ValueError:
                continue
            for long in _LONG_FRACTION.finditer(text if short != text else ""):
                _cut(long[2], nanoseconds)
            offset = moment.utcoffset() or dt.timedelta()
            naive = timestamp(moment.replace(tzinfo=None))
            return in_calendar(naive - offset // dt.timedelta(microseconds=1))
        raise Unfit(f"not a time in {' or '.join(map(repr, formats))}")

    return parse


# -- guesses -------------------------------------------------------------------------------------------

_DATES: Final = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d/%b/%Y",
    "%b %d %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%a, %d %b %Y",
    "%a %b %d %Y",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%Y%m%d",
)
_TIMES: Final = (
    "%H:%M:%S",
    "%H:%M",
    "%H:%M:%S.%f",
    "%H:%M:%S,%f",
    "%I:%M:%S %p",
    "%I:%M %p",
    "%I:%M%p",
    "%H%M%S",
    "%H.%M.%S",
)
#: A date, what stands between, a time of day, and a zone.
_PARTS = re.compile(
    r"(?P<date>.*?\d)"
    r"(?:(?P<gap>[T:]|, | +|T)(?P<time>\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:[.,]\d+)?(?: ?[APap][Mm])?|(?<=T)\d{6})"
    r"(?P<space> ?)(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)


def likely_formats(text: str) -> Iterator[str]:
    """The patterns of strptime that read this text, the likeliest first; none for a text in no usual form.

    Example::

        >>> next(likely_formats("31.01.2026 12:30"))
        '%d.%m.%Y %H:%M'
        >>> next(likely_formats("31/Jan/2026:12:30:00 +0100"))
        '%d/%b/%Y:%H:%M:%S %z'
    """
    parts = _PARTS.fullmatch(text) if len(text) <= 60 else None
    if parts is None:
        return
    dates = _reading(parts["date"], _DATES)
    if parts["time"] is None:
        yield from dates
        return
    zone = parts["zone"] or ""
    end = parts["space"] + ("%z" if zone[:1] in ("+", "-", "Z") and zone else zone)
    times = list(_reading(_LONG_FRACTION.sub(r"\1", parts["time"]), _TIMES))
    for date, time in itertools.product(dates, times):
        yield f"{date}{parts['gap']}{time}{end}"


def _reading(text: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for one in patterns:
        try:
            dt.datetime.strptime(text, one)
        except ValueError:
            continue
        yield one
