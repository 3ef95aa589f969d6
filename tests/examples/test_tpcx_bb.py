"""The queries of TPCx-BB against DuckDB, which runs the SQL of their docstrings over the whole of the data."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import typer
from docstring_sql import about, in_sql
from tests.sizes import sized
from typer.testing import CliRunner

import thalweg as tw
from thalweg import datagen
from thalweg.datagen import Sale
from thalweg.examples import cart_abandonment, running
from thalweg.examples.tpcx_bb import generated, q01, q15
from thalweg.flow.operators.nodes import Keyed, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = tw.days(1)
#: For each query how its data are generated: few items, so that pairs come often, and few users or many days, so that
#: visits, tickets and periods end in all the ways they can.
CLICKS: dict[str, dict[str, Any]] = {
    "q02": {"users": 200, "days": 8, "items": 40},
    "q03": {"users": 500, "days": 90, "items": 40},
    "q04": {"users": 200, "days": 15},
}
SALES: dict[str, dict[str, Any]] = {
    "q01": {"days": 2, "items": 40, "stores": 4},
    "q15": {"days": 90},
}
QUERIES = sorted({**CLICKS, **SALES})
#: Table 1 of the paper.
CHAINS = {
    "q01": "SS SL PS PS SF",
    "q02": "WC SL PS SL PS SF",
    "q03": "WC SL PS PS",
    "q04": "WC SL PS SL SF",
    "q15": "SS SL SL PS",
}


def query(name: str) -> Any:
    return importlib.import_module(f"thalweg.examples.tpcx_bb.{name}")


def source_of(name: str) -> str:
    return "clicks" if name in CLICKS else "sales"


def made(name: str, rows: int, seed: int) -> pa.Table:
    """The query's input, out of order by up to a minute."""
    arguments = {"seed": seed, "disorder_s": 60, **CLICKS.get(name, {}), **SALES.get(name, {})}
    generate = datagen.clickstream if name in CLICKS else datagen.store_sales
    return pa.Table.from_batches(generate(rows, **arguments))


def output(flow: tw.Flow, source: str, table: Any) -> list[tuple[Any, ...]]:
    """What the flow's one sink gets; no row may be late."""
    result = tw.run(flow, {source: table})
    assert result.counts[source]["late"] == 0
    (sink,) = result.sinks
    return [tuple(row) for row in result.rows(sink)]


@pytest.mark.parametrize("seed", range(sized(3, 1)))
@pytest.mark.parametrize("name", QUERIES)
def test_as_duckdb(name: str, seed: int) -> None:
    """The whole output, in its order, is what the query's SQL gives."""
    table = made(name, 20_000, seed)
    rows = output(query(name).flow, source_of(name), table)
    expected = in_sql(query(name), source_of(name), table)
    assert len(rows) == len(expected) > 10
    assert rows == [about(row) for row in expected]


@pytest.mark.parametrize("name", ["q01", "q02", "q03"])
def test_limit(name: str) -> None:
    """With another limit the rows of greater rank are missing, and nothing else changes."""
    table, module = made(name, 20_000, 3), query(name)
    rank = 2 if name == "q03" else 1
    rows = output(module.flow, source_of(name), table)
    assert max(row[rank] for row in rows) > 3
    assert output(module.make_flow(limit=3), source_of(name), table) == [
        row for row in rows if row[rank] <= 3
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_as_the_serial_reference(name: str) -> None:
    """Outputs, counts and states are those of a serial run, whatever the cuts, compiled or not; no key stays."""
    table, flow = made(name, 1000, 4), query(name).flow
    result = tw.testing.assert_same(flow, {source_of(name): table}, seeds=range(2))
    keyed = [node.name for node in flow.nodes if isinstance(node, Keyed) and node.key.fields]
    assert not any(result.states[one] for one in keyed)


@pytest.mark.parametrize("name", QUERIES)
def test_the_chain_of_the_paper(name: str) -> None:
    """A query's operators are of the kinds that Table 1 has, in that order."""
    kinds = {"source": "WC" if name in CLICKS else "SS", "stateless": "SL"}
    chain = [
        ("PS" if node.key.fields else "SF") if isinstance(node, Keyed) else kinds[node.kind.value]
        for node in query(name).flow.nodes
        if not isinstance(node, Sink)
    ]
    assert " ".join(chain) == CHAINS[name]


@pytest.mark.parametrize(
    ("name", "lists"), [("q01", 1), ("q02", 1), ("q03", 1), ("q04", 0), ("q15", 0)]
)
def test_what_is_compiled(name: str, lists: int) -> None:
    """All operators are compiled but the one that ranks, which does with its list what machine code cannot."""
    page = " ".join(query(name).flow.explain().split())
    said = page.count("calls `bisect.insort`") + page.count("compares a list[int]")
    assert page.count(" interpreted") == said == lists


def line(second: int, item: int, cents: int = 100, day: int = 0) -> Sale:
    """A line of a ticket in store 1 on a day from Monday, 5 January 2026."""
    ts = tw.timestamp("2026-01-05") + day * DAY + tw.seconds(second)
    return Sale(ts, 1, 1, 1, item, "Home", 1, cents)


def test_ten_items_of_a_ticket() -> None:
    """Only the first ten different items of a ticket make pairs."""
    lines = [line(second, item) for second, item in enumerate([*range(1, 13), 5, 11])]
    rows = output(q01.make_flow(at_least=1), "sales", lines)
    assert [row[2:4] for row in rows] == [(a, b) for a in range(1, 11) for b in range(a + 1, 11)]


@pytest.mark.parametrize(
    ("cents", "slope"),
    [([500, 500, 500], 0.0), ([300, 100, 200], -50.0), ([1, 2, 2], None), ([7], None)],
)
def test_flat_is_not_rising(cents: list[int], slope: float | None) -> None:
    """Sales that stay the same come out with a slope of 0; rising ones do not, nor those of a single day."""
    sales = [line(0, 1, amount, day) for day, amount in enumerate(cents)]
    rows = output(q15.flow, "sales", sales)
    start = tw.timestamp("2026-01-05")
    expected = [("Home", start + 28 * DAY, len(cents), sum(cents), slope)]
    assert rows == (expected if slope is not None else [])


def test_query_4_is_the_example() -> None:
    """The projection in front changes nothing."""
    table = made("q04", 5000, 5)
    assert output(query("q04").flow, "clicks", table) == output(
        cart_abandonment.flow, "clicks", table
    )


@pytest.mark.parametrize(
    ("command", "name", "sink"),
    [(generated.over_sales, "q15", "trends"), (generated.over_clicks, "q04", "average")],
)
def test_command(command: Any, name: str, sink: str) -> None:
    """The command generates rows, runs the query and shows what it found."""
    app = typer.Typer()
    app.command()(command(query(name).flow, sink))
    done = CliRunner().invoke(app, ["--rows", "3000", "--embedded"])
    assert done.exit_code == 0
    assert done.stdout.startswith(sink)
    assert "3,000 rows in, 0 late, 0 rejected" in done.stdout


@pytest.mark.spark
@pytest.mark.parametrize("name", ["q01", "q02", "q03"])
def test_on_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Two slots on Spark give what this process gives."""
    module, table = query(name), made(name, 5000, 6)
    datagen.write_files(iter(table.to_batches()), tmp_path, rows=5000, files=2)
    given = {source_of(name): running.ExampleInput(str(tmp_path), "parquet")}
    outcome = running.run(module.flow, given, slots=2)
    (sink,) = outcome.tables
    assert outcome.tables[sink].equals(tw.run(module.flow, {source_of(name): table}).sinks[sink])
