"""Chunks: rows of Python values in and out, with large values."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.columns import chunks
from thalweg.columns.chunks import Chunk, Column
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema


class Row(NamedTuple):
    """A row that may be large."""

    n: int
    data: bytes


SCHEMA = Schema.of(Row)
BYTES = FieldType(Kind.BYTES, optional=True)


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=6), max_size=12), st.sampled_from([0, 3, 256]))
def test_bytes_are_an_array(values: list[bytes | None], long: int) -> None:
    """The same array, put together at once or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_LONG_BYTES", long)
        made = Column.from_python(BYTES, values).values
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


def test_long_bytes_are_an_array() -> None:
    """Also those of many sizes, and where one is empty."""
    values = [bytes([i % 251]) * (i * 7) for i in range(500)]
    made = Column.from_python(BYTES, values).values
    made.validate(full=True)
    assert made.to_pylist() == values


@settings(max_examples=100, derandomize=True, database=None, deadline=None)
@given(
    st.lists(st.builds(Row, st.integers(-5, 5), st.binary(max_size=5)), max_size=20),
    st.integers(1, 200),
)
def test_each_row_is_a_row(rows: list[Row], window: int) -> None:
    """In order, however few are made at a time."""
    made = Chunk.from_rows(SCHEMA, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_WINDOW_BYTES", window)
        assert list(made.each_row()) == made.rows() == rows


def test_rows_without_fields() -> None:
    """A record of no fields has rows too."""
    schema = Schema.make_record("Nothing", ())
    assert len(list(Chunk(schema, [], 3).each_row())) == 3
    assert list(Chunk(schema, [], 0).each_row()) == []
