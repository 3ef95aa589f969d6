"""State classes: what ``tw.state`` declares, and how a key's state is made of values and taken apart."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, dataclass_transform, overload

from thalweg.checks import known_keywords, meant
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.hints import hints_of
from thalweg.flow.records import MISSING, Field, Schema
from thalweg.flow.state_types import needs_revival, revived, state_field_type
from thalweg.times import NEVER


@dataclasses.dataclass(frozen=True)
class StateSpec:
    """A state class: its fields with defaults and the class itself.

    The Arrow form of a state is the schema of its fields; a field ``timer: tw.Timer`` is the key's timer.
    """

    schema: Schema
    cls: type = dataclasses.field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return StateSpec, (self.schema, self.cls)  # without what is made of it

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def migrate(self) -> Callable[[Any], Any] | None:
        """What makes a state of one of an older class, where there is something."""
        return _MIGRATIONS.get(self.cls)

    @functools.cached_property
    def timer(self) -> str | None:
        """The name of the field that holds the key's timer, None when the state has none."""
        return next((f.name for f in self.schema.fields if f.type.kind is Kind.TIMER), None)

    @functools.cached_property
    def timers(self) -> tuple[str, ...]:
        """The fields that are the key's timers where there are several: ``timer`` is the least of them then."""
        found: tuple[str, ...] = getattr(self.cls, _TIMERS, ())
        return found

    @functools.cached_property
    def fixed_width(self) -> bool:
        """Whether the state fits a row of a compiled table: only fixed-width fields, none of them Optional."""
        return all(f.type.fixed_width and not f.type.optional for f in self.schema.fields)

    def new(self) -> Any:
        """A fresh state, every field at its default."""
        return self.maker()

    @functools.cached_property
    def maker(self) -> Callable[[], Any]:
        """:meth:`new` as a function made for the class."""
        fields = self.schema.fields
        nested = {i for i, f in enumerate(fields) if f.type.kind in _NESTED}
        lines = [
            f"    state.{f.name} = {f'REVIVED(K{i}, D{i})' if i in nested else f'D{i}'}\n"
            for i, f in enumerate(fields)
        ]
        text = (
            "def new():\n    state = NEW(CLASS)\n"
            + "".join(lines)
            + "    state._drop = False\n    return state\n"
        )
        scope: dict[str, Any] = {"NEW": object.__new__, "CLASS": self.cls, "REVIVED": revived}
        scope |= {f"D{i}": field.default for i, field in enumerate(fields)}
        scope |= {f"K{i}": fields[i].type for i in nested}
        exec(compile(text, f"{__file__}<new>", "exec"), scope)
        made: Callable[[], Any] = scope["new"]
        return made

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
                raise TypeError(f"{self.told(field)}: {error}") from None
        return tuple(out)

    def told(self, field: Field) -> str:
        """A field in the words of who wrote it: of an aggregate, the name that it was given."""
        if self.cls.__module__ == __name__ and field.name.endswith("_"):
            return f"the aggregate {field.name[:-1]!r}"
        return f"{self.name}.{field.name}"

    def restore(self, values: Sequence[Any]) -> Any:
        """The state object that has these field values."""
        state: Any = object.__new__(self.cls)
        for (name, kind), value in zip(self._kinds, values, strict=True):
            setattr(state, name, value if kind is None else revived(kind, value))
        state._drop = False
        return state

    @functools.cached_property
    def _kinds(self) -> tuple[tuple[str, FieldType | None], ...]:
        """Each field with its type where a value must be given its form."""
        return tuple(
            (f.name, f.type if needs_revival(f.type) else None) for f in self.schema.fields
        )


_NESTED: Final = (Kind.LIST, Kind.RECORD)
_STATE: Final = "__thalweg_state__"
_TIMERS: Final = "__thalweg_timers__"
_Class = TypeVar("_Class")
#: By state class what makes states of older ones; beside the class, which is sent to other processes without it.
_MIGRATIONS: Final[weakref.WeakKeyDictionary[type, Callable[[Any], Any]]] = (
    weakref.WeakKeyDictionary()
)


@overload
def state(cls: type[_Class], /) -> type[_Class]: ...


@overload
def state(*, migrate: Callable[[Any], Any]) -> Callable[[type[_Class]], type[_Class]]: ...


@known_keywords
@dataclass_transform(kw_only_default=True)
def state(cls: Any = None, /, *, migrate: Callable[[Any], Any] | None = None) -> Any:
    """Declares a state class: annotated fields, each with a default (a Timer's is NEVER).

    The instances are plain objects with slots; fields left out of ``__init__`` get their default, lists, deques
    and dicts a fresh copy of it. To a type checker a Timer without ``= tw.NEVER`` must be given where an instance is
    made.

    Args:
        cls: the class.
        migrate: ``migrate(old)`` gives the state of a key that a checkpoint has in the form of an older class: an
            instance, or a mapping of fields. ``old`` is a mapping of the old fields, or, where the parameter is
            annotated with a NamedTuple, a dataclass or a state class, an instance of that. It is called once a key, at
            the first start with other fields than the checkpoint's (docs/evolve.md).

    Example::

        >>> @state
        ... class Open:
        ...     timer: Timer = NEVER
        ...     pages: int = 0
        >>> Open().pages
        0

    Raises:
        SchemaError: a field has no default, or an unknown type.
    """
    if migrate is not None:
        if not callable(migrate):
            raise SchemaError(f"state: migrate is a function of the old state, got {migrate!r}")
        return functools.partial(_declared, migrate=migrate)
    return _declared(cls)


def _declared(cls: Any, migrate: Callable[[Any], Any] | None = None) -> Any:
    if not isinstance(cls, type):
        raise SchemaError(f"state: cls is a class of annotated fields, got {cls!r}")
    hints = hints_of(cls)
    fields = []
    for name in inspect.get_annotations(cls):
        default = _default(cls, name)
        kind = state_field_type(hints[name], default, f"{cls.__name__}.{name}")
        if default is MISSING and kind.kind is Kind.TIMER:
            default = NEVER
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
    timers = tuple(field.name for field in fields if field.type.kind is Kind.TIMER)
    if len(timers) < 2:
        made: type = _state_class(cls, tuple(fields))
    else:
        made = _state_class(cls, _with_first(fields, timers), hides=1)
        setattr(made, _TIMERS, timers)
    if migrate is not None:
        _MIGRATIONS[made] = migrate
    return made


def _with_first(fields: Sequence[Field], timers: Sequence[str]) -> tuple[Field, ...]:
    """The fields with several timers as ints, and behind them the timer that stands at the first of these."""
    names = {field.name for field in fields}
    first = next(name for n in range(1, len(names) + 2) if (name := "timer" + n * "_") not in names)
    plain = [
        Field(one.name, FieldType(Kind.INT), one.default) if one.name in timers else one
        for one in fields
    ]
    return (*plain, Field(first, FieldType(Kind.TIMER), NEVER))


def _default(cls: type, name: str) -> Any:
    """A field's default as it is written: a value, or ``field(default_factory=...)`` of dataclasses."""
    value = cls.__dict__.get(name, MISSING)
    if not isinstance(value, dataclasses.Field):
        return value
    if value.default_factory is not dataclasses.MISSING:
        return value.default_factory()
    return MISSING if value.default is dataclasses.MISSING else value.default


def _state_class(cls: type[_Class], fields: tuple[Field, ...], *, hides: int = 0) -> type[_Class]:
    """The class of these fields, the last ``hides`` of which are not shown."""
    names = tuple(field.name for field in fields)
    seen = names[: len(names) - hides]
    plain = {f.name: f.default for f in fields if f.type.kind not in _NESTED}
    nested = {f.name: (f.type, f.default) for f in fields if f.name not in plain}

    def init(self: Any, **values: Any) -> None:
        unknown = values.keys() - set(names)
        if unknown:
            hint = meant(min(unknown), names)
            raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}{hint}")
        for name, default in plain.items():
            setattr(self, name, values.get(name, default))
        for name, (kind, default) in nested.items():
            setattr(self, name, values[name] if name in values else revived(kind, default))
        self._drop = False

    def show(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in seen)})"

    def equal(self: Any, other: Any) -> bool:
        return type(self) is type(other) and all(
            getattr(self, n) == getattr(other, n) for n in names
        )

    body = {k: v for k, v in cls.__dict__.items() if k not in (*names, "__dict__", "__weakref__")}
    #: ``_drop`` is set by ``tw.drop`` and read by the engine after the call
    body |= {"__slots__": (*names, "_drop"), "__init__": init, "__repr__": show, "__eq__": equal}
    meta: Any = type(cls)
    made: type[_Class] = meta(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    setattr(made, _STATE, Schema(cls.__name__, fields))
    return made


def make_state(name: str, fields: Sequence[Field]) -> StateSpec:
    """A state spec with a class made for it, for the library's operators."""
    made: type = _state_class(type(name, (), {}), tuple(fields))
    return StateSpec(Schema(name, tuple(fields)), made)


def state_spec(cls: Any) -> StateSpec:
    """The spec of a class declared with :func:`state`.

    Raises:
        SchemaError: the class is not one.
    """
    schema = getattr(cls, _STATE, None)
    if not isinstance(schema, Schema):
        raise SchemaError(f"state= wants a class declared with @tw.state, got {cls!r}")
    if not isinstance(cls, type):
        field = next((f for f in schema.fields if getattr(cls, f.name) != f.default), None)
        said = (
            "" if field is None else f", {field.name}: {field.type} = {getattr(cls, field.name)!r}"
        )
        name = schema.name
        raise SchemaError(
            f"state= wants the class {name}, got an instance of it, {cls!r}; write state={name}. A new key starts with"
            f" the defaults of the class, so what it starts with stands there{said}"
        )
    return StateSpec(schema, cls)


def drop(state: Any) -> None:
    """Drops the state of the key when the function returns; the next tuple starts from the defaults."""
    state._drop = True
