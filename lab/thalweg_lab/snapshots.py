"""What it costs to be looked at: snapshots of running flows, as the page, the terminal and metrics take them.

A flow of so many operators runs over rows that do not end before the time is over. Meanwhile a thread takes a snapshot
and makes JSON of it as often as the page does. The thread's CPU time, over that of the process, is the share.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import thalweg as tw
from thalweg.datagen import parametric
from thalweg.page.feed import EVERY_S
from thalweg_lab.figures.rig import Endless
from thalweg_lab.figures.schneider_wu.flows import pipeline

if TYPE_CHECKING:
    from thalweg_lab.measure import LabReport

#: Operators of a flow.
OPERATORS: Final = (10, 100)
#: What an operator takes for a row, µs.
_ROW_US: Final = 0.1
_CHUNK_ROWS: Final = 4_096


class _Glances(threading.Thread):
    """Takes snapshots as often as the page, and counts its own CPU time."""

    def __init__(self, run: Any) -> None:
        super().__init__(daemon=True)
        self._run, self._over = run, threading.Event()
        self.cpu_ns = self.looks = self.size = 0

    def run(self) -> None:
        """Looks until told to stop."""
        began = time.thread_time_ns()
        while not self._over.wait(EVERY_S):
            self.size = len(self._run.progress().to_json())
            self.looks += 1
        self.cpu_ns = time.thread_time_ns() - began

    def stop(self) -> None:
        """Ends it."""
        self._over.set()
        self.join()


def looked_at(operators: int, threads: int, seconds: float) -> dict[str, Any]:
    """One flow that is looked at."""
    flow = pipeline(operators, _ROW_US)
    tw.run(flow, {"tuples": parametric.table(_CHUNK_ROWS)}, threads=threads)
    rows = Endless(seconds, 4 * _CHUNK_ROWS, 1_000)
    with tw.start(threads=threads) as running:
        cpu = time.process_time_ns()
        run = running.add(flow, {"tuples": tw.from_iterable(rows)}, {"out": tw.each(_nothing)})
        looks = _Glances(run)
        looks.start()
        run.result()
        looks.stop()
        cpu = time.process_time_ns() - cpu
    return {
        "operators": operators,
        "threads": threads,
        "snapshots": looks.looks,
        "bytes of JSON": looks.size,
        "ms each": looks.cpu_ns / max(looks.looks, 1) / 1e6,
        "share of CPU, %": 100.0 * looks.cpu_ns / cpu,
    }


def _nothing(row: Any) -> None:
    pass


def snapshots(report: LabReport, seconds: float) -> str:
    """Flows of several sizes, with one thread and with two."""
    rows = []
    for operators in OPERATORS:
        for threads in (1, 2):
            report.doing = f"{operators} operators, {threads} threads"
            rows.append(looked_at(operators, threads, seconds))
    report.add("snapshots", rows)
    most = max(row["share of CPU, %"] for row in rows)
    return f"a snapshot each {EVERY_S:g} s takes at most {most:.2g} % of the CPU time"
