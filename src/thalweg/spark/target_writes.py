"""Targets of a query: a writer for each sink, opened with the first batch and kept for the next ones."""

from __future__ import annotations

import contextlib
import dataclasses

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import RowSink
from thalweg.connectors.targets import Target, TargetWriter
from thalweg.errors import EnvironmentProblem, ThalwegError
from thalweg.flow.operators.nodes import Sink
from thalweg.spark.failures import write_failed


class TargetWrites:
    """The writers of a query's targets, by sink."""

    def __init__(self) -> None:
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
            if table.num_rows:
                writer.write(batch, table)
        except EnvironmentProblem as error:
            self._close(node.name)
            raise write_failed(node.name, target.place, batch, error) from error
        except ThalwegError:
            raise
        except Exception as error:
            self._close(node.name)
            raise write_failed(node.name, target.place, batch, error) from error

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
