"""A table or a query of PostgreSQL as an input that ends: read by COPY, in its order."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from thalweg.checks import require_text
from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.fitting import part_chunk
from thalweg.connectors.logs import Positions
from thalweg.connectors.names import field_names
from thalweg.connectors.once import patiently
from thalweg.connectors.postgres import connection as pg
from thalweg.connectors.postgres.tables import identifier
from thalweg.connectors.readers import BadRow, rows_from_table
from thalweg.errors import BuildError, DataError
from thalweg.flow.field_types import Kind
from thalweg.flow.operators.nodes import Source
from thalweg.flow.records import Field

#: The one lane, whose positions are 0, before the rows, and 1, behind them.
_LANE: Final = "rows"
#: Bytes of CSV that are parsed at once.
_PART_BYTES: Final = 1 << 20
_CSV: Final = pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
#: What stands for a column in the query, by the name of its type and the kind of the field.
_MICROS: Final = "(extract(epoch from {0}) * 1000000)::bigint"
_EXPRESSIONS: Final[dict[Kind, dict[str, str]]] = {
    Kind.INT: {"int8": "{0}", "int4": "{0}", "int2": "{0}", "oid": "{0}::bigint"},
    Kind.FLOAT: {
        "float8": "{0}", "float4": "{0}", "numeric": "{0}::float8", "int4": "{0}", "int2": "{0}",
        "int8": "{0}::float8",
    },
    Kind.BOOL: {"bool": "{0}"},
    Kind.BYTES: {"bytea": "encode({0}, 'hex')"},
    Kind.TIMESTAMP: {
        "timestamptz": _MICROS, "timestamp": _MICROS, "date": _MICROS, "int8": "{0}",
    },
}  # fmt: skip
_PATIENCE_S: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class PostgresRows:
    """A table or query as an input; made by :func:`postgres`."""

    dsn: str = dataclasses.field(repr=False)
    table: str
    order_by: tuple[str, ...] = ()
    server: str = ""

    made_by = "tw.postgres(...)"
    follow = False
    max_rows: int | None = None

    @property
    def place(self) -> str:
        """For messages."""
        return f"postgresql://{self.server}"

    def check(self, source: Source) -> None:
        pass  # the columns are known when it is connected

    def open(self) -> PostgresRowsReader:
        pg.package()
        return PostgresRowsReader(self)


class PostgresRowsReader:
    """Reads a table or a query once."""

    def __init__(self, log: PostgresRows) -> None:
        self._log = log

    def begin(self) -> Positions:
        return {_LANE: 0}

    def end(self, since: Positions) -> Positions:
        return {_LANE: 1}

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        return end

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        if start.get(_LANE, 0) == end[_LANE]:
            return
        where, row = f"source {source.name!r}: {self._log.place}", 0
        with self._failures(where), contextlib.closing(self._connected()) as connection:
            statement = self._statement(connection, source, where)
            for table in _tables(connection, statement, source.record.fields, chunk_rows):
                if stop.is_set():
                    return
                part = rows_from_table(table, source.record, row)
                row += table.num_rows
                yield part_chunk(source, part, place=self._place_of)

    def close(self) -> None:
        pass  # a connection ends with its reading

    def _place_of(self, row: BadRow) -> str:
        return f"{self._log.place}: row {row.position}"

    def _connected(self) -> Any:
        settings = {"timezone": "UTC", "extra_float_digits": "1"}
        return patiently(lambda: pg.connect(self._log.dsn, **settings), pg.may_pass, _PATIENCE_S)

    @contextlib.contextmanager
    def _failures(self, where: str) -> Iterator[None]:
        psycopg = pg.package()
        try:
            yield
        except psycopg.DataError as error:
            raise DataError(f"{where}: {pg.essence(error)}") from error
        except psycopg.ProgrammingError as error:
            raise BuildError(f"{where}: {pg.essence(error)}") from error
        except psycopg.Error as error:
            raise pg.unreachable(where, error, _PATIENCE_S) from None

    def _statement(self, connection: Any, source: Source, where: str) -> Any:
        """The query of the record's columns, in forms that CSV holds exactly."""
        sql = pg.package().sql
        asked = self._log.table
        if " " in asked.strip():
            rows = sql.SQL("({})").format(sql.SQL(asked.strip().rstrip(";")))
        else:
            rows = identifier(asked)
        found = connection.execute(sql.SQL("select * from {} as given limit 0").format(rows))
        types = {
            one.name: connection.adapters.types.get(one.type_code) for one in found.description
        }
        columns = [
            _expression(sql, where, field, types, source.record.name)
            for field in source.record.fields
        ]
        order = sql.SQL("")
        if self._log.order_by:
            names = sql.SQL(", ").join(map(sql.Identifier, self._log.order_by))
            order = sql.SQL(" order by {}").format(names)
        return sql.SQL("copy (select {} from {} as given{}) to stdout (format csv)").format(
            sql.SQL(", ").join(columns), rows, order
        )


def _expression(sql: Any, where: str, field: Field, types: Any, record: str) -> Any:
    if field.name not in types:
        raise BuildError(
            f"{where}: there is no column {field.name}; {record} needs it, and there are {', '.join(types)}"
        )
    kind = types[field.name]
    name, is_array = (kind.name, False) if kind is not None else ("text", False)
    column = sql.Identifier("given", field.name)
    if field.type.kind in (Kind.STR, Kind.CATEGORY):
        return sql.SQL("{0}::text").format(column)
    if field.type.kind in (Kind.LIST, Kind.RECORD):
        return sql.SQL("to_json({0})::text").format(column)
    wanted = Kind.INT if field.type.kind is Kind.TIMER else field.type.kind
    form = _EXPRESSIONS[wanted].get(name)
    if form is None or is_array:
        known = ", ".join(_EXPRESSIONS[wanted])
        raise BuildError(
            f"{where}: column {field.name} is {name}, but {record}.{field.name} is {field.type}, which takes {known};"
            " cast it in a query"
        )
    return sql.SQL(form).format(column)


def _tables(
    connection: Any, statement: Any, fields: Sequence[Field], chunk_rows: int
) -> Iterator[pa.Table]:
    held: list[bytes] = []
    size = 0
    with connection.cursor().copy(statement) as copy:
        for row in copy:
            held.append(bytes(row))
            size += len(row)
            if size >= _PART_BYTES or len(held) >= chunk_rows:
                yield _parsed(b"".join(held), fields)
                held, size = [], 0
    if held:
        yield _parsed(b"".join(held), fields)


def _parsed(text: bytes, fields: Sequence[Field]) -> pa.Table:
    """Rows of CSV as PostgreSQL writes it: a null is nothing, an empty text two quotes."""
    names = [one.name for one in fields]
    convert = pacsv.ConvertOptions(
        column_types={one.name: _cell_type(one) for one in fields},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["t"],
        false_values=["f"],
    )
    read = pacsv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False)
    table = pacsv.read_csv(io.BytesIO(text), read, _CSV, convert)
    for place, field in enumerate(fields):
        made = _MADE.get(field.type.kind)
        if made is not None:
            table = table.set_column(
                place, field.name, made(field, table.column(place).to_pylist())
            )
    return table


def _cell_type(field: Field) -> pa.DataType:
    kind = field.type.kind
    if kind in (Kind.INT, Kind.TIMER, Kind.TIMESTAMP):
        return pa.int64()
    return {Kind.FLOAT: pa.float64(), Kind.BOOL: pa.bool_()}.get(kind, pa.string())


def _bytes(field: Field, texts: list[str | None]) -> pa.Array:
    return pa.array([None if one is None else bytes.fromhex(one) for one in texts], pa.binary())


def _json(field: Field, texts: list[str | None]) -> pa.Array:
    try:
        values = [None if one is None else orjson.loads(one) for one in texts]
        return pa.array(values, field.type.arrow)
    except (orjson.JSONDecodeError, pa.ArrowException, OverflowError, TypeError) as error:
        raise DataError(
            f"column {field.name} is JSON that does not fit {field.type}: {error}"
        ) from None


_MADE: Final[dict[Kind, Callable[[Field, list[Any]], pa.Array]]] = {
    Kind.BYTES: _bytes,
    Kind.LIST: _json,
    Kind.RECORD: _json,
}


def postgres(dsn: str, table: str, *, order_by: str | Sequence[str] | None = None) -> PostgresRows:
    """Reads a table or a query of PostgreSQL once, by COPY, as the input of a source.

    It is read in one statement, as it is then; a query on Spark that is started again reads it again. Needs the
    package psycopg (``pip install 'thalweg[postgres]'``).

    Args:
        dsn: ``postgresql://user@host:5432/database``, or ``key=value`` pairs; what is missing comes from PG… variables.
        table: ``table``, ``schema.table``, or a query (what has a space in it).
        order_by: columns by which the rows come; None: as the server gives them.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("postgres", dsn=dsn, table=table)
    return PostgresRows(
        dsn, table, field_names("postgres", "order_by", order_by), pg.server_of(dsn)
    )
