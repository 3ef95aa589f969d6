"""Every type of Arrow: a column of it is taken exactly, or refused by name with what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from field_cases import Inner, MaybeInt, MaybeStr
from io_kit import source_node

import thalweg as tw
from thalweg.connectors import as_source, never
from thalweg.errors import SchemaError
from thalweg.flow.records import Schema


class Layout(NamedTuple):
    """An array of a type, with a null in its middle, and the values that fields of these records take it for."""

    array: pa.Array
    taken: dict[type, list[Any]]


class MaybeFloat(NamedTuple):
    x: float | None


class MaybeBool(NamedTuple):
    x: bool | None


class MaybeBytes(NamedTuple):
    x: bytes | None


class MaybeCategory(NamedTuple):
    x: tw.Category | None


class MaybeTime(NamedTuple):
    x: tw.Timestamp | None


class MaybeInts(NamedTuple):
    x: list[int | None] | None


class MaybeRecord(NamedTuple):
    x: Inner | None


MAYBE = (
    MaybeInt, MaybeFloat, MaybeBool, MaybeStr, MaybeBytes, MaybeCategory, MaybeTime, MaybeInts, MaybeRecord,
)  # fmt: skip

TEXTS = ["b", None, "a", ""]
RAW = [b"bb", None, b"a\xff", b"\x00\x00"]


def texts(array: pa.Array, values: list[Any] = TEXTS) -> Layout:
    return Layout(array, {MaybeStr: values, MaybeCategory: values})


def raw(array: pa.Array) -> Layout:
    return Layout(array, {MaybeBytes: RAW})


def whole(kind: pa.DataType) -> Layout:
    values = [1, None, 0, 100]
    floats = [None if v is None else float(v) for v in values]
    return Layout(pa.array(values, kind), {MaybeInt: values, MaybeFloat: floats, MaybeTime: values})


def instants(kind: pa.DataType, scale: int) -> Layout:
    stored = pa.array([1000, None, 0, -1000], pa.int64())
    stored = stored.cast(pa.int32()) if kind == pa.date32() else stored
    return Layout(stored.view(kind), {MaybeTime: [1000 * scale, None, 0, -1000 * scale]})


def lists(kind: pa.DataType) -> Layout:
    values = [[1, 2], None, [3, None], [4, 5]]
    return Layout(pa.array(values, kind), {MaybeInts: values})


def coded(
    texts: list[str | None], codes: list[int | None], index: pa.DataType, kind: pa.DataType
) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, index), pa.array(texts, kind))


DAY_US = 86_400_000_000
NULL_INSIDE = coded(["a", None, "b", ""], [2, 1, 0, 3], pa.int8(), pa.string())

LAYOUTS = {
    **{
        str(kind): whole(kind)
        for kind in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        )
    },
    **{
        str(kind): Layout(
            pa.array(
                [
                    np.float16(v) if v is not None and kind == pa.float16() else v
                    for v in (0.5, None, math.inf, -2.0)
                ],
                kind,
            ),
            {MaybeFloat: [0.5, None, math.inf, -2.0]},
        )
        for kind in (pa.float16(), pa.float32(), pa.float64())
    },
    "bool": Layout(pa.array([True, None, False, True]), {MaybeBool: [True, None, False, True]}),
    "null": Layout(pa.nulls(4), {record: [None] * 4 for record in MAYBE}),
    **{
        str(kind): texts(pa.array(TEXTS, kind))
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): raw(pa.array(RAW, kind))
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
    },
    **{
        f"dictionary of {index} and {kind}": texts(
            coded(["a", "b", ""], [1, None, 0, 2], index, kind)
        )
        for index in (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    "dictionary with a null": texts(NULL_INSIDE),
    "dictionary of 32 bits with a null": texts(
        coded(["a", None, "b", ""], [2, 1, 0, 3], pa.int32(), pa.string())
    ),
    "dictionary of ints": Layout(
        coded([7, 8], [0, None, 1, 0], pa.int8(), pa.int64()),
        {MaybeInt: [7, None, 8, 7], MaybeFloat: [7.0, None, 8.0, 7.0], MaybeTime: [7, None, 8, 7]},
    ),
    "dictionary of bytes": raw(pa.array(RAW, pa.binary()).dictionary_encode()),
    "dictionary of views of bytes": raw(
        coded([b"bb", b"a\xff", b"\x00\x00"], [0, None, 1, 2], pa.int8(), pa.binary_view())
    ),
    "runs of texts": texts(
        pa.RunEndEncodedArray.from_arrays([1, 2, 4], pa.array(["a", None, "b"])),
        ["a", None, "b", "b"],
    ),
    "runs of a dictionary": texts(
        pa.RunEndEncodedArray.from_arrays(
            [1, 2, 3, 4], coded(["a", "b", ""], [1, None, 0, 2], pa.int8(), pa.string())
        )
    ),
    **{
        f"timestamp of {unit} in {zone}": instants(pa.timestamp(unit, tz=zone), scale)
        for unit, scale in (("s", 10**6), ("ms", 1000), ("us", 1))
        for zone in (None, "UTC", "Asia/Tokyo")
    },
    "timestamp of ns": Layout(
        pa.array([3000, None, 0, -1000]).view(pa.timestamp("ns")), {MaybeTime: [3, None, 0, -1]}
    ),
    "date32": instants(pa.date32(), DAY_US),
    "date64": Layout(
        pa.array([86_400_000, None, 0, -86_400_000]).view(pa.date64()),
        {MaybeTime: [DAY_US, None, 0, -DAY_US]},
    ),
    "date64 not at midnight": instants(pa.date64(), 1000),
    **{
        str(kind): lists(kind)
        for kind in (
            pa.list_(pa.int64()),
            pa.large_list(pa.int8()),
            pa.list_(pa.int16(), 2),
            pa.list_view(pa.int64()),
            pa.large_list_view(pa.int64()),
        )
    },
    "list of a dictionary": Layout(
        pa.ListArray.from_arrays(
            [0, 1, 1, 3, 4],
            coded([7, 8], [0, 1, 0, 1], pa.int8(), pa.int64()),
            mask=pa.array([False, True, False, False]),
        ),
        {MaybeInts: [[7], None, [8, 7], [8]]},
    ),
    "struct": Layout(
        pa.array(
            [{"a": 1, "b": "x"}, None, {"a": 2, "b": None}, {"a": 3, "b": ""}],
            pa.struct(
                [("b", pa.dictionary(pa.int8(), pa.string())), ("a", pa.int16()), ("c", pa.int8())]
            ),
        ),
        {MaybeRecord: [(1, "x"), None, (2, None), (3, "")]},
    ),
    "uuid": Layout(
        pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([b"a" * 16, None, b"b" * 16, b"c" * 16], pa.binary(16))
        ),
        {MaybeBytes: [b"a" * 16, None, b"b" * 16, b"c" * 16]},
    ),
    "json": texts(pa.ExtensionArray.from_storage(pa.json_(), pa.array(TEXTS))),
    # Those that no field takes.
    "bool8": Layout(
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0, 1], pa.int8())), {}
    ),
    **{
        str(kind): Layout(pa.array([Decimal(1), None, Decimal(2), Decimal(3)], kind), {})
        for kind in (pa.decimal32(5), pa.decimal64(5), pa.decimal128(5, 2), pa.decimal256(5, 2))
    },
    **{
        str(kind): Layout(pa.array([1, None, 2, 3], kind), {})
        for kind in (pa.time32("s"), pa.time64("us"), pa.duration("us"))
    },
    "interval": Layout(
        pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 0]), None]), {}
    ),
    "map": Layout(pa.array([[("k", 1)], None, [], []], pa.map_(pa.string(), pa.int64())), {}),
    "union": Layout(
        pa.UnionArray.from_sparse(
            pa.array([0, 1, 0, 1], pa.int8()),
            [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", "d"])],
        ),
        {},
    ),
}


def forms(array: pa.Array) -> Iterator[pa.ChunkedArray]:
    """The array whole, in chunks that are slices, and in chunks with a dictionary each."""
    yield pa.chunked_array([array])
    yield pa.chunked_array([array.slice(0, 1), array.slice(1, 2), array.slice(3)])
    if pa.types.is_dictionary(array.type):
        other = pa.DictionaryArray.from_arrays(array.indices.slice(3), array.dictionary)
        yield pa.chunked_array([array.slice(0, 3), other])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_type_of_arrow(layout: str) -> None:
    """It is taken exactly, whole, sliced and in chunks; or refused with the column, both types and what to do."""
    array, taken = LAYOUTS[layout]
    for record in MAYBE:
        source = source_node(record)
        for chunked in forms(array):
            table = pa.table({"x": chunked})
            if record in taken:
                feed = as_source("in", table).rows(source, 3, never())
                assert [row.x for chunk, _ in feed for row in chunk.rows()] == taken[record]
                continue
            kinds = rf"column x is {re.escape(str(array.type))}, but {record.__name__}.x is .*"
            said = rf"{kinds}(; (cast|take|it takes)|\(its )"
            with pytest.raises(SchemaError, match=said):
                as_source("in", table).rows(source, 3, never())


def damaged(kind: pa.DataType) -> pa.Array:
    """Texts of which one is not UTF-8, as a careless writer makes them."""
    data = pa.array([b"a", b"\xff", None, b"\xc3\xa9"], BINARY[kind])
    return pa.Array.from_buffers(kind, 4, data.buffers())


BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("record", [MaybeStr, MaybeCategory])
@pytest.mark.parametrize("in_dictionary", [False, True])
def test_texts_that_are_none(kind: pa.DataType, record: type, in_dictionary: bool) -> None:
    """A value that is not UTF-8 does not fit; the others do."""
    array = damaged(kind)
    if in_dictionary:
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3], pa.int32()), array)
    feed = list(
        as_source("in", pa.table({"x": array})).rows(
            source_node(record, errors="reject"), 9, never()
        )
    )
    assert [row.x for chunk, _ in feed for row in chunk.rows()] == ["a", None, "é"]
    assert [one for _, bad in feed for one in bad] == [("x is not UTF-8", "row 1", r"x=b'\xff'")]


def test_a_flow_of_every_type() -> None:
    """A record made of an Arrow schema takes its own columns, or the type is refused by name."""
    for name, (array, taken) in LAYOUTS.items():
        if pa.types.is_decimal128(array.type) or pa.types.is_duration(array.type):
            record = Schema.of(pa.schema([("x", array.type)]))  # values of Python's own
            flow = tw.Flow("typed")
            flow.source("in", record.cls).sink("out")
            result = tw.run(flow, {"in": pa.table({"x": array})})
            assert [row.x for row in result.rows("out")] == array.to_pylist()
            continue
        if not taken or name == "null":
            with pytest.raises(SchemaError, match="column 'x' has the Arrow type"):
                Schema.of(pa.schema([("x", array.type)]))
            continue
        record = Schema.of(pa.schema([("x", array.type)]))
        feed = as_source("in", pa.table({"x": array})).rows(source_node(record.cls), 10, never())
        found = [row.x for chunk, _ in feed for row in chunk.rows()]
        if name == "struct":  # its record has the fields of the struct, in their order
            assert found[:2] == [("x", 1, None), None]
        else:
            assert found in list(taken.values())
