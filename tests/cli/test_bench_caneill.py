"""The bench of routing tables, in a size that says nothing but that it runs, and what its samples are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from thalweg_lab import caneill, caneill_cluster
from thalweg_lab.figures.caneill.samples import requests, sketched
from thalweg_lab.measure import LabReport

from thalweg.printing import Terminal
from thalweg.testing.sampling import SampledKeys


def small(tuples: int) -> SampledKeys:
    """The beginning of the requests."""
    whole = requests()
    pairs = [pair for pair in whole.pairs if pair[0] < tuples]
    return dataclasses.replace(whole, takes=whole.takes[:tuples], pairs=pairs)


def test_caneill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every experiment runs and is kept; where tuples go beside their partners, more of them stay than by hash."""
    monkeypatch.setattr(caneill, "SAMPLES", {"client → path": lambda: small(2_000)})
    report = LabReport("caneill", tmp_path, Terminal(quiet=True))
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
    report = LabReport("caneill", tmp_path, Terminal(quiet=True))
    size = caneill_cluster.Size(
        4.0,
        (),
        (4,),
        (4,),
        ((4, None),),
        (),
        (1,),
        batches=1,
        repeats=1,
        turns=2,
    )
    text = caneill_cluster.CaneillCluster(report, size).all()
    report.finish(text)
    found = json.loads((tmp_path / "caneill.json").read_text())
    by_padding, by_source, costs, story, alone, means = found.values()
    for rows in (by_padding, by_source):
        hashed, table, worst = rows
        assert [row["routing"] for row in rows] == ["hashed", "table", "worst"]
        assert table["remote B a row"] < 0.45 * hashed["remote B a row"]
        assert worst["remote B a row"] > 1.3 * hashed["remote B a row"]
        assert table["fewer"] == 1 - table["remote B a row"] / hashed["remote B a row"]
    # Half of the tuples go to the other executor, with 12 kB of padding or without any.
    assert all(row["from source B a row"] > 4_000 for row in by_source)
    assert all(0 < row["from source B a row"] < 500 for row in by_padding)
    assert [row["way"] for row in costs] == ["hashed", "counting", "table"]
    for what in ("CPU", "time"):
        assert (costs[0][f"{what} to hashed"], costs[0][f"{what} ±"]) == (1, 0)
        assert all(row[f"{what} to hashed"] > 0 and row["turns"] == 2 for row in costs)
    assert len(story) == 6 and story[-1]["online stay"] > story[0]["online stay"]
    assert any(row["keys that move"] for row in story)
    assert [(row["workers"], row["routing"]) for row in alone] == [("1", "hashed")]
    assert [(row["workers"], row["routing"]) for row in means] == [("1", "hashed")]
    assert text.startswith("caneill on a cluster: a table by hashing: 4 kB no limit")
    assert f"by none: 4 kB {costs[1]['CPU to hashed']:.2f}x" in text
