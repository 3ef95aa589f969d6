"""``thalweg locality plan``: the report, the table, and what goes wrong."""

from __future__ import annotations

import gzip
import itertools
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from thalweg import data
from thalweg.cli import app
from thalweg.locality import decode_table

FLOW = """\
import thalweg as tw
from typing import NamedTuple

class Flight(NamedTuple):
    carrier: str
    flight: int
    dest: str

@tw.state
class Count:
    rows: int = 0

def count(state: Count, row: Flight) -> Flight:
    state.rows += 1
    return row

flow = tw.Flow("flights")
flights = flow.source("flights", Flight)
by_flight = flights.key_by("carrier", "flight").process(count, state=Count, name="by_flight")
by_flight.key_by("dest").process(count, state=Count, name="by_dest").sink("out")

lone = tw.Flow("lone")
lone.source("flights", Flight).key_by("dest").process(count, state=Count).sink("out")

bare = tw.Flow("bare")
bare.source("flights", Flight).sink("out")
"""


@pytest.fixture
def flow_file(tmp_path: Path) -> Path:
    file = tmp_path / "flights_flow.py"
    file.write_text(FLOW)
    return file


def plan(*parts: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["locality", "plan", *map(str, parts)])
    return result.exit_code, " ".join(result.output.split())


def test_a_table_from_a_sample(flow_file: Path, tmp_path: Path) -> None:
    """The report says what is to be expected, also of data not seen; the table is one for the flow."""
    with gzip.open(data.path("nyc_flights"), "rt") as file:
        sample = tmp_path / "flights.csv"
        sample.write_text("".join(itertools.islice(file, 8_001)))
    out = tmp_path / "table.json"
    code, said = plan(flow_file, "--source", f"flights={sample}", "--slots", 6, "--out", out)
    assert code == 0, said
    assert "8,000 pairs of keys" in said
    assert "tables from the first half, on the second" in said
    later = re.findall(r"│ (\*?[\d.]+|hashed) │ ([\d.]+)% │ ([\d.]+) │", said)
    assert [alpha for alpha, _, _ in later] == ["hashed", "*1.03", "1.2", "1.5", "2"]
    assert float(later[0][1]) < 30
    assert all(float(local) > 70 for _, local, _ in later[1:])
    assert all(1 <= float(full) < 3 for _, _, full in later)
    assert "take --alpha" in said
    table = decode_table(out.read_bytes())
    assert table.slots == 6
    assert table.slot_of("by_dest", "ATL") in range(6)
    assert f"{sum(len(one.pins) for one in table.operators.values()):,} keys pinned" in said


def sample_file(tmp_path: Path, rows: list[str]) -> Path:
    file = tmp_path / "sample.csv"
    file.write_text("\n".join(["carrier,flight,dest", *rows]) + "\n")
    return file


def test_a_hot_key_is_shown(flow_file: Path, tmp_path: Path) -> None:
    """79 % of the rows with one key: its share, and what it does to the balance."""
    rows = ["AA,1,ATL"] * 79 + [f"UA,{i},D{i}" for i in range(21)]
    file = sample_file(tmp_path, rows)
    code, said = plan(f"{flow_file}:lone", "--source", file, "--slots", 4)
    assert code == 0, said
    assert "'ATL' 79.0%" in said
    assert "key 'ATL' of count has 79.0% of the tuples" in said
    assert "its slot has 3.16 times the mean at least" in said
    assert "the table is for balance only" in said


def test_a_flow_without_keys_is_refused(flow_file: Path, tmp_path: Path) -> None:
    """There is nothing to route."""
    file = sample_file(tmp_path, ["AA,1,ATL"])
    code, said = plan(f"{flow_file}:bare", "--source", file, "--slots", 2)
    assert code == 1
    assert "flow 'bare' has no operator by key, so there is nothing to route" in said


def test_more_slots_than_buckets_are_refused(flow_file: Path, tmp_path: Path) -> None:
    """A slot without a bucket would have nothing to do."""
    file = sample_file(tmp_path, ["AA,1,ATL"])
    code, said = plan(flow_file, "--source", file, "--slots", 200)
    assert code == 1
    assert "has 128 buckets" in said


def test_a_place_that_cannot_be_written_is_refused_first(flow_file: Path, tmp_path: Path) -> None:
    """Before the flow is loaded or a row is read: the sample is not even there."""
    sample = tmp_path / "nope.csv"
    for out, why in (
        (tmp_path / "none" / "table.json", "there is no folder"),
        (flow_file / "table.json", "there is no folder"),
        (tmp_path, "it is a folder; name a file in it"),
    ):
        code, said = plan(flow_file, "--source", sample, "--slots", 2, "--out", out)
        assert code == 1
        assert "the table cannot be written" in said and why in said
        assert "nope.csv" not in said
