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
    node = source.node()
    values = free_values(function)
    rebound = _rebound(node)
    local = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    local |= {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id not in rebound
    }
    outer = {name: value for name, value in values.items() if name not in local}
    for part in ast.walk(node):
        for name in _changed_by(part, outer, rebound):
            yield Changed(name, part.lineno)  # type: ignore[attr-defined]  # a statement or an expression


def _rebound(node: ast.AST) -> set[str]:
    """Names of outside that are bound anew."""
    asked = (one for one in ast.walk(node) if isinstance(one, ast.Global | ast.Nonlocal))
    return {name for one in asked for name in one.names}


def _changed_by(part: ast.AST, outer: Mapping[str, Any], rebound: set[str]) -> Iterator[str]:
    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id in rebound:
        yield part.id
    elif isinstance(part, ast.Subscript | ast.Attribute) and not isinstance(part.ctx, ast.Load):
        yield from _copied(part.value, outer)
    elif (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _CHANGING
    ):
        yield from _copied(part.func.value, outer, _CONTAINERS)


def _copied(
    node: ast.expr, outer: Mapping[str, Any], kinds: tuple[type, ...] = (object,)
) -> Iterator[str]:
    """The captured name that an expression such as ``a``, ``a.b`` or ``a[i].b`` begins with, if its value is copied."""
    inner = node
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in outer or is_kept(outer[inner.id]):
        return
    if inner is not node or isinstance(outer[inner.id], kinds):
        yield inner.id
