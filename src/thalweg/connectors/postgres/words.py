"""Dates, intervals and numerics of PostgreSQL, in binary and in text form, from and to the words inside."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from thalweg.flow.fields.shapes import ValueShape
from thalweg.time_texts import Unfit

#: Days from 1970 to 2000, where PostgreSQL's dates begin.
_EPOCH_DAYS: Final = 10_957
_DAY_US: Final = 86_400_000_000
#: A numeric's digits are numbers below this one.
_BASE: Final = 10_000
_NEGATIVE: Final = 0x4000
#: The form of ``intervalstyle = postgres``: ``1 year 2 mons -3 days +04:05:06.789``.
_INTERVAL: Final = re.compile(
    r"(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    r"(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?",
    re.ASCII,
)


def binary_words(shape: ValueShape, values: Any) -> Any:
    """The values of a date, timedelta or Decimal as COPY has them: each one's length, and its bytes.

    Args:
        shape: of the field.
        values: the words inside, int64.
    """
    if shape.name == "date":
        return _filled([("value", ">i4")], value=values - _EPOCH_DAYS)
    if shape.name == "timedelta":
        days = np.fix(values / _DAY_US).astype(np.int64)
        parts = [("rest", ">i8"), ("days", ">i4"), ("months", ">i4")]
        return _filled(parts, rest=values - days * _DAY_US, days=days, months=0)
    return _numerics(values, shape.precision, shape.scale)


def _filled(parts: list[Any], **values: Any) -> Any:
    words = np.zeros(len(next(iter(values.values()))), [("length", ">i4"), *parts])
    words["length"] = words.dtype.itemsize - 4
    for name, value in values.items():
        words[name] = value
    return words


def _numerics(values: Any, precision: int, scale: int) -> Any:
    """All with as many digits, of which the server drops the zeros at both ends."""
    size, whole = np.abs(values), 10**scale
    front, behind = size // whole, size % whole
    before, after = -(-(precision - scale) // 4), -(-scale // 4)
    digits = [front // _BASE**place % _BASE for place in reversed(range(before))]
    digits += [_fraction(behind, scale - 4 * place) for place in range(1, after + 1)]
    many = len(digits)
    parts = [("digits", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")]
    sign = np.where(values < 0, _NEGATIVE, 0)
    return _filled(
        [*parts, ("values", ">i2", (many,))],
        sign=sign, digits=many, weight=before - 1, scale=scale, values=np.stack(digits, axis=1),
    )  # fmt: skip


def _fraction(behind: Any, left: int) -> Any:
    """Four digits behind the point, with ``left`` digits behind them; below 0 so many are lacking."""
    if left >= 0:
        return behind // 10**left % _BASE
    return behind % 10 ** (4 + left) * 10**-left


def interval_word(text: str) -> int:
    """The microseconds of an interval's text.

    Raises:
        Unfit: it has months, or does not fit.
    """
    found = _INTERVAL.fullmatch(text)
    if found is None or not any(found.groups()):
        raise Unfit("not an interval")
    years, months, days, sign, hours, minutes, seconds, fraction = found.groups()
    if int(years or 0) or int(months or 0):
        raise Unfit("it has months or years, whose length is not fixed; cast it in a query")
    clock = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    rest = clock * 1_000_000 + int((fraction or "").ljust(6, "0"))
    word = int(days or 0) * _DAY_US + (-rest if sign == "-" else rest)
    if not -(2**63) <= word < 2**63:
        raise Unfit("does not fit 64 bits of microseconds")
    return word


def word_reader(shape: ValueShape) -> Callable[[str], Any]:
    """The function from a text of PostgreSQL to what is inside; raises Unfit."""
    return interval_word if shape.name == "timedelta" else shape.read
