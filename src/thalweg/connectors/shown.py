"""Rows of a sink as a table for people: times as ISO 8601, nulls as a dash, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from thalweg.flow.field_types import Kind
from thalweg.flow.records import Schema
from thalweg.printing import Table
from thalweg.times import text


def shown_table(title: str, record: Schema, rows: pa.Table, total: int) -> Table:
    """The rows under a title; a note below says how many more there are of ``total``."""
    out = Table(title)
    for field in record.fields:
        out.column(field.name, right=field.type.kind in (Kind.INT, Kind.FLOAT))
    for row in _readable(record, rows):
        out.row(*row)
    if total > rows.num_rows:
        out.note(f"… {total - rows.num_rows:,} more")
    return out


def _readable(record: Schema, table: pa.Table) -> list[Sequence[str]]:
    columns: list[list[Any]] = []
    for field in record.fields:
        column = table.column(field.name)
        if field.type.kind is Kind.TIMESTAMP:
            times = column.cast(pa.int64()).to_pylist()
            columns.append([None if one is None else text(one) for one in times])
        else:
            columns.append(column.to_pylist())
    shown = [["–" if one is None else str(one) for one in column] for column in columns]
    return list(zip(*shown, strict=True))
