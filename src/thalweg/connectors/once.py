"""Batches that count once: which of them a target has, and whose they are.

A writer asks the target, inside the transaction of a batch, which batch of this query and sink it has. What it finds
is what the writer itself left, or another process writes the same batches.
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

import pyarrow as pa

from thalweg.errors import EnvironmentProblem

#: Characters of a row that a message shows.
_ROW: Final = 300


class Left(NamedTuple):
    """The last batch that a target has of a query's sink, and the writer that wrote it."""

    batch: int
    writer: str


class Numbers:
    """The numbers of the batches of one writer, held against those that the target has.

    Args:
        where: begins messages: ``sink 'out': delta:/data/out``.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.writer = uuid.uuid4().hex
        self._left: int | None = None
        self._knows = False

    def is_new(self, batch: int, found: Left | None) -> bool:
        """Whether the target lacks the batch; it is to be asked again for each try.

        Args:
            batch: that is to be written.
            found: what the target has; None for nothing.

        Raises:
            EnvironmentProblem: another process wrote in between, or the target is ahead of the batch.
        """
        last = None if found is None else found.batch
        if found is not None and found.writer == self.writer:
            self.note(found.batch)  # also where its answer was lost
        elif self._knows and last != self._left:
            raise self._fenced(batch, last)
        elif last is not None and last > batch:
            raise EnvironmentProblem(
                f"{self._where}: it has batch {last} of this query already, and batch {batch} is to be written: another"
                " process writes the same batches, or the checkpoint is older than the output.\n"
                "End the other process, and start again from the newest checkpoint."
            )
        else:
            self._left, self._knows = last, True
        return last is None or last < batch

    def note(self, batch: int) -> None:
        """The target has the batch now, by this writer."""
        self._left, self._knows = batch, True

    def _fenced(self, batch: int, last: int | None) -> EnvironmentProblem:
        have, left = ("none" if one is None else str(one) for one in (last, self._left))
        return EnvironmentProblem(
            f"{self._where}: another process writes the same batches: before batch {batch} the last one was to be"
            f" {left}, and it is {have}. This one ends, the other goes on; nothing was written twice.\n"
            "Let one process at a time run the query."
        )


def last_of_each(table: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The rows without those that a later one of the same key replaces, in the order of those that stay."""
    numbered = table.select(list(key)).append_column(
        "", pa.array(range(table.num_rows), pa.int64())
    )
    kept = numbered.group_by(list(key), use_threads=False).aggregate([("", "max")])
    if kept.num_rows == table.num_rows:
        return table
    return table.take(kept.column("_max").combine_chunks().sort())


def shown_row(table: pa.Table, row: int) -> str:
    """A row for messages: ``name='x', n=3``."""
    cells = (f"{name}={_shown(table.column(name)[row])}" for name in table.column_names)
    return ", ".join(cells)[:_ROW]


def _shown(cell: pa.Scalar) -> str:
    if pa.types.is_timestamp(cell.type):
        return str(cell.value)
    return repr(cell.as_py())
