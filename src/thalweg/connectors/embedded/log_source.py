"""A log as the input of an embedded run: round after round, from where the last one ended to what is there now."""

from __future__ import annotations

from typing import Final

from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.logs import Log, LogReader, Positions
from thalweg.flow.operators.nodes import Source

#: How long a reader that found nothing new waits before it looks again, seconds: at first, and at most.
LOOK_S: Final = (0.005, 0.2)
#: Rows of a round where the description leaves them open: a stop, or a failure, comes between rounds.
ROUND_ROWS: Final = 262_144


class LogSource:
    """Reads a log for :func:`thalweg.run`."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.live = log.follow
        #: whether the last look found nothing that has not been read
        self.caught_up = False
        #: behind the last row that was given, and where the log ended at the last look; None before the first
        self.read_upto: Positions | None = None
        self.seen_end: Positions | None = None

    def __repr__(self) -> str:
        return repr(self.log)

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        self.log.check(source)
        return self._read(source, chunk_rows, stop)

    def close(self) -> None:
        pass  # the iterator of rows ends the connection

    def _read(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        reader = self.log.open()
        try:
            at = reader.begin()
            last = None if self.log.follow else reader.end(at)
            yield from self._rounds(reader, source, at, last, chunk_rows, stop)
        finally:
            reader.close()

    def _rounds(
        self,
        reader: LogReader,
        source: Source,
        at: Positions,
        last: Positions | None,
        chunk_rows: int,
        stop: Stop,
    ) -> Feed:
        wait_s, longest_s = LOOK_S
        while not stop.is_set():
            end = reader.end(at) if last is None else last
            self.read_upto, self.seen_end = at, end
            upto = reader.upto(at, end, self.log.max_rows or ROUND_ROWS)
            self.caught_up = upto == at
            if upto == at:
                if last is not None:
                    return
                stop.wait(wait_s)
                wait_s = min(2 * wait_s, longest_s)
                continue
            wait_s = LOOK_S[0]
            yield from reader.read(source, at, upto, chunk_rows, stop)
            at = self.read_upto = upto
