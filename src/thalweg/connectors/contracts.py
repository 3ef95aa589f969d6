"""What a source and a sink of an embedded run do for the engine; whoever writes another one writes these methods."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Final, Protocol, TypeAlias, runtime_checkable

from thalweg.columns.chunks import Chunk
from thalweg.flow.operators.nodes import Sink, Source

#: A row that does not fit: why, where it stands in its input, and its text.
BadRow: TypeAlias = tuple[str, str, str]
Fed: TypeAlias = tuple[Chunk, list[BadRow]]
Feed: TypeAlias = Generator[Fed, None, None]

#: How long a blocked read or write sleeps before it looks whether it is to end.
POLL_S: Final = 0.1
#: A partly filled chunk waits at most this long for the next row.
LINGER_S: Final = 0.005


class Stop(Protocol):
    """Tells a source to end; a ``threading.Event`` is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Sleeps until it is set, at most ``timeout`` seconds; whether it is."""


def never() -> Stop:
    """A stop that nobody sets."""
    return threading.Event()


@runtime_checkable
class RowSource(Protocol):
    """An input of a run.

    ``live`` says that rows come when they come, so that their time of arrival matters; what is not live is there
    already and is read as fast as it is taken.
    """

    live: bool

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        """The rows in arrival order as chunks of the source's record, with the rows that do not fit.

        The call itself checks what can be checked before any row is read; reading begins with the first ``next``. One
        thread iterates, and closes the generator when it wants no more. Once ``stop`` is set, it ends within about 0.2
        seconds.

        Raises:
            BuildError: by the call: the input does not fit the source.
            DataError: by the generator: a row does not fit under ``errors="fail"``, or the input broke off.
            EnvironmentProblem: by the generator: the peer cannot be reached.
        """

    def close(self) -> None:
        """Lets go of what the source holds, after the last use of its generators; may be called again."""


@runtime_checkable
class RowSink(Protocol):
    """An output of a run; its calls come one at a time, from any thread.

    Only ``close(failed=True)`` may come while ``write`` still runs. A write that waits for a peer then ends with an
    error; a function of the user's cannot be interrupted.
    """

    def open(self, sink: Sink) -> None:
        """Makes ready for the rows of that sink.

        Raises:
            BuildError: its record does not fit the format.
            EnvironmentProblem: the file or the peer cannot be opened.
        """

    def write(self, chunk: Chunk) -> None:
        """Takes the next rows, in order; waits as long as they cannot go on: here back-pressure begins."""

    def close(self, *, failed: bool) -> None:
        """Ends the output: completes it, or, where the run failed, makes sure that nobody takes it for whole."""
