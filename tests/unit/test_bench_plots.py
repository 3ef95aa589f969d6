"""Plots of experiments: a file for each that has something to draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from thalweg_lab.measure import LabReport

from thalweg.printing import Terminal

pytest.importorskip("matplotlib")


def test_each_kind_of_experiment(tmp_path: Path) -> None:
    """Bars of what is compared, lines by period and batch, panels by graph; what has no such figure has no file."""
    report = LabReport("bench", tmp_path, Terminal(quiet=True))
    report.add("compared", [{"way": "one", "rows/s": 1.0}, {"way": "other", "rows/s": 2.0}])
    report.add("no figure to draw", [{"way": "one", "kB": 1.0}])
    report.add(
        "ways by period", [{"period": str(i), "hashed": 0.1, "first seen": 0.9} for i in range(3)]
    )
    report.add("batches", [{"batch": i, "hashed rows/s": 1.0, "moved": i} for i in range(3)])
    report.add(
        "graphs by period",
        [{"graph": g, "period": i, "tuples/s": 1.0, "level": 2} for g in "ab" for i in range(3)],
    )
    report.finish("done")
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {f"bench-{place}.png" for place in (0, 2, 3, 4)}
    assert len(json.loads((tmp_path / "bench.json").read_text())) == 5
