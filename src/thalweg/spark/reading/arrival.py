"""The order in which the rows of a DataFrame arrive: by ``arrival=``, which must be one order for the whole input.

A batch is what Spark happened to cut; the order of all rows must not follow from that. So no place in the order of
arrival may come twice, and none may come in a later batch than one behind it: for a source with lanes in each lane,
else in the whole input. The last places are facts of the gate, which survive restarts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import DataError
from thalweg.flow.operators.nodes import Source
from thalweg.hashing import Int64s

#: By lane (None where there are none) the last place, a value a column in a form that JSON holds and that sorts.
Places: TypeAlias = dict[Any, Any]


def arrival_order(source: Source, table: pa.Table, last: Places | None) -> pa.Table:
    """The rows of a batch in the order of arrival, lane by lane where each has an order of its own.

    Args:
        source: whose rows they are.
        table: the rows as they come from Spark.
        last: the last places of earlier batches; becomes those of this one. None: nothing is checked.

    Raises:
        DataError: a place in the order of arrival comes twice, or goes back behind an earlier batch.
    """
    if not source.arrival:
        return table
    lane = source.lane if source.keeps_lanes else None
    names = [*([lane] if lane else []), *(name for name in source.arrival if name != lane)]
    table = table.take(pc.sort_indices(table, [(name, "ascending") for name in names]))
    if last is not None and table.num_rows:
        _check(source, lane, names, _with_places(source, table.select(names)), last)
    return table


def _with_places(source: Source, table: pa.Table) -> pa.Table:
    """The rows without those that do not fit, for which others say so."""
    for name in table.column_names:
        column = table.column(name)
        if column.null_count and not source.record.field(name).type.optional:
            table = table.filter(column.is_valid())
    if source.lane in table.column_names and isinstance(source.lanes, tuple):
        column = _plain(table.column(source.lane))
        table = table.filter(pc.is_in(column, pa.array(source.lanes, column.type)))
    return table


def _check(
    source: Source, lane: str | None, names: Sequence[str], table: pa.Table, last: Places
) -> None:
    if not table.num_rows:
        return
    codes = [_codes(table.column(name)) for name in names]
    same = np.logical_and.reduce([one[1:] == one[:-1] for one in codes])
    if same.any():
        place = _place(table, int(np.flatnonzero(same)[0]))
        raise DataError(
            f"source {source.name!r}: two rows have the same place in the order of arrival,"
            f" {_shown(names, place)}; arrival= must tell any two rows{' of a lane' if lane else ''} apart"
        )
    starts = np.flatnonzero(np.diff(codes[0], prepend=-1)) if lane else np.zeros(1, np.int64)
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), table.num_rows], strict=True):
        mine = _plain(table.column(lane))[start].as_py() if lane else None
        first = _place(table, start)
        if mine in last and first <= last[mine]:
            raise DataError(_goes_back(source, lane, names, last[mine], first))
        last[mine] = _place(table, stop - 1)


def _goes_back(
    source: Source, lane: str | None, names: Sequence[str], before: Any, now: Any
) -> str:
    what = "comes again" if now == before else "comes in a later batch than"
    second = "" if now == before else f" {_shown(names, before)}"
    if lane is not None:
        advice = f"within each lane of {lane!r} the order of arrival must go on from batch to batch"
    else:
        advice = (
            "so these columns are no order of arrival of the whole input, and what is late would follow Spark's"
            " batches. For a source of partitions that each have an order, say lane= (the partition) and lanes=[...]"
            " (all of them); else name columns that only grow"
        )
    return f"source {source.name!r}: {_shown(names, now)} {what}{second} in the order of arrival; {advice}"


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose values JSON holds."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_temporal(kind):
        return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
    if pa.types.is_signed_integer(kind):
        # Spark's partitions have 32 bits, and a declared lane may not fit those.
        return column.cast(pa.int64())
    return column


def _codes(column: pa.ChunkedArray) -> Int64s:
    """Numbers that are equal where the values are."""
    whole = pa.concat_arrays(_plain(column).chunks)
    codes = whole.dictionary_encode(null_encoding="encode").indices
    numbers: Int64s = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _place(table: pa.Table, row: int) -> list[Any]:
    """The place of a row: of each column first what sorts numbers, NaN and null, then the value."""
    return [_sorting(_plain(column)[row].as_py()) for column in table.columns]


def _sorting(value: Any) -> list[Any]:
    if value is None:
        return [2, 0]
    if isinstance(value, float) and math.isnan(value):
        return [1, 0]
    return [0, value.hex() if isinstance(value, bytes) else value]


def _shown(names: Sequence[str], place: Sequence[Any]) -> str:
    values = ({0: value, 1: "NaN", 2: "null"}[rank] for rank, value in place)
    return f"({', '.join(f'{name}={value}' for name, value in zip(names, values, strict=True))})"
