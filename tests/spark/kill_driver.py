"""A flow that notices every lost, doubled or misplaced row, its input, and a program that runs it.

The tests start this file as a process of its own, so that they can kill it; they also import it for the flow.

    python kill_driver.py INPUT OUTPUT CHECKPOINT SLOTS END MASTER THREADS LOCALITY

SLOTS is a number, or with commas several that batches have in turn behind the first ones, which have one.
"""

from __future__ import annotations

import dataclasses
import os
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw
from thalweg.elasticity import Controller, Sample, Suggestion
from thalweg.flow.records import Schema
from thalweg.locality import Decision, History, RoutingTable, Statistics, evaluate

SINKS = ("late", "numbered", "sessions", "windows", "by_due")
#: Operators whose state is compared.
STATEFUL = ("number", "track", "per_item", "position", "total")


class Click(NamedTuple):
    ts: tw.Timestamp
    user: int
    item: str
    due: int


class Numbered(NamedTuple):
    user: int
    n: int
    ts: tw.Timestamp
    item: str
    due: int


class Session(NamedTuple):
    user: int
    start: tw.Timestamp
    last: tw.Timestamp
    clicks: int


class Placed(NamedTuple):
    place: int
    user: int
    n: int
    due: int


class Total(NamedTuple):
    size: int
    sessions: int
    clicks: int


@tw.state
class Count:
    n: int = 0


@tw.state
class Open:
    timer: tw.Timer
    start: int = 0
    last: int = 0
    clicks: int = 0


@tw.state
class Sum:
    sessions: int = 0
    clicks: int = 0


def number(seen: Count, click: Click) -> Numbered:
    """A running number a user: a lost row leaves a gap, a doubled one a repetition."""
    seen.n += 1
    return Numbered(click.user, seen.n, click.ts, click.item, click.due)


def track(session: Open, click: Click) -> None:
    if session.clicks == 0:
        session.start = click.ts
    session.last = click.ts
    session.clicks += 1
    session.timer = click.ts + tw.seconds(40)


def close(session: Open, user: int, time: tw.Timestamp) -> Session:
    return Session(user, session.start, session.last, session.clicks)


def position(seen: Count, row: Numbered) -> Placed:
    """A running number over all rows, in the order of another field."""
    seen.n += 1
    return Placed(seen.n, row.user, row.n, row.due)


def total(sums: Sum, session: Session) -> Total:
    sums.sessions += 1
    sums.clicks += session.clicks
    return Total(min(session.clicks, 5), sums.sessions, sums.clicks)


def size(session: Session) -> int:
    return min(session.clicks, 5)


def make_flow() -> tw.Flow:
    """Late and waiting rows, timers, windows, a second keyed stage, and an order_by on the way."""
    flow = tw.Flow("witness")
    clicks = flow.source("clicks", Click, order_by="ts", lateness="15 seconds")
    clicks.late.sink("late")
    numbered = clicks.key_by("user").process(number, state=Count)
    numbered.sink("numbered")
    sessions = clicks.key_by("user").process(track, state=Open, on_timer=close)
    sessions.sink("sessions")
    sessions.key_by(size).process(total, state=Sum).sink("totals")
    windows = clicks.key_by("item").window(
        "30 seconds", name="per_item", clicks=tw.agg.count(), top=tw.agg.max("user")
    )
    windows.sink("windows")
    numbered.order_by("due", lateness=35).process(position, state=Count).sink("by_due")
    return flow


# -- input ------------------------------------------------------------------------------------------------


def make_rows(seed: int, count: int) -> list[Click]:
    """Clicks in arrival order: times jump back and forth by seconds, a few by more than the lateness."""
    rng = random.Random(seed)
    rows, now = [], 1_700_000_000_000_000
    for _ in range(count):
        now += rng.randrange(400_000)
        back = rng.choice((0, 0, 2, 9, 14)) if rng.random() > 0.02 else rng.randrange(15, 60)
        ts = now - back * 1_000_000
        due = (now - 1_700_000_000_000_000) // 1_000_000 + rng.randrange(-20, 20)
        rows.append(
            Click(ts, min(rng.randrange(60), rng.randrange(60)), f"i{rng.randrange(9)}", due)
        )
    return rows


def write_files(folder: Path, rows: list[Click], files: int, first: int = 0) -> None:
    """The rows in so many Parquet files, whose times of change give the order of arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    share = -(-len(rows) // files)
    for place in range(files):
        part = rows[place * share : (place + 1) * share]
        columns = list(zip(*part, strict=True))
        arrow = Schema.of(Click).arrow
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow
        )
        path = folder / f"part-{first + place:03}.parquet"
        hidden = folder / f".{path.name}"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_700_000_000 + first + place,) * 2)
        hidden.rename(path)  # Spark must not see half a file


# -- routing --------------------------------------------------------------------------------------------


def restless(statistics: Statistics, table: RoutingTable, history: History) -> Decision:
    """Another table for every batch: most keys that were seen, pinned at random."""
    rng, now = random.Random(table.epoch), table.assignment()
    keys = {
        (name, one.key): rng.randrange(table.slots)
        for name, loads in statistics.loads.items()
        for one in loads.keys
        if rng.random() < 0.7
    }
    made = dataclasses.replace(now, keys=keys)
    before, after = evaluate(now, statistics), evaluate(made, statistics)
    return Decision("in turn", "restless", before, after, made)


# -- slots -----------------------------------------------------------------------------------------------


class InTurn(Controller):
    """Another number after each batch that counts."""

    def __init__(self, *levels: int) -> None:
        super().__init__()
        self.levels = list(levels)

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole or not self.levels:
            return ()
        return (Suggestion("threads", None, sample.threads, self.levels.pop(0), "its turn"),)


def slots_of(text: str) -> int | tw.spark.Elastic:
    """What the argument SLOTS means."""
    turns = [int(word) for word in text.split(",")]
    if len(turns) == 1:
        return turns[0]
    return tw.spark.Elastic(maximum=max(turns), controller=InTurn(*turns), least_rows=1)


# -- running ----------------------------------------------------------------------------------------------


def start(
    folder: str, output: str, checkpoint: str, *, slots: Any, end: Any = "keep", **more: Any
) -> tw.spark.Query:
    """The flow over a folder of files, one file a batch, into Parquet."""
    files = tw.spark.files(folder, format="parquet", max_files_per_trigger=1)
    sinks = {name: tw.spark.parquet(f"{output}/{name}") for name in SINKS}
    arguments: dict[str, Any] = {"trigger": "available_now", "end": end, "slots": slots} | more
    return tw.spark.start(make_flow(), {"clicks": files}, sinks, checkpoint=checkpoint, **arguments)


def main(arguments: list[str]) -> None:
    folder, output, checkpoint, slots, end, master, threads, locality = arguments
    # With one core a task, slots run in several worker processes at once.
    tw.spark.session(master, threads_per_slot=int(threads), conf=settings())
    asked = restless if locality == "restless" else locality
    query = start(folder, output, checkpoint, slots=slots_of(slots), end=end, locality=asked)
    query.await_termination()
    print("slots:", *[progress["slots"] for progress in query.recent_progress])


def settings() -> dict[str, str]:
    """Executors of a cluster import Thalweg from where this process does."""
    source = str(Path(tw.__file__).parents[1])
    return {"spark.executorEnv.PYTHONPATH": source, "spark.sql.shuffle.partitions": "2"}


if __name__ == "__main__":
    main(sys.argv[1:])
