"""The bench of routing tables, in a size that says nothing but that it runs, and what its samples are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from thalweg_lab import caneill, caneill_cluster
from thalweg_lab.figures.caneill import cluster, figure11, figure12, figure13
from thalweg_lab.figures.caneill.measured import CaneillSetting
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
    report.finish(caneill.Caneill(report).all())
    counting, once = json.loads((tmp_path / "caneill.json").read_text()).values()
    assert len(counting) == 4
    assert [row["routing"] for row in once] == ["hashed", "table", "table, first seen"]
    assert once[2]["locality"] > 2 * once[0]["locality"]


def test_figures_on_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures 11 and 12 on few tuples: a line for each way and number of slots, checks of each, and what is said."""
    samples = {"tailnum → dest": lambda: small(2_000)}
    monkeypatch.setattr(figure11, "SAMPLES", samples)
    monkeypatch.setattr(figure12, "SAMPLES", samples)
    said: list[str] = []
    over_time = figure11.measure("quick", said.append)
    assert [one.name for one in over_time.panels[0].lines] == list(figure11.WAYS)
    assert all(len(line.x) == 10 for panel in over_time.panels for line in panel.lines)
    assert len(over_time.checks) == 6 and over_time.checks[0].holds
    hashed, *_, first_seen = over_time.numbers.values()
    assert first_seen > 1.3 * hashed
    counted = figure12.measure("quick", said.append)
    assert [one.name for one in counted.panels[0].lines] == ["2 slots", "6 slots"]
    assert all(line.x[-1] == 1.0 for line in counted.panels[0].lines)
    assert len(said) > 10


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
    """Bytes are no matter of speed: a table keeps between executors what hashing sends, the worst one sends more.

    A worker joins and two go while the driver stays.
    """
    report = LabReport("caneill", tmp_path, Terminal(quiet=True))
    size = caneill_cluster.Size(4.0, (None,), (4,), batches=2, turns=2)
    text = caneill_cluster.CaneillCluster(report, size).all()
    report.finish(text)
    by_source, costs = json.loads((tmp_path / "caneill.json").read_text()).values()
    hashed, table, worst = by_source
    assert [row["routing"] for row in by_source] == ["hashed", "table", "worst"]
    assert table["remote B a row"] < 0.45 * hashed["remote B a row"]
    assert worst["remote B a row"] > 1.3 * hashed["remote B a row"]
    # Half of the tuples go to the other executor, with 12 kB of padding.
    assert all(row["from source B a row"] > 4_000 for row in by_source)
    assert [row["way"] for row in costs] == ["hashed", "counting", "table"]
    for what in ("CPU", "time"):
        assert (costs[0][f"{what} to hashed"], costs[0][f"{what} ±"]) == (1, 0)
        assert all(row[f"{what} to hashed"] > 0 and row["turns"] == 2 for row in costs)
    assert f"by none: 4 kB {costs[1]['CPU to hashed']:.2f}x" in text
    setting = CaneillSetting(
        3, ("hashed", "online"), 4_000, 4.0, batches=3, flights=True, counted=6_000
    )
    found = cluster.measured(setting, lambda _: None)
    assert [len(run.batches) for run in found.values()] == [3, 3]
    assert figure13.first_table(found["online"]) < 3
    assert found["online"].batches[-1].stay > 0.7 > found["hashed"].batches[-1].stay
    alone = cluster.measured(setting._replace(workers=1, ways=("hashed",)), lambda _: None)
    assert alone["hashed"].remote_bytes == 0
