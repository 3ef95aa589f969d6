"""How a failure in a user's function is told: one readable error, or a rejected row."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from thalweg.errors import OperatorError, ThalwegError
from thalweg.flow.operators.functions import Function

_LONGEST = 300
#: Where the files of this package lie; its examples are as a user's.
_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
#: What asyncio raises outside its own loop, and what is said then.
_NO_LOOP = "no running event loop"
_NO_ASYNCIO = (
    "there is no asyncio here: an operator awaits tw.wait_for_all, tw.wait_for_any and push only"
)


def told_once(error: ThalwegError) -> ThalwegError:
    """The error with one traceback behind it at most: that of the user's own code, where that raised.

    What an error of ours came from says the same in other words, and frames of the engine say nothing to a user.
    """
    cause = error.__cause__
    while isinstance(cause, ThalwegError):
        cause = cause.__cause__
    trace = None if cause is None else _from_user_code(cause.__traceback__)
    if cause is not None and trace is not None:
        cause.__traceback__ = trace
        before = cause.__context__
        if before is not None and _from_user_code(before.__traceback__) is None:
            cause.__context__ = (
                None  # of the compiled function; this is its second run, interpreted
            )
    elif str(cause) in str(error):
        cause = None
    error.__cause__ = cause  # hides the context
    return error


def _from_user_code(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package at its head."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        trace = trace.tb_next
    return trace


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
    """The error that stops a query: operator, function, file, line and the row, within ten lines.

    One that says so already, as that of a driver loop, gets the row behind.
    """
    if isinstance(error, OperatorError) and error.operator == operator:
        text = error.row or shorten(row)
        return OperatorError(f"{error}\n  row:      {text}", operator=operator, row=text)
    text = (
        f"operator {operator!r} failed: {reason_of(error)}\n"
        f"{_place(function)}{_raised_at(function, error)}\n"
        f"  row:      {shorten(row)}\n"
        "  to go on without such rows, set errors='reject' on the operator or the flow"
        " and read its .rejected stream"
    )
    made = OperatorError(text, operator=operator, row=shorten(row))
    made.__cause__ = error
    return made


def coroutine_error(
    operator: str, function: Function, error: BaseException, rows: Sequence[Any] = ()
) -> OperatorError:
    """The error that stops a query when an operator with its own driver loop, or on several rows, raised.

    ``rows`` are those that the function was called with, where they are known.
    """
    of_asyncio = isinstance(error, RuntimeError) and str(error) == _NO_LOOP
    hint = f"\n  {_NO_ASYNCIO}" if of_asyncio else ""
    told = [f"\n  row:      {shorten(one)}" for one in rows]
    return OperatorError(
        f"operator {operator!r} failed: {reason_of(error)}\n"
        f"{_place(function)}{_raised_at(function, error)}{hint}{''.join(told)}",
        operator=operator,
        row=", ".join(map(shorten, rows)),
    )


def left_by(error: BaseException) -> ThalwegError:
    """The error of a flow one of whose functions wanted to end the process."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return ThalwegError(
        f"a function of the flow wanted to end the process: {reason_of(error)}\n"
        f"  at {last.name} in {last.filename}:{last.lineno}\n"
        "  raise an error instead, which names the row, or stop the run from outside"
    )


def refusal(operator: str, function: Function, what: str) -> OperatorError:
    """The error that stops a query when a function did not keep to the rules."""
    return OperatorError(f"operator {operator!r}: {what}\n{_place(function)}", operator=operator)


def _place(function: Function) -> str:
    return f"  function: {function.name} in {function.file}:{function.line}"


def _raised_at(function: Function, error: BaseException) -> str:
    """The last line of the function's own file on the way to where it raised; "" where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if one.filename == function.file]
    return f", raised at line {lines[-1]}" if lines else ""
