"""From text to values: the language that CSV cells and JSON texts are read in.

=========== ==========================================================================================
int, Timer  ``[+-]?[0-9]+`` within 64 bits; spaces and tabs around it are allowed
float       ``[+-]?`` digits with an optional point and exponent, or ``nan``, ``inf``, ``infinity`` in
            any case; spaces and tabs around it are allowed; what is too large is infinite, as in Python
bool        exactly one of ``true_values`` or ``false_values``
Timestamp   ISO 8601 ``2026-01-31``, then optionally ``T`` or a space, ``hh``, ``hh:mm`` or ``hh:mm:ss``
            with up to six digits of fraction and ``Z``, ``+hh``, ``+hhmm`` or ``+hh:mm``; without a zone
            it is UTC; years 1 to 9999. With ``timestamp_formats``: these instead. With ``epoch_unit``:
            an int of that unit
str, bytes  the text as it is
=========== ==========================================================================================

Underscores, hexadecimal, thousands separators and digits of other scripts are not numbers.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.readers.options import EPOCH_FACTOR, ReadOptions
from thalweg.readers.parsed import quoted
from thalweg.records import FieldType, Kind
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
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?"
    r"(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
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


def _float(text: str) -> float:
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise Unfit("not a number")
    return float(match[1])


def _iso(text: str) -> int:
    match = _ISO.fullmatch(text)
    if match is None:
        raise Unfit("not an ISO 8601 time")
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
    micros = int((fraction or "").ljust(6, "0"))
    return _in_calendar((days * 1440 + minutes) * 60_000_000 + int(second or 0) * 10**6 + micros)


def _in_calendar(time: int) -> int:
    if not FIRST <= time <= LAST:
        raise Unfit("outside the years 1 to 9999 in UTC")
    return time


def _by_formats(formats: tuple[str, ...]) -> Callable[[str], int]:
    def parse(text: str) -> int:
        for one in formats:
            try:
                moment = dt.datetime.strptime(text, one)
            except ValueError:
                continue
            offset = moment.utcoffset() or dt.timedelta()
            naive = timestamp(moment.replace(tzinfo=None))
            return _in_calendar(naive - offset // dt.timedelta(microseconds=1))
        raise Unfit(f"not a time in {' or '.join(map(repr, formats))}")

    return parse


def timestamp_parser(options: ReadOptions) -> Callable[[str], int]:
    """The function from text to Timestamp that these options ask for; it raises Unfit."""
    if options.epoch_unit:
        factor = EPOCH_FACTOR[options.epoch_unit]
        return lambda text: in_64_bits(_int(text) * factor)
    return _by_formats(options.timestamp_formats) if options.timestamp_formats else _iso


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
            factor = pa.scalar(EPOCH_FACTOR[options.epoch_unit], pa.int64())
            return pc.multiply_checked(texts, factor).view(target)
        if options.timestamp_formats:
            return _by_value(texts, timestamp_parser(options)).view(target)
        try:
            times = texts.cast(pa.timestamp("us")).view(pa.int64())
        except pa.ArrowInvalid:
            times = texts.cast(target).view(pa.int64())
    except (pa.ArrowInvalid, Unfit):
        return None
    ends = pc.min_max(times).as_py()
    if ends["min"] is not None and not FIRST <= ends["min"] <= ends["max"] <= LAST:
        return None
    return times.view(target)


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
