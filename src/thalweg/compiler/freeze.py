"""A copy of a user's function that later changes of its globals and cells cannot reach."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any, Final, cast

from thalweg.errors import BuildError
from thalweg.flow.fields.user_rows import adapter_of

_IMMUTABLE: Final = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type,
    types.ModuleType,
    range,
)
_SHARED: Final = (types.BuiltinFunctionType, types.MethodType)


def freeze(function: Callable[..., Any], operator: str = "") -> Callable[..., Any]:
    """An equivalent function whose captured globals, cells and defaults are frozen copies.

    Immutable values are kept, mutable ones copied deeply; functions of the user's own module are frozen too.
    What is not a plain function comes back as it is. So interpreted and compiled mode see the same values.

    Args:
        operator: named in the error.

    Raises:
        BuildError: a captured value cannot be copied; the message names the variable.
    """
    if not isinstance(function, types.FunctionType):
        return function
    adapted = adapter_of(function)
    if adapted is not None:
        adapter, own = adapted
        return adapter(freeze(own, operator))
    return cast(
        "Callable[..., Any]", _Freezer(operator or function.__name__, function).run(function)
    )


def is_kept(value: Any) -> bool:
    """Whether functions see a captured value itself, since it cannot be changed, or is shared: a module, a class."""
    return isinstance(value, (*_IMMUTABLE, *_SHARED, types.FunctionType))


class _Freezer:
    """One pass; remembers what it froze, so that functions that call each other end."""

    def __init__(self, operator: str, root: types.FunctionType) -> None:
        self._operator = operator
        self._home = root.__globals__
        self._done: dict[int, types.FunctionType] = {}
        self._kept: dict[int, Any] = {}

    def run(self, function: types.FunctionType) -> types.FunctionType:
        if id(function) in self._done:
            return self._done[id(function)]
        code = function.__code__
        cells = tuple(types.CellType() for _ in code.co_freevars)
        names: dict[str, Any] = {"__builtins__": function.__globals__.get("__builtins__")}
        made = types.FunctionType(code, names, function.__name__, None, cells)
        self._done[id(function)] = made
        made.__kwdefaults__ = self._values(function.__kwdefaults__ or {}, function) or None
        made.__qualname__, made.__module__ = function.__qualname__, function.__module__
        made.__annotations__, made.__doc__ = dict(function.__annotations__), function.__doc__
        defaults = {str(i): one for i, one in enumerate(function.__defaults__ or ())}
        made.__defaults__ = tuple(self._values(defaults, function).values()) or None
        used = {name for name in _names(code) if name in function.__globals__}
        names |= self._values({n: function.__globals__[n] for n in sorted(used)}, function)
        names["__name__"] = function.__globals__.get("__name__", "__main__")
        for cell, old, name in zip(
            cells, function.__closure__ or (), code.co_freevars, strict=True
        ):
            try:
                cell.cell_contents = self._value(name, old.cell_contents, function)
            except ValueError:  # a cell that is still empty
                continue
        return made

    def _values(self, values: dict[str, Any], function: types.FunctionType) -> dict[str, Any]:
        return {name: self._value(name, one, function) for name, one in values.items()}

    def _value(self, name: str, value: Any, function: types.FunctionType) -> Any:
        if isinstance(value, _IMMUTABLE):
            return value
        if isinstance(value, types.FunctionType):
            return self.run(value) if value.__globals__ is self._home else value
        if isinstance(value, _SHARED):
            return value
        if id(value) not in self._kept:
            try:
                self._kept[id(value)] = copy.deepcopy(value)
            except Exception as error:
                raise BuildError(
                    f"operator {self._operator}: {function.__name__}"
                    f" ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"
                    f" captures {name!r}, a {type(value).__name__} that cannot be copied ({error});"
                    " captured values are frozen at start, so pass numbers, texts or tuples"
                ) from None
        return self._kept[id(value)]


def _names(code: types.CodeType) -> set[str]:
    """Every global name that the code or code nested in it may read."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names(const)
    return names
