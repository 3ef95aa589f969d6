"""What a compiled row did, told by running it once more in plain Python.

Compiled code only knows *that* a row failed and which row it was. The interpreted function gives the
exception that Python gives, with its text and line; nothing the compiler accepts has side effects, so
running it again is safe.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from thalweg.compiler.source import FunctionSource
from thalweg.errors import OperatorError
from thalweg.flow import failures
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Schema


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


def operator_error(
    operator: str, source: FunctionSource, row: Any, error: BaseException
) -> OperatorError:
    """The error that stops a query, in the words that interpreted operators use."""
    # A source has the name, file and line that the text is made of.
    return failures.operator_error(operator, cast("Function", source), row, error)
