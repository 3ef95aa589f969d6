"""Operators of the library's own: what each is, as plan and explain know it.

A new one is a class here, its chunk form in :mod:`thalweg.engine.built_in`, and its row form in
:mod:`thalweg.testing.reference_built_in`.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Final

from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.nodes import OperatorKind, Reader, Ref
from thalweg.flow.records import Schema
from thalweg.times import DAY, HOUR, MINUTE, SECOND


class BuiltIn(Reader, abc.ABC):
    """A stateless operator of the library's own."""

    record: Schema

    KIND = OperatorKind.STATELESS

    @property
    def many(self) -> bool:
        """Whether it can give several rows for one."""
        return False

    @property
    def late_of(self) -> str:
        """The source by whose name its late rows are counted; empty for an operator that judges none."""
        return ""

    @abc.abstractmethod
    def described(self) -> str:
        """What it does, for explain."""


@dataclasses.dataclass(frozen=True)
class Stamp(BuiltIn):
    """Adds the tuple's event time as the last field, or the start of each window that holds it.

    With ``every`` None the field is the event time itself; else one output a window
    ``[start, start + size)`` with ``start = origin (mod every)``, earliest first.
    """

    input: Ref
    record: Schema
    size: int
    every: int | None
    origin: int

    @property
    def many(self) -> bool:
        return self.every is not None and self.every < self.size

    def described(self) -> str:
        if self.every is None:
            return "adds the event time"
        kind = self.record.fields[-1].type.kind
        size, every = (length_text(kind, one) for one in (self.size, self.every))
        shape = f"tumbling windows of {size}"
        if self.every != self.size:
            shape = f"hopping windows of {size} every {every}"
        return f"{shape}, from {self.origin}" if self.origin else shape


@dataclasses.dataclass(frozen=True)
class Digest(BuiltIn):
    """Adds a stable 64-bit digest of what a tuple says as the last field."""

    input: Ref
    record: Schema
    #: the places of the fields that count
    places: tuple[int, ...]

    def described(self) -> str:
        return f"adds a digest of {', '.join(self.record.names[place] for place in self.places)}"


@dataclasses.dataclass(frozen=True)
class Combine(BuiltIn):
    """Makes one row of those of a chunk that are equal in the fields ``by``: parts of aggregates, to be merged.

    How many rows it gives depends on how the stream is cut; what a merging operator makes of them does not
    (:mod:`thalweg.flow.operators.combining`). A row stands where the first one that it is made of stood.
    """

    input: Ref
    record: Schema
    by: tuple[str, ...]
    #: by further field of the record, what it is of the rows
    parts: tuple[tuple[str, Aggregate], ...]

    def described(self) -> str:
        parts = (f"{a.verb} of {a.field}" if a.field is not None else a.verb for _, a in self.parts)
        return (
            f"one row for those of a chunk with the same {', '.join(self.by)}: {', '.join(parts)}"
        )


@dataclasses.dataclass(frozen=True)
class OwnTime(BuiltIn):
    """Behind the operator that orders by key: late rows leave apart, and the others' own time is the released row's.

    The input's last two fields are the row's event time and whether it came too late; ``record`` lacks them.
    """

    input: Ref
    record: Schema
    #: the name of the source, by which late rows are counted
    source: str

    @property
    def late_of(self) -> str:
        return self.source

    def described(self) -> str:
        return "takes late rows apart"


@dataclasses.dataclass(frozen=True)
class Tag(BuiltIn):
    """Makes rows of one side of a join rows of both: which side, the event time, the key, the fields of either side.

    The fields of the other side are null.
    """

    input: Ref
    record: Schema
    is_right: bool
    #: the places of the key's fields in the row
    keys: tuple[int, ...]
    #: where the fields of the row begin in the record
    first: int

    def described(self) -> str:
        return f"tags rows as the {'right' if self.is_right else 'left'} side of a join"


@dataclasses.dataclass(frozen=True)
class Pack(BuiltIn):
    """Makes one field of the fields of a whole row, which aggregates give field by field."""

    input: Ref
    record: Schema
    #: by field of the record: the first column, the number of those of a whole row (0: it is a plain field), and
    #: whether one more says if there is a row
    places: tuple[tuple[int, int, bool], ...]

    def described(self) -> str:
        names = [n for n, place in zip(self.record.names, self.places, strict=True) if place[1]]
        return f"makes whole rows of {', '.join(names)}"


_UNITS: Final = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"), (1000, "ms"))


def length_text(kind: Kind, length: int) -> str:
    """A length of time as text; of a time that is a plain number, the number."""
    return duration_text(length) if kind is Kind.TIMESTAMP else str(length)


def duration_text(length: int) -> str:
    """A duration in its greatest whole unit: ``2 minutes``, ``90 seconds``, ``15 us``."""
    for unit, word in _UNITS:
        if length >= unit and length % unit == 0:
            count = length // unit
            return f"{count} {word}{'' if count == 1 or word == 'ms' else 's'}"
    return f"{length} us" if length else "0"
