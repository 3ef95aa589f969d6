"""What a function changes of the values that it captured: those are copies, so nobody sees it, and it is told once.

It is found in the function's text: a call of a method that changes a list, dict or set, an item or attribute that is
set, a ``global`` or ``nonlocal`` name that is bound anew. What is changed in other ways is not found.
"""

from __future__ import annotations

import ast
import logging
import types
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
)
from typing import Any, Final, NamedTuple

from thalweg.compiler.code.source import FunctionSource, describe, free_values
from thalweg.compiler.freeze import is_kept
from thalweg.flow.fields.user_rows import users_own

_LOG: Final = logging.getLogger("thalweg")
_CHANGING: Final = frozenset(
    {
        "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
        "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault", "sort",
        "subtract", "symmetric_difference_update", "update",
    }
)  # fmt: skip
_CONTAINERS: Final = (MutableSequence, MutableMapping, MutableSet)
#: Functions that were told of, by where they stand.
_told: set[str] = set()


class Changed(NamedTuple):
    """A name whose copy a function changes, and the line."""

    name: str
    line: int


class _Change(NamedTuple):
    """A change that a function's text makes: of a name bound anew, of a value, or of what is inside one."""

    name: str
    line: int
    is_rebound: bool = False
    is_inner: bool = False
    kinds: tuple[type, ...] = ()


#: By code, what its text changes: each run asks, and the text stays.
_changes_of: dict[types.CodeType, list[_Change]] = {}


def tell_changed_copies(function: Callable[..., Any], operator: str) -> None:
    """Says once a process of each function, and of those of its module that it calls, what of its copies it changes."""
    own = users_own(function)
    if isinstance(own, types.FunctionType):
        for one in _with_called(own, {}):
            _tell(one, operator)


def _with_called(
    function: types.FunctionType, found: dict[types.CodeType, types.FunctionType]
) -> Collection[types.FunctionType]:
    """It and those of its module that it names; others see their own module's values."""
    if function.__code__ not in found:
        found[function.__code__] = function
        values = free_values(function)
        for name in (*function.__code__.co_names, *function.__code__.co_freevars):
            called = values.get(name)
            if (
                isinstance(called, types.FunctionType)
                and called.__globals__ is function.__globals__
            ):
                _with_called(called, found)
    return found.values()


def _tell(function: types.FunctionType, operator: str) -> None:
    source = describe(function)
    if source.where in _told:
        return
    found = list(changed_copies(function, source))
    if found:
        _told.add(source.where)
        names = ", ".join(dict.fromkeys(repr(one.name) for one in found))
        lines = ", ".join(str(one) for one in sorted({one.line for one in found}))
        _LOG.warning(
            "operator %s: %s changes %s, which it captured (line %s). A run works on a copy, made at its start: outside"
            " nothing changes, and each slot of a cluster has a copy of its own. For rows take a sink"
            " (tw.each(rows.append)), for what is remembered between rows state (key_by(...).process(..., state=))",
            operator, source.where, names, lines,
        )  # fmt: skip


def changed_copies(function: types.FunctionType, source: FunctionSource) -> Iterator[Changed]:
    """What of captured values a function changes, by its text; nothing where that is not known."""
    if not source.text:
        return
    code = function.__code__
    if code not in _changes_of:
        _changes_of[code] = list(_changes(source.node()))
    values = free_values(function)
    for change in _changes_of[code]:
        if change.is_rebound or _is_copied(change, values):
            yield Changed(change.name, change.line)


def _is_copied(change: _Change, values: Mapping[str, Any]) -> bool:
    if change.name not in values or is_kept(values[change.name]):
        return False
    return change.is_inner or isinstance(values[change.name], change.kinds)


def _changes(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[_Change]:
    """What a function changes of names that are not its own."""
    rebound = _rebound(node)
    local = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    local |= {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id not in rebound
    }
    for part in ast.walk(node):
        yield from (one for one in _changed_by(part, rebound) if one.name not in local)


def _rebound(node: ast.AST) -> set[str]:
    """Names of outside that are bound anew."""
    asked = (one for one in ast.walk(node) if isinstance(one, ast.Global | ast.Nonlocal))
    return {name for one in asked for name in one.names}


def _changed_by(part: Any, rebound: set[str]) -> Iterator[_Change]:
    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id in rebound:
        yield _Change(part.id, part.lineno, is_rebound=True)
    elif isinstance(part, ast.Subscript | ast.Attribute) and not isinstance(part.ctx, ast.Load):
        yield from _begun_with(part.value, part.lineno, (object,))
    elif (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _CHANGING
    ):
        yield from _begun_with(part.func.value, part.lineno, _CONTAINERS)


def _begun_with(node: ast.expr, line: int, kinds: tuple[type, ...]) -> Iterator[_Change]:
    """The name that an expression such as ``a``, ``a.b`` or ``a[i].b`` begins with."""
    inner = node
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield _Change(inner.id, line, is_inner=inner is not node, kinds=kinds)
