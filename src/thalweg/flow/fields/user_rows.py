"""The classes of users' rows that are not the NamedTuples inside: dataclasses, TypedDicts, and fields with a shape.

Inside the engine a row is always a NamedTuple of plain values. Where it is given to a user's function it becomes an
instance of the user's class (``outward``), and what a function gives becomes such a NamedTuple (``inward``).
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from thalweg.errors import SchemaError

if TYPE_CHECKING:
    from thalweg.flow.fields.field_types import FieldType
    from thalweg.flow.records import Field, Schema

Convert = Callable[[Any], Any]
#: What a user's function sees of a row: a NamedTuple, an object with attributes, or a dict.
Form = Literal["tuple", "object", "dict"]


@dataclasses.dataclass(frozen=True, slots=True)
class UserClass:
    """The class of the rows that users see.

    ``by_name`` says that an object is made by keywords only. A class that was ``made`` for its fields is not pickled.
    """

    cls: type
    form: Form
    by_name: bool = False
    made: bool = False
    #: whether its instances cannot be changed in place
    frozen: bool = True

    def __repr__(self) -> str:
        return f"UserClass({self.cls.__qualname__}, {self.form}, by_name={self.by_name})"


def is_typed_dict(cls: Any) -> bool:
    """Whether it is a TypedDict class, of ``typing`` or of ``typing_extensions``."""
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def user_fields(cls: type) -> tuple[UserClass, list[tuple[str, Any]]]:
    """A dataclass or TypedDict as the class of records, and its fields with their defaults (MISSING of dataclasses).

    Raises:
        SchemaError: it has what a record cannot have; the message says what to do.
    """
    if is_typed_dict(cls):
        return _of_typed_dict(cls)
    return _of_dataclass(cls)


def _of_typed_dict(cls: Any) -> tuple[UserClass, list[tuple[str, Any]]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    lacking = [one for one, hint in hints.items() if typing.get_origin(hint) is typing.NotRequired]
    optional = sorted({*cls.__optional_keys__, *lacking})
    if optional:
        raise SchemaError(
            f"{cls.__name__} may lack {', '.join(optional)} (total=False or NotRequired); a record has all its fields:"
            f" write {optional[0]}: ... | None"
        )
    names = list(hints)
    odd = next((one for one in names if not one.isidentifier()), None)
    if odd is not None:
        raise SchemaError(
            f"{cls.__name__} has a key {odd!r}, which is no identifier; call the field something else, and give the"
            f" source names={{field: {odd!r}}}"
        )
    user = UserClass(cls, "dict", by_name=True, frozen=False)
    return user, [(name, dataclasses.MISSING) for name in names]


def _of_dataclass(cls: Any) -> tuple[UserClass, list[tuple[str, Any]]]:
    where, parameters = cls.__name__, cls.__dataclass_params__
    for kind, annotation in inspect.get_annotations(cls).items():
        text = annotation if isinstance(annotation, str) else repr(annotation)
        if "ClassVar" in text or "InitVar" in text:
            raise SchemaError(
                f"{where}.{kind} is a {'ClassVar' if 'ClassVar' in text else 'InitVar'}; a record has fields alone:"
                " write a constant of the module, or a field"
            )
    if hasattr(cls, "__post_init__"):
        raise SchemaError(
            f"{where} has a __post_init__, which rows that machine code makes would not run; check and compute in a"
            " function instead"
        )
    own = [name for name in ("__init__", "__new__") if _is_own(cls, name)]
    if not parameters.init or own:
        raise SchemaError(
            f"{where} has an {own[0] if own else '__init__'} of its own; a record is made by its fields: leave it to"
            " @dataclass"
        )
    fields = dataclasses.fields(cls)
    for field in fields:
        if not field.init:
            raise SchemaError(
                f"{where}.{field.name} is field(init=False); a record is made of all its fields: give it init, or leave"
                " it out"
            )
    by_name = any(field.kw_only for field in fields)
    user = UserClass(cls, "object", by_name, frozen=parameters.frozen)
    return user, [(field.name, field.default) for field in fields]


def _is_own(cls: type, name: str) -> bool:
    found = inspect.getattr_static(cls, name, None)
    if name == "__new__":
        return found not in (None, inspect.getattr_static(object, "__new__")) and not _is_generic(
            cls
        )
    return isinstance(found, types.FunctionType) and found.__code__.co_filename != "<string>"


def _is_generic(cls: type) -> bool:
    return typing.Generic in cls.__mro__


# -- conversions -----------------------------------------------------------------------------------------


def outward_of(kind: FieldType) -> Convert | None:
    """The function from a value inside, which is not None, to what users see; None where it is the same."""
    if kind.shape is not None:
        return kind.shape.outward
    if kind.item is not None and not kind.form:
        item = null_safe(kind.item, outward_of(kind.item))
        return None if item is None else lambda values: list(map(item, values))
    return None if kind.record is None or kind.form else kind.record.outward


def inward_of(kind: FieldType) -> Convert | None:
    """The function from what users give, None too, to the value inside; None where that is the same.

    It raises TypeError. What is not its business, the types of plain values, is checked afterwards.
    """
    if kind.shape is not None:
        given: Convert | None = kind.shape.inward
    elif kind.item is not None and not kind.form:
        item = inward_of(kind.item)
        given = None if item is None else _items(item)
    else:
        given = None if kind.record is None or kind.form else kind.record.inward
    if given is None:
        return None
    return null_safe(kind, given)


def _items(item: Convert) -> Convert:
    def convert(values: Any) -> Any:
        return list(map(item, values)) if isinstance(values, list | tuple) else values

    return convert


def null_safe(kind: FieldType, convert: Convert | None) -> Convert | None:
    """The function, with None for None where the type is Optional."""
    if convert is None or not kind.optional:
        return convert
    return lambda value: None if value is None else convert(value)


def outward(user: UserClass, fields: Sequence[Field]) -> Convert:
    """The function from a row inside to an instance of the user's class."""
    names = [f"v{i}" for i in range(len(fields))]
    scope: dict[str, Any] = {"CLASS": user.cls}
    values = []
    for i, field in enumerate(fields):
        convert = outward_of(field.type)
        if convert is None:
            values.append(names[i])
            continue
        scope[f"C{i}"] = convert
        code = f"C{i}({names[i]})"
        values.append(f"None if {names[i]} is None else {code}" if field.type.optional else code)
    pairs = list(zip(fields, values, strict=True))
    if user.form == "dict":
        made = f"{{{', '.join(f'{field.name!r}: {value}' for field, value in pairs)}}}"
    elif user.form == "object" and user.by_name:
        made = f"CLASS({', '.join(f'{field.name}={value}' for field, value in pairs)})"
    elif user.form == "object":
        made = f"CLASS({', '.join(values)})"
    else:
        made = f"NEW(CLASS, ({', '.join(values)},))"
        scope["NEW"] = tuple.__new__
    # Functions of a key see rows that have the time behind the user's fields.
    whole = f"row if len(row) == {len(names)} else row[:{len(names)}]"
    head = f"    {', '.join(names)}, = {whole}\n" if names else ""
    return _function("outward", f"def outward(row):\n{head}    return {made}\n", scope)


def inward(record: Schema, user: UserClass) -> Convert:
    """The function from an instance of the user's class to a row inside."""
    scope: dict[str, Any] = {"CLASS": user.cls, "ROW": record.cls, "NEW": tuple.__new__}
    scope |= {"SLOWLY": lambda value: _inward_slowly(record, user, value)}
    got = []
    for i, field in enumerate(record.fields):
        code = f"value[{field.name!r}]" if user.form == "dict" else f"value.{field.name}"
        convert = inward_of(field.type)
        if convert is not None:
            scope[f"C{i}"] = convert
            code = f"C{i}({code})"
        got.append(code)
    size = f" and len(value) == {len(got)}" if user.form == "dict" else ""
    kind = "dict" if user.form == "dict" else "CLASS"
    text = (
        "def inward(value):\n"
        f"    if type(value) is {kind}{size}:\n"
        "        try:\n"
        f"            return NEW(ROW, ({''.join(f'{one}, ' for one in got)}))\n"
        "        except (TypeError, KeyError, AttributeError):\n"
        "            pass\n"
        "    return SLOWLY(value)\n"
    )
    return _function("inward", text, scope)


def _function(name: str, text: str, scope: dict[str, Any]) -> Convert:
    exec(compile(text, f"{__file__}<{name}>", "exec"), scope)
    made: Convert = scope[name]
    return made


def _inward_slowly(record: Schema, user: UserClass, value: Any) -> Any:
    """As :func:`inward`, field by field, to name the one that does not fit."""
    values = []
    for field, one in zip(record.fields, user_values(record, user, value), strict=True):
        convert = inward_of(field.type)
        try:
            values.append(one if convert is None else convert(one))
        except TypeError as error:
            raise TypeError(f"{record.name}.{field.name}: {error}") from None
    return record.make(values)


def user_values(record: Schema, user: UserClass, value: Any) -> Sequence[Any]:
    """The values of an instance of the user's class in field order.

    Raises:
        TypeError: it is no instance, or lacks a field.
    """
    names = record.names
    if user.form == "dict" and isinstance(value, Mapping):
        for extra in value.keys() - set(names):
            raise TypeError(f"{record.name} has no field {extra!r}; it has {', '.join(names)}")
        missing = [f.name for f in record.fields if f.name not in value and not f.type.optional]
        if missing:
            raise TypeError(f"{record.name}.{missing[0]} is missing")
        return [value.get(name) for name in names]
    if user.form == "object" and isinstance(value, user.cls):
        missing = [name for name in names if not hasattr(value, name)]
        if missing:
            raise TypeError(f"{record.name}.{missing[0]} is missing")
        return [getattr(value, name) for name in names]
    if user.form == "tuple" and isinstance(value, tuple) and len(value) == len(names):
        return value
    what = {"dict": f"a dict with the keys of {record}"}.get(user.form, str(record))
    raise TypeError(f"expected {what}, got {type(value).__name__} {value!r:.80}")


# -- functions -------------------------------------------------------------------------------------------

#: The attribute of an adapted function that holds how it was adapted, and the user's function.
_ADAPTED: Final = "__thalweg_adapted__"


@dataclasses.dataclass(frozen=True, slots=True)
class Adapter:
    """What a user's function takes and gives: types, None where a value passes as it is, several of a composite key."""

    takes: tuple[FieldType | tuple[FieldType, ...] | None, ...]
    gives: FieldType | None = None
    #: whether it gives several
    many: bool = False
    #: whether what it gives is awaited
    awaits: bool = False

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of values inside; the user's itself where these are what users see, or it is the library's."""
        if is_library(function):
            return function
        takes = [_taken(one) for one in self.takes]
        gives = None if self.gives is None else inward_of(self.gives)
        if gives is None and not any(takes):
            return function
        return _adapted(self, function, takes, gives)


def _taken(kind: FieldType | tuple[FieldType, ...] | None) -> Convert | None:
    if not isinstance(kind, tuple):
        return None if kind is None else null_safe(kind, outward_of(kind))
    parts = [null_safe(one, outward_of(one)) for one in kind]
    if not any(parts):
        return None
    return lambda key: tuple(
        one if part is None else part(one) for part, one in zip(parts, key, strict=True)
    )


def is_library(function: Any) -> bool:
    """Whether it is written for values inside: the package's own functions, and those that it generates."""
    home = getattr(function, "__module__", None) or ""
    return home == "thalweg_generated" or home.startswith("thalweg.flow.")


def _adapted(
    adapter: Adapter,
    function: Callable[..., Any],
    takes: Sequence[Convert | None],
    gives: Convert | None,
) -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": "thalweg_generated", "CALL": function, "GIVE": gives}
    names = [f"a{i}" for i in range(len(takes))]
    scope |= {f"T{i}": one for i, one in enumerate(takes) if one is not None}
    given = [
        name if one is None else f"T{i}({name})"
        for i, (name, one) in enumerate(zip(names, takes, strict=True))
    ]
    answer = f"{'await ' * adapter.awaits}CALL({', '.join(given)})"
    if gives is None:
        body = f"    return {answer}\n"
    elif adapter.many:
        body = (
            f"    made = {answer}\n    return None if made is None else"
            " [None if one is None else GIVE(one) for one in made]\n"
        )
    else:
        body = f"    made = {answer}\n    return None if made is None else GIVE(made)\n"
    made: Any = _function(
        "adapted", f"{'async ' * adapter.awaits}def adapted({', '.join(names)}):\n{body}", scope
    )
    made.__wrapped__ = function
    setattr(made, _ADAPTED, (adapter, function))
    return typing.cast("Callable[..., Any]", made)


def adapter_of(function: Any) -> tuple[Adapter, Callable[..., Any]] | None:
    """How a function was adapted, and the user's own; None where it was not."""
    found: tuple[Adapter, Callable[..., Any]] | None = getattr(function, _ADAPTED, None)
    return found


def users_own(function: Any) -> Any:
    """The function as the user wrote it."""
    found = adapter_of(function)
    return function if found is None else found[1]
