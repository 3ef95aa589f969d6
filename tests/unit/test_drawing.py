"""Pictures and notebook cards: whole, escaped, and made of the flow's own graph."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.page.kit import SCRIPT, full, wide

import thalweg as tw
from thalweg.drawing import drawing_of, snapshot_html
from thalweg.drawing.layers import layered
from thalweg.errors import BuildError


class Trip(NamedTuple):
    zone: str
    fare: int


def a_flow(name: str = "trips") -> tw.Flow:
    flow = tw.Flow(name)
    trips = flow.source("trips", Trip)
    paid = trips.filter(lambda trip: trip.fare > 0, name="paid")
    paid.filter(lambda trip: trip.fare > 9, name="dear").sink("dear")
    paid.sink("paid")
    return flow


def texts(svg: str) -> list[str]:
    """The texts of a picture, which is well-formed."""
    return [one.text or "" for one in xml.fromstring(svg).iter() if one.tag.endswith("text")]


def test_layers() -> None:
    """Every edge leads to a later column; nodes and ways of one column have places of their own; ways fill the gaps."""
    nodes = list("abcdefg")
    edges = [
        ("a", "b"),
        ("b", "c"),
        ("a", "d"),
        ("d", "g"),
        ("c", "g"),
        ("a", "g"),
        ("b", "f"),
        ("e", "f"),
    ]
    laid = layered(nodes, edges)
    for a, b in edges:
        assert laid.places[a][0] < laid.places[b][0]
        assert [column for column, _ in laid.ways[a, b]] == list(
            range(laid.places[a][0] + 1, laid.places[b][0])
        )
    taken = [*laid.places.values(), *(place for way in laid.ways.values() for place in way)]
    assert len(taken) == len(set(taken))
    assert layered([], []).places == {}


def test_a_flow_as_a_picture(tmp_path: Path) -> None:
    """All operators and edges are in the SVG and in Mermaid; a notebook shows the SVG, or why there is none."""
    drawing = a_flow().draw()
    assert {*texts(drawing.svg)} >= {"trips", "paid", "dear", "source", "sink", "stateless"}
    lines = drawing.mermaid.splitlines()
    assert lines[0] == "flowchart LR" and sum(" --> " in line for line in lines) == 4
    assert a_flow()._repr_html_() == drawing.svg == drawing._repr_svg_()
    drawing.save(tmp_path / "flow.svg")
    drawing.save(tmp_path / "flow.mmd")
    assert (tmp_path / "flow.svg").read_text() == drawing.svg
    with pytest.raises(BuildError, match=r"\.svg or \.mmd"):
        drawing.save(tmp_path / "flow.png")
    empty = tw.Flow("<b>")
    assert "<b>" not in empty._repr_html_() and "&lt;b&gt;" in empty._repr_html_()


def test_what_it_does_as_a_picture() -> None:
    """Rates, the culprit marked, a loop drawn back; names that look like markup are texts."""
    svg = drawing_of(full()).svg
    assert "▶ fare" in texts(svg)
    assert any(text.startswith("8,400 rows/s, busy 103%") for text in texts(svg))
    assert "stroke-width:3px" in drawing_of(full()).mermaid
    assert len(xml.fromstring(drawing_of(wide(20, 5, composites=True)).svg)) > 200
    card = snapshot_html(full(), "http://127.0.0.1:1/#a")
    assert SCRIPT not in card and "<script" not in card and "live page" in card
    assert "1,234,567 rows in" in card and "<td>▶ fare</td>" in card


def test_a_result_in_a_notebook() -> None:
    """The first ten rows of each sink, the counts, and every text escaped; of nothing, nothing."""
    rows = [Trip(SCRIPT, n) for n in range(30)]
    card = tw.run(a_flow(), {"trips": rows})._repr_html_()
    assert (
        card.count("<tr>") == 2 * (1 + 10)
        and "<b>dear</b>: 20 rows" in card
        and "… 19 more" in card
    )
    assert "<script" not in card and "&lt;script&gt;" in card
    assert re.findall(r"<th>(\w+)</th>", card)[:2] == ["zone", "fare"]
    assert "0 rows" in tw.run(a_flow(), {"trips": []})._repr_html_()


def test_a_run_in_a_notebook() -> None:
    """What it does now, as a graph and a table."""
    with tw.start() as running:
        run: Any = running.add(
            a_flow(), {"trips": [Trip("a", 1)]}, {"paid": tw.each(print), "dear": tw.each(print)}
        )
        run.result()
        assert "<svg" in run._repr_html_() and "<td>  paid</td>" in run._repr_html_()
