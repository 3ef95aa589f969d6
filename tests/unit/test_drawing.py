"""Flows, results and runs as pictures and tables: right, escaped, and of any size."""

from __future__ import annotations

import dataclasses
import itertools
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import drawing
from thalweg.drawing import live
from thalweg.drawing.graph import Arrow, Box, DrawnGraph
from thalweg.drawing.layout import place
from thalweg.drawing.svg import svg_of

ODD = "<script>alert('1')</script> & \"quoted\""


class Row(NamedTuple):
    n: int
    text: str
    at: tw.Timestamp | None


def make_flow(name: str = "odd") -> tw.Flow:
    flow = tw.Flow(name, compile="never")
    rows = flow.source(ODD, Row)
    large = rows.filter(lambda row: row.n > 1, name="large")
    large.union(rows, name="both").sink("large")  # a sink with an operator's name
    large.key_by("text").process(count, state=Count, errors="reject", name="count").sink("counted")
    return flow


@tw.state
class Count:
    n: int = 0


def count(state: Count, row: Row) -> Row:
    state.n += 1
    return row._replace(n=state.n)


ROWS = [Row(n, ODD if n % 2 else "é", None if n % 3 else n * 1_000_000) for n in range(30)]


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    return [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_flow_as_a_picture(tmp_path: Path) -> None:
    """Every node once, all streams; names of any kind are text, in SVG and in Mermaid."""
    flow = make_flow()
    drawn = flow.draw()
    shown = texts(drawn.svg)
    assert shown.count("large") == 2  # the operator, and the sink
    assert [one for one in shown if one.startswith("<script>")]
    assert "<script>" not in drawn.svg
    assert "<script>" not in drawn.mermaid
    assert len(drawn.graph.arrows) == 6
    arrows = [line for line in drawn.mermaid.splitlines() if "-->" in line]
    assert len(arrows) == len(set(arrows)) == 6
    for name in ("flow.svg", "flow.mmd"):
        drawn.save(tmp_path / name)
    assert (tmp_path / "flow.svg").read_text() == flow._repr_svg_() + "\n"
    assert (tmp_path / "flow.mmd").read_text().startswith("flowchart LR\n")
    with pytest.raises(tw.BuildError, match=r"ends with \.svg"):
        drawn.save(tmp_path / "flow.png")
    assert repr(drawn) == "<Drawing of odd: 6 nodes, 6 streams; .svg, .mermaid, .save(path)>"


def overlaps(graph: DrawnGraph) -> list[tuple[str, str]]:
    at = sorted(place(graph).places.items(), key=lambda one: (one[1].x, one[1].y))
    return [
        (a, b)
        for (a, one), (b, other) in itertools.pairwise(at)
        if one.x == other.x and one.y + one.height > other.y
    ]


def test_nothing_overlaps() -> None:
    """Boxes keep apart, arrows go forward and between the boxes of a layer, a thousand operators, too."""
    boxes = tuple(Box(f"b{n}", f"b{n}", ("stateless",) * (n % 4), "plain") for n in range(1_000))
    arrows = [Arrow(f"b{n // 3}", f"b{n}") for n in range(1, 1_000)]
    arrows += [Arrow(f"b{n}", f"b{2 * n + 50}") for n in range(0, 400, 7)]
    graph = DrawnGraph(boxes, tuple(arrows))
    at = place(graph)
    assert not overlaps(graph)
    assert len(at.places) == 1_000
    for arrow in arrows:
        between = at.bends.get((arrow.giver, arrow.reader), ())
        xs = [at.places[arrow.giver].x, *(x for x, _ in between), at.places[arrow.reader].x]
        assert xs == sorted(xs)
    for (_, reader), bends in at.bends.items():
        for x, y in bends:
            assert x < at.places[reader].x
            hit = [box for box in at.places.values() if box.x < x < box.x + box.width]
            assert not [box for box in hit if box.y < y < box.y + box.height]


def test_what_goes_back_and_what_is_not_there() -> None:
    """A stream that goes upstream is dotted below the others; an arrow of an unknown box is left out."""
    graph = DrawnGraph(
        (Box("a", "a", (), "source"), Box("b", "b", (), "plain")),
        (Arrow("a", "b"), Arrow("b", "a", "control", back=True), Arrow("b", "nobody")),
    )
    svg = svg_of(graph, "loop")
    assert svg.count("stroke-dasharray") == 1
    assert "control" in texts(svg)
    ET.fromstring(svg_of(DrawnGraph((), ()), "nothing"))


def test_a_result_as_tables() -> None:
    """``result[name]`` has the rows in every form, says which sinks there are, and nothing of the data is markup."""
    result = tw.run(make_flow(), {ODD: ROWS})
    rows = result["counted"]
    assert len(rows) == rows.table.num_rows == 28
    assert list(rows) == rows.rows == rows[:] == result.rows("counted")
    assert rows == result.rows("counted") and rows == tuple(rows) and rows == result["counted"]
    assert rows != result["large"] and rows != rows[1:] and rows != "rows"
    assert rows[0] == rows.rows[0] and list(result) == ["large", "counted"]
    assert "counted" in result and "count" not in result
    assert rows.to_polars()["n"].to_list() == rows.table["n"].to_pylist()
    assert repr(rows) == "<rows of sink 'counted': 28 rows (n, text, at)>"
    with pytest.raises(tw.BuildError, match=r"no rows of a sink 'count' are kept.*counted"):
        result["count"]
    for shown in (rows._repr_html_(), result._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
        assert "1970-01-01T00:00:03Z" in shown
        ET.fromstring(f"<div>{shown}</div>")
    assert "… 8 more" in rows._repr_html_()
    empty = tw.run(make_flow(), {ODD: []})
    assert "counted: no rows" in empty["counted"]._repr_html_()


def test_a_run_as_a_card() -> None:
    """The card has what ``print(run)`` says of the whole, the graph, and the operators; of many only the table."""
    with tw.start(threads=1) as running:
        run = running.add(make_flow(), {ODD: ROWS})
        run.result()
        card = run._repr_html_()
    root = ET.fromstring(card)
    assert "30 rows in" in "".join(root.itertext())
    assert "<script>" not in card
    assert "<svg" in card
    flow = tw.Flow("wide", compile="never")
    rows: Any = flow.source("rows", Row)
    for n in range(70):
        rows.filter(bool, name=f"f{n}").sink(f"s{n}")
    card = drawing.card(tw.run(flow, {"rows": ROWS}).progress)
    assert "<svg" not in card
    assert card.count("<tr>") == 71


def test_a_card_follows_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn anew until the run has ended, and a failure of the drawing harms nobody."""
    monkeypatch.setattr(live, "EVERY_S", 0.001)
    ended = tw.run(make_flow(), {ODD: ROWS}).progress
    asked: list[str] = []

    def progress() -> Any:
        asked.append("now")
        return dataclasses.replace(ended, status="running" if len(asked) < 5 else "ended")

    drawn: list[str] = []
    live._follow(progress, drawn.append)
    assert len(drawn) == len(asked) == 5

    def fails(text: str) -> None:
        raise OSError("the notebook is closed")

    live._follow(progress, fails)
