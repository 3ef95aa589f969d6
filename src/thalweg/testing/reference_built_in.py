"""What the library's own operators make of a row, for the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from thalweg.columns.chunks import Chunk
from thalweg.columns.payload import digests
from thalweg.flow.loops.nodes import ToPort
from thalweg.flow.operators.built_in import BuiltIn, Combine, Digest, OwnTime, Pack, Stamp, Tag
from thalweg.flow.records import Schema


class Made(NamedTuple):
    """A row that an operator makes.

    Attributes:
        values: by field of its record.
        time: the event time that it has from then on.
        port: by which it leaves.
    """

    values: tuple[Any, ...]
    time: int
    port: str = "out"


def made_of(node: BuiltIn, row: Any, time: int) -> Iterator[Made]:
    """What an operator makes of a row with this event time."""
    return _ROWS[type(node)](node, row, time)


def _stamped(node: Stamp, row: Any, time: int) -> Iterator[Made]:
    for value in _starts(node, time):
        yield Made((*row, value), time)


def _starts(node: Stamp, time: int) -> Iterator[int]:
    if node.every is None:
        return iter((time,))
    last = (time - node.origin) // node.every * node.every + node.origin
    first = last - (node.size - 1 - (time - last)) // node.every * node.every
    return iter(range(first, last + 1, node.every))


def _digested(node: Digest, row: Any, time: int) -> Iterator[Made]:
    """By the hash of keys, which has a definition and tests of its own."""
    read = Chunk.from_rows(Schema.make_record("Read", node.record.fields[:-1]), [row])
    yield Made((*row, int(digests(read, node.places)[0])), time)


_LIFTED: Final[Mapping[str, Any]] = {
    "count": lambda value: 1,
    "sum": lambda value: value,
    "min": lambda value: value,
    "max": lambda value: value,
}


#: What an aggregate is of no row, where that is not null.
_OF_NONE: Final = {"count": 0}


def _combined(node: Combine, row: Any, time: int) -> Iterator[Made]:
    """The part of a single row."""
    values = [getattr(row, name) for name in node.by]
    for _, one in node.parts:
        value = None if one.field is None else getattr(row, one.field)
        counts = not isinstance(one.where, str) or getattr(row, one.where)
        values.append(_LIFTED[one.verb](value) if counts else _OF_NONE.get(one.verb))
    yield Made(tuple(values), time)


def _packed(node: Pack, row: Any, time: int) -> Iterator[Made]:
    values: list[Any] = []
    for first, width, may_lack in node.places:
        lacks = may_lack and not row[first + width]
        values.append(None if lacks else tuple(row[first : first + width]) if width else row[first])
    yield Made(tuple(values), time)


def _timed(node: OwnTime, row: Any, time: int) -> Iterator[Made]:
    *values, own, late = row
    yield Made(tuple(values), time, "late") if late else Made(tuple(values), own)


def _tagged(node: Tag, row: Any, time: int) -> Iterator[Made]:
    made: list[Any] = [None] * len(node.record.fields)
    made[:2] = node.is_right, time
    made[2 : 2 + len(node.keys)] = [row[place] for place in node.keys]
    made[node.first : node.first + len(row)] = row
    yield Made(tuple(made), time)


def _to_port(node: ToPort, row: Any, time: int) -> Iterator[Made]:
    made: list[Any] = [None] * len(node.record.fields)
    made[0] = node.place
    made[1 : 1 + len(node.keys)] = [row[place] for place in node.keys]
    made[node.first : node.first + len(row)] = row
    yield Made(tuple(made), time)


_ROWS: Final[dict[type[BuiltIn], Callable[[Any, Any, int], Iterator[Made]]]] = {
    Stamp: _stamped,
    Digest: _digested,
    Combine: _combined,
    OwnTime: _timed,
    Tag: _tagged,
    ToPort: _to_port,
    Pack: _packed,
}
