"""Rows of any form as chunks of a source's record, and what becomes of those that do not fit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.chunks import Chunk, Column
from thalweg.columns.encoding import try_column
from thalweg.connectors.contracts import BadRow, Fed, Feed
from thalweg.connectors.readers import BadRow as Misfit
from thalweg.connectors.readers import Parsed, far_out, rows_from_table, times_within, without
from thalweg.connectors.readers.tables import THE_TABLE, check_types
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.fit_code import is_plain
from thalweg.flow.fields.reading import ReadRules
from thalweg.flow.operators.lanes import not_declared
from thalweg.flow.operators.nodes import Source
from thalweg.times import EXTREME


class Fitter:
    """The items of one input, one after the other: records, tuples, mappings, record batches, tables."""

    def __init__(self, source: Source, chunk_rows: int) -> None:
        self._source, self._chunk_rows = source, chunk_rows
        #: How many rows have come; the next one's place.
        self._arrived = 0
        #: The last table's columns, and where those of the record are among them.
        self._found: pa.Schema | None = None
        self._places: list[int] = []

    def chunks(self, items: Iterable[Any]) -> Feed:
        """The items in chunks of at most ``chunk_rows`` rows.

        Raises:
            DataError: a row does not fit, under ``errors="fail"``.
        """
        rows: list[Any] = []
        tables = _Tables()
        for item in items:
            if isinstance(item, (pa.RecordBatch, pa.Table)):
                if rows:
                    yield self._chunk(rows)
                    rows = []
                if not tables.takes(item, self._chunk_rows):
                    yield from self._table(tables.taken())
                tables.add(item)
                continue
            if tables:
                yield from self._table(tables.taken())
            rows.append(item)
            if len(rows) >= self._chunk_rows:
                yield self._chunk(rows)
                rows = []
        if rows:
            yield self._chunk(rows)
        elif tables:
            yield from self._table(tables.taken())

    def _chunk(self, rows: Sequence[Any]) -> Fed:
        """Rows as a chunk: by column where all of them fit, else one by one."""
        columns = fitting_columns(self._source, rows)
        if columns is not None:
            self._arrived += len(rows)
            return Chunk(self._source.record, columns, len(rows)), []
        good: list[Any] = []
        bad: list[BadRow] = []
        for row in rows:
            try:
                good.append(fitted(self._source, row))
            except (TypeError, KeyError) as error:
                misfit = (str(error), f"row {self._arrived}", repr(row)[:300])
                bad += kept(self._source, [misfit])
            self._arrived += 1
        return Chunk.from_rows(self._source.record, good), bad

    def _table(self, table: pa.Table) -> Feed:
        if table.schema != self._found:
            self._places = check_types(table.schema, self._source.record, THE_TABLE)
            self._found = table.schema
        for start in range(0, table.num_rows, self._chunk_rows):
            part = table.slice(start, self._chunk_rows)
            fitted = rows_from_table(part, self._source.record, self._arrived, self._places)
            yield part_chunk(self._source, fitted)
            self._arrived += part.num_rows


class _Tables:
    """Batches and tables that came one behind the other: small ones become one chunk, as a chunk has its price."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def takes(self, item: pa.RecordBatch | pa.Table, most_rows: int) -> bool:
        """Whether it has the columns of those that are there, and they have at most so many rows together."""
        if not self._batches:
            return True
        is_alike: bool = item.schema == self._batches[0].schema
        return is_alike and self._rows + item.num_rows <= most_rows

    def add(self, item: pa.RecordBatch | pa.Table) -> None:
        """One more."""
        self._batches += [item] if isinstance(item, pa.RecordBatch) else item.to_batches()
        self._rows += item.num_rows

    def taken(self) -> pa.Table:
        """All of them as one; none are left."""
        table = pa.Table.from_batches(self._batches)
        self._batches, self._rows = [], 0
        return table


def fitting_columns(source: Source, rows: Sequence[Any]) -> list[Column] | None:
    """The columns of rows that are records, tuples or dicts, if each fits and has a place in time; else None."""
    record, kinds = source.record, set(map(type, rows))
    if not record.fields:
        return None
    keys: Sequence[Any] = range(len(record.fields))
    getter: Any = operator.itemgetter
    if kinds == {dict}:
        keys = record.columns
    elif record.user is not None and record.user.form == "object" and kinds == {record.user.cls}:
        keys, getter = record.names, operator.attrgetter
    elif record.user is not None and kinds == {record.user.cls}:
        pass
    elif not kinds <= {record.cls, tuple} or set(map(len, rows)) != {len(keys)}:
        return None
    columns = []
    for field, key in zip(record.fields, keys, strict=True):
        try:
            values = list(map(getter(key), rows))
            made = _fitting_column(field.type, values, record.reading)
        except (KeyError, TypeError, AttributeError):
            return None
        if field.name == source.order_by and not _in_time(made):
            return None
        declared = source.lanes if field.name == source.lane else None
        if isinstance(declared, tuple) and not set(values) <= set(declared):
            return None
        columns.append(made)
    return columns


def _fitting_column(kind: FieldType, values: Sequence[Any], reading: ReadRules) -> Column:
    """The column of what an input gave.

    Raises:
        TypeError: a value does not fit.
    """
    epoch = reading.epoch_unit is not None and kind.kind is Kind.TIMESTAMP
    as_it_is = is_plain(kind) and kind.shape is None and not epoch
    made = try_column(kind, values) if as_it_is else None
    if made is not None:
        return made
    return Column.from_python(kind, [kind.take(one, reading) for one in values])


def _in_time(column: Column) -> bool:
    values = column.values
    return bool(len(values) == 0 or (values.max() <= EXTREME and values.min() >= -EXTREME))


def fitted(source: Source, row: Any) -> Any:
    """A row as the source's record, with a place in time.

    Raises:
        TypeError: a field does not fit, or the event time is too far out.
    """
    made = source.record.take(row)
    if source.order_by is not None and abs(getattr(made, source.order_by)) > EXTREME:
        raise TypeError(far_out(source.order_by, getattr(made, source.order_by)))
    if source.lane is not None and isinstance(source.lanes, tuple):
        lane = getattr(made, source.lane)
        if lane not in source.lanes:
            raise TypeError(not_declared(source.lane, lane, source.lanes))
    return made


def place_of(misfit: Misfit) -> str:
    """``line 3`` or ``row 2``."""
    return f"{misfit.unit} {misfit.position}"


def part_chunk(
    source: Source,
    part: Parsed,
    *,
    place: Callable[[Misfit], str] = place_of,
    unit: Literal["line", "row"] = "row",
) -> Fed:
    """A part of a table, a file or a connection as a chunk; ``unit`` is what its positions count.

    Raises:
        DataError: a row does not fit, under ``errors="fail"``.
    """
    part = with_places(source, part, unit)
    bad = [(one.reason, place(one), one.text) for one in part.bad]
    return Chunk.from_arrow(source.record, part.table), kept(source, bad)


def with_places(source: Source, part: Parsed, unit: Literal["line", "row"]) -> Parsed:
    """The part without rows that have no place in the source's order; those are bad rows."""
    if source.order_by is not None:
        part = times_within(part, source.order_by, unit)
    if source.lane is not None and isinstance(source.lanes, tuple):
        part = _lanes_within(part, source.lane, source.lanes, unit)
    return part


def _lanes_within(
    part: Parsed, name: str, lanes: tuple[Any, ...], unit: Literal["line", "row"]
) -> Parsed:
    """The part without rows of lanes that the source does not declare; those are bad rows."""
    column = part.table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    known = pc.is_in(column, pa.array(lanes, column.type)).to_numpy()
    if known.all():
        return part
    return without(part, known, lambda row: not_declared(name, column[row].as_py(), lanes), unit)


def kept(source: Source, bad: list[BadRow]) -> list[BadRow]:
    """The rows that do not fit, for the rejected stream.

    Raises:
        DataError: there is one, and the source says ``errors="fail"``.
    """
    if bad and source.errors == "fail":
        reason, position, text = bad[0]
        raise DataError(
            f"source {source.name!r}: {position} does not fit {source.record.name}: {reason}\n  row: {text}\n{GO_ON}"
        )
    return bad


def cut_fed(fed: Fed, rows: int) -> Feed:
    """A chunk as several of at most so many rows; what does not fit stands with the last."""
    chunk, bad = fed
    if len(chunk) <= rows:
        yield fed
        return
    for start in range(0, len(chunk), rows):
        stop = min(start + rows, len(chunk))
        yield chunk.slice(start, stop), bad if stop == len(chunk) else []


#: What to do about rows that do not fit.
GO_ON = (
    "  to go on without such rows, set errors='reject' on the source and read its .rejected stream"
)
