"""The standalone cluster of tests and demonstrations, and where its executors run the slots of a flow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import kill_driver as driver
import psutil
import pytest
import witness
from test_kill import environment

from thalweg.errors import EnvironmentProblem
from thalweg.spark.cluster import standalone as module
from thalweg.spark.cluster.standalone import Cluster, standalone, worker_host

pytestmark = pytest.mark.spark

_HOSTS = """
import json, sys
import thalweg as tw
master, settings = sys.argv[1], json.loads(sys.argv[2])
context = tw.spark.session(master, conf=settings).sparkContext
seen = set()
while len(seen) < 2:
    seen |= set(context.range(4, numSlices=4).mapPartitions(lambda _: [__import__("os").getppid()]).collect())
print(len(seen))
"""

_WITNESS = """
import json, sys
import kill_driver as driver, thalweg as tw
master, settings, *places = sys.argv[1:]
tw.spark.session(master, conf=json.loads(settings))
query = driver.start(*places, slots=3, end="drain")
query.await_termination()
print(json.dumps([progress["locality"] for progress in query.recent_progress]))
"""


def run_on(cluster: Cluster, program: str, *arguments: object) -> str:
    """What a driver on the cluster prints."""
    given = [cluster.master, json.dumps(cluster.settings), *map(str, arguments)]
    path = os.pathsep.join([environment()["PYTHONPATH"], str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", program, *given], env={**environment(), "PYTHONPATH": path},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_two_workers() -> None:
    """A job runs in two executors; when the block ends, no process and no folder is left."""
    with standalone(workers=2) as cluster:
        assert cluster.hosts == (worker_host(0), worker_host(1))
        assert run_on(cluster, _HOSTS).strip() == "2"
        family = [psutil.Process(one.pid) for one in cluster.processes]
    assert not any(one.is_running() for one in family)
    assert not cluster.folder.exists()


@pytest.mark.slow
def test_slots_stay_on_their_executors(tmp_path: Path) -> None:
    """Three slots of two executors: each runs in every stage where it ran in the one before; the output is right."""
    rows = driver.make_rows(seed=41, count=1_000)
    driver.write_files(tmp_path / "in", rows, 4)
    places = [tmp_path / name for name in ("in", "out", "ckpt")]
    with standalone(workers=2) as cluster:
        said = json.loads(run_on(cluster, _WITNESS, *places))
    assert len(said) == 5
    # Another executor is taken where its own is busy for long, which a test cannot rule out.
    assert sum(one["co_located"] == 1.0 for one in said) >= 4, said
    assert all(sum(one["local_bytes"]) for one in said[:4]), said
    assert all(sum(one["remote_bytes"]) for one in said[:4]) or len(set(cluster.hosts)) == 1
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


def test_a_process_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that does not start is an error with the end of its log; its folder goes."""
    monkeypatch.setattr(module, "_MASTER_CLASS", "org.example.NoSuchMaster")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=r"master ended.*\n.*NoSuchMaster"), standalone():
        pass
    assert not list(tmp_path.glob("thalweg-cluster-*"))
