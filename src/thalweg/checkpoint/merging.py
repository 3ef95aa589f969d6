"""The last word on each key: several deltas as one, or a whole chain as the state it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def merge_units(units: Sequence[pa.RecordBatch], keys: int) -> pa.RecordBatch:
    """One delta that does what these do one after the other: the last row of each key, tombstones included.

    At least one unit, all with the same columns, of which the first ``keys`` are the key; null keys are one
    key, NaN keys are one key, -0.0 is 0.0.
    """
    rows = pa.concat_batches([unit.replace_schema_metadata(None) for unit in units])
    if not keys or rows.num_rows == 0:
        return rows
    by = [f"k{i}" for i in range(keys)]
    columns = [*map(_canonical, rows.columns[:keys]), pa.array(np.arange(rows.num_rows))]
    groups = pa.table(columns, names=[*by, "row"]).group_by(by, use_threads=False)
    last = groups.aggregate([("row", "max")]).column("row_max").combine_chunks()
    return rows.take(pc.take(last, pc.sort_indices(last)))


def current(units: Sequence[pa.RecordBatch], keys: int) -> pa.RecordBatch:
    """The state that a chain stands for: the last row of each key, without the deleted ones and ``_deleted``."""
    merged = merge_units(units, keys)
    alive = merged.filter(pc.invert(merged.column(merged.num_columns - 1)))
    schema = pa.schema([*alive.schema][:-1])
    return pa.RecordBatch.from_arrays(alive.columns[:-1], schema=schema)


def sorted_by(table: pa.Table, keys: int) -> pa.Table:
    """Rows in the order of their key, the first columns: null first, numbers, NaN last, text by UTF-8."""
    columns: list[Any] = []
    for column in table.columns[:keys]:
        columns.append(pc.is_valid(column))
        if pa.types.is_floating(column.type):
            columns.append(pc.fill_null(pc.is_nan(column), False))
        columns.append(_orderable(column))
    if not columns:
        return table
    names = [f"k{i}" for i in range(len(columns))]
    order = [(name, "ascending") for name in names]
    return table.take(pc.sort_indices(pa.table(columns, names=names), sort_keys=order))


def _canonical(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        # Adding 0.0 turns -0.0 into 0.0; NaNs differ in their bits.
        zeroed = pc.add(column, pa.scalar(0.0, column.type))
        return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), zeroed)
    return _orderable(column)


def _orderable(column: Any) -> Any:
    """Nested values as text, since Arrow neither groups nor sorts by them."""
    if pa.types.is_nested(column.type):
        return pa.array(
            [None if one is None else repr(one) for one in column.to_pylist()], pa.string()
        )
    return column
