"""What an input does that can be read again from any place on: the one description that every host reads by.

A log has *lanes* (Kafka's partitions; one lane where there are none), and in each lane positions that ascend. A host
asks where the log ends, decides how far to read, remembers that, and reads the rows between two positions: the same
rows each time. So a host keeps positions and nothing else, and what was read before a crash is read again after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from thalweg.connectors.contracts import Feed, Stop
from thalweg.flow.operators.nodes import Source

#: Where reading goes on, by lane; values that JSON holds.
Positions: TypeAlias = Mapping[str, int | str]


class LogReader(Protocol):
    """A connection with a log, used by one thread at a time.

    Every method raises EnvironmentProblem where the peer cannot be reached, after it has tried for a while.
    """

    def begin(self) -> Positions:
        """Where reading begins that has no positions yet, as the description says."""

    def end(self, since: Positions) -> Positions:
        """Behind the last row that is there now, by lane; lanes that are new since are among them.

        Raises:
            DataError: a lane of ``since`` is not there any more, or rows from there on are not.
        """

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        """A place between the two, about so many rows behind the start, and further than it unless they are equal."""

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        """The rows from the start to before the end in an order that follows from these alone, as chunks.

        In each lane they are in its order. A lane without a start begins with its first row.

        Raises:
            DataError: a row does not fit under ``errors="fail"``, or some of the rows are not there any more.
        """

    def close(self) -> None:
        """Ends the connection; may be called again."""


@runtime_checkable
class Confirming(Protocol):
    """What a reader can do whose log is kept only until it is confirmed."""

    def confirm(self, upto: Positions) -> None:
        """Takes note that the host has committed all that lies before a place, and asks for none of it again."""


@runtime_checkable
class Log(Protocol):
    """Describes such an input; immutable, hashable, and made without a connection."""

    @property
    def made_by(self) -> str:
        """How users make it: ``tw.kafka(...)``."""

    @property
    def follow(self) -> bool:
        """Whether it is read on as it grows; if not, what is there at the start is all."""

    @property
    def max_rows(self) -> int | None:
        """About how many rows are read at once, the most that a batch on Spark has; None: as many as there are."""

    def check(self, source: Source) -> None:
        """Refuses a source that it cannot feed, before anything is connected.

        Raises:
            BuildError: the record does not fit the options.
        """

    def open(self) -> LogReader:
        """A connection, as lazily as may be.

        Raises:
            EnvironmentProblem: the package that it needs is not installed.
        """


def spread(start: Mapping[str, int], end: Mapping[str, int], rows: int) -> dict[str, int]:
    """:meth:`LogReader.upto` where positions are numbers: each lane gives by the share that it has of what waits.

    Example::

        >>> spread({"0": 0}, {"0": 30, "1": 10}, 20)
        {'0': 15, '1': 5}
    """
    waiting = {lane: max(0, stop - start.get(lane, 0)) for lane, stop in end.items()}
    total = sum(waiting.values())
    if total <= rows:
        return dict(end)
    return {
        lane: start.get(lane, 0) + min(many, -(-many * rows // total))
        for lane, many in waiting.items()
    }
