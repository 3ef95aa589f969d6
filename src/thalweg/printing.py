"""The one door to the terminal: text is shown as it is, whoever wrote it.

Rich reads ``[red]`` and ``:smile:`` in what it prints as orders to itself, and so do terminals with control characters.
Text of the data, paths and messages are no orders: nothing here is read as markup, and control characters are shown by
their escapes. No other module imports rich.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Literal, NoReturn

from rich import console as _console
from rich import live as _live
from rich import progress as _progress
from rich import status as _status
from rich import table as _table
from rich.text import Text

#: What a terminal obeys instead of showing it, or cannot be given at all: control characters but the end of a line,
#: marks of direction, which put text into another order, and halves of surrogate pairs.
_ORDERS: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class OutputClosed(BrokenPipeError):
    """Nobody reads what is printed any more, as behind ``| head``."""


def plain(text: str) -> str:
    """The text with all that a terminal would obey written as escapes, as Python writes them; lines stay lines.

    Example::

        >>> print(plain("red: \\x1b[31m, [red]"))
        red: \\x1b[31m, [red]
    """
    return _ORDERS.sub(lambda found: repr(found[0])[1:-1], text)


class _Console(_console.Console):
    def on_broken_pipe(self) -> NoReturn:
        """Rich would end the process, from whatever thread this is."""
        raise OutputClosed("nobody reads the output any more")


class Terminal:
    """Where tables and lines are printed: stdout, or stderr.

    Args:
        error: prints to stderr.
        quiet: prints nothing.

    Raises:
        OutputClosed: by each method that prints: the reader has gone.
    """

    def __init__(self, *, error: bool = False, quiet: bool = False) -> None:
        self._console = _Console(
            stderr=error, quiet=quiet, markup=False, emoji=False, highlight=False
        )

    def print(self, what: str | Table = "") -> None:
        """Prints a table, or a text that the terminal breaks where it likes."""
        with _told_closed():
            if isinstance(what, str):
                self._console.print(Text(plain(what)), soft_wrap=True)
            else:
                self._console.print(what)

    @property
    def is_terminal(self) -> bool:
        """Whether somebody sees it change in place."""
        return self._console.is_terminal

    def live(self) -> Screen:
        """A part of the screen that changes in place."""
        return Screen(self._console)

    def status(self) -> Status:
        """A line that changes in place."""
        return Status(self._console)


class Table(_table.Table):
    """A table of texts that are shown as they are, and whole: what is too wide goes on in the next line of its cell.

    Args:
        title: above the table; "" for none.
    """

    def __init__(self, title: str = "") -> None:
        super().__init__(title=Text(plain(title)) if title else None, title_justify="left")

    def column(self, name: str, *, right: bool = False, wraps: bool = True) -> None:
        """One more column.

        Args:
            name: its head.
            right: numbers stand to the right.
            wraps: whether its texts may go on in the next line.
        """
        side: Literal["left", "right"] = "right" if right else "left"
        self.add_column(Text(plain(name)), justify=side, overflow="fold", no_wrap=not wraps)

    def row(self, *cells: str) -> None:
        """One more row, a text a column."""
        self.add_row(*[Text(plain(cell)) for cell in cells])

    def note(self, text: str) -> None:
        """What stands below the table."""
        self.caption = Text(plain(text))


class Screen:
    """Lines that replace the last ones, on a terminal; as a context manager it leaves the last."""

    def __init__(self, console: _console.Console) -> None:
        self._live = _live.Live(console=console, auto_refresh=False)

    def show(self, lines: Sequence[str], marked: Collection[int] = ()) -> None:
        """What is to be seen from now on; marked lines stand out, and what is too wide is cut."""
        texts = [
            Text(plain(line), "bold red" if n in marked else "", no_wrap=True, overflow="ellipsis")
            for n, line in enumerate(lines)
        ]
        self._live.update(_console.Group(*texts), refresh=True)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class Status:
    """One line that changes, on a terminal."""

    def __init__(self, console: _console.Console) -> None:
        self._status = _status.Status("", console=console)
        self._status.start()

    def say(self, text: str) -> None:
        """What the line says from now on."""
        _LAST_S[0] = time.monotonic()
        self._status.update(Text(plain(text)))

    def close(self) -> None:
        """The line goes away."""
        self._status.stop()


@contextlib.contextmanager
def bar(text: str, total: int) -> Iterator[Any]:
    """A bar that fills on a terminal: what it gives is called with each share that is done."""
    columns = [
        _progress.TextColumn("{task.description}", markup=False),
        _progress.BarColumn(),
        _progress.TaskProgressColumn(),
        _progress.TimeRemainingColumn(),
    ]
    with _progress.Progress(*columns, console=_Console(stderr=True), transient=True) as progress:
        task = progress.add_task(plain(text), total=total)
        yield lambda done: progress.advance(task, done)


def quiet_s() -> float:
    """For how long nothing was printed here, seconds."""
    return time.monotonic() - _LAST_S[0]


#: When something was printed last, monotonic s.
_LAST_S: Final = [time.monotonic()]


@contextlib.contextmanager
def _told_closed() -> Iterator[None]:
    _LAST_S[0] = time.monotonic()
    try:
        yield
    except OutputClosed:
        raise
    except BrokenPipeError as error:  # rich before 13.9
        raise OutputClosed(str(error)) from None


def say(text: str) -> None:
    """A line on stderr.

    Raises:
        OutputClosed: nobody reads it.
    """
    with _told_closed():
        print(plain(text), file=sys.stderr, flush=True)
