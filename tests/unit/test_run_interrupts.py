"""Ctrl-C ends a run in whatever it is at: programs of their own, which get SIGINT once they say that they are there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.unit.engine_kit import DEADLINE_S

import thalweg as tw

PROGRAM = """
import threading
from typing import NamedTuple

import thalweg as tw
from thalweg.workers import engine as parallel
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: tw.Timestamp
    value: int


# What functions of a flow capture is copied, but not what they reach through a module.
threading.forever = threading.Event()


def ready(row: Row) -> None:
    print("ready", flush=True)


def same(row: Row) -> Row:
    return Row(row.ts, row.value)


def loops(row: Row) -> Row:
    total = 1
    while total != 0:
        total = (total * 3 + 1) % 1_000_003 + 1
    return Row(row.ts, total)


def blocks(row: Row) -> Row:
    print("ready", flush=True)
    threading.forever.wait()
    return row


def hangs(row: Row) -> None:
    threading.forever.wait()


def says_when_full() -> None:
    # The source finds no room for its next step.
    wait = parallel.wait_for_room

    def say_and_wait(*given):
        print("ready", flush=True)
        wait(*given)

    parallel.wait_for_room = say_and_wait


def one():
    yield Row(0, 0)
    threading.forever.wait()


def endless():
    number = 0
    while True:
        yield Row(number, number)
        number += 1


flow = tw.Flow("interrupted")
rows = flow.source("in", Row, order_by="ts")
rows.map(same).sink("seen")
inputs, sinks = {"in": endless()}, {}
OPTIONS = {
    "manual": {"threading": "manual"},
    "two": {"options": Options(threads=2)},
    "narrow": {"options": Options(threads=2, queue_chunks=1, rows_limit=1)},
    "dedicated": {"options": Options(threading="dedicated")},
}
"""

ENDING = """
rows.sink("out")
tw.run(flow, inputs, sinks, chunk_rows=100, **OPTIONS[sys.argv[1]])
"""

#: What the programs are at.
STATES = {
    # One row only, so that one worker is in the loop and another one says so.
    "a compiled loop": (
        "rows = rows.map(loops, compile='require')\n"
        "inputs['in'], sinks['seen'] = one(), tw.each(ready)"
    ),
    "an interpreted operator": "rows = rows.map(blocks)",
    "a source that waits": "inputs['in'] = one()\nsinks['seen'] = tw.each(ready)",
    "full queues": "sinks['out'] = tw.each(hangs)\nsays_when_full()",
    "an endless source": "sinks['seen'] = tw.each(ready)",
    "rows that are there": "inputs['in'] = [Row(i, i) for i in range(10_000)]\nrows = rows.map(blocks)",
}


#: In the caller's own thread, a compiled loop without end cannot be interrupted, and there are no queues.
CASES = [
    (state, how)
    for state in STATES
    for how in ("manual", "two", "narrow", "dedicated")
    if how != "manual" or state not in ("a compiled loop", "full queues")
]


#: What runs by default: each state once, each way once; the others at a merge.
SHORT = [
    ("a compiled loop", "two"),
    ("an interpreted operator", "manual"),
    ("a source that waits", "dedicated"),
    ("full queues", "narrow"),
    ("an endless source", "two"),
    ("rows that are there", "dedicated"),
]


@pytest.mark.parametrize(
    ("state", "how"),
    [case if case in SHORT else pytest.param(*case, marks=pytest.mark.merge) for case in CASES],
)
def test_ctrl_c_ends_a_run(state: str, how: str, tmp_path: Path) -> None:
    """With KeyboardInterrupt, and at once, whoever hangs."""
    program = tmp_path / "program.py"
    program.write_text(f"import sys\n{PROGRAM}\n{STATES[state]}\n{ENDING}")
    process = subprocess.Popen(
        [sys.executable, str(program), how],
        env={**os.environ, "PYTHONPATH": str(Path(tw.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watch = threading.Timer(DEADLINE_S, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    finally:
        watch.cancel()
        process.kill()
    assert first == "ready\n", errors
    assert errors.strip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT
