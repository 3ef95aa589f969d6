"""Targets of a run in batches: a writer for each sink, opened with the first batch and kept for the next ones."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import RowSink
from thalweg.connectors.targets import Target, TargetWriter
from thalweg.errors import EnvironmentProblem, ThalwegError
from thalweg.flow.failures import reason_of
from thalweg.flow.operators.nodes import Sink

#: Makes an error of a sink that could not be written: its name, where, the batch, and why.
Failed: TypeAlias = Callable[[str, str, int, Exception], ThalwegError]


def write_failed(sink: str, where: str, batch: int, error: Exception) -> ThalwegError:
    """A sink that could not be written."""
    return EnvironmentProblem(
        f"sink {sink!r}: batch {batch} cannot be written to {where}: {reason_of(error)}\n"
        "  when that is repaired, start again from the same checkpoint: the batch is written anew"
    )


@runtime_checkable
class TakesEmpty(Protocol):
    """A writer that is given batches without rows, too: what an earlier try of one left must go."""

    takes_empty: bool


class TargetWrites:
    """The writers of a run's targets, by sink.

    Args:
        failed: makes the error of one that cannot be written.
    """

    def __init__(self, failed: Failed = write_failed) -> None:
        self._failed = failed
        self._writers: dict[str, TargetWriter] = {}

    def write(self, node: Sink, target: Target, table: pa.Table, batch: int, query: str) -> None:
        """Writes a batch; none where it has no rows.

        Raises:
            ThalwegError: naming sink and target.
        """
        try:
            writer = self._writers.get(node.name)
            if writer is None:
                writer = self._writers[node.name] = target.open(node, query)
            if table.num_rows or isinstance(writer, TakesEmpty):
                writer.write(batch, table)
        except EnvironmentProblem as error:
            self._close(node.name)
            raise self._failed(node.name, target.place, batch, error) from error
        except ThalwegError:
            raise
        except Exception as error:
            self._close(node.name)
            raise self._failed(node.name, target.place, batch, error) from error

    def _close(self, name: str) -> None:
        writer = self._writers.pop(name, None)
        if writer is not None:
            with contextlib.suppress(Exception):
                writer.close()

    def close(self) -> None:
        """Ends all connections; may be called again."""
        for name in list(self._writers):
            self._close(name)


@dataclasses.dataclass(frozen=True, slots=True)
class OnDriver:
    """An output of embedded runs as a target: its rows come to the driver, those of a repeated batch again."""

    sink: RowSink

    @property
    def made_by(self) -> str:
        return str(getattr(self.sink, "made_by", type(self.sink).__name__))

    @property
    def place(self) -> str:
        return f"{self.made_by}#{id(self.sink)}"

    def check(self, sink: Sink) -> None:
        pass

    def open(self, sink: Sink, query: str) -> TargetWriter:
        self.sink.open(sink)
        return _OnDriverWriter(self.sink, sink)


class _OnDriverWriter:
    def __init__(self, sink: RowSink, node: Sink) -> None:
        self._sink, self._node = sink, node

    def write(self, batch: int, table: pa.Table) -> None:
        self._sink.write(Chunk.from_arrow(self._node.record, table))

    def close(self) -> None:
        self._sink.close(failed=False)
