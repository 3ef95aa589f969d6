"""Query 4 in Bytewax with a hand-written stateful_batch: one call a user and batch.

Keys must be text. A user's session closes when the user's next click comes, or at the end of the input, so the output
is not in order of closing. One process, one worker: more of them use more CPU a row.
"""

from __future__ import annotations

from pathlib import Path

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.testing import run_main
from bytewax_io import CountSink, ParquetSource
from common import GAP_US, Answer, run


class Track(StatefulBatchLogic):
    """The open session of one user."""

    def __init__(self, resume_state: tuple | None) -> None:
        self.last, self.pages, self.carted, self.bought = resume_state or (0, 0, False, False)

    def on_batch(self, values: list) -> tuple[list, bool]:
        closed = []
        for ts, action in values:
            if self.pages and ts - self.last > GAP_US:
                closed.append((self.pages, self.carted and not self.bought))
                self.pages, self.carted, self.bought = 0, False, False
            self.last = ts
            self.pages += 1
            if action == "cart":
                self.carted = True
            elif action == "checkout":
                self.bought = True
        return closed, StatefulBatchLogic.RETAIN

    def on_eof(self) -> tuple[list, bool]:
        return [(self.pages, self.carted and not self.bought)], StatefulBatchLogic.DISCARD

    def snapshot(self) -> tuple:
        return (self.last, self.pages, self.carted, self.bought)


def query(folder: Path) -> Answer:
    sink = CountSink()
    flow = Dataflow("q4")
    clicks = op.input("clicks", flow, ParquetSource(folder))
    closed = op.stateful_batch("track", clicks, Track)
    op.output("count", op.key_rm("values", closed), sink)
    run_main(flow)
    return sink.answer()


if __name__ == "__main__":
    run(query)
