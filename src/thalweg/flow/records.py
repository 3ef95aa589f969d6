"""Records and state: what a NamedTuple's annotations mean, and how a value of each type travels.

One :class:`Schema` describes a record in all its forms: the user's NamedTuple, the columns of a chunk, the
Arrow schema at the edges and in state files. Field types are closed: what is not listed in
:class:`Kind` is refused when the flow is built.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import enum
import functools
import inspect
import math
import numbers
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import pyarrow as pa

from thalweg.errors import SchemaError
from thalweg.flow.arrow_types import is_binary_like, is_list_like, is_text, plain_type
from thalweg.times import NEVER


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


class Kind(enum.Enum):
    """The types a field can have."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    BYTES = "bytes"
    TIMESTAMP = "Timestamp"
    CATEGORY = "Category"
    TIMER = "Timer"
    LIST = "list"
    RECORD = "record"


_FIXED: Final = {Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TIMESTAMP, Kind.CATEGORY, Kind.TIMER}
_ARROW: Final = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.STR: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.CATEGORY: pa.string(),
    Kind.TIMER: pa.int64(),
}
_PYTHON: Final = {
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.STR: str,
    Kind.BYTES: bytes,
    Kind.TIMESTAMP: int,
    Kind.CATEGORY: str,
    Kind.TIMER: int,
}


_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1


def _encodable(text: str) -> str:
    """The text itself.

    Raises:
        TypeError: it holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TypeError(f"{text!r:.60} cannot be encoded as UTF-8: {error.reason}") from None
    return text


#: The kinds that a bool of an input does not fit.
_NUMBERS: Final = {Kind.INT, Kind.FLOAT, Kind.TIMESTAMP, Kind.TIMER}


def _shown(value: int) -> str:
    # Python refuses to write out thousands of digits.
    return str(value) if value.bit_length() <= 200 else f"an int of {value.bit_length()} bits"


def _exact_float(kind: FieldType, value: Any) -> float | None:
    """A number as the float that it is equal to; null where the type is Optional.

    Raises:
        TypeError: there is no such float, or it is not a number that has one by itself (a decimal has not).
    """
    if type(value) is float or (value is None and kind.optional):
        return value
    if isinstance(value, numbers.Real):
        try:
            made = float(value)
        except OverflowError:
            made = math.inf
        if made == value or value != value:
            return made
        shown = _shown(value) if isinstance(value, int) else f"{type(value).__name__} {value!r:.60}"
        raise TypeError(f"expected {kind}, got {shown}, a number that a float cannot hold")
    shown = "None" if value is None else f"{type(value).__name__} {value!r:.60}"
    hint = "; write float(...) to round it" if hasattr(value, "__float__") else ""
    raise TypeError(f"expected {kind}, got {shown}{hint}")


@dataclasses.dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field: its kind, whether it may be null, and what a list or record holds."""

    kind: Kind
    optional: bool = False
    item: FieldType | None = None
    record: Schema | None = None

    @property
    def fixed_width(self) -> bool:
        """Whether compiled functions can compute with it (a 64-bit word, a float or a bool)."""
        return self.kind in _FIXED

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type at the edges, in state files and between slots."""
        if self.kind is Kind.LIST:
            assert self.item is not None
            return pa.list_(pa.field("item", self.item.arrow, nullable=self.item.optional))
        if self.kind is Kind.RECORD:
            assert self.record is not None
            return pa.struct(list(self.record.arrow))
        return _ARROW[self.kind]

    def __str__(self) -> str:
        name = self.kind.value
        if self.kind is Kind.LIST:
            name = f"list[{self.item}]"
        elif self.kind is Kind.RECORD and self.record is not None:
            name = self.record.name
        return f"{name} | None" if self.optional else name

    def coerce(self, value: Any) -> Any:
        """The value as this type holds it; numbers widen (bool to int to float), nothing narrows.

        Raises:
            TypeError: the value is of another type or None where the type is not Optional, or Arrow cannot hold
                it: an int beyond 64 bits, a text that UTF-8 cannot encode.
        """
        if value is None:
            if self.optional:
                return None
            raise TypeError(f"expected {self}, got None")
        kind = self.kind
        if kind in (Kind.INT, Kind.TIMESTAMP, Kind.TIMER):
            if type(value) is not int and hasattr(value, "__index__"):
                value = value.__index__()
            if type(value) is int:
                if _INT_MIN <= value <= _INT_MAX:
                    return value
                raise TypeError(f"expected {self}, got {_shown(value)}, which does not fit 64 bits")
        elif kind is Kind.FLOAT:
            if type(value) is float:
                return value
            if isinstance(value, (int, float)) or hasattr(value, "__float__"):
                try:
                    return float(value)
                except OverflowError as error:
                    raise TypeError(f"expected {self}: {error}") from None
        elif kind is Kind.BOOL:
            if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
                return bool(value)
        elif kind in (Kind.STR, Kind.CATEGORY):
            if isinstance(value, str):
                return value if type(value) is str and value.isascii() else _encodable(str(value))
        elif kind is Kind.BYTES:
            if isinstance(value, (bytes, bytearray, memoryview)):
                return bytes(value)
        elif kind is Kind.LIST:
            if isinstance(value, (list, tuple)) and self.item is not None:
                if self.item.holds(value):
                    return list(value)
                return [self.item.coerce(one) for one in value]
        elif self.record is not None:
            if isinstance(value, Mapping):
                value = tuple(value.get(name) for name in self.record.names)
            return self.record.coerce(value)
        instant = kind is Kind.TIMESTAMP and isinstance(value, datetime.datetime)
        hint = "; write tw.timestamp(...) of it" if instant else ""
        raise TypeError(f"expected {self}, got {type(value).__name__} {value!r:.60}{hint}")

    def take(self, value: Any) -> Any:
        """The value of an input as this type holds it: exactly, or not at all.

        In contrast to :meth:`coerce`, which is for what functions return, a bool is no number here, and a number must
        be one that a float can hold.

        Raises:
            TypeError: as :meth:`coerce`; or the value is not one of this type.
        """
        kind = self.kind
        if kind in _NUMBERS:
            if type(value) is bool or type(value).__name__ == "bool_":
                raise TypeError(f"expected {self}, got bool {value!r}")
            return _exact_float(self, value) if kind is Kind.FLOAT else self.coerce(value)
        if kind is Kind.LIST and isinstance(value, (list, tuple)) and self.item is not None:
            return list(value) if self.item.holds(value) else list(map(self.item.take, value))
        if self.record is not None and value is not None:
            return self.record.take(value)
        return self.coerce(value)

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether all values surely are what :meth:`coerce` makes of them, and nobody can change them in place.

        This looks at columns, not at values one by one: the lists in a key's state are checked at each of its rows.
        """
        types = set(map(type, values))
        if self.record is not None:
            fields = self.record.fields
            return (
                types <= {self.record.cls}
                and set(map(len, values)) <= {len(fields)}
                and all(
                    field.type.holds(column)
                    for field, column in zip(fields, zip(*values, strict=True), strict=False)
                )
            )
        if self.kind is Kind.LIST or not types <= {_PYTHON[self.kind]}:
            return False
        if int in types:
            return bool(min(values) >= _INT_MIN and max(values) <= _INT_MAX)
        return str not in types or all(map(str.isascii, values))


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

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @functools.cached_property
    def _plain(self) -> tuple[type | None, ...]:
        return tuple(_PYTHON.get(field.type.kind) for field in self.fields)

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
        if not isinstance(value, tuple) or len(value) != len(self.fields):
            raise TypeError(f"expected {self}, got {type(value).__name__} {value!r:.80}")
        fitted = []
        for field, one in zip(self.fields, value, strict=True):
            try:
                fitted.append(field.type.coerce(one))
            except TypeError as error:
                raise TypeError(f"{self.name}.{field.name}: {error}") from None
        return self.make(fitted)

    def take(self, row: Any) -> Any:
        """A row of an input, a tuple or a mapping, as an instance of the user's class; see :meth:`FieldType.take`.

        Raises:
            TypeError: a field does not fit, or is missing; the message names record, field, expected and got.
        """
        if isinstance(row, Mapping):
            row = tuple(row.get(f.name, None if f.type.optional else MISSING) for f in self.fields)
        if not isinstance(row, tuple) or len(row) != len(self.fields):
            raise TypeError(f"expected {self}, got {type(row).__name__} {row!r:.80}")
        values = []
        for field, plain, one in zip(self.fields, self._plain, row, strict=True):
            came = type(one)
            if came is plain and (
                plain is float
                or (plain is int and _INT_MIN <= one <= _INT_MAX)
                or (plain is str and one.isascii())
            ):
                values.append(one)  # most values: without a call
                continue
            try:
                values.append(field.type.take(one))
            except TypeError as error:
                reason = "is missing" if one is MISSING else str(error)
                raise TypeError(f"{self.name}.{field.name}: {reason}") from None
        return self.make(values)

    def __str__(self) -> str:
        inner = ", ".join(f"{f.name}: {f.type}" for f in self.fields)
        return f"{self.name}({inner})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_schema, (self.name, self.fields, None if is_made(self.cls) else self.cls))

    @classmethod
    def of(cls, source: Any) -> Schema:
        """The schema of a NamedTuple class, a pyarrow schema or a schema itself.

        Raises:
            SchemaError: it is none of these, or a field's type is not one of those listed in :class:`Kind`.
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


def _restore_schema(name: str, fields: tuple[Field, ...], record: type | None) -> Schema:
    return _made_schema(name, fields) if record is None else Schema(name, fields, record)


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
    hints = _hints(cls)
    defaults: dict[str, Any] = getattr(cls, "_field_defaults", {})
    fields = []
    for name in cls._fields:  # type: ignore[attr-defined]
        if name not in hints:
            raise SchemaError(
                f"{cls.__name__}.{name} has no type; use typing.NamedTuple with annotations"
            )
        kind = _field_type(hints[name], f"{cls.__name__}.{name}")
        fields.append(Field(name, kind, defaults.get(name, MISSING)))
    return Schema(cls.__name__, tuple(fields), cls)


def _hints(cls: type) -> dict[str, Any]:
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


def _field_type(hint: Any, where: str) -> FieldType:
    if hint in _PLAIN:
        return FieldType(_PLAIN[hint])
    origin = typing.get_origin(hint)
    if origin is Annotated:
        for mark in hint.__metadata__:
            if isinstance(mark, _Mark):
                return FieldType(_MARKED[mark])
        return _field_type(hint.__origin__, where)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(hint)):
            return dataclasses.replace(_field_type(rest[0], where), optional=True)
    if origin is list and len(typing.get_args(hint)) == 1:
        return FieldType(Kind.LIST, item=_field_type(typing.get_args(hint)[0], where))
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


# -- state ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class StateSpec:
    """A state class: its fields with defaults and the class itself.

    The Arrow form of a state is the schema of its fields; a field ``timer: tw.Timer`` is the key's timer.
    """

    schema: Schema
    cls: type = dataclasses.field(compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.schema.name

    @functools.cached_property
    def timer(self) -> str | None:
        """The name of the field that holds the key's timer, None when the state has none."""
        return next((f.name for f in self.schema.fields if f.type.kind is Kind.TIMER), None)

    @functools.cached_property
    def fixed_width(self) -> bool:
        """Whether the state fits a row of a compiled table: only fixed-width fields, none of them Optional."""
        return all(f.type.fixed_width and not f.type.optional for f in self.schema.fields)

    def new(self) -> Any:
        """A fresh state, every field at its default."""
        return self.cls()

    def values(self, state: Any) -> tuple[Any, ...]:
        """The field values of a state, coerced to the declared types.

        Raises:
            TypeError: the function left a value of another type in a field.
        """
        out = []
        for field in self.schema.fields:
            value = getattr(state, field.name)
            if value is None and field.type.kind is Kind.TIMER:
                value = NEVER
            try:
                out.append(field.type.coerce(value))
            except TypeError as error:
                raise TypeError(f"{self.name}.{field.name}: {error}") from None
        return tuple(out)

    def restore(self, values: Sequence[Any]) -> Any:
        """The state object that has these field values."""
        state: Any = object.__new__(self.cls)
        for field, value in zip(self.schema.fields, values, strict=True):
            setattr(state, field.name, value)
        return state


_STATE: Final = "__thalweg_state__"


def state(cls: type) -> type:
    """Declares a state class: annotated fields, each with a default (a Timer's is NEVER).

    The instances are plain objects with slots; fields left out of ``__init__`` get their default, lists a
    fresh copy of it.

    Example::

        >>> @state
        ... class Open:
        ...     timer: Timer
        ...     pages: int = 0
        >>> Open().pages
        0

    Raises:
        SchemaError: a field has no default, an unknown type, or there are two timers.
    """
    if not isinstance(cls, type):
        raise SchemaError(f"state: cls is a class of annotated fields, got {cls!r}")
    hints = _hints(cls)
    fields = []
    for name in inspect.get_annotations(cls):
        kind = _field_type(hints[name], f"{cls.__name__}.{name}")
        default = cls.__dict__.get(name, NEVER if kind.kind is Kind.TIMER else MISSING)
        if default is MISSING:
            raise SchemaError(
                f"state {cls.__name__}.{name} has no default; write {name}: {kind} = ..."
                " (a new key starts with it)"
            )
        try:
            default = NEVER if default is None and kind.kind is Kind.TIMER else kind.coerce(default)
        except TypeError as error:
            raise SchemaError(f"the default of {cls.__name__}.{name}: {error}") from None
        fields.append(Field(name, kind, default))
    if sum(field.type.kind is Kind.TIMER for field in fields) > 1:
        raise SchemaError(f"state {cls.__name__} has two timers; a key has one")
    return _state_class(cls, tuple(fields))


def _state_class(cls: type, fields: tuple[Field, ...]) -> type:
    names = tuple(field.name for field in fields)
    plain = {f.name: f.default for f in fields if f.type.kind not in (Kind.LIST, Kind.RECORD)}
    nested = {f.name: f.default for f in fields if f.name not in plain}

    def init(self: Any, **values: Any) -> None:
        unknown = values.keys() - set(names)
        if unknown:
            raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        for name, default in plain.items():
            setattr(self, name, values.get(name, default))
        for name, default in nested.items():
            setattr(self, name, values[name] if name in values else copy.copy(default))

    def show(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    def equal(self: Any, other: Any) -> bool:
        return type(self) is type(other) and all(
            getattr(self, n) == getattr(other, n) for n in names
        )

    body = {k: v for k, v in cls.__dict__.items() if k not in (*names, "__dict__", "__weakref__")}
    #: ``_drop`` is set by ``tw.drop`` and read by the engine after the call
    body |= {"__slots__": (*names, "_drop"), "__init__": init, "__repr__": show, "__eq__": equal}
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    setattr(made, _STATE, Schema(cls.__name__, fields))
    return made


def make_state(name: str, fields: Sequence[Field]) -> StateSpec:
    """A state spec with a class made for it, for the library's operators."""
    made = _state_class(type(name, (), {}), tuple(fields))
    return StateSpec(Schema(name, tuple(fields)), made)


def state_spec(cls: Any) -> StateSpec:
    """The spec of a class declared with :func:`state`.

    Raises:
        SchemaError: the class is not one.
    """
    schema = getattr(cls, _STATE, None)
    if not isinstance(schema, Schema):
        raise SchemaError(f"state= wants a class declared with @tw.state, got {cls!r}")
    return StateSpec(schema, cls)


def drop(state: Any) -> None:
    """Drops the state of the key when the function returns; the next tuple starts from the defaults."""
    state._drop = True
