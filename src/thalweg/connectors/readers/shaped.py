"""Fields that users see as Python's own types, from texts and from Arrow: see :mod:`thalweg.flow.fields.shapes`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.flow.fields.arrow_types import is_text
from thalweg.flow.fields.shapes import ValueShape, decimal_word, json_text
from thalweg.time_texts import UNIT_NS, Unfit

_DAY_MS = 86_400_000


def takes(shape: ValueShape, found: pa.DataType) -> bool:
    """Whether a column of that type may fit; of all shapes but datetime, which is read as a Timestamp."""
    types = pa.types
    if shape.name == "date":
        return bool(types.is_date(found))
    if shape.name == "timedelta":
        return bool(types.is_duration(found))
    if shape.name == "Decimal":
        return bool(types.is_decimal(found) or types.is_integer(found))
    return is_text(found)


def shaped(array: pa.Array, shape: ValueShape, wrong: dict[int, str]) -> pa.Array:
    """The array in the shape's Arrow type; what does not fit is null, and noted by its row."""
    if shape.name == "timedelta" and pa.types.is_duration(array.type):
        return _spans(array, shape, wrong)
    try:
        made = array.cast(shape.arrow)
        if shape.name != "json" and not pa.types.is_date64(array.type):
            return within(made, shape, wrong)
    except pa.ArrowInvalid:
        pass
    return _one_by_one(array, shape, wrong)


def within(array: pa.Array, shape: ValueShape, wrong: dict[int, str]) -> pa.Array:
    """The array without values that Python's type cannot hold; those rows are noted."""
    least, most = shape.limits
    words = shape.words(array)
    ends = pc.min_max(words).as_py()
    if ends["min"] is None or least <= ends["min"] <= ends["max"] <= most:
        return array
    outside = pc.or_(pc.less(words, least), pc.greater(words, most)).fill_null(False)
    for row in np.flatnonzero(outside.to_numpy(zero_copy_only=False)).tolist():
        wrong[row] = f"is a {shape.name} that Python cannot hold ({words[row]})"
    return shape.array(pc.if_else(outside, pa.scalar(None, pa.int64()), words))


def _spans(array: pa.Array, shape: ValueShape, wrong: dict[int, str]) -> pa.Array:
    unit_ns, words = UNIT_NS[array.type.unit], array.view(pa.int64())
    try:
        if unit_ns >= 1000:
            factor = pa.scalar(unit_ns // 1000, pa.int64())
            return shape.array(pc.multiply_checked(words, factor))
        exact = words.view(pa.duration("ns")).cast(shape.arrow)
        return exact
    except pa.ArrowInvalid:
        return _one_by_one(array, shape, wrong)


def _one_by_one(array: pa.Array, shape: ValueShape, wrong: dict[int, str]) -> pa.Array:
    """Value by value, to find those that do not fit."""
    read = _reader(array.type, shape)
    values = array.view(pa.int64()) if pa.types.is_duration(array.type) else array
    made: list[Any] = []
    for row, value in enumerate(_values(values)):
        try:
            made.append(None if value is None else read(value))
        except Unfit as error:
            made.append(None)
            wrong[row] = f"is no {shape}: {error}"
    if shape.name == "json":
        return pa.array(made, shape.arrow)
    return within(shape.array(pa.array(made, pa.int64())), shape, wrong)


def _values(array: pa.Array) -> list[Any]:
    if pa.types.is_date64(array.type):
        array = array.view(pa.int64())
    if is_text(array.type):
        # bytes that are no UTF-8 are told here
        return [
            None if one is None else _decoded(one) for one in array.cast(pa.binary()).to_pylist()
        ]
    values: list[Any] = array.to_pylist()
    return values


def _decoded(data: bytes) -> str | None:
    return data.decode("utf-8", "surrogateescape")


def _reader(found: pa.DataType, shape: ValueShape) -> Callable[[Any], Any]:
    if shape.name == "Decimal":
        return lambda value: decimal_word(Decimal(value), shape.precision, shape.scale)
    if shape.name == "date":
        return _day
    if shape.name == "timedelta":
        unit_ns = UNIT_NS[found.unit]
        return lambda value: _micros(value, unit_ns)
    return shape.read


def _day(milliseconds: int) -> int:
    day, rest = divmod(milliseconds, _DAY_MS)
    if rest:
        raise Unfit("it is not the midnight of a day")
    return day


def _micros(value: int, unit_ns: int) -> int:
    word, rest = divmod(value * unit_ns, 1000)
    if rest:
        raise Unfit("finer than a microsecond; cut the column first")
    if not -(2**63) <= word < 2**63:
        raise Unfit("does not fit 64 bits of microseconds")
    return word


def by_unique(texts: pa.Array, shape: ValueShape) -> pa.Array | None:
    """The values of texts, each different one read once; None where one is not in the language."""
    encoded = texts.dictionary_encode()
    try:
        values = [shape.read(one) for one in encoded.dictionary.to_pylist()]
    except Unfit:
        return None
    if shape.name == "json":
        return pa.array(values, shape.arrow).take(encoded.indices)
    return shape.array(pa.array(values, pa.int64()).take(encoded.indices))


def json_value(value: Any, number: type) -> str:
    """The text of a decoded JSON value, whose numbers may be texts of a class of their own."""

    def plain(one: Any) -> Any:
        if isinstance(one, number):
            text = str(one)
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if type(one) is dict:
            return {key: plain(inner) for key, inner in one.items()}
        return [plain(inner) for inner in one] if type(one) is list else one

    try:
        return json_text(plain(value))
    except ValueError as error:
        raise Unfit(str(error)) from None
