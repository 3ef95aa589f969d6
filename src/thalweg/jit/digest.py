"""What a compiled function is made from, as one digest: equal digests, equal machine code.

A compiled function depends on its own bytecode, on the values of the globals that it names (which Numba freezes), and
on all compiled functions that it calls, since LLVM sees them whole. So the digest goes from function to function
through the names that their bytecode uses; comments, line numbers and files that are not compiled do not count.

What is no compiled function but makes code (intrinsics, and plain functions that an ``@overload`` stands for) counts by
the text of its module and of all that this module imports from the package. An ``@overload`` therefore has to stand in
the module of the function that it replaces.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import pathlib
import platform
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core.dispatcher import Dispatcher
from numba.core.types import ExternalFunction, Type

from thalweg.syntax import parse

_PACKAGE: Final = "thalweg"
#: How things are kept makes no code; the options of the decorators count by themselves.
_DOOR: Final = "thalweg.jit"
#: Flags of code objects that say how it runs (arguments, generators), not how it was written.
_FLAGS: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes)


class Undescribable(Exception):
    """A value that compiled code may depend on, and of which nothing lasting can be said."""


@functools.cache
def digest_of(dispatcher: Any) -> str:
    """The digest of a compiled function and of all that goes into its machine code.

    Raises:
        Undescribable: it uses a value of a kind that is not known here.
    """
    reached, waiting = {dispatcher: _own_part(dispatcher)}, [dispatcher]
    while waiting:
        for callee in _own_part(waiting.pop()).callees:
            if callee not in reached:
                reached[callee] = _own_part(callee)
                waiting.append(callee)
    first = reached.pop(dispatcher)
    return _hash([versions(), first.digest, *sorted(part.digest for part in reached.values())])


@functools.cache
def versions() -> str:
    """What else shapes machine code, but for the processor, which Numba names for each function."""
    tools = [
        f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite", "numpy")
    ]
    return (
        f"{sys.implementation.cache_tag} {platform.python_version()} {platform.machine()} {tools}"
    )


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


class _Part:
    """One function without those that it calls: its digest, and whom it calls."""

    __slots__ = ("callees", "digest")

    def __init__(self, dispatcher: Any) -> None:
        self.callees: set[Any] = set()
        function, options = dispatcher.py_func, sorted(dispatcher.targetoptions.items())
        self.digest = _hash([repr(options), *self._function(function)])

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        yield f"{function.__module__}.{function.__qualname__}"
        yield from _code_parts(function.__code__, function.__doc__)
        yield self._value(function.__defaults__)
        yield from self._cells(function)
        names = sorted(set(_names(function.__code__)))
        for name in names:
            if name in function.__globals__:
                yield f"{name} = {self._global(function.__globals__[name], names)}"

    def _cells(self, function: types.FunctionType) -> Iterator[str]:
        for cell in function.__closure__ or ():
            yield self._value(cell.cell_contents)

    def _global(self, value: Any, names: list[str]) -> str:
        """A global; of a module of the package what is named of it."""
        if not isinstance(value, types.ModuleType):
            return self._value(value)
        if not _is_ours(value.__name__):
            return value.__name__
        used = [name for name in names if name in vars(value)]
        return _hash(f"{name} = {self._value(vars(value)[name])}" for name in used)

    def _value(self, value: Any) -> str:
        if isinstance(value, Dispatcher):
            self.callees.add(value)
            return f"{value.py_func.__module__}.{value.py_func.__qualname__}"
        if type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, np.ndarray | np.generic):
            return f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
        if isinstance(value, tuple | list):
            return f"{type(value).__name__} {[self._value(one) for one in value]}"
        if isinstance(value, frozenset | set):
            return f"set {sorted(self._value(one) for one in value)}"
        if isinstance(value, dict):
            return f"dict {[(self._value(k), self._value(v)) for k, v in value.items()]}"
        return self._code_maker(value)

    def _code_maker(self, value: Any) -> str:
        """What Numba turns into code in its own way: types, classes, intrinsics, functions with overloads."""
        if isinstance(value, Type | ir.Type):
            symbol = f"{value.symbol} {value.sig}" if isinstance(value, ExternalFunction) else ""
            return f"{type(value).__name__} {value} {symbol}"
        if isinstance(value, types.ModuleType):
            return _text_of_closure(value.__name__) if _is_ours(value.__name__) else value.__name__
        defined = getattr(value, "_defn", value)  # an intrinsic's function
        if isinstance(defined, types.FunctionType):
            return _hash([*self._function_text(defined), *self._cells(defined)])
        return self._named(value)

    def _function_text(self, function: types.FunctionType) -> Iterator[str]:
        yield f"{function.__module__}.{function.__qualname__}"
        if _is_ours(function.__module__):
            yield _text_of_closure(function.__module__)
        else:
            # A library's (its version counts), or a user's, which Numba refuses.
            yield from _code_parts(function.__code__)

    def _named(self, value: Any) -> str:
        """Classes and built-in functions, by name; a record class by its fields."""
        fields = getattr(value, "_fields", None)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        module = getattr(value, "__module__", None)
        if name is None or not (isinstance(value, type) or callable(value)):
            raise Undescribable(f"{type(value).__name__} in compiled code")
        if fields is not None:
            return f"{module}.{name} {fields}"
        text = _text_of_closure(module) if module is not None and _is_ours(module) else ""
        return f"{module}.{name} {text}"


_own_part: Final = functools.cache(_Part)


def _code_parts(code: types.CodeType, doc: str | None = None) -> Iterator[str]:
    """What two compilations of one text share wherever it stands; not the text that documents it."""
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags & _FLAGS}"
    yield code.co_exceptiontable.hex()
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant)
        elif place or constant not in (None, doc):  # the first constant documents a function
            yield f"{type(constant).__name__} {constant!r}"


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


# -- modules by their text -----------------------------------------------------------------------------


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


@functools.cache
def _text_of_closure(module: str) -> str:
    """A digest of the module's text and of the texts of all modules of the package that it imports."""
    return _hash(f"{name} {_text(name)}" for name in sorted(import_closure(module)))


def import_closure(module: str) -> frozenset[str]:
    """A module of the package and those that it imports, directly or through others, but for this door."""
    found, waiting = {module}, [module]
    while waiting:
        for name in _imports(waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return frozenset(found)


@functools.cache
def _file(module: str) -> pathlib.Path | None:
    loaded = sys.modules.get(module)
    place = getattr(loaded, "__file__", None)
    if place is None:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return None
        place = spec.origin if spec is not None else None
    return None if place is None else pathlib.Path(place)


@functools.cache
def _text(module: str) -> str:
    file = _file(module)
    if file is None:
        raise Undescribable(f"module {module}, which has no file")
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise Undescribable(f"module {module}: {error}") from error


@functools.cache
def _imports(module: str) -> tuple[str, ...]:
    file = _file(module)
    if file is None:
        return ()
    found = []
    for node in parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [_home(node.module, one.name) for one in node.names]
    return tuple(one for one in found if _is_ours(one) and one not in (_PACKAGE, _DOOR))


def _home(module: str, name: str) -> str:
    """The module that a name is imported from: itself one, where the name is that of a module in a package."""
    inner = f"{module}.{name}"
    return inner if _is_ours(inner) and _file(inner) is not None else module
