"""The standalone cluster of tests and demonstrations: it starts, computes, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from test_kill import environment

from thalweg.errors import EnvironmentProblem
from thalweg.spark import standalone as module
from thalweg.spark.standalone import standalone, worker_host

pytestmark = pytest.mark.spark

_HOSTS = """
import json, sys, time
import thalweg as tw
master, settings = sys.argv[1], json.loads(sys.argv[2])
context = tw.spark.session(master, conf=settings).sparkContext
seen = set()
while len(seen) < 2:
    seen |= set(context.range(4, numSlices=4).mapPartitions(lambda _: [__import__("os").getppid()]).collect())
print(len(seen))
"""


@pytest.mark.slow
def test_two_workers() -> None:
    """A job runs in two executors; when the block ends, no process and no folder is left."""
    with standalone(workers=2) as cluster:
        assert cluster.hosts == (worker_host(0), worker_host(1))
        command = [sys.executable, "-c", _HOSTS, cluster.master, json.dumps(cluster.settings)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=240, check=False
        )
        assert done.stdout.strip() == "2", done.stderr[-3000:]
        family = [psutil.Process(one.pid) for one in cluster.processes]
    assert not any(one.is_running() for one in family)
    assert not cluster.folder.exists()


def test_a_process_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that does not start is an error with the end of its log; its folder goes."""
    monkeypatch.setattr(module, "_MASTER_CLASS", "org.example.NoSuchMaster")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=r"master ended.*\n.*NoSuchMaster"), standalone():
        pass
    assert not list(tmp_path.glob("thalweg-cluster-*"))
