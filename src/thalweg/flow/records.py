"""Records: what a NamedTuple's annotations mean, and how a value of each type travels.

One :class:`Schema` describes a record in all its forms: the user's NamedTuple, the columns of a chunk, the
Arrow schema at the edges and in state files. Field types are closed: what is not listed in
:class:`~thalweg.flow.fields.field_types.Kind` is refused when the flow is built.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.checks import meant
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import INT_MAX, INT_MIN, PYTHON, FieldType, Kind
from thalweg.flow.fields.fit_code import fitting, is_plain
from thalweg.flow.fields.hints import Category as Category
from thalweg.flow.fields.hints import Timer as Timer
from thalweg.flow.fields.hints import Timestamp as Timestamp
from thalweg.flow.fields.hints import field_type, from_arrow_type, hints_of, is_user_class
from thalweg.flow.fields.reading import PLAIN, ReadRules, renamed
from thalweg.flow.fields.user_rows import (
    UserClass,
    inward,
    outward,
    outward_of,
    user_fields,
    user_values,
)


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
    reading: ReadRules = dataclasses.field(compare=False, repr=False, default=PLAIN)
    #: the class of the rows that users see, where it is not ``cls``
    user: UserClass | None = dataclasses.field(compare=False, default=None)

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

    def read_as(self, reading: ReadRules) -> Schema:
        """The same record, of rows that are read in that way."""
        return Schema(self.name, self.fields, self.cls, reading, self.user)

    @property
    def users_class(self) -> type:
        """The class of the rows that users see."""
        return self.cls if self.user is None else self.user.cls

    @functools.cached_property
    def outward(self) -> Callable[[Any], Any] | None:
        """The function from a row to what users see of it; None where that is the row itself."""
        return None if self.user is None else outward(self.user, self.fields)

    @functools.cached_property
    def inward(self) -> Callable[[Any], Any] | None:
        """The function from what users give as a row to the row; None where that is the same."""
        return None if self.user is None else inward(self, self.user)

    @functools.cached_property
    def whole(self) -> FieldType:
        """The type of a whole row."""
        return FieldType(Kind.RECORD, record=self)

    def shown(self, rows: Iterable[Any]) -> list[Any]:
        """Rows as users see them."""
        return list(rows) if self.outward is None else list(map(self.outward, rows))

    @functools.cached_property
    def _plain(self) -> tuple[type | None, ...]:
        kinds = [field.type for field in self.fields]
        return tuple(None if kind.shape else PYTHON.get(kind.kind) for kind in kinds)

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
                f"{self.name} has no field {name!r}; it has {', '.join(self.names)}{meant(name, self.names)}"
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

    def take(self, row: Any, reading: ReadRules | None = None) -> Any:
        """A row of an input, a tuple or a mapping, as an instance of the user's class; see ``FieldType.take``.

        Raises:
            TypeError: a field does not fit, or is missing; the message names record, field, expected and got.
        """
        reading, given = self.reading if reading is None else reading, row
        if type(row) is self.cls and self.user is not None:
            return self.coerce(row)  # what an operator without inputs pushed is inside already
        if isinstance(row, Mapping):
            columns = self.columns if reading.names else self.names
            pairs = zip(columns, self.fields, strict=True)
            row = tuple(row.get(name, None if f.type.optional else MISSING) for name, f in pairs)
        elif self.user is not None and isinstance(row, self.user.cls):
            row = tuple(user_values(self, self.user, row))
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
            (
                self.name,
                self.fields,
                None if is_made(self.cls) else self.cls,
                self.reading,
                None if self.user is None or self.user.made else self.user,
            ),
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
            return cls.of_arrow("Row", source)
        if isinstance(source, type) and issubclass(source, tuple) and hasattr(source, "_fields"):
            return _from_namedtuple(source)
        if is_user_class(source):
            return _from_user_class(source)
        raise SchemaError(
            "a record is a typing.NamedTuple class, a dataclass, a TypedDict or a pyarrow.Schema,"
            f" got {source!r}"
        )

    @classmethod
    def of_arrow(cls, name: str, schema: pa.Schema) -> Schema:
        """The schema of a pyarrow schema.

        Raises:
            SchemaError: a column has a type that no field can hold.
        """
        fields = [Field(f.name, from_arrow_type(f.type, f.name, f.nullable)) for f in schema]
        return cls.make_record(name, fields)

    @classmethod
    def make_record(cls, name: str, fields: Sequence[Field]) -> Schema:
        """A schema with a NamedTuple class made for it (library operators, Arrow schemas)."""
        return _made_schema(name, tuple(dataclasses.replace(f, default=MISSING) for f in fields))


def _restore_schema(
    name: str,
    fields: tuple[Field, ...],
    record: type | None,
    reading: ReadRules,
    user: UserClass | None,
) -> Schema:
    if record is not None:
        return Schema(name, fields, record, reading, user)
    made = _made_schema(name, fields, user)
    return made if reading == PLAIN else made.read_as(reading)


#: The attribute of a made class that holds its schema.
_MADE: Final = "__thalweg_schema__"


@functools.cache
def _made_schema(name: str, fields: tuple[Field, ...], user: UserClass | None = None) -> Schema:
    """A schema with a NamedTuple class of its own, the same one for the same fields and the same user's class."""
    names = [field.name for field in fields]
    made = collections.namedtuple(name, names, module=__name__)  # type: ignore[misc]
    if user is None and any(outward_of(field.type) is not None for field in fields):
        seen = collections.namedtuple(name, names, module=__name__)  # type: ignore[misc]
        user = UserClass(seen, "tuple", made=True)
    schema = Schema(name, fields, made, user=user)
    setattr(made, _MADE, schema)
    if user is not None and user.made:
        setattr(user.cls, _MADE, schema)
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
        fields.append(Field(name, kind, _plain_default(kind, defaults.get(name, MISSING))))
    if any(outward_of(field.type) is not None for field in fields):
        return _made_schema(cls.__name__, tuple(fields), UserClass(cls, "tuple"))
    return Schema(cls.__name__, tuple(fields), cls)


def _plain_default(kind: FieldType, default: Any) -> Any:
    """A default as rows have it inside; of values that users see otherwise none, their class knows it."""
    return default if default is None or outward_of(kind) is None else MISSING


@functools.cache
def _from_user_class(cls: type) -> Schema:
    """The schema of a dataclass or a TypedDict."""
    user, found = user_fields(cls)
    hints = hints_of(cls)
    fields = []
    for name, default in found:
        kind = field_type(_required(hints[name]), f"{cls.__name__}.{name}")
        known = MISSING if default is dataclasses.MISSING else default
        fields.append(Field(name, kind, _plain_default(kind, known)))
    try:
        return _made_schema(cls.__name__, tuple(fields), user)
    except ValueError as error:
        raise SchemaError(f"{cls.__name__}: {error}; call it something else") from None


def _required(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Required else hint
