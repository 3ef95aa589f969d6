"""A graph of operators as SVG, which stands by itself, and as Mermaid, which documents draw.

Colours suit light and dark grounds. Texts of the user's are escaped: names may look like markup.
"""

from __future__ import annotations

import dataclasses
import html
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Final

from thalweg.drawing.layers import Layers, layered
from thalweg.errors import BuildError
from thalweg.snapshot import Snapshot, bottleneck
from thalweg.snapshot.shown import size_text

#: Of a node and between nodes, in pixels.
_WIDTH: Final = 176
_HEIGHT: Final = 52
_APART: Final = 18
_BETWEEN: Final = 72
_MARGIN: Final = 8
#: Characters that fit on a node's lines.
_NAME: Final = 21
_LINE: Final = 26
_HOT: Final = "#c2410c"
_GREY: Final = "#7b8a97"


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a picture.

    Attributes:
        id: its own, of the edges.
        name: what it is called.
        kind: ``source``, ``sink``, or of an operator.
        line: what there is to say besides.
        is_marked: whether it holds up the others.
    """

    id: str
    name: str
    kind: str
    line: str = ""
    is_marked: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a picture, with what passes over it."""

    giver: str
    reader: str
    label: str = ""
    goes_back: bool = False


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """A flow as a picture; a notebook shows it by itself.

    Attributes:
        title: what it shows.
        nodes: in topological order.
        edges: between them.
    """

    title: str
    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]

    @property
    def svg(self) -> str:
        """The picture as SVG, a whole file."""
        return "".join(_svg(self))

    @property
    def mermaid(self) -> str:
        """The picture as text that Mermaid draws, as GitHub and mkdocs-material do."""
        return "\n".join(_mermaid(self)) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``.svg``, or ``.mmd`` (Mermaid).

        Raises:
            BuildError: the name ends in neither.
        """
        name = os.fspath(path)
        texts = {".svg": self.svg, ".mmd": self.mermaid}
        text = texts.get(os.path.splitext(name)[1])
        if text is None:
            raise BuildError(f"save: expected a name that ends in .svg or .mmd, got {name!r}")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Drawing of {self.title!r}: {len(self.nodes)} nodes; .svg, .mermaid, .save(path)>"


def drawing_of(snapshot: Snapshot) -> Drawing:
    """What a flow does as a picture: rates, how busy operators are, and who holds up the others."""
    culprit = bottleneck(snapshot)
    state = {one.operator: one.bytes for one in snapshot.state}
    nodes = [
        DrawnNode(one.name, one.name, "source", _rate(one.rows_per_s, one.rows_in))
        for one in snapshot.sources
    ]
    for op in snapshot.operators:
        busy = [] if op.busy is None else [f"busy {op.busy:.0%}"]
        size = state.get(op.name)
        kept = [] if size is None else [size_text(size)]
        line = ", ".join([_rate(op.rows_per_s, op.rows_in), *busy, *kept])
        nodes.append(DrawnNode(op.name, op.name, op.kind, line, op.name == culprit))
    nodes += [
        DrawnNode(f"sink:{one.name}", one.name, "sink", f"{one.rows:,} rows")
        for one in snapshot.sinks
    ]
    edges = [
        DrawnEdge(one.giver, one.reader, "" if one.port == "out" else one.port, one.feedback)
        for one in snapshot.edges
    ]
    return Drawing(snapshot.flow, nodes, edges)


def _rate(per_s: float | None, rows: int) -> str:
    return f"{rows:,} rows" if per_s is None else f"{per_s:,.0f} rows/s"


# -- SVG --------------------------------------------------------------------------------------------------------


def _svg(drawing: Drawing) -> Iterator[str]:
    laid = layered(
        [one.id for one in drawing.nodes],
        [(one.giver, one.reader) for one in drawing.edges if not one.goes_back],
    )
    columns = [column for column, _ in laid.places.values()]
    rows = [row for _, row in laid.places.values()]
    rows += [row for way in laid.ways.values() for _, row in way]
    low, high = min(rows, default=0.0), max(rows, default=0.0)
    goes_back = any(one.goes_back for one in drawing.edges)
    width = 2 * _MARGIN + (max(columns, default=0) + 1) * (_WIDTH + _BETWEEN) - _BETWEEN
    height = 2 * _MARGIN + (high - low + 1) * (_HEIGHT + _APART) - _APART + 28 * goes_back
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" viewBox="0 0 {width} {height:g}"'
        f' role="img" aria-label="{html.escape(f"flow {drawing.title}")}"'
        ' font-family="system-ui, sans-serif" font-size="11" fill="currentColor" style="max-width:100%;height:auto">'
    )
    yield (
        f'<defs><marker id="tw-end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
        f' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{_GREY}"/></marker></defs>'
    )
    for edge in drawing.edges:
        yield from _edge(edge, laid, low)
    for node in drawing.nodes:
        yield from _node(node, *_corner(*laid.places[node.id], low))
    yield "</svg>"


def _corner(column: int, row: float, low: float) -> tuple[float, float]:
    return _MARGIN + column * (_WIDTH + _BETWEEN), _MARGIN + (row - low) * (_HEIGHT + _APART)


def _node(node: DrawnNode, x: float, y: float) -> Iterator[str]:
    line, width = (_HOT, 2.2) if node.is_marked else (_GREY, 1.1)
    round_ = _HEIGHT / 2.4 if node.kind in ("source", "sink") else 7
    mark = "▶ " if node.is_marked else ""
    yield (
        f'<g transform="translate({x:g} {y:g})"><title>{html.escape(f"{node.kind} {node.name}")}</title>'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="{round_:.0f}" fill="{line}" fill-opacity="0.08" stroke="{line}"'
        f' stroke-width="{width}"/>'
        f'<text x="12" y="22" font-size="12.5" font-weight="600">{html.escape(_cut(mark + node.name, _NAME))}</text>'
        f'<text x="12" y="39" opacity="0.75">{html.escape(_cut(node.line or node.kind, _LINE))}</text></g>'
    )


def _edge(edge: DrawnEdge, laid: Layers, low: float) -> Iterator[str]:
    (x0, y0), (x1, y1) = (_corner(*laid.places[one], low) for one in (edge.giver, edge.reader))
    dashed = ' stroke-dasharray="5 3"' if edge.label or edge.goes_back else ""
    if edge.goes_back:
        below = max(y0, y1) + _HEIGHT + 26
        path = (
            f"M{x0 + _WIDTH / 2:g} {y0 + _HEIGHT:g}C{x0 + _WIDTH / 2:g} {below:g} {x1 + _WIDTH / 2:g} {below:g}"
            f" {x1 + _WIDTH / 2:g} {y1 + _HEIGHT:g}"
        )
    else:
        way = [_corner(column, row, low) for column, row in laid.ways[edge.giver, edge.reader]]
        # An edge passes the columns between its ends level.
        points = [
            (x0 + _WIDTH, y0),
            *(end for x, y in way for end in ((x, y), (x + _WIDTH, y))),
            (x1, y1),
        ]
        path = _smooth([(x, y + _HEIGHT / 2) for x, y in points])
    yield (
        f'<path d="{path}" fill="none" stroke="{_GREY}" stroke-width="1.3"{dashed} marker-end="url(#tw-end)"/>'
    )
    if edge.label and not edge.goes_back:
        beside = 14 if y1 > y0 else -6
        yield (
            f'<text x="{x1 - 10:g}" y="{y1 + _HEIGHT / 2 + beside:g}" text-anchor="end" font-size="10" opacity="0.75">'
            f"{html.escape(_cut(edge.label, 11))}</text>"
        )


def _smooth(points: Sequence[tuple[float, float]]) -> str:
    """A way through points that leaves and arrives level."""
    path = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (ax, ay), (bx, by) in itertools.pairwise(points):
        half = (ax + bx) / 2
        path.append(f"C{half:g} {ay:g} {half:g} {by:g} {bx:g} {by:g}")
    return "".join(path)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# -- Mermaid ----------------------------------------------------------------------------------------------------


def _mermaid(drawing: Drawing) -> Iterator[str]:
    yield "flowchart LR"
    ids = {one.id: f"n{number}" for number, one in enumerate(drawing.nodes)}
    for node in drawing.nodes:
        opens, closes = ('(["', '"])') if node.kind in ("source", "sink") else ('["', '"]')
        yield f"    {ids[node.id]}{opens}{_quoted(node)}{closes}"
    for edge in drawing.edges:
        arrow = "-.->" if edge.label or edge.goes_back else "-->"
        label = f'|"{_entities(edge.label)}"|' if edge.label else ""
        yield f"    {ids[edge.giver]} {arrow}{label} {ids[edge.reader]}"
    marked = [ids[one.id] for one in drawing.nodes if one.is_marked]
    if marked:
        yield f"    style {','.join(marked)} stroke:{_HOT},stroke-width:3px"


def _quoted(node: DrawnNode) -> str:
    line = f"<br/>{_entities(node.line)}" if node.line else ""
    return f"{_entities(node.name)}{line}"


def _entities(text: str) -> str:
    """Text of which Mermaid makes nothing but text: every sign that could mean something as its number."""
    return "".join(one if one.isalnum() or one in " _-./,%:" else f"#{ord(one)};" for one in text)
