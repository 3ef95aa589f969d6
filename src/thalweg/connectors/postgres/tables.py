"""A table of PostgreSQL as a target has it: made, held against a record, and the statements that fill it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.connectors.postgres.connection import package
from thalweg.connectors.postgres.types import TableColumn, made, made_sql, takes
from thalweg.errors import BuildError
from thalweg.flow.records import Schema

#: The table that has the last batch of each query's sink.
BATCHES = "thalweg_batches"
_COLUMNS = """
select a.attname, t.typname, a.atttypmod, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.atthasdef or a.attidentity <> '' or a.attgenerated <> ''
from pg_attribute a join pg_type t on t.oid = a.atttypid
where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped order by a.attnum
"""


def identifier(name: str) -> Any:
    """``table`` or ``schema.table`` in SQL, as it is written."""
    return package().sql.Identifier(*name.split("."))


def beside(table: str, name: str) -> Any:
    """A table in the schema of another one."""
    return package().sql.Identifier(*table.split(".")[:-1], name)


class PgTable:
    """The statements for one table and record.

    Args:
        name: ``table`` or ``schema.table``.
        record: of the rows.
        key: fields by which a row replaces another; none: rows are added.
    """

    def __init__(self, name: str, record: Schema, key: Sequence[str]) -> None:
        self.name, self.record, self.key = name, record, tuple(key)
        self._sql = package().sql
        #: whether COPY may write into the table itself
        self.direct = False

    def make(self, connection: Any) -> None:
        """Makes the table where it is missing."""
        sql = self._sql
        parts = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(field.name),
                sql.SQL(made_sql(field.type)),
                sql.SQL("" if field.type.optional else " not null"),
            )
            for field in self.record.fields
        ]
        if self.key:
            parts.append(sql.SQL("primary key ({})").format(_names(sql, self.key)))
        statement = sql.SQL("create table if not exists {} ({})")
        connection.execute(statement.format(identifier(self.name), sql.SQL(", ").join(parts)))

    def check(self, connection: Any, where: str) -> None:
        """Refuses a table that does not take the record's rows.

        Raises:
            BuildError: it is missing, a column is, has another type or may not be null, or the key is not unique.
        """
        quoted = identifier(self.name).as_string(connection)
        found = [TableColumn(*one) for one in connection.execute(_COLUMNS, [quoted])]
        if not found:
            raise BuildError(f"{where}: there is no such table; create=True makes it")
        problems = self._problems(found)
        if problems:
            raise BuildError(
                f"{where}: its columns do not fit {self.record.name}:\n  " + "\n  ".join(problems)
            )
        types = {one.name: one.type for one in found}
        same = all(types[one.name] == made(one.type) for one in self.record.fields)
        self.direct = same and not self.key
        if self.key:
            self._check_key(connection, where)

    def _problems(self, found: Sequence[TableColumn]) -> list[str]:
        columns = {one.name: one for one in found}
        said = []
        for field in self.record.fields:
            column = columns.pop(field.name, None)
            if column is None:
                said.append(f"it has no column {field.name} ({made_sql(field.type)})")
            elif not takes(column, field.type):
                said.append(f"its column {field.name} is {column.shown}, the field {field.type}")
            elif column.required and field.type.optional:
                said.append(f"its column {field.name} is not null, the field may be None")
        for column in columns.values():
            if column.required and not column.filled:
                said.append(
                    f"it has a column {column.name} that is not null and has no default, and no field has that name"
                )
        return said

    def _check_key(self, connection: Any, where: str) -> None:
        errors = package().errors
        statement = self._sql.SQL("explain {}").format(self._upsert(self._nothing()))
        try:
            connection.execute(statement)
        except errors.InvalidColumnReference:
            names = ", ".join(self.key)
            raise BuildError(
                f"{where}: key is ({names}), and the table has no unique index of just these columns; make one:"
                f" create unique index on {self.name} ({names})"
            ) from None

    # -- rows --------------------------------------------------------------------------------------------

    def fill(self, connection: Any, parts: Any) -> None:
        """Brings the rows of a batch into the table, in the transaction that runs.

        Args:
            parts: of COPY's binary format.
        """
        if self.direct:
            self._copy(connection, identifier(self.name), parts)
            return
        sql, stage = self._sql, self._sql.Identifier("thalweg_stage")
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(made_sql(one.type)))
            for one in self.record.fields
        ]
        statement = sql.SQL("create temporary table {} ({}) on commit drop")
        connection.execute(statement.format(stage, sql.SQL(", ").join(columns)))
        self._copy(connection, stage, parts)
        rows = sql.SQL("select {} from {}").format(_names(sql, self.record.names), stage)
        connection.execute(self._upsert(rows))

    def _copy(self, connection: Any, into: Any, parts: Any) -> None:
        statement = self._sql.SQL("copy {} ({}) from stdin (format binary)")
        names = _names(self._sql, self.record.names)
        with connection.cursor().copy(statement.format(into, names)) as copy:
            for part in parts:
                copy.write(part)

    def _nothing(self) -> Any:
        nulls = (
            self._sql.SQL("null::{}").format(self._sql.SQL(made_sql(one.type)))
            for one in self.record.fields
        )
        return self._sql.SQL("select {} where false").format(self._sql.SQL(", ").join(nulls))

    def _upsert(self, rows: Any) -> Any:
        sql = self._sql
        insert = sql.SQL("insert into {} ({}) {}").format(
            identifier(self.name), _names(sql, self.record.names), rows
        )
        if not self.key:
            return insert
        others = [one for one in self.record.names if one not in self.key]
        sets = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(one)) for one in others]
        action = (
            sql.SQL("update set {}").format(sql.SQL(", ").join(sets))
            if sets
            else sql.SQL("nothing")
        )
        return sql.SQL("{} on conflict ({}) do {}").format(insert, _names(sql, self.key), action)


def _names(sql: Any, names: Sequence[str]) -> Any:
    return sql.SQL(", ").join(map(sql.Identifier, names))
