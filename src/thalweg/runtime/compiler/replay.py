"""What a compiled row did, told by running it once more in plain Python.

Compiled code only knows *that* a row failed and which row it was. The interpreted function gives the
exception that Python gives, with its text and line; nothing the compiler accepts has side effects, so
running it again is safe.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from thalweg.errors import OperatorError
from thalweg.records import Schema


def first_failure(run: Callable[[], object], compiled: BaseException) -> BaseException:
    """The exception of the interpreted run; the compiled one's where that run passes (an int that wrapped)."""
    try:
        run()
    except Exception as error:
        return error
    return compiled


def consume(result: Any, out: Schema | None) -> list[Any]:
    """What a function's result means: None nothing, a generator its items, else one record; all coerced."""
    if result is None:
        return []
    items: Iterable[Any] = result if inspect.isgenerator(result) else (result,)
    return [one if out is None else out.coerce(one) for one in items]


def reason_of(error: BaseException) -> str:
    """The exception's type and text, as rejected rows carry it."""
    return f"{type(error).__name__}: {error}"


def operator_error(
    operator: str, function: Callable[..., Any], error: BaseException, row: str
) -> OperatorError:
    """The error that stops a query: operator, function, place, row, exception."""
    name = getattr(function, "__name__", "?")
    return OperatorError(
        f"operator {operator}: {name} raised {reason_of(error)}\n"
        f"  at   {_place(function, error)}\n"
        f"  row  {row}\n"
        '  to go on with the next row instead, build the flow with errors="reject"',
        operator=operator,
        row=row,
    )


def _place(function: Callable[..., Any], error: BaseException) -> str:
    """The deepest line in the file of the user's function, else the line of its definition."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    inside = [one for one in frames if one.filename == code.co_filename]
    return f"{code.co_filename}:{inside[-1].lineno if inside else code.co_firstlineno}"


def show(value: object) -> str:
    """A row as text, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:297]}..."
