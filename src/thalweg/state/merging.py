"""The last word on each key: several deltas as one, or a whole chain as the state it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.state.segments import DELETED


def merge_units(units: Sequence[pa.RecordBatch], keys: Sequence[str]) -> pa.RecordBatch:
    """One delta that does what these do one after the other: the last row of each key, tombstones included.

    At least one unit, all of one schema; null keys are one key, NaN keys are one key, -0.0 is 0.0.
    """
    table = pa.concat_batches([unit.replace_schema_metadata(None) for unit in units])
    if not keys or table.num_rows == 0:
        return table
    by = [f"k{i}" for i in range(len(keys))]
    places = pa.array(range(table.num_rows), pa.int64())
    columns = [_canonical(table.column(key)) for key in keys]
    last = pa.table([*columns, places], names=[*by, "row"]).group_by(by, use_threads=False)
    rows = last.aggregate([("row", "max")]).column("row_max").combine_chunks()
    return table.take(rows.take(pc.sort_indices(rows)))


def current(units: Sequence[pa.RecordBatch], keys: Sequence[str]) -> pa.RecordBatch:
    """The state that a chain stands for: the last row of each key, without the deleted ones and ``_deleted``."""
    merged = merge_units(units, keys)
    return merged.filter(pc.invert(merged.column(DELETED))).drop_columns([DELETED])


def sorted_by(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows in the order of keys: null first, numbers, NaN last; text by its UTF-8 bytes."""
    columns, names = [], []
    for i, key in enumerate(keys):
        column = table.column(key)
        parts = [pc.is_valid(column)]
        if pa.types.is_floating(column.type):
            nan = pc.fill_null(pc.is_nan(column), False)
            parts.append(nan)
        parts.append(_orderable(column))
        columns += parts
        names += [f"k{i}.{j}" for j in range(len(parts))]
    if not columns:
        return table
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
