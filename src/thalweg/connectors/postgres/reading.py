"""A table or a query of PostgreSQL as an input that ends: read by COPY, in its order."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from typing import Any, Final

from thalweg.checks import known_keywords, require_text
from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.fitting import part_chunk
from thalweg.connectors.logs import Positions
from thalweg.connectors.names import field_names
from thalweg.connectors.postgres import connection as pg
from thalweg.connectors.postgres.parsing import parsed
from thalweg.connectors.postgres.tables import identifier
from thalweg.connectors.postgres.values import TEXT_SETTINGS
from thalweg.connectors.readers import BadRow
from thalweg.connectors.waiting import patience_of
from thalweg.errors import BuildError, DataError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.nodes import Source
from thalweg.flow.records import Field

#: The one lane, whose positions are 0, before the rows, and 1, behind them.
_LANE: Final = "rows"
#: Bytes of CSV that are parsed at once.
_PART_BYTES: Final = 1 << 20
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
#: The same for what users see as Python's own types.
_SHAPED: Final = {
    "date": dict.fromkeys(("date",), "{0}::text"),
    "timedelta": dict.fromkeys(("interval",), "{0}::text"),
    "Decimal": dict.fromkeys(("numeric", "int8", "int4", "int2"), "{0}::text"),
}
#: Columns that hold JSON as text; of others the server makes it.
_JSON_TEXTS: Final = ("json", "jsonb", "text", "varchar")


@dataclasses.dataclass(frozen=True, slots=True)
class PostgresRows:
    """A table or query as an input; made by :func:`postgres`."""

    dsn: str = dataclasses.field(repr=False)
    table: str
    order_by: tuple[str, ...] = ()
    server: str = ""
    patience_s: float = 60.0

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
            for text in _texts(connection, statement, chunk_rows):
                if stop.is_set():
                    return
                rows, part = parsed(text, source.record, row)
                row += rows
                yield part_chunk(source, part, place=self._place_of)

    def close(self) -> None:
        pass  # a connection ends with its reading

    def _place_of(self, row: BadRow) -> str:
        return f"{self._log.place}: row {row.position}"

    def _connected(self) -> Any:
        return pg.answered(
            self._log.place,
            self._log.patience_s,
            lambda: pg.connect(self._log.dsn, **TEXT_SETTINGS),
        )

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
            raise pg.unreachable(where, error) from None

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
    if _is_text(field.type, name) and not (is_array and field.type.shape is not None):
        return sql.SQL("{0}::text").format(column)
    if field.type.kind in (Kind.LIST, Kind.RECORD, Kind.STR):
        return sql.SQL("to_json({0})::text").format(column)
    forms = _forms(field.type)
    form = forms.get(name)
    if form is None or is_array:
        known = ", ".join(forms)
        raise BuildError(
            f"{where}: column {field.name} is {name}, but {record}.{field.name} is {field.type}, which takes {known};"
            " cast it in a query"
        )
    return sql.SQL(form).format(column)


def _is_text(kind: FieldType, column: str) -> bool:
    """Whether a column's text is what the field is read from."""
    texts = kind.kind in (Kind.STR, Kind.CATEGORY)
    return texts and (kind.shape is None or column in _JSON_TEXTS)


def _forms(kind: FieldType) -> dict[str, str]:
    """What stands for a column of each type that a field takes."""
    if kind.shape is not None and kind.kind is not Kind.TIMESTAMP:
        return _SHAPED[kind.shape.name]
    return _EXPRESSIONS[Kind.INT if kind.kind is Kind.TIMER else kind.kind]


def _texts(connection: Any, statement: Any, chunk_rows: int) -> Iterator[bytes]:
    """The rows as CSV, in parts."""
    held: list[bytes] = []
    size = 0
    with connection.cursor().copy(statement) as copy:
        for row in copy:
            held.append(bytes(row))
            size += len(row)
            if size >= _PART_BYTES or len(held) >= chunk_rows:
                yield b"".join(held)
                held, size = [], 0
    if held:
        yield b"".join(held)


@known_keywords
def postgres(
    dsn: str,
    table: str,
    *,
    order_by: str | Sequence[str] | None = None,
    patience: str | datetime.timedelta = "1 minute",
) -> PostgresRows:
    """Reads a table or a query of PostgreSQL once, by COPY, as the input of a source.

    It is read in one statement, as it is then; a query on Spark that is started again reads it again. Needs the
    package psycopg (``pip install 'thalweg[postgres]'``).

    Args:
        dsn: ``postgresql://user@host:5432/database``, or ``key=value`` pairs; what is missing comes from PG… variables.
        table: ``table``, ``schema.table``, or a query (what has a space in it).
        order_by: columns by which the rows come; None: as the server gives them.
        patience: how long a server that does not answer is waited for.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("postgres", dsn=dsn, table=table)
    names = field_names("postgres", "order_by", order_by)
    return PostgresRows(dsn, table, names, pg.server_of(dsn), patience_of("postgres", patience))
