"""kill -9 of a process that runs a durable flow, again and again: its files have each row once, in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.stress.durable_child import Row, make_flow

import thalweg as tw

_ROWS = 400_000
_FILES = 5


@pytest.mark.merge
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random(seed: int, tmp_path: Path) -> None:
    """Kills at random times, restarts with other threads and chunks, until it has ended."""
    chooser = random.Random(seed)
    rows = [Row(n + chooser.randint(-60, 0), chooser.randint(0, 2_000)) for n in range(_ROWS)]
    (tmp_path / "in").mkdir()
    each = _ROWS // _FILES
    for number in range(_FILES):
        lines = (f"{row.n},{row.key}" for row in rows[number * each : (number + 1) * each])
        path = tmp_path / "in" / f"{number}.csv"
        path.write_text("n,key\n" + "\n".join(lines) + "\n")
        os.utime(path, (number + 1, number + 1))
    kills = 0
    while not _ends(tmp_path, chooser, may_be_killed=kills < 12):
        kills += 1
    assert kills > 2
    written = sorted((tmp_path / "out.parquet").glob("batch=*/*"), key=_batch)
    found = [tuple(row.values()) for one in written for row in pq.read_table(one).to_pylist()]
    expected = tw.run(make_flow(), {"rows": rows}, threading="manual").rows("out")
    assert found == [tuple(row) for row in expected]


def _batch(path: Path) -> int:
    return int(path.parent.name.removeprefix("batch="))


def _ends(folder: Path, chooser: random.Random, *, may_be_killed: bool) -> bool:
    """Runs the child; False where it was killed before its end."""
    how = [str(chooser.randint(1, 2)), str(chooser.choice((1_000, 20_000, 65_536)))]
    command = [sys.executable, "-m", "tests.stress.durable_child", str(folder), *how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        if may_be_killed:
            time.sleep(chooser.random() * 0.7)
            child.kill()
        said = child.stdout.read()
    assert may_be_killed or child.returncode == 0
    return said == "ended\n"
