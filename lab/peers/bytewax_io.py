"""Input and output of the Bytewax programs: Parquet rows in, counts out, both a batch at a time."""

from __future__ import annotations

from pathlib import Path

from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from common import Answer, record_batches


class ParquetSource(DynamicSource):
    """(user as text, (time, action)) of each click; for one worker."""

    def __init__(self, folder: Path, *, datetimes: bool = False) -> None:
        self.folder, self.datetimes = folder, datetimes

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Rows:
        return _Rows(self.folder, self.datetimes)


class _Rows(StatelessSourcePartition):
    #: rows a batch: larger ones gain nothing here
    SIZE = 8192

    def __init__(self, folder: Path, datetimes: bool) -> None:
        self.pieces = (
            batch.slice(at, self.SIZE)
            for batch in record_batches(folder, "ts", "user", "action")
            for at in range(0, len(batch), self.SIZE)
        )
        self.datetimes = datetimes

    def next_batch(self) -> list:
        piece = next(self.pieces, None)
        if piece is None:
            raise StopIteration
        times = piece["ts"] if self.datetimes else piece["ts"].cast("int64")
        rows = zip(times.to_pylist(), piece["action"].to_pylist(), strict=True)
        return list(zip(piece["user"].cast("string").to_pylist(), rows, strict=True))


class CountSink(DynamicSink):
    """Counts sessions (pages, abandoned) of one worker."""

    def __init__(self) -> None:
        self.sessions = self.abandoned = self.pages = 0

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Counter:
        return _Counter(self)

    def answer(self) -> Answer:
        average = self.pages / self.abandoned if self.abandoned else None
        return Answer(self.sessions, self.abandoned, average)


class _Counter(StatelessSinkPartition):
    def __init__(self, totals: CountSink) -> None:
        self.totals = totals

    def write_batch(self, items: list) -> None:
        self.totals.sessions += len(items)
        for pages, abandoned in items:
            if abandoned:
                self.totals.abandoned += 1
                self.totals.pages += pages
