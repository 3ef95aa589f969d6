"""A table of PostgreSQL as an output: a batch is a transaction, and its number is a row of the same transaction.

The row lies in a table ``thalweg_batches`` beside the target and is locked while a batch is written, so that of two
processes that write the same batches the second waits, sees what the first did, and ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.checks import known_keywords, require_flag, require_text
from thalweg.connectors.names import check_field, field_names
from thalweg.connectors.once import Left, Numbers, last_of_each, shown_row
from thalweg.connectors.postgres import connection as pg
from thalweg.connectors.postgres.copying import NoJson, copy_parts
from thalweg.connectors.postgres.tables import BATCHES, PgTable, beside
from thalweg.connectors.postgres.types import check_record
from thalweg.connectors.waiting import patience_of
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Sink

#: Kinds that an index tells apart as Python does.
_KEYS: Final = (
    Kind.INT, Kind.BOOL, Kind.STR, Kind.CATEGORY, Kind.BYTES, Kind.TIMESTAMP, Kind.TIMER,
)  # fmt: skip
#: The same of Python's own types; JSON has many texts for one value.
_KEY_SHAPES: Final = ("date", "timedelta", "Decimal", "datetime")
_MINE: Final = "query = %s and sink = %s and target = %s"
_LINE: Final = re.compile(r"COPY .*, line (\d+)")


@dataclasses.dataclass(frozen=True, slots=True)
class PostgresTarget:
    """A table that batches are added to or merged into; made by :func:`to_postgres`."""

    dsn: str = dataclasses.field(repr=False)
    table: str
    key: tuple[str, ...] = ()
    create: bool = True
    patience_s: float = 60.0
    server: str = ""

    made_by = "tw.to_postgres(...)"

    @property
    def place(self) -> str:
        return f"postgresql://{self.server}/{self.table}"

    def check(self, sink: Sink) -> None:
        where = f"sink {sink.name!r}: {self.made_by}"
        check_record(where, sink.record)
        for name in self.key:
            check_field(f"{where}: key", sink.record, name, _KEYS, _KEY_SHAPES, optional=False)

    def open(self, sink: Sink, query: str) -> PostgresWriter:
        pg.package()
        writer = PostgresWriter(self, sink, query)
        try:
            pg.answered(self.place, self.patience_s, writer.prepare)
        except pg.package().Error as error:
            writer.close()
            raise pg.unreachable(self.place, error) from None
        except BaseException:
            writer.close()
            raise
        return writer


class PostgresWriter:
    """Writes the batches of one sink to a table."""

    def __init__(self, target: PostgresTarget, sink: Sink, query: str) -> None:
        self._target, self._sink = target, sink
        self._where = f"sink {sink.name!r}: {target.place}"
        self._id = (query, sink.name, target.table)
        self._numbers = Numbers(target.place)
        self._table = PgTable(target.table, sink.record, target.key)
        self._connection: Any = None

    def prepare(self) -> None:
        """Makes what is missing, and holds the table against the record."""
        connection = self._connected()
        with connection.transaction():
            # Of two sessions that make one table at the same time, one would fail.
            connection.execute("select pg_advisory_xact_lock(hashtext('thalweg'))")
            if self._target.create:
                self._table.make(connection)
            connection.execute(self._sql(
                "create table if not exists {} (query text, sink text, target text, batch bigint,"
                " writer text, at timestamptz, primary key (query, sink, target))"
            ))  # fmt: skip
            self._table.check(connection, self._where)

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes a batch in one transaction.

        Raises:
            DataError: the server refuses a row; names it.
            EnvironmentProblem: it cannot be reached, or another process writes the same batches.
        """
        if self._target.key:
            table = last_of_each(table, self._target.key)
        psycopg = pg.package()
        try:
            pg.answered(
                self._target.place, self._target.patience_s, lambda: self._try(batch, table)
            )
        except NoJson as error:
            raise self._refused(batch, table, error.row, str(error)) from None
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            row = self._culprit(table, error)
            raise self._refused(batch, table, row, pg.essence(error)) from error
        except psycopg.Error as error:
            raise pg.unreachable(self._target.place, error) from None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = pg.connect(
                self._target.dsn,
                lock_timeout=str(int(1000 * min(pg.LOCK_S, self._target.patience_s))),
                synchronous_commit="on",  # a commit that is told may not be lost
                timezone="UTC",
            )
        return self._connection

    def _try(self, batch: int, table: pa.Table) -> None:
        connection = self._connected()
        with connection.transaction():
            if not self._numbers.is_new(batch, self._found(connection)):
                return
            self._table.fill(connection, copy_parts(self._sink.record, table))
            connection.execute(
                self._sql(f"update {{}} set batch = %s, writer = %s, at = now() where {_MINE}"),
                [batch, self._numbers.writer, *self._id],
            )
        self._numbers.note(batch)

    def _found(self, connection: Any) -> Left | None:
        """The last batch that the table has; its row stays locked until the transaction ends."""
        asked = self._sql(f"select batch, writer from {{}} where {_MINE} for update")
        row = connection.execute(asked, self._id).fetchone()
        if row is None:
            made = self._sql(
                "insert into {} (query, sink, target) values (%s, %s, %s) on conflict do nothing"
            )
            connection.execute(made, self._id)
            row = connection.execute(asked, self._id).fetchone()
        return None if row is None or row[0] is None else Left(*row)

    def _sql(self, text: str) -> Any:
        """A statement about the table of batches."""
        return pg.package().sql.SQL(text).format(beside(self._target.table, BATCHES))

    # -- rows that the server refuses ---------------------------------------------------------------------

    def _refused(self, batch: int, table: pa.Table, row: int | None, said: str) -> DataError:
        if row is None or row >= table.num_rows:
            return DataError(f"{self._where}: batch {batch} is refused: {said}")
        return DataError(
            f"{self._where}: batch {batch}, row {row} is refused: {said}\n  row: {shown_row(table, row)}"
        )

    def _culprit(self, table: pa.Table, error: Any) -> int | None:
        """The first row with which the batch is refused: as COPY says, or found by halving."""
        line = _LINE.search(error.diag.context or "")
        if line is not None:
            return int(line[1]) - 1
        good, bad = 0, table.num_rows
        try:
            while bad - good > 1:
                half = (good + bad) // 2
                good, bad = (good, half) if self._is_refused(table.slice(0, half)) else (half, bad)
        except pg.package().Error:
            return None  # another error than before: it cannot be said
        return good

    def _is_refused(self, table: pa.Table) -> bool:
        psycopg, connection = pg.package(), self._connected()
        try:
            with connection.transaction(force_rollback=True):
                self._table.fill(connection, copy_parts(self._sink.record, table))
        except (psycopg.DataError, psycopg.IntegrityError):
            return True
        return False


@known_keywords
def to_postgres(
    dsn: str,
    table: str,
    *,
    key: str | Sequence[str] | None = None,
    create: bool = True,
    patience: str | datetime.timedelta = "1 minute",
) -> PostgresTarget:
    """Writes a sink's rows to a table of PostgreSQL, each batch once, in every host.

    Needs the package psycopg (``pip install 'thalweg[postgres]'``). A batch is one transaction, with a row of a table
    ``thalweg_batches`` beside the target.

    Args:
        dsn: ``postgresql://user@host:5432/database``, or ``key=value`` pairs; what is missing comes from PG… variables.
        table: ``table`` or ``schema.table``, as it is written, case and all.
        key: fields by which a row takes the place of another, the last one of a batch; None: rows are added.
        create: whether a table that is missing is made.
        patience: how long a batch is tried again while the server restarts or others are in the way.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("to_postgres", dsn=dsn, table=table)
    require_flag("to_postgres", create=create)
    keys = field_names("to_postgres", "key", key)
    return PostgresTarget(
        dsn, table, keys, create, patience_of("to_postgres", patience), pg.server_of(dsn)
    )
