"""A source into which a program's own threads push rows."""

from __future__ import annotations

import threading
from typing import Any, Final

from thalweg.checks import known_keywords, require_flag, require_rows, require_seconds
from thalweg.connectors.contracts import LINGER_S, Feed, Stop
from thalweg.connectors.fitting import Fitter
from thalweg.connectors.in_process.handover import Handover
from thalweg.errors import BuildError, SourceClosed
from thalweg.flow.operators.nodes import Source

#: Rows that lie here before a push waits.
CAPACITY: Final = 65_536


class PushSource:
    """The input of one run, filled by :meth:`push`; made by :func:`push_source`.

    Rows of several threads stand in the order in which their pushes began; the rows of one push stay together.
    """

    live = True
    made_by = "tw.push_source()"

    def __init__(self, capacity: int, *, linger_s: float, record: bool) -> None:
        self._handover = Handover(capacity, linger_s)
        self._pushing = threading.Lock()
        self._taken = False
        self._recorded: list[Any] | None = [] if record else None

    def __repr__(self) -> str:
        return f"<push_source, {'read by a run' if self._taken else 'not read yet'}>"

    def push(self, *rows: Any) -> None:
        """Adds rows: records, tuples, mappings; waits while the source is full and the run has not caught up.

        Raises:
            SourceClosed: the source was closed, or the run that read it is over; rows that were not taken are lost.
        """
        with self._pushing:
            for row in rows:
                if not self._handover.put(row):
                    raise SourceClosed(
                        "push: the source is closed, or the run that read it is over"
                    )
                if self._recorded is not None:
                    self._recorded.append(row)

    def close(self) -> None:
        """Ends the input, behind the rows that were pushed. May be called again, from any thread."""
        self._handover.close()

    @property
    def arrived(self) -> list[Any]:
        """The rows in the order in which they arrived: given to a serial run, they have the same output.

        Raises:
            BuildError: the source was made without ``record=True``.
        """
        if self._recorded is None:
            raise BuildError("arrived: this source keeps no record; make it with record=True")
        with self._pushing:
            return list(self._recorded)

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        if self._taken:
            raise BuildError(
                f"input {source.name!r}: a push_source is read by one run only; make a new one"
            )
        self._taken = True
        return self._read(source, chunk_rows, stop)

    def _read(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        fitter = Fitter(source, chunk_rows)
        try:
            while items := self._handover.take(chunk_rows, stop):
                yield from fitter.chunks(items)
        finally:
            self.close()


@known_keywords
def push_source(
    *, capacity: int = CAPACITY, linger_s: float = LINGER_S, record: bool = False
) -> PushSource:
    """Makes an input that the program fills by ``source.push(row)`` from any thread, until ``source.close()``.

    Args:
        capacity: rows that may wait; then a push waits, too.
        linger_s: the longest that a row waits for the next ones, in seconds.
        record: whether the source keeps all rows in the order of their arrival, in ``source.arrived``.

    Raises:
        BuildError: a number is out of its range.
    """
    require_rows("push_source", capacity=capacity)
    require_seconds("push_source", linger_s=linger_s)
    require_flag("push_source", record=record)
    return PushSource(capacity, linger_s=linger_s, record=record)
