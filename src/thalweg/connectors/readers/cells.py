"""From text to values: the language that CSV cells and JSON texts are read in.

=========== ==========================================================================================
int, Timer  ``[+-]?[0-9]+`` within 64 bits; spaces and tabs around it are allowed
float       ``[+-]?`` digits with an optional point and exponent, or ``nan``, ``inf``, ``infinity`` in
            any case; spaces and tabs around it are allowed. With a point or an exponent it is the float
            nearest to it, without them the very integer; what is too large for a float is no float
bool        exactly one of ``true_values`` or ``false_values``
Timestamp   ISO 8601 ``2026-01-31``, then optionally ``T`` or a space, ``hh``, ``hh:mm`` or ``hh:mm:ss``
            with a fraction and ``Z``, ``+hh``, ``+hhmm`` or ``+hh:mm``; without a zone it is UTC;
            years 1 to 9999. With ``timestamp_formats``: these instead. With ``epoch_unit``: an int of
            that unit. What is finer than a microsecond does not fit, or is cut with ``nanoseconds``
str, bytes  the text as it is
=========== ==========================================================================================

Underscores, hexadecimal, thousands separators and digits of other scripts are not numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.connectors.readers.options import UNIT_NS, EpochUnit, Nanoseconds, ReadOptions
from thalweg.connectors.readers.parsed import quoted
from thalweg.flow.field_types import FieldType, Kind
from thalweg.times import timestamp

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
#: The Timestamps of years 1 and 9999, the first and the last that ISO 8601 text can name.
FIRST: Final = timestamp("0001-01-01")
LAST: Final = timestamp("9999-12-31T23:59:59.999999")

INTS: Final = frozenset({Kind.INT, Kind.TIMER})
TEXTS: Final = frozenset({Kind.STR, Kind.CATEGORY})

_INT = re.compile(r"[ \t]*([+-]?[0-9]+)[ \t]*")
_FLOAT = re.compile(
    r"[ \t]*([+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity))[ \t]*",
    re.IGNORECASE | re.ASCII,
)
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

#: In the bytes of a text there may be a number that is too large for a float, ...
HUGE: Final = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")
#: ... or an integer that no float is equal to.
WIDE: Final = re.compile(rb"(?<![0-9.])[0-9]{16,}(?![0-9.eE])")
#: Integers up to it, and from minus it, are floats; of those beyond it some.
FLOAT_EXACT: Final = 2**53

TOO_LARGE: Final = "too large for a float"
NO_FLOAT: Final = "an integer that a float cannot hold"
TOO_FINE: Final = "finer than a microsecond; nanoseconds='truncate' rounds it down"

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


class Unfit(ValueError):
    """A value is not in the language of its type; the message says why."""


def in_64_bits(value: int) -> int:
    """The value itself.

    Raises:
        Unfit: it does not fit a signed 64-bit integer.
    """
    if not INT_MIN <= value <= INT_MAX:
        raise Unfit(f"{quoted(value)} does not fit 64 bits")
    return value


def _int(text: str) -> int:
    match = _INT.fullmatch(text)
    if match is None:
        raise Unfit("not an integer")
    digits = match[1].lstrip("+-").lstrip("0") or "0"
    if len(digits) > 19:  # int() refuses thousands of digits with an error of its own
        raise Unfit("does not fit 64 bits")
    return in_64_bits(-int(digits) if match[1].startswith("-") else int(digits))


def float_of(text: str) -> float:
    """The float that the text of a number stands for.

    Raises:
        Unfit: it is too large, or an integer that no float is equal to.
    """
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():
        raise Unfit(TOO_LARGE)
    digits = text.lstrip("+-").lstrip("0")
    if FLOAT_EXACT <= abs(value) < math.inf and digits.isdigit() and int(digits) != abs(value):
        raise Unfit(NO_FLOAT)
    return value


def surely_floats(data: bytes, floats: pa.Array) -> bool:
    """Whether what pyarrow has read as floats from this text is what :func:`float_of` says; else that decides."""
    ends = pc.min_max(floats).as_py()
    if ends["min"] is None or -FLOAT_EXACT < ends["min"] <= ends["max"] < FLOAT_EXACT:
        return True
    return not HUGE.search(data) and not WIDE.search(data)


def _float(text: str) -> float:
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise Unfit("not a number")
    return float_of(match[1])


def _iso(text: str, nanoseconds: Nanoseconds) -> int:
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
    return _in_calendar((days * 1440 + minutes) * 60_000_000 + int(second or 0) * 10**6 + micros)


def _no_iso(text: str) -> str:
    found = _NUMBER.fullmatch(text)
    return no_time(found[1]) if found else "not an ISO 8601 time; timestamp_formats= reads others"


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


def _in_calendar(time: int) -> int:
    if not FIRST <= time <= LAST:
        raise Unfit("outside the years 1 to 9999 in UTC")
    return time


def _by_formats(formats: tuple[str, ...], nanoseconds: Nanoseconds) -> Callable[[str], int]:
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
            return _in_calendar(naive - offset // dt.timedelta(microseconds=1))
        raise Unfit(f"not a time in {' or '.join(map(repr, formats))}")

    return parse


def timestamp_parser(options: ReadOptions) -> Callable[[str], int]:
    """The function from text to Timestamp that these options ask for; it raises Unfit."""
    unit, nanoseconds = options.epoch_unit, options.nanoseconds
    if unit:
        return lambda text: micros(_int(text), unit, nanoseconds)
    if options.timestamp_formats:
        return _by_formats(options.timestamp_formats, nanoseconds)
    return lambda text: _iso(text, nanoseconds)


def cell_parser(kind: FieldType, options: ReadOptions) -> Callable[[bytes], Any]:
    """The function from a CSV cell to the value of that type (a Timestamp as int); it raises Unfit."""
    parse = _text_parser(kind, options)
    nulls = frozenset(options.null_values) if kind.optional else frozenset()
    if kind.kind is Kind.BYTES:
        raw_nulls = {one.encode() for one in nulls}
        return lambda cell: None if cell in raw_nulls else cell

    def parse_cell(cell: bytes) -> Any:
        try:
            text = cell.decode("utf-8")
        except UnicodeDecodeError:
            raise Unfit("not UTF-8") from None
        return None if text in nulls else parse(text)

    return parse_cell


def _text_parser(kind: FieldType, options: ReadOptions) -> Callable[[str], Any]:
    if kind.kind in INTS:
        return _int
    if kind.kind is Kind.FLOAT:
        return _float
    if kind.kind is Kind.TIMESTAMP:
        return timestamp_parser(options)
    if kind.kind is Kind.BOOL:
        words = dict.fromkeys(options.false_values, False) | dict.fromkeys(
            options.true_values, True
        )

        def parse_bool(text: str) -> bool:
            try:
                return words[text]
            except KeyError:
                raise Unfit(f"not one of {', '.join(map(repr, words))}") from None

        return parse_bool
    return str


def timestamps(texts: pa.Array, options: ReadOptions) -> pa.Array | None:
    """Timestamps of a string or int64 array, all of it at once; nulls stay null.

    None when some value is not in the language: the caller then reads value by value.
    """
    target = pa.timestamp("us", tz="UTC")
    try:
        if options.epoch_unit:
            times = _from_epoch(texts, options.epoch_unit, options.nanoseconds)
            return None if times is None else times.view(target)
        if options.timestamp_formats:
            return _by_value(texts, timestamp_parser(options)).view(target)
        times = _from_iso(texts, options.nanoseconds)
    except (pa.ArrowInvalid, Unfit):
        return None
    if times is None:
        return None
    ends = pc.min_max(times).as_py()
    if ends["min"] is not None and not FIRST <= ends["min"] <= ends["max"] <= LAST:
        return None
    return times.view(target)


def _from_epoch(numbers: pa.Array, unit: EpochUnit, nanoseconds: Nanoseconds) -> pa.Array | None:
    if unit == "ns":
        return thousandths(numbers, nanoseconds)
    return pc.multiply_checked(numbers, pa.scalar(UNIT_NS[unit] // 1000, pa.int64()))


def _from_iso(texts: pa.Array, nanoseconds: Nanoseconds) -> pa.Array | None:
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return texts.cast(kind).view(pa.int64())
        except pa.ArrowInvalid:
            pass
    try:
        fine = texts.cast(pa.timestamp("ns"))
    except pa.ArrowInvalid:
        fine = texts.cast(pa.timestamp("ns", tz="UTC"))
    return thousandths(fine.view(pa.int64()), nanoseconds)


def thousandths(numbers: pa.Array, nanoseconds: Nanoseconds) -> pa.Array | None:
    """An int64 array divided by a thousand, towards the past; None if something is left and not to be cut off."""
    try:
        exact = numbers.view(pa.timestamp("ns")).cast(pa.timestamp("us"))
        return exact.view(pa.int64())
    except pa.ArrowInvalid:
        return None if nanoseconds == "reject" else floor_thousandths(numbers)


def floor_thousandths(numbers: pa.Array) -> pa.Array:
    """An int64 array divided by a thousand, towards the past; nulls stay."""
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values // 1000, mask=numbers.is_null().to_numpy(zero_copy_only=False))


def _by_value(texts: pa.Array, parse: Callable[[str], int]) -> pa.Array:
    encoded = texts.dictionary_encode()
    values = [parse(one) for one in encoded.dictionary.to_pylist()]
    return pa.array(values, pa.int64()).take(encoded.indices)


def column(values: list[Any], kind: FieldType) -> pa.Array:
    """An array of the field's Arrow type from checked values, Timestamps (nested too) as ints."""
    if kind.kind is Kind.TIMESTAMP:
        return pa.array(values, pa.int64()).view(kind.arrow)
    if kind.kind is Kind.LIST and kind.item is not None:
        items = [one for value in values if value is not None for one in value]
        sizes = np.array([0 if value is None else len(value) for value in values], np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int32)
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(
            pa.array(offsets), column(items, kind.item), type=kind.arrow, mask=mask
        )
    if kind.kind is Kind.RECORD and kind.record is not None:
        return _struct(values, kind)
    return pa.array(values, kind.arrow)


def _struct(values: list[Any], kind: FieldType) -> pa.Array:
    assert kind.record is not None
    mask = pa.array([value is None for value in values], pa.bool_())
    children = []
    for place, field in enumerate(kind.record.fields):
        # Where the record is null its children hold a zero, as their type may not be nullable.
        empty = None if field.type.optional else zero(field.type)
        cells = [empty if value is None else value[place] for value in values]
        children.append(column(cells, field.type))
    return pa.StructArray.from_arrays(children, fields=list(kind.record.arrow), mask=mask)


_ZEROS: Final = {Kind.STR: "", Kind.CATEGORY: "", Kind.BYTES: b"", Kind.LIST: (), Kind.FLOAT: 0.0}


def zero(kind: FieldType) -> Any:
    """A value of the type that stands where nothing is looked at."""
    if kind.kind is Kind.RECORD and kind.record is not None:
        return tuple(None if f.type.optional else zero(f.type) for f in kind.record.fields)
    return False if kind.kind is Kind.BOOL else _ZEROS.get(kind.kind, 0)
