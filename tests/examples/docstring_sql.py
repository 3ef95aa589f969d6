"""Runs the SQL with which the docstrings of examples say what they give."""

from __future__ import annotations

import re
import textwrap
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest


def in_sql(module: ModuleType, source: str, table: pa.Table) -> list[tuple[Any, ...]]:
    """What the SQL in a module's docstring gives over a source's rows, in order of arrival; times as microseconds."""
    text = re.search(r"In SQL::\n\n((?:(?:    .*)?\n)+)", module.__doc__ or "")
    assert text is not None
    naive = pa.table(
        {
            name: table[name].cast(pa.timestamp("us")) if name == "ts" else table[name]
            for name in table.column_names
        }
    )
    rows = naive.append_column("arrival", pa.array(np.arange(len(table))))
    with duckdb.connect() as database:
        database.register("rows", rows)
        database.execute(
            f"CREATE TABLE {source} AS"
            " SELECT *, row_number() OVER (ORDER BY ts, arrival) AS number FROM rows"
        )
        found = database.sql(textwrap.dedent(text[1])).to_arrow_table()
    columns = [
        pc.cast(column, pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in found.columns
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def about(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row whose floats may differ in the last digits: DuckDB computes them in an order of its own."""
    return tuple(pytest.approx(one, rel=1e-9) if isinstance(one, float) else one for one in row)
