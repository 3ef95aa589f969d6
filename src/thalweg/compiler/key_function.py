"""A key function compiled: a map to a record whose only field is the key.

Its source is that of the user's function with each result in a tuple of one, on the same lines; so whatever a map may
do compiles here too.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thalweg.compiler.code.source import FunctionSource, describe
from thalweg.compiler.stateless import Step
from thalweg.flow.records import Schema
from thalweg.syntax import parse


def key_step(
    name: str, function: Callable[..., Any], out: Schema, source: FunctionSource | None
) -> Step:
    """The step of a chain that gives the key of each row.

    Args:
        name: of the operator by key.
        function: gives a record of ``out``, for rows that Python must run.
        out: the record, with the key as its only field.
        source: of the user's function, which gives the bare key.
    """
    return Step("map", name, function, out, wrapped(source or describe(function)))


def wrapped(source: FunctionSource) -> FunctionSource:
    """The source of a function that gives tuples of one where this gives bare values."""
    if source.reason:
        return source
    if source.yields:
        return dataclasses.replace(source, reason=f"{source.where} yields; a key is one value")
    lines = source.text.encode().splitlines(keepends=True)
    made = _insertions(source.text, lines)
    # From the end on, so that places in front stay what they are; at one place the first is the last.
    for line, column, text in sorted(made, key=lambda one: one[:2], reverse=True):
        before, after = lines[line - 1][:column], lines[line - 1][column:]
        lines[line - 1] = before + text + after
    return dataclasses.replace(source, text=b"".join(lines).decode())


def _insertions(text: str, lines: Sequence[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """What to put where in the text: line from 1, column in bytes, bytes."""
    nodes = ast.walk(parse(text))
    node = next(one for one in nodes if isinstance(one, (ast.FunctionDef, ast.Lambda)))
    if isinstance(node, ast.Lambda):
        yield from _around(node.body)
        return
    yield from _end(node.body, lines)
    for one in _returns(node.body):
        if one.value is not None:
            yield from _around(one.value)
        else:
            yield one.lineno, one.col_offset + len("return"), b" (None,)"


def _end(body: Sequence[ast.stmt], lines: Sequence[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """The result of a function that falls off its end: None."""
    first, last = body[0], body[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return
    indent = lines[first.lineno - 1][: first.col_offset]
    end = b"; " if indent.strip() else b"\n" + indent
    assert last.end_lineno is not None and last.end_col_offset is not None
    yield last.end_lineno, last.end_col_offset, end + b"return (None,)"


def _around(value: ast.expr) -> Iterator[tuple[int, int, bytes]]:
    assert value.end_lineno is not None and value.end_col_offset is not None
    # Two pairs: the value itself may be a tuple without any.
    yield value.lineno, value.col_offset, b"(("
    yield value.end_lineno, value.end_col_offset, b"),)"


def _returns(body: list[ast.stmt]) -> Iterator[ast.Return]:
    """The returns of a function, those of functions in it left out."""
    for statement in body:
        if isinstance(statement, ast.Return):
            yield statement
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for one in ast.iter_child_nodes(statement):
                if isinstance(one, ast.stmt):
                    yield from _returns([one])
                elif isinstance(one, (ast.ExceptHandler, ast.match_case)):
                    yield from _returns(one.body)
