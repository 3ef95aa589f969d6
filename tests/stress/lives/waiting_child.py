"""Runs that the tests kill while they wait: for a call in flight, or for rows of lanes that are idle.

``python -m tests.stress.lives.waiting_child calls|sleeps|idle FOLDER THREADS SERVERS``, THREADS 0 for as many as pay
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import NamedTuple

import thalweg as tw
from thalweg.embedded.durable import reading

ROWS, HANGS_AT, A_ROUND = 1_000, 742, 50
LANES = 4


class Row(NamedTuple):
    n: int


class Answer(NamedTuple):
    n: int
    text: str


async def ask(row: Row) -> Answer:
    """One of the calls does not end as long as a file says so."""
    hangs = Path(sys.argv[2], "hang")
    if row.n == HANGS_AT and hangs.exists():
        print("in flight", flush=True)
        await asyncio.Event().wait()
    await asyncio.sleep(0.001 * (row.n % 3))
    return Answer(row.n, f"answer {row.n}")


def sleep(row: Row) -> Answer:
    """A call that waits; the longer ones are overtaken by those behind them."""
    time.sleep(0.005 * (1 + row.n % 3))
    return Answer(row.n, f"answer {row.n}")


def calls_flow(what: str) -> tw.Flow:
    flow = tw.Flow("calls")
    rows = flow.source("rows", Row)
    answers = rows.map_async(ask, concurrency=20) if what == "calls" else rows.map(sleep)
    for sink in ("files", "delta"):
        answers.sink(sink)
    return flow


class Click(NamedTuple):
    user: str
    at: tw.Timestamp
    lane: int


def idle_flow() -> tw.Flow:
    flow = tw.Flow("idle")
    clicks = flow.source(
        "clicks", Click, order_by="at", lane="lane", lanes=range(LANES), idle="200 ms"
    )
    clicks.late.sink("late")
    clicks.key_by("user").sessions("1 second", clicks=tw.agg.count()).sink("sessions")
    return flow


def main(what: str, folder: str, threads: int, servers: str) -> None:
    how = {"checkpoint": f"{folder}/ckpt", "threads": threads or None}
    if what != "idle":
        reading.ROUND_ROWS = A_ROUND  # type: ignore[misc]  # so that few rows make many batches
        outputs = {
            "files": tw.to_files(f"{folder}/files.parquet"),
            "delta": tw.to_delta(f"{folder}/delta"),
        }
        tw.run(
            calls_flow(what), {"rows": [Row(n) for n in range(ROWS)]}, outputs, every="1 ms", **how
        )
        return
    log = tw.kafka(servers, "clicks", partition="lane", epoch_unit="us")
    files = {name: tw.to_files(f"{folder}/{name}.parquet") for name in ("late", "sessions")}
    tw.run(idle_flow(), {"clicks": log}, files, every="50 ms", **how)


if __name__ == "__main__":
    print("begins", flush=True)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
