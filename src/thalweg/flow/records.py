"""Records: what a NamedTuple's annotations mean, and how a value of each type travels.

One :class:`Schema` describes a record in all its forms: the user's NamedTuple, the columns of a chunk, the
Arrow schema at the edges and in state files. Field types are closed: what is not listed in
:class:`~thalweg.flow.field_types.Kind` is refused when the flow is built.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import pyarrow as pa

from thalweg.errors import SchemaError
from thalweg.flow.arrow_types import is_binary_like, is_list_like, is_text, plain_type
from thalweg.flow.field_types import INT_MAX, INT_MIN, PYTHON, FieldType, Kind
from thalweg.flow.fit_code import fitting, is_plain
from thalweg.flow.reading import PLAIN, Reading, renamed


class _Mark:
    """Tells our annotated types from the plain ones they stand for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tw.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_mark, (self.name,))


def _mark(name: str) -> _Mark:
    return next(one for one in _MARKED if one.name == name)


_TIMESTAMP: Final = _Mark("Timestamp")
_CATEGORY: Final = _Mark("Category")
_TIMER: Final = _Mark("Timer")

#: Microseconds since 1970-01-01 UTC.
Timestamp: TypeAlias = Annotated[int, _TIMESTAMP]
#: Text with few different values: hashed once, cheap to compare in compiled functions (only ==, != and in).
Category: TypeAlias = Annotated[str, _CATEGORY]
#: The timer of a key: the time at which its ``on_timer`` is called; ``tw.NEVER`` when it is not armed.
Timer: TypeAlias = Annotated[int, _TIMER]


class Missing(enum.Enum):
    """The default of a field that has none; an enum member, so that it stays itself when pickled."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A named field of a record or state class; ``default`` is ``MISSING`` when it has none."""

    name: str
    type: FieldType
    #: not in the hash, since it may be a list
    default: Any = dataclasses.field(default=MISSING, hash=False)


@dataclasses.dataclass(frozen=True)
class Schema:
    """A record: its name, its fields in order and the class whose instances user functions see.

    Two schemas are equal when names and fields are; the class may differ (one of them unpickled).
    """

    name: str
    fields: tuple[Field, ...]
    cls: type = dataclasses.field(compare=False, repr=False, default=tuple)
    #: how the rows of a source are read; as the record says, else
    reading: Reading = dataclasses.field(compare=False, repr=False, default=PLAIN)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The names that the fields have in files, tables, messages and mappings."""
        return self.reading.columns(self.names)

    @functools.cached_property
    def has_times(self) -> bool:
        """Whether a field is a Timestamp, or holds some."""
        return any(kind.has_times for kind in (field.type for field in self.fields))

    def read_as(self, reading: Reading) -> Schema:
        """The same record, of rows that are read in that way."""
        return Schema(self.name, self.fields, self.cls, reading)

    @functools.cached_property
    def _plain(self) -> tuple[type | None, ...]:
        return tuple(PYTHON.get(field.type.kind) for field in self.fields)

    @functools.cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema; fields that are not Optional are not nullable."""
        return pa.schema(
            [pa.field(f.name, f.type.arrow, nullable=f.type.optional) for f in self.fields]
        )

    def index(self, name: str) -> int:
        """The place of a field.

        Raises:
            SchemaError: there is no such field; the message lists those there are.
        """
        try:
            return self.names.index(name)
        except ValueError:
            raise SchemaError(
                f"{self.name} has no field {name!r}; it has {', '.join(self.names)}"
            ) from None

    def field(self, name: str) -> Field:
        """The field of that name; errors as :meth:`index`."""
        return self.fields[self.index(name)]

    def make(self, values: Sequence[Any]) -> Any:
        """An instance of the user's class from values in field order (records only)."""
        return tuple.__new__(self.cls, values)

    def coerce(self, value: Any) -> Any:
        """An instance of the user's class from any tuple of the right length, each field coerced.

        Raises:
            TypeError: a field does not fit; the message names record, field, expected and got.
        """
        return self.fit(value)

    @functools.cached_property
    def fit(self) -> Callable[[Any], Any]:
        """:meth:`coerce` as a function made for the record, which most rows pass without a further call."""
        return fitting(self.cls, [field.type for field in self.fields], self._coerce_slowly)

    @functools.cached_property
    def stays(self) -> bool:
        """Whether nothing that its fields take can be changed in place: then rows may be checked later."""
        return all(
            is_plain(field.type) and field.type.kind is not Kind.BYTES for field in self.fields
        )

    def _coerce_slowly(self, value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != len(self.fields):
            raise TypeError(f"expected {self}, got {type(value).__name__} {value!r:.80}")
        fitted = []
        for field, one in zip(self.fields, value, strict=True):
            try:
                fitted.append(field.type.coerce(one))
            except TypeError as error:
                raise TypeError(f"{self.name}.{field.name}: {error}") from None
        return self.make(fitted)

    def is_same_in_another_order(self, row: Any) -> bool:
        """Whether a row is a NamedTuple of another class whose fields are these in another order."""
        names = getattr(type(row), "_fields", self.names)
        return bool(
            names != self.names and len(names) == len(self.names) and {*names} == {*self.names}
        )

    def take(self, row: Any, reading: Reading | None = None) -> Any:
        """A row of an input, a tuple or a mapping, as an instance of the user's class; see ``FieldType.take``.

        Raises:
            TypeError: a field does not fit, or is missing; the message names record, field, expected and got.
        """
        reading, given = self.reading if reading is None else reading, row
        if isinstance(row, Mapping):
            columns = self.columns if reading.names else self.names
            pairs = zip(columns, self.fields, strict=True)
            row = tuple(row.get(name, None if f.type.optional else MISSING) for name, f in pairs)
        elif type(row) is not self.cls and self.is_same_in_another_order(row):
            row = tuple(getattr(row, field.name) for field in self.fields)
        if not isinstance(row, tuple) or len(row) != len(self.fields):
            raise TypeError(f"expected {self}, got {type(row).__name__} {row!r:.80}")
        values = []
        for field, plain, one in zip(self.fields, self._plain, row, strict=True):
            came = type(one)
            if came is plain and (
                plain is float
                or (plain is int and INT_MIN <= one <= INT_MAX and not reading.epoch_unit)
                or (plain is str and one.isascii())
            ):
                values.append(one)  # most values: without a call
                continue
            try:
                values.append(field.type.take(one, reading))
            except TypeError as error:
                reason = self._missing(field, given) if one is MISSING else f": {error}"
                raise TypeError(f"{self.name}.{field.name}{reason}") from None
        return self.make(values)

    def _missing(self, field: Field, row: Mapping[Any, Any]) -> str:
        """Why a mapping has no value for a field, and what to do where it has one of another name."""
        column = dict(zip(self.names, self.columns, strict=True))[field.name]
        what = " is missing" if column == field.name else f" is missing: there is no {column!r}"
        return what + renamed(field.name, [one for one in row if one not in self.columns])

    def __str__(self) -> str:
        inner = ", ".join(f"{f.name}: {f.type}" for f in self.fields)
        return f"{self.name}({inner})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _restore_schema,
            (self.name, self.fields, None if is_made(self.cls) else self.cls, self.reading),
        )

    @classmethod
    def of(cls, source: Any) -> Schema:
        """The schema of a NamedTuple class, a pyarrow schema or a schema itself.

        Raises:
            SchemaError: it is none of these, or a field's type is not one of those listed in ``Kind``.
        """
        if isinstance(source, Schema):
            return source
        made = getattr(source, _MADE, None)
        if isinstance(made, Schema):
            return made
        if isinstance(source, pa.Schema):
            return _from_arrow("Row", source)
        if isinstance(source, type) and issubclass(source, tuple) and hasattr(source, "_fields"):
            return _from_namedtuple(source)
        raise SchemaError(
            f"a record is a typing.NamedTuple class or a pyarrow.Schema, got {source!r}"
        )

    @classmethod
    def make_record(cls, name: str, fields: Sequence[Field]) -> Schema:
        """A schema with a NamedTuple class made for it (library operators, Arrow schemas)."""
        return _made_schema(name, tuple(dataclasses.replace(f, default=MISSING) for f in fields))


def _restore_schema(
    name: str, fields: tuple[Field, ...], record: type | None, reading: Reading
) -> Schema:
    if record is not None:
        return Schema(name, fields, record, reading)
    made = _made_schema(name, fields)
    return made if reading == PLAIN else made.read_as(reading)


#: The attribute of a made class that holds its schema.
_MADE: Final = "__thalweg_schema__"


@functools.cache
def _made_schema(name: str, fields: tuple[Field, ...]) -> Schema:
    """A schema with a NamedTuple class of its own, the same one for the same fields."""
    names = [field.name for field in fields]
    made = collections.namedtuple(name, names, module=__name__)  # type: ignore[misc]
    schema = Schema(name, fields, made)
    setattr(made, _MADE, schema)
    return schema


def is_made(cls: type) -> bool:
    """Whether the class was made for its schema, so that it is rebuilt rather than pickled."""
    return cls is tuple or hasattr(cls, _MADE)


@functools.cache
def _from_namedtuple(cls: type) -> Schema:
    hints = hints_of(cls)
    defaults: dict[str, Any] = getattr(cls, "_field_defaults", {})
    fields = []
    for name in cls._fields:  # type: ignore[attr-defined]
        if name not in hints:
            raise SchemaError(
                f"{cls.__name__}.{name} has no type; use typing.NamedTuple with annotations"
            )
        kind = field_type(hints[name], f"{cls.__name__}.{name}")
        fields.append(Field(name, kind, defaults.get(name, MISSING)))
    return Schema(cls.__name__, tuple(fields), cls)


def hints_of(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        module = sys.modules.get(cls.__module__)
        raise SchemaError(
            f"the annotations of {cls.__name__} cannot be read: {error}"
            f" (module {getattr(module, '__name__', cls.__module__)}); define its types at module level"
        ) from None


_PLAIN: Final = {
    int: Kind.INT,
    float: Kind.FLOAT,
    bool: Kind.BOOL,
    str: Kind.STR,
    bytes: Kind.BYTES,
}
_MARKED: Final = {_TIMESTAMP: Kind.TIMESTAMP, _CATEGORY: Kind.CATEGORY, _TIMER: Kind.TIMER}


def field_type(hint: Any, where: str) -> FieldType:
    if hint in _PLAIN:
        return FieldType(_PLAIN[hint])
    origin = typing.get_origin(hint)
    if origin is Annotated:
        for mark in hint.__metadata__:
            if isinstance(mark, _Mark):
                return FieldType(_MARKED[mark])
        return field_type(hint.__origin__, where)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(hint)):
            return dataclasses.replace(field_type(rest[0], where), optional=True)
    if origin is list and len(typing.get_args(hint)) == 1:
        return FieldType(Kind.LIST, item=field_type(typing.get_args(hint)[0], where))
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return FieldType(Kind.RECORD, record=Schema.of(hint))
    raise SchemaError(
        f"{where} is of type {hint!r}; a field is int, float, bool, str, bytes, tw.Timestamp, tw.Category,"
        " another NamedTuple, a list of one of these, or one of them | None"
    )


def _from_arrow(name: str, schema: pa.Schema) -> Schema:
    return Schema.make_record(
        name, [Field(f.name, _from_arrow_type(f.type, f.name, f.nullable)) for f in schema]
    )


def _from_arrow_type(kind: pa.DataType, where: str, nullable: bool) -> FieldType:
    found = plain_type(kind)
    if is_text(found):
        coded = pa.types.is_dictionary(kind)
        return FieldType(Kind.CATEGORY if coded else Kind.STR, nullable)
    checks = (
        (Kind.BOOL, pa.types.is_boolean),
        (Kind.INT, pa.types.is_integer),
        (Kind.FLOAT, pa.types.is_floating),
        (Kind.BYTES, is_binary_like),
        (Kind.TIMESTAMP, lambda t: pa.types.is_timestamp(t) or pa.types.is_date(t)),
    )
    for one, fits in checks:
        if fits(found):
            return FieldType(one, nullable)
    if is_list_like(found):
        item = _from_arrow_type(found.value_type, where, found.value_field.nullable)
        return FieldType(Kind.LIST, nullable, item=item)
    if pa.types.is_struct(found):
        return FieldType(Kind.RECORD, nullable, record=_from_arrow(where, pa.schema(list(found))))
    raise SchemaError(
        f"column {where!r} has the Arrow type {kind}, which no record field can hold; cast it"
    )
