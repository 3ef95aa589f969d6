"""Flows and what they do as pictures and tables for notebooks and documents: SVG, Mermaid, HTML."""

from __future__ import annotations

from thalweg.drawing.cards import result_html, snapshot_html
from thalweg.drawing.graphs import Drawing, DrawnEdge, DrawnNode, drawing_of

__all__ = [
    "Drawing",
    "DrawnEdge",
    "DrawnNode",
    "drawing_of",
    "result_html",
    "snapshot_html",
]
