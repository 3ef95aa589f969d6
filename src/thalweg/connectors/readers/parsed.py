"""What reading gives: tables of good rows with their positions, and the rows that do not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.brief import brief_repr
from thalweg.errors import DataError
from thalweg.flow.fields.reading import renamed
from thalweg.flow.records import Schema
from thalweg.times import EXTREME

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: A bad row's text is cut to this many characters.
TEXT_LIMIT: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class BadRow:
    """A row that does not fit its record.

    ``position`` counts lines from 1 or rows from 0, as ``unit`` says; ``text`` is the row's beginning.
    """

    position: int
    reason: str
    text: str
    unit: Literal["line", "row"] = "line"


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """A part of a file, in file order.

    ``table`` has exactly the record's columns with the types of ``Schema.arrow``, except that a Category
    may be dictionary-encoded. ``positions[i]`` is where its row i starts. Both ``positions`` and
    ``bad`` ascend, and no position is in both.
    """

    table: pa.Table
    positions: Int64s
    bad: list[BadRow] = dataclasses.field(default_factory=list)
    #: Columns of the file that the record does not have.
    extra_columns: tuple[str, ...] = ()


def bad_row(position: int, reason: str, text: str | bytes) -> BadRow:
    """A BadRow of a line, its text cut and made printable."""
    if isinstance(text, bytes):
        text = text[: 4 * TEXT_LIMIT].decode("utf-8", "replace")
    return BadRow(position, reason, text.rstrip("\r\n")[:TEXT_LIMIT])


def describe_bad(path: str, bad: BadRow) -> str:
    """The bad row in one line of text.

    Example::

        >>> describe_bad("events.jsonl", BadRow(3, "not JSON: Expecting value at column 1", "oops"))
        'events.jsonl line 3: not JSON: Expecting value at column 1'
    """
    reason = "".join(c if c.isprintable() else repr(c)[1:-1] for c in bad.reason)
    return f"{path} {bad.unit} {bad.position}: {reason}"


def quoted(value: Any) -> str:
    """A value as reasons show it: its repr, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def cut(part: Parsed, rows: int) -> Iterator[Parsed]:
    """The part in pieces of at most that many good rows, each bad row with the piece it lies in."""
    if part.table.num_rows <= rows:
        if part.table.num_rows or part.bad:
            yield part
        return
    bad_at = np.array([one.position for one in part.bad], np.int64)
    done = 0
    for start in range(0, part.table.num_rows, rows):
        stop = start + rows
        last = stop >= part.table.num_rows
        until = len(part.bad) if last else int(np.searchsorted(bad_at, part.positions[stop]))
        yield Parsed(
            part.table.slice(start, rows),
            part.positions[start:stop],
            part.bad[done:until],
            part.extra_columns,
        )
        done = until


def times_within(part: Parsed, name: str, unit: Literal["line", "row"] = "row") -> Parsed:
    """The part without rows whose event time is too far out for arithmetic; those are bad rows."""
    column = part.table.column(name)
    times = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    ends = pc.min_max(times)
    if not part.table.num_rows or (
        not times.null_count and ends["min"].as_py() >= -EXTREME and ends["max"].as_py() <= EXTREME
    ):
        return part
    good = pc.and_(pc.greater_equal(times, -EXTREME), pc.less_equal(times, EXTREME))
    kept = good.fill_null(False).to_numpy()
    return without(part, kept, lambda row: far_out(name, times[row].as_py()), unit)


def without(
    part: Parsed, kept: Bools, reason: Callable[[int], str], unit: Literal["line", "row"] = "row"
) -> Parsed:
    """The part with the rows that are kept; the others are bad rows, for a reason each."""
    bad = [
        BadRow(int(part.positions[row]), reason(row), _shown(part, row), unit)
        for row in np.flatnonzero(~kept).tolist()
    ]
    everything = sorted([*part.bad, *bad], key=lambda one: one.position)
    table = part.table.filter(pa.array(kept))
    return Parsed(table, part.positions[kept], everything, part.extra_columns)


def _shown(part: Parsed, row: int) -> str:
    cells = [f"{name}={part.table.column(name)[row]}" for name in part.table.column_names]
    return ", ".join(cells)[:TEXT_LIMIT]


def far_out(name: str, time: int | None) -> str:
    """Why a row has no place in time."""
    return f"{name} is {time}, but times lie between -2**62 and 2**62"


def find_columns(where: str, found: list[str], schema: Schema) -> list[int]:
    """The place of each of the record's columns among those found, by name.

    Raises:
        DataError: one is missing or stands there twice; names it and lists what was found.
    """
    places = []
    for field, name in zip(schema.names, schema.columns, strict=True):
        count = found.count(name)
        if count == 0:
            others = [one for one in found if one not in schema.columns] or found
            raise DataError(
                f"{where}: column {name} missing (found {_listed(others)}); {schema} needs it"
                f"{renamed(field, others)}"
            )
        if count > 1:
            raise DataError(f"{where}: column {name} appears {count} times")
        places.append(found.index(name))
    return places


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:20]) or "no columns"
    return f"{shown}, ... {len(names)} in all" if len(names) > 20 else shown
