"""A graph as SVG, which reads on dark and on light ground and needs nothing else; all text of users is escaped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape
from typing import Final

from thalweg.drawing.graph import Arrow, Box, DrawnGraph, Tone
from thalweg.drawing.layout import LINE, MARGIN, PlacedGraph, Rectangle, cut, place

#: The colour of a box's edge; its ground is the same colour, thin.
COLOURS: Final[dict[Tone, str]] = {
    "source": "#2a78c8",
    "sink": "#6b57c9",
    "machine": "#23864b",
    "python": "#b7791f",
    "plain": "#7a828c",
    "culprit": "#d13438",
}
_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def svg_of(graph: DrawnGraph, title: str) -> str:
    """The picture as one element, with a title for those who do not see it."""
    at = place(graph)
    back = sum(arrow.back for arrow in graph.arrows) and LINE * 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {at.width:.0f} {at.height + back:.0f}"'
        f' width="{at.width:.0f}" height="{at.height + back:.0f}" role="img" font-family="{_FONT}" font-size="12"'
        ' style="max-width:100%;height:auto">',
        f"<title>{escape(title)}</title>",
        *(line for arrow in graph.arrows for line in _arrow(arrow, at)),
        *(line for box in graph.boxes for line in _box(box, at.places[box.key])),
        "</svg>",
    ]
    return "\n".join(parts)


def _box(box: Box, at: Rectangle) -> Iterator[str]:
    colour = COLOURS[box.tone]
    thick = 2.5 if box.tone == "culprit" else 1.2
    more = "".join(f"\n{line}" for line in box.lines)
    yield f"<g><title>{escape(box.name + more)}</title>"
    yield (
        f'<rect x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" rx="6"'
        f' fill="{colour}" fill-opacity="0.13" stroke="{colour}" stroke-width="{thick}"/>'
    )
    middle, y = at.x + at.width / 2, at.y + 9 + LINE * 0.75
    for number, text in enumerate((box.name, *box.lines)):
        strong = ' font-weight="600"' if not number else ' opacity="0.75"'
        yield (
            f'<text x="{middle:.1f}" y="{y + number * LINE:.1f}" text-anchor="middle" fill="currentColor"'
            f"{strong}>{escape(cut(text))}</text>"
        )
    yield "</g>"


def _arrow(arrow: Arrow, at: PlacedGraph) -> Iterator[str]:
    if arrow.giver not in at.places or arrow.reader not in at.places:
        return
    start, end = at.places[arrow.giver], at.places[arrow.reader]
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    if arrow.back:
        low = at.height - MARGIN + LINE
        x1, x2, y1, y2 = (
            start.x + start.width / 2, end.x + end.width / 2, start.y + start.height, end.y + end.height,
        )  # fmt: skip
        path = f"M{x1:.1f},{y1:.1f} C{x1:.1f},{low:.1f} {x2:.1f},{low:.1f} {x2:.1f},{y2 + 6:.1f}"
        head = f"M{x2 - 4:.1f},{y2 + 7:.1f} L{x2:.1f},{y2:.1f} L{x2 + 4:.1f},{y2 + 7:.1f} Z"
    else:
        points = [(x1, y1), *at.bends.get((arrow.giver, arrow.reader), ()), (x2 - 6, y2)]
        path = f"M{x1:.1f},{y1:.1f}" + "".join(_piece(a, b) for a, b in itertools.pairwise(points))
        head = f"M{x2 - 7:.1f},{y2 - 4:.1f} L{x2:.1f},{y2:.1f} L{x2 - 7:.1f},{y2 + 4:.1f} Z"
        x2, y2 = points[1]  # its text stands on the first piece
    dashes = ' stroke-dasharray="5 4"' if arrow.back else ""
    yield f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.55"{dashes}/>'
    yield f'<path d="{head}" fill="currentColor" fill-opacity="0.55"/>'
    if arrow.text:
        yield (
            f'<text x="{(x1 + x2) / 2:.1f}" y="{(y1 + y2) / 2 - 5:.1f}" text-anchor="middle" fill="currentColor"'
            f' opacity="0.8" font-size="10">{escape(arrow.text)}</text>'
        )


def _piece(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A bend from one layer to the next, or straight through one."""
    (x1, y1), (x2, y2) = start, end
    middle = (x1 + x2) / 2
    return f" C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
