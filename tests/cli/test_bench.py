"""The experiments in a size that says nothing but that they run, and what parametric operators and inputs are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from thalweg_lab import graphs
from thalweg_lab.elastic import HIGHS, ElasticExperiments, summary
from thalweg_lab.elastic_real import FlowOfSteps
from thalweg_lab.elastic_spark import elastic_spark
from thalweg_lab.measure import LabReport, run
from thalweg_lab.spark_queries import WAYS, spark_queries

from thalweg import testing
from thalweg.datagen import parametric
from thalweg.printing import Terminal
from thalweg.workers.memory import layout
from thalweg.workers.options import Options


def test_parametric_operators_compile_and_keep_order() -> None:
    for flow in (parametric.one_operator("keyed", 0.1, selectivity=3), parametric.pipeline(3, 0.1)):
        assert "interpreted" not in flow.explain()
        rows = parametric.table(60, sigma=0.2)
        testing.assert_same(
            flow, {"tuples": rows}, seeds=range(2), options=lambda chooser: Options(threads=2)
        )


def test_the_smaller_sigma_the_heavier_the_top_key() -> None:
    tops = []
    for sigma in (0.05, 0.3, 2.0):
        keys = parametric.table(20_000, sigma=sigma)["key"].to_numpy()
        assert keys.min() >= 0 and keys.max() < parametric.RANGES
        tops.append(np.bincount(keys).max())
    assert tops[0] > 2 * tops[1] > 2 * tops[2]
    half = parametric.table(20_000, top=0.5)["key"].to_numpy()
    assert 0.45 < np.mean(half == 7) < 0.55


def test_a_run_is_measured() -> None:
    flow, tuples = parametric.one_operator("stateless", 1.0), parametric.table(2_000)
    for how in (None, Options(threads=2)):
        one = run(flow, {"tuples": tuples}, how, chunk_rows=100)
        assert one.rows == 2_000 and one.wall_s > 0 and one.cpu_s > 0
    assert set(one.shares) == {"work"} and one.mean_ms > 0
    assert one.p50_ms <= one.p99_ms


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_elastic_in_virtual_time(tmp_path: Path) -> None:
    """An adapted chain holds its source's pace with the replicas that this takes."""
    report = LabReport("elastic", tmp_path, Terminal(quiet=True))
    bench = ElasticExperiments(report, operators=6, periods=12, costs_us=(40,), most=2)
    report.finish(summary([bench.simulated]))
    one, two, wide = json.loads((tmp_path / "elastic.json").read_text()).values()
    assert all(row["rows/s"] > 0 for row in (*one, *two, *wide))
    assert one[0]["rows/s"] > 2 * one[0]["no adaptation"] and one[0]["ratio"] > 0.9
    assert int(one[0]["replicas"]) >= 3
    assert len(wide) == 12 + len(HIGHS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_elastic_on_this_machine(tmp_path: Path) -> None:
    report = LabReport("elastic", tmp_path, Terminal(quiet=True))
    bench = ElasticExperiments(report, operators=4, periods=8, costs_us=(), most=2)
    graphs = {("1 busy", "20 µs"): FlowOfSteps.of(parametric.one_operator("stateless", 20.0), 20.0)}
    text = bench.real(2, period_s=0.05, graphs=graphs)
    assert bench.overhead(2, 0.1, 0.05, 2, graphs=graphs).startswith("measuring and deciding take ")
    report.finish(text)
    levels, story, cost = json.loads((tmp_path / "elastic.json").read_text()).values()
    assert [row["threading"] for row in levels] == [
        "manual", "dedicated", "dynamic 1", "dynamic 2", "elastic"
    ]  # fmt: skip
    assert all(row["rows/s"] > 0 for row in levels)
    assert len(story) == 8 and {row["level"] for row in story} <= {1, 2}
    assert 0 < cost[0]["% of CPU time"] <= cost[0]["most, %"] < 100
    assert text.startswith("2 threads of this machine: ")


def test_graphs_have_the_shapes_of_the_paper() -> None:
    assert graphs.pipeline(3) == [0, 1, 2]
    assert graphs.parallel(3) == [0, 0, 0]
    assert graphs.pipelines(2, 3) == [0, 1, 2, 0, 4, 5]


@pytest.mark.parametrize("kind", [layout.STATEFUL, layout.STATELESS])
@pytest.mark.parametrize("model", ["manual", "dedicated", "dynamic"])
def test_every_operator_of_a_graph_runs_every_step(model: graphs.Model, kind: int) -> None:
    ran = graphs.run(graphs.pipelines(2, 3), 10, model, threads=2, steps=500, kind=kind)
    assert (ran.steps, ran.units) == (500, 3_000) and ran.wall_s > 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_elastic_slots_on_a_cluster(tmp_path: Path) -> None:
    report = LabReport("elastic-spark", tmp_path, Terminal(quiet=True))
    text = elastic_spark(report, batches=6)
    report.finish(text)
    (rows,) = json.loads((tmp_path / "elastic-spark.json").read_text()).values()
    assert [row["slots"] for row in rows] == ["3", "2", "2", "4", "4", "1"]
    assert [row["before"] for row in rows] == ["3", "3", "2", "2", "4", "4"]
    assert all(row["s"] > 0 for row in rows)
    assert ": of 6 batches, 3 with other slots than the one before, the longest took " in text


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_spark_queries(tmp_path: Path) -> None:
    report = LabReport("spark-queries", tmp_path, Terminal(quiet=True))
    text = spark_queries(report, cores=2, background=[1], files=3)
    report.finish(text)
    (rows,) = json.loads((tmp_path / "spark-queries.json").read_text()).values()
    assert [row["way"] for row in rows] == list(WAYS)
    assert all(row["p95 ms"] > 0 for row in rows) and rows[0]["ratio"] == 1
    assert text.startswith(
        "spark-queries: the urgent query's p95 latency below Spark's default, beside 1: "
    )
