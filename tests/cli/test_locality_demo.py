"""The demonstration of locality on a cluster, as users start it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_demo(tmp_path: Path) -> None:
    """It ends well, tuples stay as never by hash, the output is that of hashing, and no process is left behind."""
    path = os.pathsep.join(
        [str(Path(thalweg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    environ = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "thalweg.cli", "locality", "demo", "--batches", "6"],
        env=environ, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    shares = re.search(
        r"(\d+)% of the tuples stayed in their slot by hash and (\d+)% as", done.stdout
    )
    assert shares is not None, done.stdout
    assert int(shares[1]) < 60 and int(shares[2]) > 80
    assert "the output is the same: 51,955 rows" in done.stdout
    assert not list(tmp_path.glob("thalweg-cluster-*"))
