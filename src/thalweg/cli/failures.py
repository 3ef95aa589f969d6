"""Failures as people want to read them: one message on stderr, no traceback, and an exit code that says enough."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from typing import Any, Final

import typer

from thalweg.errors import ThalwegError

log = logging.getLogger("thalweg")

#: How the last line of a traceback inside a foreign error looks.
_RAISED: Final = re.compile(r"[\w.]*(?:Error|Exception): .*")


def told(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose failures are told in one message and end with exit code 1."""

    @functools.wraps(command)
    def safe(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except ThalwegError as error:
            _say(str(error), error)
        except OSError as error:
            _say(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), error)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            _say(f"{type(error).__name__}: {_gist(str(error))}", error)

    return safe


def _say(message: str, error: BaseException) -> None:
    log.debug("the failure in full", exc_info=error)
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(1) from None


def _gist(message: str) -> str:
    """A foreign error in two lines: its first, and the last that says what was raised; Spark's can have hundreds."""
    lines = message.strip().splitlines() or ["no message"]
    raised = [line for line in lines[1:] if _RAISED.match(line)]
    return "\n  ".join([lines[0], *raised[-1:]])
