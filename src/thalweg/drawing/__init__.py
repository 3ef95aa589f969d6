"""Flows and runs as pictures: a graph as SVG and Mermaid, a run as a card of HTML; docs/notebooks.md."""

from thalweg.drawing.card import card
from thalweg.drawing.drawing import Drawing
from thalweg.drawing.graph import DrawnGraph, graph_of, graph_of_snapshot
from thalweg.drawing.live import show_live
from thalweg.drawing.tables import html_table

__all__ = [
    "Drawing",
    "DrawnGraph",
    "card",
    "graph_of",
    "graph_of_snapshot",
    "html_table",
    "show_live",
]
