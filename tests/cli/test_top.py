"""``thalweg top``: over a query of another process that runs, and over what is left of one that was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from thalweg.checkpoint.hosts.snapshot_file import NAME
from thalweg.cli import app

SCRIPT = """
import sys
sys.path[:0] = {path!r}
import thalweg as tw
from tests.unit.test_snapshot import a_flow

rows = tw.files({folder!r}, "csv", follow=True, epoch_unit="us")
tw.run(a_flow(), {{"rows": rows}}, checkpoint={place!r}, every="50 milliseconds")
"""


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["top", *arguments])
    return result.exit_code, result.output


@pytest.mark.slow
def test_over_another_process_alive_and_dead(tmp_path: Path) -> None:
    """While it runs the table has its counts; once it was killed the same, with its age and that it is gone."""
    folder, place = tmp_path / "in", tmp_path / "ck"
    folder.mkdir()
    (folder / "a.csv").write_text("ts,key,value\n" + "".join(f"{n},k,1\n" for n in range(100)))
    script = SCRIPT.format(path=sys.path, folder=str(folder), place=str(place))
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        try:
            deadline = time.monotonic() + 60
            while not (place / NAME).exists() or "99 " not in call(str(place), "--once")[1]:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.05)
            code, text = call(str(place))
            assert code == 0 and f"process {process.pid}" in text and "is gone" not in text
            assert "a (durable): running" in text and "positive" in text
        finally:
            process.send_signal(signal.SIGKILL)
    code, text = call(str(place), "--once")
    assert code == 0 and f"process {process.pid}" in text and "is gone: this is what it did" in text
    told = json.loads(call(str(place), "--json")[1])
    assert told["is_alive"] is False and told["age_s"] > 0
    assert [one["name"] for one in told["snapshot"]["operators"]] == [
        "positive",
        "plus_one",
        "add",
        "last",
    ]
    assert told["snapshot"]["sources"][0]["rows_in"] == 100


def test_without_a_query(tmp_path: Path) -> None:
    """A folder that no query ran on is named, with exit code 1."""
    code, text = call(str(tmp_path))
    assert code == 1 and str(tmp_path) in text and NAME in text
