"""Failures as people want to read them: one message on stderr, no traceback, and an exit code that says enough."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import typer

from thalweg.errors import ThalwegError
from thalweg.printing import OutputClosed, say

log = logging.getLogger("thalweg")

#: How the last line of a traceback inside a foreign error looks.
_RAISED: Final = re.compile(r"[\w.]*(?:Error|Exception): .*")


#: The exit code of a program that nobody reads any more: 128 and the number of SIGPIPE.
CLOSED: Final = 141


def told(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose failures are told in one message and end with exit code 1."""

    @functools.wraps(command)
    def safe(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:
            _nobody_reads()
        except ThalwegError as error:
            if _is_closed(error):
                _nobody_reads()
            _say(str(error), error)
        except OSError as error:
            _say(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), error)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            _say(f"{type(error).__name__}: {_gist(str(error))}", error)

    return safe


def _say(message: str, error: BaseException) -> NoReturn:
    log.debug("the failure in full", exc_info=error)
    say(f"error: {message}")
    raise typer.Exit(1) from None


def _is_closed(error: BaseException | None) -> bool:
    """Whether it comes from what was printed to somebody who had gone."""
    while error is not None:
        if isinstance(error, OutputClosed):
            return True
        error = error.__cause__
    return False


def _nobody_reads() -> NoReturn:
    _silence()
    raise typer.Exit(CLOSED) from None


def _silence() -> None:
    """From now on nothing is printed: Python would complain of the closed pipe once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        with contextlib.suppress(OSError, ValueError):  # a stream of a test has no number
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextlib.contextmanager
def when_nobody_reads() -> Iterator[None]:
    """Ends the process with its exit code where what is left to print, say the help, finds nobody."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        raise SystemExit(CLOSED) from None


def _gist(message: str) -> str:
    """A foreign error in two lines: its first, and the last that says what was raised; Spark's can have hundreds."""
    lines = message.strip().splitlines() or ["no message"]
    raised = [line for line in lines[1:] if _RAISED.match(line)]
    return "\n  ".join([lines[0], *raised[-1:]])
