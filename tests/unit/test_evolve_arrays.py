"""Columns in a wider type: nested values are those of a loop in Python, and what would be lost is named."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from thalweg.checkpoint.evolution.arrays import Unconvertible, converted
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema


class Inner(NamedTuple):
    a: int | None
    b: str
    c: list[float]


class Outer(NamedTuple):
    b: str
    new: str | None
    c: list[float] | None
    a: float | None


OLD = pa.struct(
    [
        pa.field("a", pa.int64()),
        pa.field("b", pa.string(), False),
        pa.field("c", pa.list_(pa.field("item", pa.float64(), False)), False),
    ]
)
NEW = FieldType(Kind.RECORD, True, record=Schema.of(Outer))


def wider(value: Any) -> Any:
    if value is None:
        return None
    a = None if value["a"] is None else float(value["a"])
    return {"b": value["b"], "new": None, "c": value["c"], "a": a}


def test_nested_values() -> None:
    """Lists of records with nulls at each level, sliced as files are, empty ones among them."""
    chooser = random.Random(3)

    def record() -> Any:
        if chooser.random() < 0.2:
            return None
        numbers = [chooser.random() for _ in range(chooser.randrange(3))]
        return {"a": chooser.choice((None, 1, -(2**53))), "b": chooser.choice("aé"), "c": numbers}

    kind = FieldType(Kind.LIST, True, item=NEW)
    for size in (0, 1, 50):
        rows = [
            None if chooser.random() < 0.2 else [record() for _ in range(chooser.randrange(4))]
            for _ in range(size)
        ]
        array = pa.array([[None], *rows, None], pa.list_(pa.field("item", OLD)))
        for part in (array, array[1:], array[:-1], array[2:3], array[:0]):
            found = converted(part, kind)
            found.validate(full=True)
            assert found.type == kind.arrow
            wanted = [None if one is None else list(map(wider, one)) for one in part.to_pylist()]
            assert found.to_pylist() == wanted


def test_what_would_be_lost() -> None:
    """A field that goes needs leave; one that is missing must be Optional; nulls need a type that has them."""
    one = pa.array([{"a": 1, "b": "x", "c": [1.0]}], OLD)
    less = FieldType(Kind.RECORD, record=Schema.of(NamedTuple("Less", [("b", str)])))
    with pytest.raises(Unconvertible, match="the field 'a' inside it would be lost"):
        converted(one, less)
    assert converted(one, less, lossy=True).to_pylist() == [{"b": "x"}]
    more = FieldType(Kind.RECORD, record=Schema.of(NamedTuple("More", [("b", str), ("d", int)])))
    with pytest.raises(Unconvertible, match="older rows have no 'd', which cannot be None"):
        converted(one, more, lossy=True)
    with pytest.raises(Unconvertible, match="there are nulls"):
        converted(pa.array([1, None]), FieldType(Kind.INT))
    with pytest.raises(Unconvertible, match="int64 is not string"):
        converted(pa.array([1]), FieldType(Kind.STR))
