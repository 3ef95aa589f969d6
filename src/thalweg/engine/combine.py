"""Combining: one row for those of a chunk that are equal in some fields (see :mod:`thalweg.flow.operators.combining`).

Rows are grouped by words: what is fixed-width is its own word, everything else the code of its value in this chunk.
Two rows of one group are equal in all bits; rows that are equal otherwise (0.0 and -0.0) may stay apart, which costs a
row and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.chunks import Bools, Chunk, Column
from thalweg.columns.ordering import row_order
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.built_in import Combine
from thalweg.hashing import Int64s, UInt64s, hash_words
from thalweg.jit import njit


def combined(node: Combine, chunk: Chunk) -> dict[str, Chunk]:
    """A row for each group of the input's rows, in the order of their first rows."""
    groups, firsts = grouped([chunk.column(name) for name in node.by], len(chunk))
    try:
        columns = _columns(node, chunk, groups, firsts)
    except OverflowError:
        # A sum that leaves 64 bits is the affair of the operator behind, as it is without parts.
        groups = firsts = np.arange(len(chunk))
        columns = _columns(node, chunk, groups, firsts)
    return {"out": Chunk(node.record, columns, len(firsts), row_order(chunk, firsts, None))}


def _columns(node: Combine, chunk: Chunk, groups: Int64s, firsts: Int64s) -> list[Column]:
    kinds = [field.type for field in node.record.fields[len(node.by) :]]
    return [
        *(chunk.column(name).take(firsts) for name in node.by),
        *(
            part(one, kind, chunk, groups, firsts)
            for (_, one), kind in zip(node.parts, kinds, strict=True)
        ),
    ]


def grouped(columns: Sequence[Column], rows: int) -> tuple[Int64s, Int64s]:
    """The group of each row, numbered by first appearance, and the first row of each group (ascending)."""
    words = np.column_stack([word for column in columns for word in _words(column)])
    table = np.full(1 << (2 * rows).bit_length(), -1, np.int64)
    groups, firsts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    count = _group(words, hash_words(words), table, groups, firsts)
    return groups, firsts[:count]


def _words(column: Column) -> list[Int64s]:
    """Words that are equal in two rows only if the column's values are."""
    values = column.values
    if not column.type.fixed_width:
        codes = pc.fill_null(values.dictionary_encode().indices.cast(pa.int64()), -1)
        return [codes.to_numpy(zero_copy_only=False)]
    words = values.view(np.int64) if values.dtype == np.float64 else values.astype(np.int64)
    return [words] if column.valid is None else [words, column.valid.astype(np.int64)]


@njit
def _group(words: Int64s, hashes: UInt64s, table: Int64s, groups: Int64s, firsts: Int64s) -> int:
    """Numbers the groups; ``table`` has a power of two of places, all -1, and room for every row."""
    count, mask = 0, len(table) - 1
    for row in range(len(words)):
        place = np.int64(hashes[row]) & mask
        while table[place] >= 0 and not _equal(words, firsts[table[place]], row):
            place = (place + 1) & mask
        if table[place] < 0:
            table[place] = count
            firsts[count] = row
            count += 1
        groups[row] = table[place]
    return count


@njit
def _equal(words: Int64s, one: Any, other: Any) -> bool:
    same = True
    for k in range(words.shape[1]):
        same &= words[one, k] == words[other, k]
    return same


def part(
    aggregate: Aggregate, kind: FieldType, chunk: Chunk, groups: Int64s, firsts: Int64s
) -> Column:
    """An aggregate of each group.

    Args:
        aggregate: which one.
        kind: of the result.
        chunk: the rows.
        groups: the group of each row.
        firsts: the first row of each group.

    Raises:
        OverflowError: a sum leaves 64 bits, if only on its way.
    """
    counts = _counting(aggregate, chunk)
    if aggregate.field is None:
        taken = groups if counts is None else groups[counts]
        return Column(kind, np.bincount(taken, minlength=len(firsts)))
    column = chunk.column(aggregate.field)
    valid = _valid(column) if counts is None else _valid(column) & counts
    if aggregate.verb == "sum":
        sums = np.zeros(len(firsts), np.int64)
        if not _add(groups, column.values.astype(np.int64), valid, sums):
            raise OverflowError
        has_value = np.bincount(groups[valid], minlength=len(firsts)) > 0
        return Column(kind, sums, None if has_value.all() else has_value)
    best = np.full(len(firsts), -1, np.int64)
    _best(groups, _comparable(column), valid, aggregate.verb == "max", best)
    if counts is not None:
        found = pa.array(best, mask=best < 0)
        return Column.from_arrow(kind, column.to_arrow().take(found))
    # Without a value any row of the group will do: all are null.
    return column.take(np.where(best < 0, firsts, best))


def _counting(aggregate: Aggregate, chunk: Chunk) -> Bools | None:
    """The rows that ``where`` lets through; None: all of them."""
    if not isinstance(aggregate.where, str):
        return None
    column = chunk.column(aggregate.where)
    counts: Bools = _valid(column) & column.values.astype(np.bool_)
    return counts


def _valid(column: Column) -> Bools:
    if not column.type.fixed_width:
        found: Bools = column.values.is_valid().to_numpy(zero_copy_only=False)
        return found
    return np.ones(len(column), np.bool_) if column.valid is None else column.valid


def _comparable(column: Column) -> Any:
    """Numbers that compare as the values do: int64 or float64; of texts their ranks in this chunk."""
    if column.type.kind is Kind.CATEGORY or not column.type.fixed_width:
        ranks = np.empty(len(column), np.int64)
        ranks[pc.sort_indices(column.to_arrow()).to_numpy()] = np.arange(len(column))
        return ranks
    return column.values if column.type.kind is Kind.FLOAT else column.values.astype(np.int64)


@njit
def _add(groups: Int64s, values: Int64s, valid: Bools, sums: Int64s) -> bool:
    """Adds the values of each group; False where a sum leaves 64 bits."""
    for row in range(len(groups)):
        if valid[row]:
            before, value = sums[groups[row]], values[row]
            after = before + value
            if (before ^ after) & (value ^ after) < 0:
                return False
            sums[groups[row]] = after
    return True


@njit
def _best(groups: Int64s, values: Any, valid: Bools, greatest: bool, best: Int64s) -> None:
    """The first row of each group with its least or greatest value, -1 where all are null; NaN is greater than all."""
    for row in range(len(groups)):
        held = best[groups[row]]
        if valid[row] and (held < 0 or _better(values[row], values[held], greatest)):
            best[groups[row]] = row


@njit
def _better(given: Any, held: Any, greatest: bool) -> Any:
    if greatest:
        return given > held or (given != given and held == held)
    return given < held or (held != held and given == given)
