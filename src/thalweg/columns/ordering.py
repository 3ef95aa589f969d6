"""Putting what operators gave into the order of the stream, and streams into one.

Operators say where each output row came from (:mod:`thalweg.columns.contracts`); here that becomes the order
key of :mod:`thalweg.plan.plan`. Within a slot the physical order of a chunk *is* the stream's order, so most streams
carry only their time; the whole key is built where several streams or slots meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.chunks import Chunk, Int64s, concat_order, take_order
from thalweg.columns.contracts import KeyedResult
from thalweg.columns.keys import KeySpec
from thalweg.columns.merged import merged_chunk
from thalweg.flow.records import Schema
from thalweg.jit import njit
from thalweg.plan.plan import KEY, LEVEL, OWN, SEQ, TIME

#: Rows of different sources never share a serial: the source's index stands above this many bits.
SOURCE_BITS = 44
#: Where fewer than one row in so many gave an output, outputs are sorted without a look at all rows.
_SPARSE = 16


def serials(source: int, first: int, count: int) -> Int64s:
    """The ``_seq`` column of rows that arrive at a source from its ``first``-th row on."""
    first += source << SOURCE_BITS
    return np.arange(first, first + count, dtype=np.int64)


def renumbered(seq: Int64s, source: int) -> Int64s:
    """The ``_seq`` column of rows of a source that has another number now."""
    return (seq & ((1 << SOURCE_BITS) - 1)) + (source << SOURCE_BITS)


def positions(source: Int64s) -> Int64s:
    """For each output row its number among the outputs of the same input row, from 0."""
    if not len(source):
        return source
    starts = np.flatnonzero(np.r_[True, source[1:] != source[:-1]])
    return np.arange(len(source)) - np.repeat(starts, np.diff(np.r_[starts, len(source)]))


def places_by_row(source: Int64s, rows: int) -> Int64s:
    """The places of outputs in the order of the rows that gave them; those of a row keep their order."""
    if len(source) < 2 or bool((source[1:] >= source[:-1]).all()):
        return np.arange(len(source))
    if _SPARSE * len(source) < rows:
        return np.argsort(source, kind="stable")
    places = np.empty(len(source), np.int64)
    _fill_places(source, np.zeros(rows + 1, np.int64), places)
    return places


@njit
def _fill_places(source: Int64s, starts: Int64s, places: Int64s) -> None:
    for i in range(len(source)):
        starts[source[i] + 1] += 1
    for row in range(1, len(starts)):
        starts[row] += starts[row - 1]
    for i in range(len(source)):
        places[starts[source[i]]] = i
        starts[source[i]] += 1


def row_order(chunk: Chunk, source: Int64s, counter: str | None) -> dict[str, Any]:
    """The order columns of rows made from rows of ``chunk``, with the counter of an expanding operator."""
    order = {name: take_order(values, source) for name, values in chunk.order.items()}
    if counter is not None and LEVEL in order:
        order[counter] = positions(source)
    return order


def keyed_chunk(
    chunk: Chunk,
    result: KeyedResult,
    schema: Schema,
    spec: KeySpec,
    level: int,
    counter: str | None,
) -> Chunk:
    """The outputs of a keyed operator in stream order.

    Outputs of rows stand in the rows' order. A timer's outputs stand behind all rows with a time up to the
    timer's, timers by (time, key). Where time is each key's own, ``result.time`` is that of every output.
    """
    out = Chunk(schema, result.columns, len(result.source))
    by_row = result.source >= 0
    if by_row.all():
        rows = places_by_row(result.source, len(chunk))
        out = _in_order(out, rows)
        out.order = row_order(chunk, result.source[rows], counter)
        return _with_own(out, result.time, rows)
    row_places = np.flatnonzero(by_row)
    row_places = row_places[places_by_row(result.source[row_places], len(chunk))]
    timer_places = np.flatnonzero(~by_row)
    times = result.time[timer_places]
    sorting = spec.sort_rows(times, result.timer_keys)
    rows_at = result.source[row_places]
    merged = _merge_places(chunk.order[TIME][rows_at], times[sorting])
    places = np.concatenate([row_places, timer_places[sorting]])
    out = out.take(places[merged])
    of_rows = row_order(chunk, rows_at, counter)
    of_timers = _timer_order(chunk, result, spec, level, sorting, times[sorting], counter)
    out.order = {
        name: take_order(concat_order([of_rows[name], of_timers[name]]), merged) for name in of_rows
    }
    return _with_own(out, result.time, places[merged])


def _in_order(out: Chunk, rows: Int64s) -> Chunk:
    """All rows of the chunk in this order. What never changes is not copied where they stand in it."""
    if not np.array_equal(rows, np.arange(len(rows))):
        return out.take(rows)
    # Arrays of fixed width may be an operator's buffers.
    columns = [one.take(rows) if one.type.fixed_width else one for one in out.columns]
    return Chunk(out.schema, columns, len(rows))


def _with_own(out: Chunk, times: Int64s, places: Int64s) -> Chunk:
    if OWN in out.order:
        out.order[OWN] = times[places]
    return out


def _merge_places(rows: Int64s, timers: Int64s) -> Int64s:
    """The order of (rows ++ timers) by time, a timer behind the rows of its time."""
    gaps = np.searchsorted(rows, timers, side="right")
    place = np.empty(len(rows) + len(timers), np.int64)
    at = gaps + np.arange(len(timers))
    mask = np.ones(len(place), np.bool_)
    mask[at] = False
    place[mask] = np.arange(len(rows))
    place[at] = len(rows) + np.arange(len(timers))
    return place


def _timer_order(
    chunk: Chunk,
    result: KeyedResult,
    spec: KeySpec,
    level: int,
    sorting: Int64s,
    times: Int64s,
    counter: str | None,
) -> dict[str, Any]:
    """The order columns of what timers gave: a new event (time, operator, key)."""
    count = len(times)
    order: dict[str, Any] = {name: np.zeros(count, np.int64) for name in chunk.order}
    order[TIME] = times
    if LEVEL not in order:
        return order
    order[LEVEL] = np.full(count, level, np.int64)
    keys = [column.take(sorting) for column in result.timer_keys]
    order[KEY] = spec.ordered_bytes(keys, count)
    if counter is not None:
        order[counter] = _firing_positions(times, order[KEY])
    return order


def _firing_positions(times: Int64s, keys: pa.Array) -> Int64s:
    """The place of each row among those of the same firing of a timer."""
    if len(times) < 2:
        return np.zeros(len(times), np.int64)
    same_key = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    new = np.r_[True, (times[1:] != times[:-1]) | ~same_key]
    return positions(np.cumsum(new))


def _no_keys(count: int) -> pa.Array:
    """Empty keys: those of rows."""
    offsets = pa.py_buffer(np.zeros(count + 1, np.int32))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(b"")])


def empty_order(names: Sequence[str], count: int) -> dict[str, Any]:
    """Order columns of zeros (and empty keys)."""
    return {name: _no_keys(count) if name == KEY else np.zeros(count, np.int64) for name in names}


def with_columns(chunk: Chunk, names: Sequence[str]) -> Chunk:
    """The chunk with exactly these order columns: zeros where it lacks one."""
    missing = [name for name in names if name not in chunk.order]
    order = {**chunk.order, **empty_order(missing, len(chunk))} if missing else chunk.order
    return Chunk(chunk.schema, chunk.columns, chunk.length, {name: order[name] for name in names})


def merge(chunks: Sequence[Chunk], names: Sequence[str]) -> Chunk:
    """The rows of several chunks by the order key, whose columns are ``names`` in that order.

    Keys are unique but for rows of equal keys in one chunk, which keep their order.
    """
    whole = Chunk.concat([with_columns(one, names) for one in chunks])
    places = order_places(whole)
    return whole if places is None else whole.take(places)


def union(chunks: Sequence[Chunk], names: Sequence[str], kept: Sequence[str]) -> Chunk:
    """As :func:`merge` of chunks that each stand in order, with the order columns ``kept``.

    Rows of different sources differ in time or source, so where no timer made any the times alone say where they go.
    """
    found = sorted((one for one in chunks if len(one)), key=_first_serial)
    if len(found) == 1:
        return with_columns(found[0], kept)
    if not found or not _serials_apart(found):
        return with_columns(merge(chunks, names), kept)
    times = np.concatenate([one.order[TIME] for one in found])
    is_sorted = not (times[1:] < times[:-1]).any()
    places = None if is_sorted else np.argsort(times, kind="stable")
    return merged_chunk([with_columns(one, kept) for one in found], places)


def _first_serial(chunk: Chunk) -> int:
    found = chunk.order.get(SEQ)
    return -1 if found is None else int(found.min())


def _serials_apart(chunks: Sequence[Chunk]) -> bool:
    """Whether all are rows that came, and all serials of a chunk lie below those of the next."""
    if not all(TIME in one.order and SEQ in one.order for one in chunks):
        return False
    if any(LEVEL in one.order and one.order[LEVEL].any() for one in chunks):
        return False
    return all(
        int(one.order[SEQ].max()) < _first_serial(other)
        for one, other in itertools.pairwise(chunks)
    )


def order_places(chunk: Chunk) -> Int64s | None:
    """Where the rows must come from to stand in order, None when they already do."""
    columns = [values for name, values in chunk.order.items() if name != KEY]
    if len(chunk) < 2 or not columns:
        return None
    if KEY not in chunk.order or not chunk.order[LEVEL].any():
        if _sorted(columns):
            return None
        return np.lexsort(columns[::-1])
    table = pa.table({name: values for name, values in chunk.order.items()})
    keys = [(name, "ascending") for name in chunk.order]
    places: Int64s = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return places


def _sorted(columns: Sequence[Int64s]) -> bool:
    """Whether rows of int64 columns do not decrease, first column most significant."""
    equal = np.ones(len(columns[0]) - 1, np.bool_)
    for values in columns:
        if bool((equal & (values[1:] < values[:-1])).any()):
            return False
        equal &= values[1:] == values[:-1]
        if not equal.any():
            return True
    return True


__all__ = [
    "SEQ",
    "empty_order",
    "keyed_chunk",
    "merge",
    "order_places",
    "positions",
    "row_order",
    "serials",
    "union",
    "with_columns",
]
