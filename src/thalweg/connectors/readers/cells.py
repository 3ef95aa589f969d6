"""From text to values: the language that CSV cells and JSON texts are read in.

=========== ==========================================================================================
int, Timer  ``[+-]?[0-9]+`` within 64 bits; spaces and tabs around it are allowed
Decimal     as float without ``nan`` and ``inf``, with no more digits than the field has
date        ``2026-01-31``
timedelta   ISO 8601 ``P1DT2H3M4.5S``, or ``2:03:04.5`` and ``1 day, 2:03:04`` as Python writes it
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

import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.connectors.readers.options import ReadOptions
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.shapes import ValueShape
from thalweg.time_texts import (
    FIRST,
    LAST,
    UNIT_NS,
    EpochUnit,
    Nanoseconds,
    Unfit,
    by_formats,
    in_64_bits,
    in_calendar,
    iso,
    micros,
)

INTS: Final = frozenset({Kind.INT, Kind.TIMER})
TEXTS: Final = frozenset({Kind.STR, Kind.CATEGORY})

_INT = re.compile(r"[ \t]*([+-]?[0-9]+)[ \t]*")
_FLOAT = re.compile(
    r"[ \t]*([+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity))[ \t]*",
    re.IGNORECASE | re.ASCII,
)
#: In the bytes of a text there may be a number that is too large for a float, ...
HUGE: Final = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")
#: ... or an integer that no float is equal to.
WIDE: Final = re.compile(rb"(?<![0-9.])[0-9]{16,}(?![0-9.eE])")
#: Integers up to it, and from minus it, are floats; of those beyond it some.
FLOAT_EXACT: Final = 2**53

TOO_LARGE: Final = "too large for a float"
NO_FLOAT: Final = "an integer that a float cannot hold"


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


def timestamp_parser(options: ReadOptions) -> Callable[[str], int]:
    """The function from text to Timestamp that these options ask for; it raises Unfit."""
    unit, nanoseconds = options.epoch_unit, options.nanoseconds
    if unit:
        return lambda text: micros(_int(text), unit, nanoseconds)
    if options.timestamp_formats:
        return by_formats(options.timestamp_formats, nanoseconds)
    return lambda text: iso(text, nanoseconds)


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
            raise Unfit("not UTF-8; convert it to UTF-8") from None
        if text in nulls:
            return None
        try:
            return parse(text)
        except Unfit as error:
            if text == "" and not kind.optional and "" in options.null_values:
                raise Unfit(
                    f"{error}; an empty cell is None where the field is {kind} | None"
                ) from None
            raise

    return parse_cell


def shape_parser(shape: ValueShape, options: ReadOptions) -> Callable[[str], Any]:
    """The function from text to what is inside of such a field; it raises Unfit."""
    if shape.name != "datetime":
        return shape.read
    parse_time = timestamp_parser(options)
    return lambda text: in_calendar(parse_time(text))


def _text_parser(kind: FieldType, options: ReadOptions) -> Callable[[str], Any]:
    if kind.shape is not None:
        return shape_parser(kind.shape, options)
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


def timestamps(texts: pa.Array, options: ReadOptions, *, calendar: bool = False) -> pa.Array | None:
    """Timestamps of a string or int64 array, all of it at once; nulls stay null.

    None when some value is not in the language, or not in a calendar where it must be: the caller then reads value by
    value.
    """
    target = pa.timestamp("us", tz="UTC")
    try:
        if options.epoch_unit:
            times = _from_epoch(texts, options.epoch_unit, options.nanoseconds)
            if times is None or (calendar and not _in_years(times)):
                return None
            return times.view(target)
        if options.timestamp_formats:
            return _by_value(texts, timestamp_parser(options)).view(target)
        times = _from_iso(texts, options.nanoseconds)
    except (pa.ArrowInvalid, Unfit):
        return None
    if times is None:
        return None
    return times.view(target) if _in_years(times) else None


def _in_years(times: pa.Array) -> bool:
    ends = pc.min_max(times).as_py()
    return ends["min"] is None or bool(FIRST <= ends["min"] <= ends["max"] <= LAST)


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
    if kind.shape is not None and kind.fixed_width:
        return kind.shape.array(pa.array(values, pa.int64()))
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
