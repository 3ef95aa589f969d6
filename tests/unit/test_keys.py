"""Keys: every form groups alike, orders alike, and leads back to the key."""

from __future__ import annotations

import collections
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sizes import sized
from xxhash import xxh64_intdigest

from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Column
from thalweg.columns.keys import KeyRows, KeySpec
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Field

QUICK = settings(max_examples=sized(150), deadline=None, derandomize=True)

WHOLE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: WHOLE,
    Kind.FLOAT: st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5])),
    Kind.BOOL: st.booleans(),
    Kind.STR: st.text(st.sampled_from("\0\x01aé\uffff\U0001f30a"), max_size=3),
    Kind.BYTES: st.binary(max_size=3),
    Kind.TIMESTAMP: WHOLE,
    Kind.CATEGORY: st.sampled_from(["", "a", "b\0", "b", "é", "\uffff", "\U0001f30a"]),
}
TYPES = st.builds(FieldType, st.sampled_from(list(VALUES)), st.booleans())


@st.composite
def keyed(draw: st.DrawFn) -> tuple[KeySpec, list[Column], int]:
    """A key of up to three fields and some columns of values of it."""
    types = draw(st.lists(TYPES, max_size=3))
    spec = KeySpec(tuple(Field(f"f{i}", one) for i, one in enumerate(types)))
    length = draw(st.integers(0, 8))
    columns = []
    for one in types:
        value = st.none() | VALUES[one.kind] if one.optional else VALUES[one.kind]
        values = draw(st.lists(value, min_size=length, max_size=length))
        columns.append(Column.from_python(one, values))
    return spec, columns, length


def model(key: Any) -> tuple[Any, ...]:
    """A key as something that Python orders as the stream must: null, values, NaN."""
    fields = key if isinstance(key, tuple) else (key,)
    out: list[tuple[Any, ...]] = []
    for value in fields:
        if value is None:
            out.append((0,))
        elif isinstance(value, float) and math.isnan(value):
            out.append((2,))
        else:
            out.append((1, value.encode() if isinstance(value, str) else value))
    return tuple(out)


def identities(rows: KeyRows) -> list[tuple[Any, ...]]:
    """What a table compares, a row a key."""
    texts: list[bytes] = [b""] * len(rows.hashes)
    if rows.identity is not None:
        ends, data = rows.identity
        texts = [data[ends[i] : ends[i + 1]].tobytes() for i in range(len(rows.hashes))]
    return list(zip(rows.hashes.tolist(), map(tuple, rows.words.tolist()), texts, strict=True))


def groups(values: list[Any]) -> list[list[int]]:
    found = collections.defaultdict(list)
    for i, value in enumerate(values):
        found[value].append(i)
    return list(found.values())


@given(keyed())
@QUICK
def test_all_forms_group_alike(given_keys: tuple[KeySpec, list[Column], int]) -> None:
    """Words and identities, ordered bytes and Python keys group as values do; hashes follow them."""
    spec, columns, length = given_keys
    keys = spec.python_keys(columns, length)
    expected = groups([model(key) for key in keys])
    assert groups(keys) == expected
    assert groups(identities(spec.rows(columns, length))) == expected
    assert groups(spec.ordered_bytes(columns, length).to_pylist()) == expected
    assert len(set(spec.hashes(columns, length).tolist())) == len(expected)


@given(keyed())
@QUICK
def test_bytes_order_as_keys_do(given_keys: tuple[KeySpec, list[Column], int]) -> None:
    """Null first, then numbers and text, NaN last: byte order is key order."""
    spec, columns, length = given_keys
    order = [model(key) for key in spec.python_keys(columns, length)]
    texts = spec.ordered_bytes(columns, length).to_pylist()
    rows = range(length)
    assert sorted(rows, key=texts.__getitem__) == sorted(rows, key=order.__getitem__)


@given(keyed(), st.data())
@QUICK
def test_rows_sort_by_time_then_key_and_stay_stable(
    given_keys: tuple[KeySpec, list[Column], int], data: st.DataObject
) -> None:
    """sort_rows is Python's stable sort by (time, key)."""
    spec, columns, length = given_keys
    assume(columns)
    times = data.draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
    order = [model(key) for key in spec.python_keys(columns)]
    expected = sorted(range(length), key=lambda i: (times[i], order[i]))
    assert spec.sort_rows(np.array(times, np.int64), columns).tolist() == expected


@given(keyed())
@QUICK
def test_every_form_leads_back(given_keys: tuple[KeySpec, list[Column], int]) -> None:
    """Ordered bytes, words with identities and Python keys give the key columns again."""
    spec, columns, length = given_keys
    keys = [model(key) for key in spec.python_keys(columns, length)]
    rows = spec.rows(columns, length)
    for back in (
        spec.decode_ordered(spec.ordered_bytes(columns, length)),
        spec.columns(rows.words, rows.identity),
        spec.columns_of(spec.python_keys(columns, length)),
    ):
        assert [model(key) for key in spec.python_keys(back, length)] == keys
        assert [column.type for column in back] == [field.type for field in spec.fields]


@given(keyed(), st.integers(0, 8), st.integers(0, 8))
@QUICK
def test_a_slice_has_the_forms_of_its_rows(
    given_keys: tuple[KeySpec, list[Column], int], one: int, other: int
) -> None:
    """Views into larger columns, with Arrow offsets, change nothing."""
    spec, columns, length = given_keys
    start, stop = min(one, other, length), min(max(one, other), length)
    part = [column.slice(start, stop) for column in columns]
    whole = identities(spec.rows(columns, length))[start:stop]
    assert identities(spec.rows(part, stop - start)) == whole
    texts = spec.ordered_bytes(columns, length).to_pylist()[start:stop]
    assert spec.ordered_bytes(part, stop - start).to_pylist() == texts


def plain_word(kind: Kind, value: Any) -> int:
    """A fixed-width value as the specification of the hash words it."""
    if value is None:
        return 0
    if kind is Kind.FLOAT:
        if math.isnan(value):
            return 0x7FF8000000000000
        return int(struct.unpack("<Q", struct.pack("<d", value + 0.0))[0])
    return xxh64_intdigest(value.encode()) if kind is Kind.CATEGORY else int(value) & (2**64 - 1)


def plain_hash(spec: KeySpec, key: Any, ordered: bytes) -> int:
    """The hash of a key, straight from the text of thalweg.hashing."""
    fields = key if len(spec.fields) != 1 else (key,)
    types = [field.type for field in spec.fields]
    if not all(one.fixed_width for one in types):
        if len(types) == 1 and not types[0].optional:
            return xxh64_intdigest(key.encode() if isinstance(key, str) else key)
        return xxh64_intdigest(ordered)
    words = [plain_word(one.kind, v) for one, v in zip(types, fields, strict=True)]
    if any(one.optional for one in types):
        words.append(sum(1 << i for i, v in enumerate(fields) if v is None))
    return xxh64_intdigest(b"".join(word.to_bytes(8, "little") for word in words))


@given(keyed())
@QUICK
def test_the_hash_is_the_specified_one(given_keys: tuple[KeySpec, list[Column], int]) -> None:
    """The compiled hash of a key equals a plain reading of the specification."""
    spec, columns, length = given_keys
    keys = spec.python_keys(columns, length)
    ordered = spec.ordered_bytes(columns, length).to_pylist()
    expected = [plain_hash(spec, key, text) for key, text in zip(keys, ordered, strict=True)]
    assert spec.hashes(columns, length).tolist() == expected


def spec_of(*types: FieldType) -> KeySpec:
    return KeySpec(tuple(Field(f"f{i}", one) for i, one in enumerate(types)))


def test_hashes_that_never_change() -> None:
    """Numbers that checkpoints depend on."""
    whole, text = FieldType(Kind.INT), FieldType(Kind.STR)
    numbers, texts = Column.from_python(whole, [42]), Column.from_python(text, ["zürich"])
    hashes = [
        spec_of(whole).hashes([numbers])[0],
        spec_of(text).hashes([texts])[0],
        spec_of(whole, text).hashes([numbers, texts])[0],
        spec_of().hashes([], 1)[0],
    ]
    assert [f"{one:016x}" for one in hashes] == [
        "b556806fb6d14353",
        "49778a8d47a1ac40",
        "59bdc5b27475caf7",
        "ef46db3751d8e999",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (FieldType(Kind.INT), -1, "7fffffffffffffff"),
        (FieldType(Kind.INT, optional=True), 0, "018000000000000000"),
        (FieldType(Kind.INT, optional=True), None, "00"),
        (FieldType(Kind.BOOL), True, "01"),
        (FieldType(Kind.FLOAT), -0.0, "8000000000000000"),
        (FieldType(Kind.FLOAT), math.nan, "fff8000000000000"),
        (FieldType(Kind.BYTES), b"a\0b", "6100ff620000"),
        (FieldType(Kind.CATEGORY), "a", "610000"),
    ],
)
def test_ordered_bytes_as_written(kind: FieldType, value: Any, expected: str) -> None:
    """The encoding is the one that the module's text describes."""
    texts = spec_of(kind).ordered_bytes([Column.from_python(kind, [value])])
    assert texts.to_pylist() == [bytes.fromhex(expected)]


def test_the_key_without_fields() -> None:
    """There is one constant key, and the number of rows must be told."""
    spec = spec_of()
    assert spec.python_keys([], 3) == [(), (), ()]
    assert spec.rows([], 3).words.shape == (3, 0)
    assert spec.ordered_bytes([], 2).to_pylist() == [b"", b""]
    assert spec.columns_of([(), ()]) == []
    assert spec.sort_rows(np.array([2, 1]), []).tolist() == [1, 0]
    with pytest.raises(ValueError, match="length="):
        spec.rows([])


def test_what_cannot_be_a_key() -> None:
    """Lists and records are refused by name, and so is an absurd number of fields."""
    with pytest.raises(SchemaError, match=r"tags: list\[int\] cannot be part of a key"):
        KeySpec((Field("tags", FieldType(Kind.LIST, item=FieldType(Kind.INT))),))
    with pytest.raises(SchemaError, match="at most 63"):
        spec_of(*[FieldType(Kind.INT)] * 64)


def test_python_keys_are_canonical() -> None:
    """NaN is one object and -0.0 is 0.0, so that a dict groups them."""
    kind = FieldType(Kind.FLOAT)
    keys = spec_of(kind).python_keys([Column(kind, np.array([math.nan, -math.nan, -0.0]))])
    assert keys[0] is keys[1]
    assert str(keys[2]) == "0.0"


def test_what_lies_under_a_null_is_no_part_of_the_key() -> None:
    """Arrays may hold anything where they are not valid."""
    kind = FieldType(Kind.INT, optional=True)
    valid = np.array([False, False, True])
    rows = spec_of(kind).rows([Column(kind, np.array([3, 4, 0]), valid)])
    assert rows.words.tolist() == [[0, 1], [0, 1], [0, 0]]
    assert rows.hashes[0] == rows.hashes[1] != rows.hashes[2]


def test_a_category_is_ordered_by_its_text() -> None:
    """Not by its hash, also when the texts come in another order."""
    kind = FieldType(Kind.CATEGORY)
    column = Column(kind, CATEGORIES.encode(pa.array(["pear", "apple", "fig", "apple"])))
    assert spec_of(kind).sort_rows(np.zeros(4, np.int64), [column]).tolist() == [1, 3, 2, 0]
