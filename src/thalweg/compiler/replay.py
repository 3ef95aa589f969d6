"""What a row on which compiled code raised means: it is run once more in plain Python, whose word counts.

Compiled code only knows *that* a row failed and which row it was. The interpreted function gives the
exception that Python gives, with its text and line, or a result that 64 bits could not compute; nothing
the compiler accepts has side effects, so running it again is safe.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, cast

from thalweg.compiler.code.source import FunctionSource
from thalweg.errors import OperatorError
from thalweg.flow import failures
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Schema


def results(result: Any) -> Iterable[Any]:
    """What a function's result means: None nothing, a generator its items, else one record."""
    if result is None:
        return ()
    return result if inspect.isgenerator(result) else (result,)


def consume(result: Any, out: Schema) -> list[Any]:
    """The records of a function's result, coerced."""
    return [out.coerce(one) for one in results(result)]


def operator_error(
    operator: str, source: FunctionSource | Function, row: Any, error: BaseException
) -> OperatorError:
    """The error that stops a query, in the words that interpreted operators use."""
    # A source has the name, file and line that the text is made of.
    return failures.operator_error(operator, cast("Function", source), row, error)
