"""How a failure in a user's function is told: one readable error, or a rejected row."""

from __future__ import annotations

import traceback
from typing import Any

from thalweg.errors import OperatorError
from thalweg.operators.functions import Function

_LONGEST = 300


def shorten(value: Any, longest: int = _LONGEST) -> str:
    """The text of a value, cut to what a message can bear."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def reason_of(error: BaseException) -> str:
    """``ZeroDivisionError: division by zero``."""
    return shorten(f"{type(error).__name__}: {error}") if str(error) else type(error).__name__


def operator_error(
    operator: str, function: Function, row: Any, error: BaseException
) -> OperatorError:
    """The error that stops a query: operator, function, file, line and the row, within ten lines."""
    lines = [
        one for one in traceback.extract_tb(error.__traceback__) if one.filename == function.file
    ]
    at = f", raised at line {lines[-1].lineno}" if lines else ""
    text = (
        f"operator {operator!r} failed: {reason_of(error)}\n"
        f"  function: {function.name} in {function.file}:{function.line}{at}\n"
        f"  row:      {shorten(row)}\n"
        "  to go on without such rows, set errors='reject' on the operator or the flow"
        " and read its .rejected stream"
    )
    made = OperatorError(text, operator=operator, row=shorten(row))
    made.__cause__ = error
    return made


def coroutine_error(operator: str, function: Function, error: BaseException) -> OperatorError:
    """The error that stops a query when an operator with its own driver loop raised."""
    lines = [
        one for one in traceback.extract_tb(error.__traceback__) if one.filename == function.file
    ]
    at = f", raised at line {lines[-1].lineno}" if lines else ""
    return OperatorError(
        f"operator {operator!r} failed: {reason_of(error)}\n"
        f"  function: {function.name} in {function.file}:{function.line}{at}",
        operator=operator,
    )
