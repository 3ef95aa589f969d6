"""The bench of routing tables, in a size that says nothing but that it runs, and what its samples are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from rich.console import Console

from thalweg.bench import caneill, caneill_cluster
from thalweg.bench.key_samples import requests, sketched
from thalweg.bench.measure import Report
from thalweg.sampling import Sample


def small(tuples: int) -> Sample:
    """The beginning of the requests."""
    whole = requests()
    pairs = [pair for pair in whole.pairs if pair[0] < tuples]
    return dataclasses.replace(whole, takes=whole.takes[:tuples], pairs=pairs)


def test_caneill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every experiment runs and is kept; where tuples go beside their partners, more of them stay than by hash."""
    monkeypatch.setattr(caneill, "SAMPLES", {"client → path": lambda: small(2_000)})
    report = Report("caneill", tmp_path, Console(quiet=True))
    report.finish(caneill.Caneill(report, periods=2, pairs=(50, 1_000)).all())
    counting, once, locality, imbalance, counters = json.loads(
        (tmp_path / "caneill.json").read_text()
    ).values()
    assert len(counting) == 4
    assert [row["routing"] for row in once] == ["hashed", "table", "table, first seen"]
    assert once[2]["locality"] > 2 * once[0]["locality"]
    assert [row["period"] for row in locality] == [row["period"] for row in imbalance] == ["1", "2"]
    assert locality[1]["first seen"] > locality[1]["hashed"]
    assert len(counters) == 3 * 2
    assert all(row["kB a slot"] < 1_000 for row in counters)


def test_sketches_of_a_sample_know_its_keys() -> None:
    """With room for all pairs, sketches give what exact counts give, by the keys themselves."""
    taken = small(1_000)
    counted = sketched(taken, 0.0, 1.0, slots=3, pairs=1_000, keys=1_000)
    found = {(pair.left, pair.right, pair.count) for pair in counted.statistics.pairs}
    assert found == {(pair.left, pair.right, pair.count) for pair in taken.statistics().pairs}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_on_a_cluster(tmp_path: Path) -> None:
    """Bytes are no matter of speed: a table keeps between executors what hashing sends, the worst one sends more."""
    report = Report("caneill", tmp_path, Console(quiet=True))
    size = caneill_cluster.Size(4.0, (), (4,), (4,), (), (2,), batches=1, repeats=1)
    text = caneill_cluster.CaneillCluster(report, size).all()
    report.finish(text)
    by_padding, costs, story = json.loads((tmp_path / "caneill.json").read_text()).values()
    assert [row["routing"] for row in by_padding] == ["hashed", "table", "worst"]
    hashed, table, worst = by_padding
    assert table["remote B a row"] < 0.45 * hashed["remote B a row"]
    assert worst["remote B a row"] > 1.3 * hashed["remote B a row"]
    assert [row["way"] for row in costs] == ["hashed", "counting", "table"]
    assert all(row["CPU µs a row"] > 0 for row in costs)
    assert len(story) == 6 and story[-1]["online stay"] > story[0]["online stay"]
    assert any(row["keys that move"] for row in story)
    assert text.startswith("caneill on a cluster, a table by hashing: 4 kB no limit")
