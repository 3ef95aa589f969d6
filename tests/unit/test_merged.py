"""Merged columns: what is put together late is what would be put together at once."""

from __future__ import annotations

import random

import numpy as np

from thalweg.columns.chunks import Chunk
from thalweg.columns.merged import MergedColumn, Merging, merged_chunk
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Field, Schema

FIELDS = [Field("n", FieldType(Kind.INT, optional=True)), Field("text", FieldType(Kind.STR))]
SCHEMA = Schema.make_record("Row", FIELDS)


def chunk(chooser: random.Random, size: int) -> Chunk:
    rows = [(chooser.choice([None, chooser.randrange(99)]), f"é{chooser.random()}") for _ in range(size)]  # fmt: skip
    made = Chunk.from_rows(SCHEMA, rows)
    made.order = {"_time": np.array(sorted(chooser.choices(range(50), k=size)), np.int64)}
    return made


def test_as_put_together_at_once() -> None:
    """Values, nulls, order columns, slices and any rows taken are those of a concatenated chunk."""
    chooser = random.Random(5)
    for turn in range(60):
        parts = [chunk(chooser, chooser.choice([0, 1, 7, 40])) for _ in range(chooser.randint(1, 4))]  # fmt: skip
        size = sum(map(len, parts))
        times = np.concatenate([one.order["_time"] for one in parts])
        places = None if turn % 3 == 0 else np.argsort(times, kind="stable")
        whole = Chunk.concat(parts)
        whole = whole if places is None else whole.take(places)
        rows = np.array(chooser.choices(range(size), k=5) if size else [], np.int64)
        for look in ("rows", "take", "slice", "len"):
            made = merged_chunk(parts, places)
            assert made.order["_time"].tolist() == whole.order["_time"].tolist()
            if look == "rows":
                assert made.rows() == whole.rows() == made.rows()
            elif look == "take":
                assert made.take(rows).rows() == whole.take(rows).rows()
            elif look == "slice":
                assert made.slice(size // 3, size).rows() == whole.slice(size // 3, size).rows()
            assert len(made) == size == len(made.columns[1])


def test_a_part_is_given_back() -> None:
    """Rows that are side by side in one part are its own memory; others are copied."""
    chooser = random.Random(6)
    left, right = chunk(chooser, 30), chunk(chooser, 20)
    times = np.concatenate([left.order["_time"], right.order["_time"]])
    places = np.argsort(times, kind="stable")
    for number, part in enumerate((left, right)):
        mine = np.flatnonzero((places >= 30) == bool(number))
        column = merged_chunk([left, right], places).columns[1]
        assert isinstance(column, MergedColumn)
        taken = column.take(mine)
        assert taken.to_python() == part.columns[1].to_python()
        assert taken.values.buffers()[2].address == part.columns[1].values.buffers()[2].address
        assert column.take(mine[:-1]).to_python() == part.columns[1].to_python()[:-1]
    assert Merging([30, 20], places).stretch(np.arange(50)) is None
    assert Merging([30, 20], None).stretch(np.arange(25, 35)) is None
    assert Merging([30, 20], None).stretch(np.arange(30, 35)) == (1, 0, 5)
