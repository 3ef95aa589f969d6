"""On a cluster of two executors, where one is killed or slots change: output and state stay those of a serial run."""

from __future__ import annotations

import time
from pathlib import Path

import kill_driver as driver
import psutil
import pytest
import witness
from test_kill import DEADLINE_S, Run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_200)]

MASTER = "local-cluster[2,1,1024]"
FILES = 5


def executors(process: int) -> list[psutil.Process]:
    """The executors' JVMs among the children of a driver."""
    found = []
    for one in psutil.Process(process).children(recursive=True):
        try:
            if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline()):
                found.append(one)
        except psutil.NoSuchProcess:
            continue
    # Spark starts an executor by a shell; its child is the JVM.
    return [one for one in found if one.name() == "java"]


@pytest.mark.parametrize("kills", [1, 2])
def test_executors(tmp_path: Path, kills: int) -> None:
    """Two slots on two executors; one is killed after batch 1, and one of those then alive after batch 3."""
    rows = driver.make_rows(seed=30 + kills, count=250 * FILES)
    driver.write_files(tmp_path / "in", rows, FILES)
    run = Run(tmp_path, tmp_path / "in", MASTER)
    deadline = time.monotonic() + DEADLINE_S
    killed: set[int] = set()
    with run.process(2, "drain") as running:
        while running.poll() is None:
            assert time.monotonic() < deadline, (tmp_path / "stderr.txt").read_text()[-3000:]
            if len(killed) < kills and run.newest("committed") >= 1 + 2 * len(killed):
                alive = [one for one in executors(running.pid) if one.pid not in killed]
                if alive:
                    alive[0].kill()
                    killed.add(alive[0].pid)
            time.sleep(0.01)
    assert running.returncode == 0, (tmp_path / "stderr.txt").read_text()[-3000:]
    assert len(killed) == kills
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


def test_slots_change_while_input_waits(tmp_path: Path) -> None:
    """All files wait from the begin on, so batches follow each other at once; slots go 1, 3, 2, 4, 1 between them."""
    rows = driver.make_rows(seed=33, count=250 * 10)
    driver.write_files(tmp_path / "in", rows, 10)
    run = Run(tmp_path, tmp_path / "in", MASTER)
    run.to_the_end("3,2,4,1", "keep")
    assert "slots: 1 1 3 3 2 2 4 4 1 1\n" in (tmp_path / "stderr.txt").read_text()
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=False)
