"""Query 4 in Bytewax with its SessionWindower; one process, one worker.

The clock is corrected for recorded data: it moves with the rows alone. As it comes, it also runs with the time of day
and wakes every open key at every batch. The clock is per user, so an idle user's session waits for the end of input.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
from bytewax_io import CountSink, ParquetSource
from common import GAP_S, Answer, run

STOPPED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def fold(session: tuple, click: tuple) -> tuple:
    pages, carted, bought = session
    action = click[1]
    return pages + 1, carted or action == "cart", bought or action == "checkout"


def merge(one: tuple, other: tuple) -> tuple:
    return one[0] + other[0], one[1] or other[1], one[2] or other[2]


def query(folder: Path) -> Answer:
    sink = CountSink()
    flow = Dataflow("q4")
    clicks = op.input("clicks", flow, ParquetSource(folder, datetimes=True))
    clock = win.EventClock(
        ts_getter=lambda click: click[0],
        wait_for_system_duration=datetime.timedelta(0),
        now_getter=lambda: STOPPED,
        to_system_utc=lambda time: None,
    )
    gap = win.SessionWindower(gap=datetime.timedelta(seconds=GAP_S))
    sessions = win.fold_window(
        "sessions", clicks, clock, gap, lambda: (0, False, False), fold, merge
    ).down
    closed = op.map(
        "closed", sessions, lambda out: (out[1][1][0], out[1][1][1] and not out[1][1][2])
    )
    op.output("count", closed, sink)
    run_main(flow)
    return sink.answer()


if __name__ == "__main__":
    run(query)
