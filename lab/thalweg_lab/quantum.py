"""How long a short query waits beside a long one that computes without a pause: with a quantum, and without.

Two flows of driver loops share the threads of ``tw.start``. The long one always has rows, each of a millisecond of CPU
time; the short one is asked each 20 ms and answers at once. Latency is from when a question was pushed until a sink has
its answer (Sahin & Gedik, section 3.2.4: what a quantum is for).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import thalweg as tw
from thalweg.workers.options import Options

if TYPE_CHECKING:
    from thalweg_lab.measure import LabReport

_ROW_NS: Final = 1_000_000
_EACH_S: Final = 0.02
#: The first questions meet operators whose cost is not known.
_WARM_UP: Final = 10


class Work(NamedTuple):
    n: int


class Question(NamedTuple):
    asked_ns: int


async def long_one(rows: tw.Input[Work], out: tw.Output[Work]) -> None:
    while await tw.wait_for_all(rows):
        until = time.thread_time_ns() + _ROW_NS
        while time.thread_time_ns() < until:
            pass
        await out.push(rows.pop())


async def short_one(questions: tw.Input[Question], out: tw.Output[Question]) -> None:
    while await tw.wait_for_all(questions):
        await out.push(questions.pop())


def flows() -> tuple[tw.Flow, tw.Flow]:
    """The long one and the short one."""
    long, short = tw.Flow("long"), tw.Flow("short")
    long.operator("long", long_one, rows=long.source("work", Work)).sink("done")
    questions = short.source("questions", Question)
    short.operator("short", short_one, questions=questions).sink("answers")
    return long, short


def side_by_side(options: Options, seconds: float) -> dict[str, Any]:
    """Latencies of the short flow, and rows of the long one a second."""
    work = tw.push_source(capacity=64, linger_s=0.001)
    questions = tw.push_source(linger_s=0.001)
    took: list[int] = []
    done: list[float] = []
    stop = time.monotonic() + seconds

    def push_work() -> None:
        number = 0
        while time.monotonic() < stop:
            work.push(Work(number))
            number += 1
        work.close()

    long, short = flows()
    with tw.start(options=options) as running:
        sinks = {"done": tw.each(lambda row: done.append(time.monotonic()))}
        runs = [running.add(long, {"work": work}, sinks)]
        sinks = {"answers": tw.each(lambda row: took.append(time.monotonic_ns() - row.asked_ns))}
        runs.append(running.add(short, {"questions": questions}, sinks))
        pushing = threading.Thread(target=push_work)
        pushing.start()
        while time.monotonic() < stop:
            time.sleep(_EACH_S)
            questions.push(Question(time.monotonic_ns()))
        questions.close()
        pushing.join()
        for run in runs:
            run.result()
    ms = np.array(took[_WARM_UP:]) / 1e6
    return {
        "threads": options.threads,
        "quantum ms": options.quantum_ms or "none",
        "questions": len(ms),
        "mean ms": float(ms.mean()),
        "median ms": float(np.median(ms)),
        "p95 ms": float(np.percentile(ms, 95)),
        "long rows/s": len([at for at in done if at < stop]) / seconds,
    }


def quantum(report: LabReport, seconds: float) -> str:
    """Every quantum with one thread and with two."""
    rows = []
    for threads in (1, 2):
        for quantum_ms in (None, 20.0, 5.0, 1.0):
            report.doing = f"{threads} threads, quantum {quantum_ms}"
            options = Options(threads=threads, quantum_ms=quantum_ms)
            rows.append(side_by_side(options, seconds))
    report.add("quantum", rows)
    without, least = rows[4]["mean ms"], rows[6]["mean ms"]
    return f"with two threads an answer took {without:.0f} ms without a quantum, {least:.0f} ms with one of 5 ms"
