"""A run as a card of HTML: what there is to say of the whole, and its graph."""

from __future__ import annotations

from html import escape

from thalweg.drawing.graph import graph_of_snapshot
from thalweg.drawing.svg import svg_of
from thalweg.drawing.tables import html_table
from thalweg.snapshot import Snapshot
from thalweg.snapshot.shown import COLUMNS, head_lines, operator_cells, used_columns

#: With more operators the graph is left out: the table is enough to read.
MOST_DRAWN = 60


def card(snapshot: Snapshot) -> str:
    """The snapshot as one element."""
    first, *others = head_lines(snapshot)
    lines = "".join(f"<div>{escape(line)}</div>" for line in others)
    is_small = len(snapshot.operators) <= MOST_DRAWN
    shown = svg_of(graph_of_snapshot(snapshot), snapshot.flow or "flow") if is_small else ""
    rows = list(operator_cells(snapshot))
    used = used_columns(rows)
    table = html_table([COLUMNS[n] for n in used], ([row[n] for n in used] for row in rows))
    return (
        '<div style="border:1px solid rgba(128,128,128,.35);border-radius:8px;padding:10px 14px;overflow-x:auto">'
        f'<div style="font-weight:600">{escape(first)}</div>{lines}{shown}'
        f"<details><summary>operators</summary>{table}</details></div>"
    )
