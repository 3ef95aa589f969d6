"""kill -9 in the middle of a migration: the old checkpoint is whole, or the new one is; nothing is in between."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stress.migration_child import ROWS, before, start_after

import thalweg as tw


@pytest.mark.slow
def test_killed_at_each_write(tmp_path: Path) -> None:
    """In front of each write, and behind all; then the new flow goes on alike, and the old one where nothing counts."""
    whole = tmp_path / "whole"
    for rows in (15, 30, 40):
        tw.run(before(), {"rows": ROWS[:rows]}, checkpoint=whole, end="keep", every=0)
    expected = start_after(str(_copied(whole, tmp_path / "expected")))
    old = tw.checkpoint.read_state(str(whole), "sums")
    still_old, point, survived = [], 0, False
    while not survived:
        point += 1
        killed = _copied(whole, tmp_path / str(point))
        survived = _kill(killed, point)
        found = tw.checkpoint.diff(str(killed), before())
        still_old.append(found.accepted)
        if found.accepted:
            assert {change.kind for change in found.changes} == {"same"}
            assert tw.checkpoint.read_state(str(killed), "sums").equals(old)
            again = _copied(killed, tmp_path / f"{point} old")
            tw.run(before(), {"rows": ROWS}, checkpoint=again, end="keep")
        else:
            assert tw.checkpoint.read_state(str(killed), "sums").column_names[1] == "mean"
        assert start_after(str(killed)) == expected, point
    # Segments, the record, the manifest, the record before: it turns once, and not at an end.
    assert still_old == sorted(still_old, reverse=True)
    assert 2 <= sum(still_old) <= len(still_old) - 2, still_old


def _copied(home: Path, to: Path) -> Path:
    shutil.copytree(home, to)
    return to


def _kill(checkpoint: Path, point: int) -> bool:
    """Runs the child; whether all was written when it was killed."""
    command = [sys.executable, "-m", "tests.stress.migration_child", str(checkpoint), str(point)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout == "survived\n"
