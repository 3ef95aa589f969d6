"""The changes of PostgreSQL's tables as a log: logical replication, read by SQL functions.

A slot on the server keeps what was not confirmed yet. It is not read itself: a reader makes a temporary copy of it in
its own session and advances that, so that readers are never in each other's way, and what a host has not committed
can be read again. The slot is advanced behind what the host has committed.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from thalweg.checks import known_keywords, one_of, require_count, require_flag, require_text
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import BadRow, Feed, Stop
from thalweg.connectors.fitting import fitted, kept
from thalweg.connectors.logs import Positions
from thalweg.connectors.postgres import connection as pg
from thalweg.connectors.postgres.pgoutput import RowChange, changes, commit_of
from thalweg.connectors.postgres.values import TEXT_SETTINGS, row_of
from thalweg.connectors.waiting import PeerWait, answered, patience_of
from thalweg.errors import BuildError, DataError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Source

T = TypeVar("T")
Confirm = Literal["commit", "read"]

_LANE: Final = "slot"
#: Log of others' tables, in bytes, that is passed by before positions follow, so that the slot can.
_PASSED_BYTES: Final = 16 << 20
#: Fields that say something of a change; other fields are the row's.
_ABOUT: Final = ("op", "table", "lsn", "xid", "committed_at", "number")
_IMAGES: Final = ("before", "after")
_PEEK: Final = (
    "select data from pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s, 'proto_version', '1',"
    " 'publication_names', %s)"
)


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes a place in its log: ``0/16B3748``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """From PostgreSQL's form."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


@dataclasses.dataclass(frozen=True, slots=True)
class PostgresChanges:
    """The changes of a publication as an input; made by :func:`postgres_changes`."""

    dsn: str = dataclasses.field(repr=False)
    publication: str
    slot: str
    table: str | None = None
    follow: bool = True
    create: bool = True
    confirm: Confirm = "commit"
    max_rows: int | None = 100_000
    server: str = ""
    patience_s: float = 60.0

    made_by = "tw.postgres_changes(...)"

    @property
    def place(self) -> str:
        """For messages."""
        return f"postgresql://{self.server} slot {self.slot}"

    def check(self, source: Source) -> None:
        for name in _IMAGES:
            if name in source.record.names:
                kind = source.record.field(name).type
                if kind.kind is not Kind.RECORD or not kind.optional:
                    raise BuildError(
                        f"input {source.name!r}: {self.made_by}: field {name} is {kind}; expected a record of the"
                        " table's columns, or None"
                    )

    def open(self) -> ChangesReader:
        pg.package()
        return ChangesReader(self)


class _Held(NamedTuple):
    """Messages that were read from a place to another."""

    start: int
    end: int
    messages: list[bytes]


class ChangesReader:
    """Reads the changes of one slot."""

    def __init__(self, log: PostgresChanges) -> None:
        self._log = log
        self._connection: Any = None
        self._copy = ""
        #: where the copy of the slot is; nothing of ours lies from ``_since`` to there
        self._at = self._since = 0
        self._held: _Held | None = None

    def begin(self) -> Positions:
        return {_LANE: self._patiently(self._confirmed)}

    def end(self, since: Positions) -> Positions:
        return {_LANE: self._patiently(lambda: self._end(int(since.get(_LANE, 0))))}

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        first, last = int(start[_LANE]), int(end[_LANE])
        if first >= last:
            return {_LANE: first}
        held = self._patiently(lambda: self._peeked(first, last, rows))
        self._held = held
        return {_LANE: held.end}

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        first, last = int(start[_LANE]), int(end[_LANE])
        if first >= last:
            return
        if self._log.confirm == "read":
            self.confirm(start)
        held, self._held = self._held, None
        if held is None or held[:2] != (first, last):
            held = self._patiently(lambda: self._peeked(first, last, None))
        rows: list[Any] = []
        bad: list[BadRow] = []
        for change in changes(held.messages):
            if self._log.table in (None, change.table, change.table.removeprefix("public.")):
                self._take(source, change, rows, bad)
            if len(rows) + len(bad) >= chunk_rows:
                if stop.is_set():
                    return
                yield Chunk.from_rows(source.record, rows), bad
                rows, bad = [], []
        if rows or bad:
            yield Chunk.from_rows(source.record, rows), bad

    def confirm(self, upto: Positions) -> None:
        """Lets the server forget what lies before a place: the host asks for nothing of it again."""
        self._patiently(lambda: self._advance(self._log.slot, int(upto[_LANE])))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        self._copy = ""
        if connection is not None:
            connection.close()

    # -- rows --------------------------------------------------------------------------------------------

    def _take(self, source: Source, change: RowChange, rows: list[Any], bad: list[BadRow]) -> None:
        try:
            rows.append(fitted(source, _fields(source, change)))
        except (TypeError, KeyError, ValueError) as error:
            place = f"{self._log.place}: {change.op} of {change.table} at {lsn_text(change.lsn)}"
            bad += kept(source, [(str(error), place, repr(change.after or change.before)[:300])])

    # -- the server --------------------------------------------------------------------------------------

    def _patiently(self, call: Callable[[], T]) -> T:
        psycopg = pg.package()
        try:
            wait = PeerWait(self._log.place, self._log.patience_s)
            return answered(wait, call, self._may_pass, pg.essence)
        except psycopg.Error as error:
            raise pg.unreachable(self._log.place, error) from None

    def _may_pass(self, error: Exception) -> bool:
        if self._connection is not None and self._connection.closed:
            self._connection, self._copy = None, ""
        return pg.may_pass(error)

    def _one(self, statement: str, *values: Any) -> Any:
        """The first value of a statement's row; None where there is no row."""
        if self._connection is None or self._connection.closed:
            self._copy = ""
            self._connection = pg.connect(self._log.dsn, **TEXT_SETTINGS)
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None else row[0]

    def _confirmed(self) -> int:
        """Where the slot is; it is made where it is missing.

        Raises:
            BuildError: there is no such publication, or no such slot.
        """
        log = self._log
        if self._one("select 1 from pg_publication where pubname = %s", log.publication) is None:
            raise BuildError(
                f"{log.place}: there is no publication {log.publication}; make it:"
                f" create publication {log.publication} for table …"
            )
        asked = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
        found = self._one(asked, log.slot)
        if found is None:
            if not log.create:
                raise BuildError(f"{log.place}: there is no such slot; create=True makes it")
            made = "select lsn::text from pg_create_logical_replication_slot(%s, 'pgoutput')"
            found = self._one(made, log.slot)
        return lsn_of(found)

    def _end(self, since: int) -> int:
        """The end of the server's log, or ``since`` where nothing of ours lies between."""
        last = lsn_of(self._one("select pg_current_wal_flush_lsn()::text"))
        if last <= since or not since:
            return max(last, since)
        if self._peeked(since, last, 1).messages:
            return last
        self._advance(self._copy, last)
        self._since, self._at = min(self._since, since), last
        return last if last - since > _PASSED_BYTES else since

    def _peeked(self, start: int, end: int, rows: int | None) -> _Held:
        """The messages of the transactions that were committed between two places, of the first ones about so many.

        Raises:
            DataError: the server does not have them any more.
        """
        self._come_to(start)
        values = [self._copy, lsn_text(end), rows, self._log.publication]
        found = self._connection.execute(_PEEK, values, binary=True).fetchall()
        messages, commit = [], 0
        for (data,) in found:
            data = bytes(data)
            if data[:1] == b"B":
                commit = commit_of(data)
            if commit < start:
                continue
            if commit >= end:
                break
            messages.append(data)
        whole = rows is None or len(found) < rows or commit >= end
        return _Held(start, end if whole else max(start, commit + 1), messages)

    def _come_to(self, start: int) -> None:
        """Brings this session's copy of the slot to a place."""
        if not self._copy or start < self._since:
            self._make_copy(start)
        if start > self._at:
            self._advance(self._copy, start)
            self._at = self._since = start

    def _make_copy(self, start: int) -> None:
        confirmed = self._confirmed()
        if confirmed > start:
            raise DataError(
                f"{self._log.place}: it is at {lsn_text(confirmed)}, and reading was to go on at {lsn_text(start)}:"
                " what lies between was confirmed by another reader, or the slot was made anew.\n"
                "Begin anew, with a new checkpoint and a copy of the table."
            )
        if self._copy:
            self._one("select pg_drop_replication_slot(%s)", self._copy)
        copy = f"thalweg_{uuid.uuid4().hex[:16]}"
        self._one(
            "select lsn from pg_copy_logical_replication_slot(%s, %s, true)", self._log.slot, copy
        )
        self._copy, self._at, self._since = copy, confirmed, confirmed

    def _advance(self, slot: str, upto: int) -> None:
        found = self._one(
            "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s", slot
        )
        if found is not None and lsn_of(found) < upto:
            self._one(
                "select 1 from pg_replication_slot_advance(%s, %s::pg_lsn)", slot, lsn_text(upto)
            )


def _fields(source: Source, change: RowChange) -> dict[str, Any]:
    """The fields of a source's record from a change.

    Raises:
        ValueError: a value does not fit.
    """
    record, found = source.record, change._asdict()
    row: Mapping[str, Any] = change.after or change.before or {}
    out = row_of(record, row)
    out |= {name: found[name] for name in _ABOUT if name in record.names}
    for name in _IMAGES:
        if name in record.names:
            inner = record.field(name).type.record
            assert inner is not None
            out[name] = None if found[name] is None else row_of(inner, found[name])
    return out


@known_keywords
def postgres_changes(
    dsn: str,
    publication: str,
    *,
    slot: str,
    table: str | None = None,
    follow: bool = True,
    create: bool = True,
    confirm: Confirm = "commit",
    max_rows: int | None = 100_000,
    patience: str | datetime.timedelta = "1 minute",
) -> PostgresChanges:
    """Reads the changes of PostgreSQL's tables as the input of a source: logical replication by pgoutput.

    Fields named ``op`` (``insert``, ``update``, ``delete``, ``truncate``), ``table``, ``lsn``, ``xid``,
    ``committed_at`` and ``number`` (in its transaction) say what happened; ``before`` and ``after``, records or None,
    are the row then; other fields are columns of the row after the change, or of the one that is deleted. Changes come
    in the order of the commits, transactions as a whole. Needs ``wal_level=logical`` and the package psycopg.

    Args:
        dsn: ``postgresql://user@host:5432/database``, of a user who may replicate.
        publication: that has the tables.
        slot: keeps on the server what was not confirmed; one for each flow.
        table: ``schema.table``: only its changes; None: of all tables of the publication.
        follow: whether changes to come are read, too.
        create: whether a slot that is missing is made; then changes count from there on.
        confirm: when the server may forget: ``"commit"``: what a host has committed (Spark does; ``tw.run`` commits
            nothing, so that the slot stays), or ``"read"``: what was read, which a crash loses.
        max_rows: about how many changes are read at once, in whole transactions.
        patience: how long a server that does not answer is waited for.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("postgres_changes", dsn=dsn, publication=publication, slot=slot)
    require_flag("postgres_changes", follow=follow, create=create)
    if table is not None:
        require_text("postgres_changes", table=table)
    confirm = one_of("postgres_changes", "confirm", confirm, get_args(Confirm))
    if max_rows is not None:
        require_count("postgres_changes: max_rows", max_rows)
    return PostgresChanges(
        dsn, publication, slot, table, follow, create, confirm, max_rows, pg.server_of(dsn),
        patience_of("postgres_changes", patience),
    )  # fmt: skip
