"""Metrics: Prometheus' text by a scrape, OpenTelemetry by a reader in memory, and what is refused."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_snapshot import ROWS, a_flow

import thalweg as tw
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.metrics import METRICS, address_of, samples_of, serve_metrics, to_opentelemetry
from thalweg.snapshot import BatchParts, KeyTraffic, Snapshot

DOCS = Path(__file__).parents[2] / "docs"


def finished() -> Snapshot:
    return tw.run(a_flow(), {"rows": ROWS}).progress


def values(snapshot: Snapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples by name and labels."""
    return {
        (metric.name, tuple(sorted(labels.items()))): value
        for metric in METRICS
        for labels, value in samples_of(metric, [snapshot])
    }


def test_samples_are_the_numbers_of_the_snapshot() -> None:
    """Each operator's counts are there by name, and what a host cannot tell has no sample."""
    snapshot = finished()
    found = values(snapshot)
    for one in snapshot.operators:
        labels = (("flow", "a"), ("operator", one.name))
        assert found["thalweg_operator_rows_in", labels] == one.rows_in
        assert found["thalweg_operator_in_python", labels] == (one.runs == "Python")
        assert (("thalweg_operator_busy_ratio", labels) in found) == (one.busy is not None)
    assert not any(name.startswith("thalweg_batch") for name, _ in found)
    batch = BatchParts(batch=3, rows=5, seconds=2.0, run_s=1.5)
    told = Snapshot(
        rows_in=1, seconds=1.0, rows_per_s=1.0, batches=(batch,), keys=KeyTraffic(stay=0.5)
    )
    found = values(told)
    assert found["thalweg_batch_part_seconds", (("flow", ""), ("part", "run"))] == 1.5
    assert found["thalweg_keys_stay_ratio", (("flow", ""),)] == 0.5


def test_a_scrape_of_flows_that_run() -> None:
    """GET /metrics is Prometheus' text, which its own parser reads, with the numbers of now; then nobody answers."""
    pytest.importorskip("prometheus_client", reason="the extra thalweg[metrics] is not installed")
    from prometheus_client.parser import text_string_to_metric_families

    with tw.start(threads=2, metrics="127.0.0.1:0") as running:
        server = running.metrics
        assert server is not None and server.address.startswith("127.0.0.1:")
        run = running.add(a_flow(), {"rows": ROWS})
        run.result()
        with urllib.request.urlopen(server.url, timeout=30) as answer:
            text = answer.read().decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert {*families} == {metric.name for metric in METRICS}
    assert {name: one.type for name, one in families.items()} == {m.name: m.kind for m in METRICS}
    rows = {
        one.labels["operator"]: one.value for one in families["thalweg_operator_rows_in"].samples
    }
    assert rows == {one.name: one.rows_in for one in run.progress().operators}
    with pytest.raises(OSError):
        urllib.request.urlopen(server.url, timeout=1)
    taken = serve_metrics(0, list)
    with pytest.raises(EnvironmentProblem, match=taken.address):
        serve_metrics(taken.address, list)
    taken.close()
    taken.close()


def test_open_telemetry_reads_the_same() -> None:
    """Each metric is an observable instrument whose points are the samples of the snapshot."""
    sdk: Any = pytest.importorskip(
        "opentelemetry.sdk.metrics", reason="the extra thalweg[otel] is not installed"
    )
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    snapshot, reader = finished(), InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    to_opentelemetry(lambda: [snapshot], provider)
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    points = {
        (one.name.replace(".", "_"), tuple(sorted(point.attributes.items()))): point.value
        for one in scope.metrics
        for point in one.data.data_points
    }
    assert points == values(snapshot)
    provider.shutdown()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)), (":9464", ("127.0.0.1", 9464)), (9464, ("127.0.0.1", 9464)),
        ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:2", ("::1", 2)), ("here", None), ("", None), (True, None),
        ("http://a:1", None), (70_000, None), (-1, None), (1.5, None),
    ],
)  # fmt: skip
def test_addresses(given: Any, expected: Any) -> None:
    """A port alone is of this machine; what is no address is refused."""
    if expected is not None:
        assert address_of(given) == expected
        return
    with pytest.raises(BuildError, match="metrics"):
        address_of(given)


def test_the_page_has_every_metric() -> None:
    """docs/metrics.md names each metric with its kind, and docs/snapshot.md each field."""
    page = (DOCS / "metrics.md").read_text()
    for metric in METRICS:
        name = metric.name + ("_total" if metric.kind == "counter" else "")
        assert f"`{name}`" in page, name
    fields = (DOCS / "snapshot.md").read_text()
    for name in Snapshot.__dataclass_fields__:
        assert f"`{name}`" in fields, name
