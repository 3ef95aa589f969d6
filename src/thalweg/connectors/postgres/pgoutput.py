"""The messages of PostgreSQL's plugin pgoutput, version 1, as changes of rows.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

#: Microseconds from 1970 to 2000, where PostgreSQL's times begin.
_EPOCH_US: Final = 946_684_800_000_000
OPS: Final = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}


class Unchanged:
    """In place of a large value that an update left as it was: the log does not have it."""


#: A row as texts by column; None is null.
Row = Mapping[str, Any]


class RowChange(NamedTuple):
    """What happened to a row."""

    op: str
    table: str
    #: where its transaction was committed
    lsn: int
    xid: int
    #: when it was committed, in microseconds since 1970
    committed_at: int
    #: which one it is in its transaction
    number: int
    before: Row | None
    after: Row | None


class _Relation(NamedTuple):
    table: str
    columns: list[str]


class _Cursor:
    """Reads a message from its first byte on."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, form: str) -> Any:
        values = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return values[0] if len(values) == 1 else values

    def char(self) -> str:
        return chr(self.take("B"))

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def commit_of(begin: bytes) -> int:
    """Where the transaction is committed that a message begins."""
    return int.from_bytes(begin[1:9], "big")


def changes(messages: Iterable[bytes]) -> Iterator[RowChange]:
    """The changes of transactions that are there as a whole, in the order of their commits."""
    relations: dict[int, _Relation] = {}
    lsn = at = xid = number = 0
    for data in messages:
        message = _Cursor(data)
        kind = message.char()
        if kind == "B":
            lsn, at, xid = message.take("qqi")
            at, number = at + _EPOCH_US, 0
        elif kind == "R":
            oid, relation = _relation(message)
            relations[oid] = relation
        elif kind == "T":
            many, _ = message.take("iB")
            for oid in [message.take("I") for _ in range(many)]:
                yield RowChange(OPS[kind], relations[oid].table, lsn, xid, at, number, None, None)
                number += 1
        elif kind in OPS:
            relation = relations[message.take("I")]
            before, after = _rows(message, kind, relation)
            yield RowChange(OPS[kind], relation.table, lsn, xid, at, number, before, after)
            number += 1


def _relation(message: _Cursor) -> tuple[int, _Relation]:
    oid = message.take("I")
    schema, name = message.text(), message.text()
    _, many = message.take("BH")
    columns = []
    for _ in range(many):
        message.take("B")
        columns.append(message.text())
        message.take("Ii")
    return oid, _Relation(f"{schema}.{name}", columns)


def _rows(message: _Cursor, kind: str, relation: _Relation) -> tuple[Row | None, Row | None]:
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    part = message.char()
    if part in "KO":
        before = _row(message, relation)
        if part == "K":  # only the key: of other columns nothing is known
            before = {name: value for name, value in before.items() if value is not None}
        if kind == "U":
            message.char()
    if kind != "D":
        after = _row(message, relation)
        if before is not None:
            after = {
                name: before.get(name, value) if value is Unchanged else value
                for name, value in after.items()
            }
    return before, after


def _row(message: _Cursor, relation: _Relation) -> dict[str, Any]:
    out: dict[str, Any] = {}
    many = message.take("H")
    for name in relation.columns[:many]:
        kind = message.char()
        if kind == "t":
            out[name] = message.bytes(message.take("i")).decode()
        else:
            out[name] = Unchanged if kind == "u" else None
    return out
