"""What an output does that takes batches: the one description that every host writes by.

A host numbers its batches and may write one again, after a crash, with the same rows. A target that keeps the number
of the last batch beside the rows, in one transaction, leaves the second one out: the output is then exactly once. Who
cannot do that marks the rows, so that a reader can leave out repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from thalweg.connectors.contracts import RowSink
from thalweg.flow.operators.nodes import Sink


class TargetWriter(Protocol):
    """A connection with a target, used by one thread at a time."""

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes a batch, all or nothing where the target can; one that it has already it leaves out.

        Batches come in ascending order, but that the last one may come again, also from another process. A batch
        without rows may be left out by the host.

        Args:
            batch: its number.
            table: its rows in order, with the columns of the sink's record.

        Raises:
            DataError: a row does not fit the target; names it.
            EnvironmentProblem: the target cannot be reached or written, after tries with growing pauses; or another
                process writes the same batches.
        """

    def close(self) -> None:
        """Ends the connection; may be called again."""


@runtime_checkable
class Target(Protocol):
    """Describes such an output; immutable, and made without a connection."""

    @property
    def made_by(self) -> str:
        """How users make it: ``tw.to_delta(...)``."""

    @property
    def place(self) -> str:
        """What two sinks cannot share, without passwords: ``delta:/data/out``."""

    def check(self, sink: Sink) -> None:
        """Refuses a sink that it cannot take, before anything is connected.

        Raises:
            BuildError: a field of the record has no counterpart.
        """

    def open(self, sink: Sink, query: str) -> TargetWriter:
        """A connection for the batches of one sink.

        Args:
            sink: whose rows they are.
            query: names the run to which the numbers of batches belong; stays the same over restarts.

        Raises:
            BuildError: the target is there already and its columns do not fit the record.
            EnvironmentProblem: it cannot be reached, or the package that it needs is not installed.
        """


#: What ``tw.run`` takes for a sink; a bare function gets record batches.
GivenSink: TypeAlias = RowSink | Target | Callable[[pa.RecordBatch], Any]
