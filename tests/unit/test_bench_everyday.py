"""The ten everyday functions: what their flows and plain loops give is equal, and what the table says of figures."""

from __future__ import annotations

import math
import pathlib

import pyarrow as pa
import pytest
from thalweg_lab.everyday import functions, functions_text, verbs, verbs_text
from thalweg_lab.everyday.bench import (
    Place,
    agreement,
    markdown,
    over_best,
    put,
    summary,
    times_loop,
)
from thalweg_lab.everyday.cell import digest
from thalweg_lab.everyday.data import make
from thalweg_lab.everyday.ways import rows_of

from thalweg.errors import BuildError, SchemaError
from thalweg.testing.reference import run_reference

ROWS = 300


def test_loops_give_what_the_flows_give() -> None:
    """Each of the ten, with ints and with text as keys, gives row for row what its plain loop gives."""
    for module, is_text in ((functions, False), (functions_text, True)):
        for name, one in module.EVERYDAY.items():
            table = make(name, text=is_text, rows=ROWS)
            rows = rows_of(one.row, table)
            assert table.column(1).type == (pa.string() if is_text else pa.int64())
            made = one.loop(rows)
            assert made, name
            try:
                flow = module.flow_of(name)
            except SchemaError:
                assert name == "moving"  # a deque in state
                continue
            assert run_reference(flow, {"rows": rows}).sinks["out"] == made, name


def test_loops_of_verbs_give_what_the_flows_give() -> None:
    """Of the verbs, too; those that put out in another order give the same rows."""
    for module, is_text in ((verbs, False), (verbs_text, True)):
        for name, one in module.EVERYDAY.items():
            rows = rows_of(one.row, make(name, text=is_text, rows=ROWS))
            made = one.loop(rows)
            found = run_reference(module.flow_of(name), {"rows": rows}).sinks["out"]
            assert made, name
            if not one.exact:
                found, made = sorted(found), sorted(made)
            assert found == made, name


def test_digests_see_rows_and_their_order_not_how_they_are_kept() -> None:
    """Records, and a table in any number of chunks, have one digest; another order or another value has another."""
    rows = [functions.Page(1, 2, "aé"), functions.Page(3, 4, ""), functions.Page(5, 6, "b")]
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(functions.Page._fields, map(list, columns), strict=True)))
    in_parts = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert digest(rows) == digest(table) == digest(in_parts)
    others = [rows[::-1], [rows[0], rows[1], rows[2]._replace(url="c")], rows[:2]]
    assert len({digest(rows), *map(digest, others)}) == 4


def test_the_table_says_where_the_default_loses() -> None:
    """Ratios are to the loop and to the best setting; what differs, and what a version refuses, is named."""
    loop = {
        "wall_s": 1.0,
        "cpu_s": 1.0,
        "whole_cpu_s": 2.0,
        "digest": "a",
        "check": 5.0,
        "rows_out": 3,
    }
    default = {**loop, "wall_s": 2.0, "peak_mb": 100.0, "compiled": "calls f"}
    cells = {"loop": loop, "default": default, "serial": {**loop, "wall_s": 1.6, "digest": "b"}}
    cells["polars"] = {"wall_s": 0.1, "check": 5.0 + 1e-9, "rows_out": 3}
    assert times_loop(cells, "default") == 0.5
    assert over_best(cells) == 1.25
    assert math.isnan(times_loop(cells, "duckdb"))
    assert agreement(cells) == "differ: serial"
    found = {Place("url", "int", 1_000): cells}
    text = summary(found)
    assert "1.25 x the best" in text
    assert "0.50 x as fast as a plain loop" in text
    assert "| no | 1 | 0.5 |" in markdown(found, "a machine")
    refused = {"loop": loop, "default": {"failed": "SchemaError"}}
    assert "| refused | 1 | – |" in markdown({Place("moving", "int", 1_000): refused}, "a machine")


def test_the_table_replaces_the_one_of_a_page(tmp_path: pathlib.Path) -> None:
    """Twice gives the second; a page without marks is refused."""
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- everyday: begin -->\n<!-- everyday: end -->\nb\n")
    put("one\n", page)
    put("two\n", page)
    assert page.read_text() == "a\n<!-- everyday: begin -->\ntwo\n<!-- everyday: end -->\nb\n"
    page.write_text("a\n")
    with pytest.raises(BuildError, match="expected the lines"):
        put("one\n", page)
