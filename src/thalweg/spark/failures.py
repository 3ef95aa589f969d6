"""What stopped a query, as one readable error without a Java stack."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from thalweg.errors import EnvironmentProblem, OperatorError, ThalwegError
from thalweg.flow.failures import reason_of, shorten
from thalweg.flow.operators.functions import Function
from thalweg.spark.deaths import death, jvm_is_gone

_NOISE = re.compile(
    r"\s|Traceback \(most|Caused by:|(Driver|JVM) stacktrace|An error occurred while calling o\d+"
)
_CAUSE = "Caused by: "
#: What Spark says in front of the reason of a failed task.
_TASK = re.compile(r"^.*most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
#: Lines of another's error that are worth showing.
_LINES = 5


def readable(
    error: BaseException, where: str, *, since_s: float = 0.0, batch: int | None = None
) -> BaseException:
    """An error of ours as it is, one of Spark or Python in a few lines; interrupts as they are.

    Args:
        error: what was raised.
        where: what it stopped.
        since_s: the wall time at which that began.
        batch: with which a restart goes on, where there is a checkpoint.
    """
    if isinstance(error, ThalwegError) or not isinstance(error, Exception):
        return error
    died = death(error, str(error), since_s)
    made: ThalwegError = ThalwegError(f"{where} failed: {died or essence(error)}")
    if died is not None:
        again = "start it again"
        if batch is not None:
            again = f"nothing is lost: start again from the same checkpoint, and it goes on with batch {batch}"
        made = EnvironmentProblem(f"{where} failed: {died}.\n  {again}")
    made.__cause__ = error
    return made


def ending(
    error: BaseException, where: str, *, since_s: float = 0.0, batch: int | None = None
) -> Exception:
    """What ends a query: :func:`readable`, and an error also for what is no ``Exception``.

    Spark's thread of the batch waits for an answer, which a ``SystemExit`` that goes on would never give.
    """
    if isinstance(error, Exception):
        made = readable(error, where, since_s=since_s, batch=batch)
        assert isinstance(made, Exception)
        return made
    ended = ThalwegError(f"{where} failed: {reason_of(error)}")
    ended.__cause__ = error
    return ended


def cause_to_show(error: BaseException) -> BaseException | None:
    """What led to an error, where that is worth a traceback of its own: Java's are hundreds of lines."""
    cause = error.__cause__
    foreign = type(cause).__module__.partition(".")[0] in ("py4j", "pyspark")
    return None if foreign else cause


def essence(error: BaseException) -> str:
    """The lines of an error that say something, without the stacks of Java and Python."""
    told = str(error).splitlines()
    lines = [line.lstrip(": ") for line in told if not _NOISE.match(line)]
    if all(line.rstrip().endswith(":") for line in lines):
        # The outermost one only passes on what another has said.
        lines += [line.removeprefix(_CAUSE) for line in told if line.startswith(_CAUSE)]
    lines = [_TASK.sub("", line) for line in lines]
    kept = [shorten(line) for line in dict.fromkeys(lines) if line.strip()]
    if not kept:
        return reason_of(error)
    if len(kept) > _LINES:
        # A Python worker's error ends with what matters, Spark's begins with it.
        kept = [*kept[: _LINES - 1], kept[-1]]
    name = type(error).__name__
    return "\n  ".join(kept) if name.startswith("Py4J") else f"{name}: " + "\n  ".join(kept)


def write_failed(sink: str, where: str, batch: int, error: Exception) -> ThalwegError:
    """A sink could not be written: files by Spark, or what is printed."""
    made = EnvironmentProblem(
        f"sink {sink!r}: batch {batch} cannot be written to {where}: {essence(error)}\n"
        "  when that is repaired, start again from the same checkpoint: the batch is written anew"
    )
    made.__cause__ = error
    return made


def function_failed(
    sink: str, call: Callable[..., Any], batch: int, error: BaseException
) -> OperatorError:
    """A sink's function raised."""
    made = Function.of(call, sink)
    text = OperatorError(
        f"sink {sink!r}: {made.name} failed on batch {batch}: {essence(error)}\n"
        f"  at   {made.file}:{made.line}\n"
        "  when that is repaired, start again from the same checkpoint: the batch is given to it again",
        operator=sink,
    )
    text.__cause__ = error
    return text


#: What py4j logs for each call to a JVM that is gone.
_NO_ANSWER = "Exception while sending command"


class _Told(logging.Filter):
    """Leaves out what py4j logs about errors that the query itself tells."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if str(record.msg).startswith(_NO_ANSWER):
            return not jvm_is_gone(error)
        return not isinstance(error, ThalwegError)


_TOLD = _Told()


def tell_once() -> None:
    """From now on py4j does not log a failure of a batch beside the query that raises it."""
    for logger in (logging.getLogger("py4j.clientserver"), logging.getLogger()):
        if _TOLD not in logger.filters:
            logger.addFilter(_TOLD)
