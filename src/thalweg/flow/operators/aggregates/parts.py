"""What an aggregate is to the operators that compute it: state fields and source texts.

In the texts ``row.`` is the row, ``state.`` what was aggregated and ``other.`` what was aggregated of later rows;
:func:`renamed` puts other names there, so one text serves windows (fields of a state) and rolling windows (variables).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.records import Field, Schema


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """An aggregate bound to a record.

    Attributes:
        state: its fields of the state.
        result: the type of its result.
        update: lines that take in ``row.``; they run for the rows that ``where`` and ``present`` let through.
        value: the result as an expression; of a flat part there are several ``values``.
        where: an expression that says which rows count; empty for all.
        present: one that leaves out rows without a value; empty where each has one.
        merge: lines by which ``state.`` takes in ``other.``, which is of later rows; none where parts do not merge.
        retract: lines that take out the oldest row; none where that is not exact.
        reads: the fields of the row that update and retract read.
        scope: what the texts name.
        flat: of a whole row, which the state and the operator's output have field by field (and, where there may be no
            row, whether there is one): what they are called; the operator behind makes one field of them.
        empty: by field of the state, the expression of its default where that is not its literal.
    """

    state: tuple[Field, ...]
    result: FieldType
    update: tuple[str, ...]
    value: str
    where: str = ""
    present: str = ""
    merge: tuple[str, ...] = ()
    retract: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    scope: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    empty: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flat: tuple[Field, ...] = ()
    values: tuple[str, ...] = ()

    def taking(self, lines: Sequence[str], where: str | None = None) -> list[str]:
        """Lines that run for the rows that count; ``where`` replaces the text that says so."""
        test = self.where if where is None else where
        return guarded(test, guarded(self.present, lines))


@dataclasses.dataclass(frozen=True, slots=True)
class AskedAggregate:
    """An aggregate of a window: what it is called, of which record's rows, and whether there may be none."""

    name: str
    aggregate: Aggregate
    row: Schema
    operator: str

    @property
    def kind(self) -> FieldType:
        """The type of the field that it reads."""
        assert self.aggregate.field is not None
        return self.row.field(self.aggregate.field).type

    @property
    def given(self) -> str:
        return f"row.{self.aggregate.field}"

    @property
    def may_lack(self) -> bool:
        """Whether there may be rows, but no value."""
        named = self.aggregate.field is not None and self.kind.optional
        return named or self.aggregate.where is not None

    @property
    def present(self) -> str:
        """The test that a row has a value."""
        optional = self.aggregate.field is not None and self.kind.optional
        return f"{self.given} is not None" if optional else ""

    def refuse(self, reason: str) -> BuildError:
        return BuildError(f"operator {self.operator!r}: {self.name}: {reason}")


def guarded(test: str, lines: Sequence[str]) -> list[str]:
    """Lines under a test, if there is one."""
    return [f"if {test}:", *(f"    {line}" for line in lines)] if test else list(lines)


_PREFIX: Final = re.compile(r"\b(row|state|other)\.")


def renamed(text: str, **names: str) -> str:
    """A text with other names in place of ``row.``, ``state.`` and ``other.``."""
    return _PREFIX.sub(lambda found: names.get(found[1], found[0]), text)


def all_renamed(lines: Sequence[str], **names: str) -> list[str]:
    return [renamed(line, **names) for line in lines]


def whole_row(row: Schema) -> str:
    """The expression of the user's row, without what the library put behind it."""
    values = ", ".join(f"row.{name}" for name in row.names)
    new = getattr(row.cls.__new__, "__module__", "")
    is_plain = bool(row.names) and new == f"namedtuple_{row.cls.__name__}"
    return f"Row({values})" if is_plain else f"ITEM(({values},))"


_ZERO: Final = {Kind.FLOAT: 0.0, Kind.BOOL: False, Kind.STR: "", Kind.CATEGORY: "", Kind.BYTES: b""}


def holder(name: str, kind: FieldType) -> Field:
    """A field of the state that holds a value of a type; null at first where the type has no other default."""
    if kind.optional or kind.kind in (Kind.LIST, Kind.RECORD):
        return Field(name, dataclasses.replace(kind, optional=True), None)
    return Field(name, kind, _ZERO.get(kind.kind, 0))


def flag(name: str) -> Field:
    return Field(name, FieldType(Kind.BOOL), False)


def counter(name: str) -> Field:
    return Field(name, FieldType(Kind.INT), 0)


def is_shaped(kind: FieldType, *names: str) -> bool:
    """Whether users see it as one of Python's own types, or as one of these."""
    shape = "" if kind.shape is None else kind.shape.name
    return shape in names if names else bool(shape)


def results_of(parts: Mapping[str, Part]) -> list[Field]:
    """The fields of the results, a whole row's field by field."""
    return [
        field
        for name, part in parts.items()
        for field in (part.flat or (Field(name, part.result),))
    ]


def values_of(part: Part) -> tuple[str, ...]:
    """The expressions of a part's results."""
    return part.values or (part.value,)
