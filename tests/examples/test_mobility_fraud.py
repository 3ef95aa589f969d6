"""High-mobility fraud, over generated call records and the bundled ones."""

from __future__ import annotations

import collections
import csv
import datetime as dt
import gzip
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import typer
from docstring_sql import about, in_sql
from typer.testing import CliRunner

import thalweg as tw
from thalweg import data, datagen
from thalweg.datagen.calls import AREAS, FIRST_AREA, is_copied, phone_number
from thalweg.examples import mobility_fraud, running
from thalweg.flow.operators.nodes import Keyed, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PHONES = 2000


def calls(rows: int, seed: int) -> pa.Table:
    """Records out of order by up to a minute; a tenth of the cards is copied."""
    return pa.Table.from_batches(
        datagen.call_records(rows, PHONES, seed, copied=0.1, disorder_s=60)
    )


@pytest.mark.parametrize("seed", range(3))
def test_as_duckdb(seed: int) -> None:
    """All cases in their order are what the docstring's SQL gives, and they are counted by day."""
    table = calls(30_000, seed)
    result = tw.run(mobility_fraud.flow, {"calls": table})
    cases = [tuple(row) for row in result.rows("cases")]
    expected = in_sql(mobility_fraud, "calls", table)
    assert len(expected) > 100
    assert cases == [about(row) for row in expected]
    by_day = collections.Counter(tw.times.date(ts) + tw.days(1) for ts, *_ in expected)
    assert [tuple(row) for row in result.rows("counts")] == sorted(by_day.items())
    assert result.counts["calls"]["late"] == 0


def test_who_is_found() -> None:
    """In the area most of the phones with copied cards are found, and no other."""
    result = tw.run(mobility_fraud.flow, {"calls": calls(100_000, 3)})
    phones = np.arange(PHONES)
    copied = phone_number(phones[is_copied(phones, 0.1) & (phones % AREAS == 0)])
    found = {row.phone for row in result.rows("cases")}
    assert found <= set(copied.tolist())
    assert len(found) > 0.9 * len(copied)


def great_circle_km(one: list[float], other: list[float]) -> float:
    """The way over the ground by the haversine formula."""
    (lat, lon), (other_lat, other_lon) = (map(math.radians, place) for place in (one, other))
    inner = (
        math.sin((lat - other_lat) / 2) ** 2
        + math.cos(lat) * math.cos(other_lat) * math.sin((lon - other_lon) / 2) ** 2
    )
    return 2 * 6371 * math.asin(math.sqrt(inner))


def test_bundled() -> None:
    """The speeds of the bundled phone are those over the ground, to a thousandth."""
    with gzip.open(data.path("call_records"), "rt") as file:
        lines = list(csv.reader(file, delimiter=";"))
    places = [
        (dt.datetime.fromisoformat(line[4]), [float(line[6]), float(line[7])]) for line in lines
    ]
    expected = []
    for (before, place), (now, other) in itertools.pairwise(places):
        speed = great_circle_km(place, other) / ((now - before).total_seconds() / 3600)
        if speed > 60:
            expected.append((tw.timestamp(now), pytest.approx(speed, rel=1e-3)))
    given = running.ExampleInput(str(data.path("call_records")), "csv", mobility_fraud.OPTIONS)
    flow = mobility_fraud.make_flow(limit_km_per_h=60)
    outcome = running.run(flow, {"calls": given}, embedded=True)
    found = [(row["ts"], row["km_per_h"]) for row in outcome.rows("cases")]
    assert found == expected
    assert len(found) == 17
    assert outcome.rows_in == 500


def test_as_the_serial_reference() -> None:
    """Outputs, counts and states are those of a serial run, whatever the cuts, compiled or not."""
    flow = mobility_fraud.make_flow(limit_km_per_h=2)
    tw.testing.assert_same(flow, {"calls": calls(1500, 4)}, seeds=range(2))


def test_places_do_not_depend_on_cuts() -> None:
    """The projection gives the same for every cut of the stream into batches."""
    rows = [datagen.Call(*row.values()) for row in calls(300, 5).to_pylist()]
    rows = [row._replace(ts=tw.timestamp(row.ts)) for row in rows]
    tw.testing.assert_recut(mobility_fraud.place, datagen.Call, rows)


def test_the_operators_of_the_figure() -> None:
    """Filter and project are stateless, the speed is by phone, its filter stateless, the count stateful."""
    chain = [
        ("keyed" if node.key.fields else "stateful") if isinstance(node, Keyed) else node.kind.value
        for node in mobility_fraud.flow.nodes
        if not isinstance(node, Sink)
    ]
    assert chain == ["source", "stateless", "stateless", "keyed", "stateless", "stateful"]
    assert " interpreted" not in mobility_fraud.flow.explain()


def test_numbers_are_different() -> None:
    """Each phone has a number of its own, of nine digits, in one of the areas."""
    numbers = phone_number(np.arange(200_000))
    assert len(np.unique(numbers)) == 200_000
    assert set(np.unique(numbers // 1_000_000)) == set(range(FIRST_AREA, FIRST_AREA + AREAS))


@pytest.mark.parametrize(("name", "value"), [("phones", 0), ("copied", 2), ("skew", -1)])
def test_wrong_arguments(name: str, value: float) -> None:
    """A value out of range is refused at once, by name."""
    with pytest.raises(ValueError, match=name):
        datagen.call_records(1, **{name: value})


def test_command() -> None:
    """The command runs over generated and over bundled records."""
    app = typer.Typer()
    app.command()(mobility_fraud.main)
    for rows, read in (("3000", "3,000"), ("0", "500")):
        done = CliRunner().invoke(app, ["--rows", rows, "--embedded"])
        assert done.exit_code == 0
        assert done.stdout.count(f"{read} rows in, 0 late, 0 rejected") == 2


@pytest.mark.spark
def test_on_spark(spark: SparkSession) -> None:
    """Two slots on Spark give what this process gives, from the bundled file."""
    given = {
        "calls": running.ExampleInput(str(data.path("call_records")), "csv", mobility_fraud.OPTIONS)
    }
    flow = mobility_fraud.make_flow(limit_km_per_h=60)
    expected = running.run(flow, given, embedded=True)
    outcome = running.run(flow, given, slots=2)
    for sink, table in outcome.tables.items():
        assert table.equals(expected.tables[sink])
