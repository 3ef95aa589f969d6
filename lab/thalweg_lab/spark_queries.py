"""An urgent query beside queries that saturate the cluster: Spark's own ways to share it, and a scheduler of queries.

The idea is that of Haren's Multi-Class experiment (Palyvos-Giannas et al., 7.4), between queries. Each way has a
process and a Spark session of its own, for how a session schedules its jobs is fixed when it starts. The background
queries are plain Spark with a foreachBatch function; the urgent one is a flow over small files, which come at a steady
rate. In FIFO mode it waits for whole batches of the others, with a reserved slot for tasks: so the ratio is about that
of a batch to a task, and to the urgent batch's own time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from thalweg import scheduling
from thalweg.flow.flow import Flow
from thalweg_lab.measure import LabReport, in_a_process

#: By name: how the session schedules jobs, and the scheduler's slots and how many are reserved, if there is one.
WAYS: Final[dict[str, tuple[str, tuple[int, int] | None]]] = {
    "Spark, FIFO (its default)": ("FIFO", None),
    "Spark, FAIR": ("FAIR", None),
    "scheduler": ("FAIR", (2, 1)),
    "scheduler, one slot": ("FAIR", (1, 0)),
}
#: A background batch: so many rows of so many turns of a loop in the JVM, about 12 s of CPU time, and its tasks.
_ROWS: Final = 6_000
_TURNS: Final = 20_000
_TASKS: Final = 48
#: How often a file comes in.
_EVERY_S: Final = 0.5
#: Files at the begin that only warm up.
_WARM_UP: Final = 10


class Event(NamedTuple):
    """A row of the urgent query: when it was written, s of the monotonic clock."""

    number: int
    at: float


def spark_queries(report: LabReport, *, cores: int, background: Sequence[int], files: int) -> str:
    """Measures all ways one after the other; the summary.

    Args:
        cores: of the local master.
        background: how many background queries, one experiment each.
        files: that the urgent query gets, an event each.
    """
    summary = []
    for count in background:
        rows: list[dict[str, Any]] = []
        for name in WAYS:
            found = in_a_process(__name__, name, cores, count, files)
            latency = 1e3 * np.array(found["latency_s"])
            rows.append(
                {
                    "way": name, "p50 ms": float(np.median(latency)),
                    "p95 ms": float(np.quantile(latency, 0.95)), "max ms": float(latency.max()),
                    "background rows/s": found["rows"] / found["wall_s"],
                }
            )  # fmt: skip
            rows[-1]["ratio"] = rows[0]["p95 ms"] / rows[-1]["p95 ms"]
        report.add(f"an urgent query beside {count} that saturate local[{cores}]", rows)
        ratios = ", ".join(f"{row['ratio']:.1f}x ({row['way']})" for row in rows[1:])
        summary.append(f"beside {count}: {ratios}")
    return (
        f"spark-queries: the urgent query's p95 latency below Spark's default, {'; '.join(summary)}"
    )


def run(way: str, cores: int, background: int, files: int, folder: Path) -> dict[str, Any]:
    """One way, in this process: latency of each event, s, and what the background queries did meanwhile."""
    from thalweg import spark as ts

    mode, places = WAYS[way]
    session = ts.session(f"local[{cores}]", threads_per_slot=1, spark_scheduler_mode=mode)
    names = [f"background {n}" for n in range(background)]
    scheduler = None
    if places is not None:
        slots, reserved = places
        classes = {"urgent": 0} | dict.fromkeys(names, 1)
        scheduler = ts.Scheduler(
            scheduling.MostUrgentFirst(), classes, slots=slots, reserved=reserved
        )
    done: list[int] = []
    latency: dict[int, float] = {}
    streams = [_background(session, name, scheduler, done, folder / name) for name in names]
    urgent = _urgent(scheduler, latency, folder)
    try:
        _feed(folder / "in", 0, _WARM_UP)
        urgent.process_all_available()
        latency.clear()
        done.clear()
        started = time.monotonic()
        _feed(folder / "in", _WARM_UP, files)
        urgent.process_all_available()
        wall_s = time.monotonic() - started
        batches = len(done)
    finally:
        urgent.stop()
        for stream in streams:
            stream.stop()
        session.stop()
    return {
        "latency_s": list(latency.values()), "batches": batches, "rows": batches * _ROWS, "wall_s": wall_s,
    }  # fmt: skip


def _background(session: Any, name: str, scheduler: Any, done: list[int], folder: Path) -> Any:
    """A query whose next batch is always ready."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS)
    work = f"aggregate(sequence(1, {_TURNS}), value * 0D, (sum, x) -> sum + sqrt(x)) AS sum"
    frame = source.option("numPartitions", _TASKS).load().selectExpr(work)

    def write(batch: Any, number: int) -> None:
        if scheduler is None:
            batch.write.format("noop").mode("append").save()
        else:
            with scheduler.admit(name):
                batch.write.format("noop").mode("append").save()
        done.append(number)

    return _started(frame, write, folder)


def _started(frame: Any, write: Callable[[Any, int], None], folder: Path) -> Any:
    writer = frame.writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _urgent(scheduler: Any, latency: dict[int, float], folder: Path) -> Any:
    """The flow over small files; its sink notes how old each event is when its batch is written."""
    from thalweg import spark as ts

    def write(table: Any, batch: int) -> None:
        now = time.monotonic()
        for row in table.to_pylist():
            latency[row["number"]] = now - row["at"]

    (folder / "in").mkdir()
    flow = Flow("urgent")
    flow.source("events", Event).filter(lambda event: event.number >= 0).sink("out")
    inputs = {"events": ts.files(str(folder / "in"), format="json")}
    return ts.start(
        flow, inputs, {"out": ts.foreach_table(write)}, checkpoint=str(folder / "urgent"), scheduler=scheduler,
    )  # fmt: skip


def _feed(folder: Path, first: int, count: int) -> None:
    """Writes a file at a steady rate, each with the time at which it is there."""
    for number in range(first, first + count):
        time.sleep(_EVERY_S)
        hidden = folder / f".{number}.json"
        hidden.write_text(json.dumps({"number": number, "at": time.monotonic()}) + "\n")
        hidden.rename(folder / f"{number}.json")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        way, *numbers = sys.argv[1:]
        cores, background, files = map(int, numbers)
        print(json.dumps(run(way, cores, background, files, Path(temporary))))
