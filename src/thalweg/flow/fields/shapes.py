"""Values that users' functions see as Python's own types, and that are plain words or texts inside.

=========== ==================================== ==========================================
shape       inside                               Arrow
=========== ==================================== ==========================================
datetime    microseconds since 1970, UTC         timestamp("us", "UTC")
date        days since 1970                      date32
timedelta   microseconds                         duration("us")
Decimal     the value times 10 ** scale          decimal128(precision, scale)
json        its JSON text                        string
=========== ==================================== ==========================================

So they are sorted, hashed, kept and sent as ints and texts are, and only who meets the user's code makes others of
them. A value that does not fit exactly is refused.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from thalweg.time_texts import FIRST, LAST, Unfit, likely_formats
from thalweg.times import DAY

#: The most digits of a Decimal: so many fit 64 bits.
MOST_DIGITS: Final = 18
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_DAY: Final = dt.date(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_DECIMAL = re.compile(r"[ \t]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?)[ \t]*", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ISO_SPAN = re.compile(
    r"([+-]?)P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6})0*)?S)?)?", re.ASCII
)
_CLOCK_SPAN = re.compile(
    r"(-?)(?:(\d+) days?, )?(\d+):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,6})0*)?)?", re.ASCII
)
_PYTHON: Final[dict[str, type]] = {
    "datetime": dt.datetime,
    "date": dt.date,
    "timedelta": dt.timedelta,
    "Decimal": Decimal,
}
Name = Literal["datetime", "date", "timedelta", "Decimal", "json"]


@dataclasses.dataclass(frozen=True, slots=True)
class ValueShape:
    """What users' functions see of a field in place of the word or text inside."""

    name: Name
    #: of a Decimal: its digits in all, and those behind the point
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"Decimal({self.precision}, {self.scale})" if self.precision else self.name

    @property
    def arrow(self) -> pa.DataType:
        if self.name == "Decimal":
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.name]

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest word of a value."""
        if self.name == "Decimal":
            return 1 - 10**self.precision, 10**self.precision - 1
        return {"datetime": (FIRST, LAST), "date": (FIRST // DAY, LAST // DAY)}.get(
            self.name, (-(2**63), 2**63 - 1)
        )

    @property
    def outward(self) -> Callable[[Any], Any]:
        """What users see of what is inside; of a value, not of None."""
        if self.name == "Decimal":
            scale = -self.scale
            return lambda word: Decimal(word).scaleb(scale)
        return _OUTWARD[self.name]

    def inward(self, value: Any) -> Any:
        """What is inside of what a user's function gave.

        Raises:
            TypeError: it is of another type, or does not fit exactly.
        """
        try:
            return self._inside(value)
        except Unfit as error:
            raise TypeError(_expected(self, value, str(error))) from None

    def _inside(self, value: Any) -> Any:
        if self.name == "json":
            return json_text(value)
        if self.name == "Decimal" and type(value) is int:
            value = Decimal(value)
        wanted: Any = _PYTHON[self.name]
        # a datetime is a date, too
        if not isinstance(value, wanted) or (
            self.name == "date" and isinstance(value, dt.datetime)
        ):
            raise TypeError(_expected(self, value, _HINTS.get((self.name, type(value).__name__))))
        if self.name == "Decimal":
            return decimal_word(value, self.precision, self.scale)
        if self.name == "date":
            return (value - _FIRST_DAY).days
        if self.name == "timedelta":
            return _micros(value)
        if value.utcoffset() is None:
            raise Unfit("it has no zone: write .replace(tzinfo=datetime.UTC) if it is UTC")
        if getattr(value, "nanosecond", 0):  # pandas has them
            raise Unfit("finer than a microsecond; cut it first")
        return (value - _EPOCH) // _MICROSECOND

    def read(self, text: str) -> Any:
        """What is inside of a text of a file or a row; of all shapes but datetime, whose texts are Timestamps.

        Raises:
            Unfit: it is none.
        """
        if self.name == "Decimal":
            match = _DECIMAL.fullmatch(text)
            if match is None:
                raise Unfit("not a number")
            return decimal_word(Decimal(match[1]), self.precision, self.scale)
        if self.name == "date":
            return _date(text)
        return _span(text) if self.name == "timedelta" else _json(text)

    def text(self, inside: Any) -> str:
        """The text that stands in CSV, JSON and tables for people; of all shapes but datetime."""
        if self.name == "Decimal":
            return f"{self.outward(inside):f}"
        if self.name == "date":
            return str(self.outward(inside))
        return _span_text(inside) if self.name == "timedelta" else inside

    # -- columns -----------------------------------------------------------------------------------------

    def words(self, array: pa.Array) -> pa.Array:
        """An array of the Arrow type as int64; nulls stay."""
        if self.name == "Decimal":
            low = np.frombuffer(array.buffers()[1] or b"", np.int64)[::2]
            low = low[array.offset : array.offset + len(array)]
            mask = array.is_null().to_numpy(zero_copy_only=False)
            return pa.array(np.where(mask, 0, low), mask=mask if array.null_count else None)
        if self.name == "date":
            return array.view(pa.int32()).cast(pa.int64())
        return array.view(pa.int64())

    def array(self, words: pa.Array) -> pa.Array:
        """An int64 array as one of the Arrow type."""
        if self.name == "Decimal":
            low = words.fill_null(0).to_numpy(zero_copy_only=False)
            both = np.stack([low, low >> 63], axis=1)
            valid = words.is_valid() if words.null_count else None
            bits = None if valid is None else _bitmap(valid)
            return pa.Array.from_buffers(
                self.arrow, len(words), [bits, pa.py_buffer(np.ascontiguousarray(both))]
            )
        if self.name == "date":
            return words.cast(pa.int32()).view(self.arrow)
        return words.view(self.arrow)


def _bitmap(valid: pa.Array) -> pa.Buffer:
    whole: pa.Array = pa.array(valid.to_numpy(zero_copy_only=False))
    return whole.buffers()[1]


_ARROW: Final = {
    "datetime": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "timedelta": pa.duration("us"),
    "json": pa.string(),
}


def _outward_datetime(word: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=word)


def _outward_date(word: int) -> dt.date:
    return _FIRST_DAY + dt.timedelta(days=word)


def _outward_span(word: int) -> dt.timedelta:
    return dt.timedelta(microseconds=word)


_OUTWARD: Final[dict[str, Callable[[Any], Any]]] = {
    "datetime": _outward_datetime,
    "date": _outward_date,
    "timedelta": _outward_span,
    "json": json.loads,
}
_HINTS: Final = {
    ("Decimal", "float"): "write Decimal(str(x)), or round it first",
    ("date", "datetime"): "write .date() of it",
    ("datetime", "date"): "write datetime.combine(x, time(), UTC)",
    ("datetime", "int"): "it has the type tw.Timestamp where it is to be an int of microseconds",
    ("timedelta", "int"): "write timedelta(microseconds=x)",
}


def _expected(shape: ValueShape, value: Any, why: str | None) -> str:
    came = "None" if value is None else f"{type(value).__name__} {value!r:.60}"
    return f"expected {shape}, got {came}{f' ({why})' if why else ''}"


def _micros(span: dt.timedelta) -> int:
    word: int = span // _MICROSECOND
    if not -(2**63) <= word < 2**63:
        raise Unfit("does not fit 64 bits of microseconds")
    return word


def decimal_word(value: Decimal, precision: int, scale: int) -> int:
    """The value times 10 ** scale.

    Raises:
        Unfit: that is no int, or has too many digits.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise Unfit("not a number with digits")
    if not value:
        return 0
    if value.adjusted() >= precision - scale:
        raise Unfit(
            f"it has {value.adjusted() + 1} digits in front of the point, and {precision - scale} fit"
        )
    kept = len(digits) + exponent + scale
    if any(digits[max(kept, 0) :]):
        raise Unfit(f"it has more than {scale} digits behind the point; round it first")
    word = int("".join(map(str, digits[: max(kept, 0)])) or "0")
    word *= int(10 ** max(kept - len(digits), 0))
    return -word if sign else word


def _no_date(text: str) -> str:
    """Why a text is no date, and what reads it: formats of times are for times."""
    guess = next(likely_formats(text), "%d.%m.%Y")
    return (
        f"not a date like 2026-01-31; a tw.Timestamp field with timestamp_formats=[{guess!r}] reads others, or a str"
        " field and datetime.strptime in map"
    )


def _date(text: str) -> int:
    if _DATE.fullmatch(text) is None:
        raise Unfit(_no_date(text))
    try:
        return (dt.date.fromisoformat(text) - _FIRST_DAY).days
    except ValueError as error:
        raise Unfit(str(error)) from None


def _span(text: str) -> int:
    found = _ISO_SPAN.fullmatch(text) or _CLOCK_SPAN.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise Unfit("not a duration like PT1H30M or 1:30:00")
    sign, days, hours, minutes, seconds, fraction = found.groups()
    if sign and days and found.re is _CLOCK_SPAN:
        # str(timedelta) has a minus of the days alone
        return _in_word(-int(days) * DAY + _clock(hours, minutes, seconds, fraction))
    word = int(days or 0) * DAY + _clock(hours, minutes, seconds, fraction)
    return _in_word(-word if sign == "-" else word)


def _clock(hours: str | None, minutes: str | None, seconds: str | None, fraction: Any) -> int:
    whole = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return whole * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _in_word(word: int) -> int:
    if not -(2**63) <= word < 2**63:
        raise Unfit("does not fit 64 bits of microseconds")
    return word


def _span_text(word: int) -> str:
    seconds, micros = divmod(abs(word), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    hours, minutes = divmod(seconds // 60, 60)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    parts = [(hours, "H"), (minutes, "M")]
    clock = "".join(f"{value}{unit}" for value, unit in parts if value)
    if seconds % 60 or micros:
        clock += f"{seconds % 60}{fraction}S"
    day = f"{days}D" if days else ""
    return f"{'-' if word < 0 else ''}P{day}{f'T{clock}' if clock or not day else ''}" + (
        "0S" if not clock and not day else ""
    )


def json_text(value: Any) -> str:
    """A JSON value as text; NaN and infinities as Python writes them.

    Raises:
        Unfit: it is no JSON value, or text in it cannot be encoded.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"no JSON value: {error}") from None
    return text


def _json(text: str) -> str:
    try:
        return json_text(json.loads(text))
    except ValueError as error:
        raise Unfit(f"not JSON: {error}") from None
    except RecursionError:
        raise Unfit("not JSON: nested too deep") from None
