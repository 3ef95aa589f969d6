"""A target as the output of an embedded run: rows are gathered to batches by number and by time."""

from __future__ import annotations

import threading
import uuid
from typing import Final

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import RowSink
from thalweg.connectors.targets import Target, TargetWriter
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Sink

#: A batch has so many rows, or what came within so many seconds.
BATCH_ROWS: Final = 131_072
BATCH_S: Final = 1.0


class TargetSink(RowSink):
    """Writes batches to a target for :func:`thalweg.run`.

    A run that fails leaves what it had written; what it had gathered since is not written.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = threading.Lock()
        self._writer: TargetWriter | None = None
        self._sink: Sink | None = None
        self._held: list[pa.RecordBatch] = []
        self._rows = self._batch = 0
        self._timer: threading.Timer | None = None
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return repr(self.target)

    def open(self, sink: Sink) -> None:
        self.target.check(sink)
        self._sink = sink
        self._writer = self.target.open(sink, f"{sink.name}-{uuid.uuid4().hex}")

    def write(self, chunk: Chunk) -> None:
        with self._lock:
            self._check()
            self._held.append(chunk.to_arrow())
            self._rows += len(chunk)
            if self._rows >= BATCH_ROWS:
                self._flush()
            elif self._timer is None:
                self._timer = threading.Timer(BATCH_S, self._flush_late)
                self._timer.daemon = True
                self._timer.start()

    def close(self, *, failed: bool) -> None:
        with self._lock:
            writer = self._writer
            if writer is None:
                return
            try:
                if not failed:
                    self._check()
                    self._flush()
            finally:
                self._stop_timer()
                self._writer = None
                writer.close()

    def _check(self) -> None:
        """Raises what a batch failed with that nobody waited for."""
        if self._error is not None:
            raise self._error
        if self._writer is None:
            raise BuildError(f"{self.target.made_by}: the output is closed")

    def _flush_late(self) -> None:
        with self._lock:
            self._timer = None
            if self._writer is None or self._error is not None:
                return
            try:
                self._flush()
            except BaseException as error:
                self._error = error

    def _flush(self) -> None:
        self._stop_timer()
        if not self._rows or self._writer is None or self._sink is None:
            return
        table = pa.Table.from_batches(self._held, schema=self._sink.record.arrow)
        self._held, self._rows = [], 0
        self._writer.write(self._batch, table)
        self._batch += 1

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
