"""Where the boxes of a graph stand: layer by layer from left to right, with few crossings (Sugiyama et al., 1981).

A box is one layer behind the last that it reads. Within a layer boxes are put in the order of the mean place of those
that they read, and then of those that read them, a few times over. An arrow that passes layers has a place in each of
them, so that it goes between their boxes. Streams that go back are not looked at.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from thalweg.drawing.graph import Box, DrawnGraph

#: Sizes in pixels: of letters, of what is around them, and between boxes.
LETTER: Final = 7.2
LINE: Final = 16.0
_PAD_X, _PAD_Y = 12.0, 9.0
_GAP_X, _GAP_Y = 64.0, 22.0
_LEAST_WIDTH: Final = 72.0
MARGIN: Final = 10.0
#: How often the order of the layers is improved, there and back.
_SWEEPS: Final = 4
#: Longer texts are cut in boxes.
LONGEST: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Rectangle:
    """Where a box stands, pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedGraph:
    """Where everything stands, pixels.

    Attributes:
        places: of each box, by its key.
        bends: by arrow, where it goes through the layers that lie between its ends.
        width, height: of the picture.
    """

    places: Mapping[str, Rectangle]
    bends: Mapping[tuple[str, str], Sequence[tuple[float, float]]]
    width: float
    height: float


#: The key of a box, or of the place at which an arrow passes a layer: its ends, and the layer.
_Item: TypeAlias = str | tuple[str, str, int]


def place(graph: DrawnGraph) -> PlacedGraph:
    """Places the boxes of a graph."""
    boxes = {box.key: box for box in graph.boxes}
    depth = _depths(graph)
    layers: list[list[_Item]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key, number in depth.items():
        layers[number].append(key)
    chains: list[tuple[_Item, _Item]] = []
    for giver, reader in {(one.giver, one.reader): None for one in graph.arrows if not one.back}:
        if giver in depth and reader in depth:
            chain: list[_Item] = [giver]
            for number in range(depth[giver] + 1, depth[reader]):
                chain.append((giver, reader, number))
                layers[number].append(chain[-1])
            chains += itertools.pairwise([*chain, reader])
    sizes = {
        item: _size(boxes.get(item) if isinstance(item, str) else None)
        for one in layers
        for item in one
    }
    return _placed(_ordered(layers, chains), sizes)


def _placed(
    layers: Sequence[Sequence[_Item]], sizes: Mapping[_Item, tuple[float, float]]
) -> PlacedGraph:
    heights = [sum(sizes[one][1] for one in layer) + _GAP_Y * (len(layer) - 1) for layer in layers]
    tallest = max(heights, default=0.0)
    places: dict[str, Rectangle] = {}
    bends: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    x = MARGIN
    for layer, height in zip(layers, heights, strict=True):
        width = max(sizes[one][0] for one in layer)
        y = MARGIN + (tallest - height) / 2
        for item in layer:
            mine = sizes[item][1]
            if isinstance(item, str):
                places[item] = Rectangle(x, y, width, mine)
            else:
                middle = y + mine / 2
                bends[item[:2]] += [(x, middle), (x + width, middle)]
            y += mine + _GAP_Y
        x += width + _GAP_X
    return PlacedGraph(places, bends, max(x - _GAP_X, 0) + MARGIN, tallest + 2 * MARGIN)


def _depths(graph: DrawnGraph) -> dict[str, int]:
    """The layer of each box: one behind the last that it reads."""
    givers = defaultdict(list)
    for arrow in graph.arrows:
        if not arrow.back:
            givers[arrow.reader].append(arrow.giver)
    depth: dict[str, int] = {}
    for box in graph.boxes:  # in topological order
        depth[box.key] = max((depth[one] + 1 for one in givers[box.key] if one in depth), default=0)
    return depth


def _ordered(layers: list[list[_Item]], links: Sequence[tuple[_Item, _Item]]) -> list[list[_Item]]:
    before, behind = defaultdict(list), defaultdict(list)
    for giver, reader in links:
        before[reader].append(giver)
        behind[giver].append(reader)
    for _ in range(_SWEEPS):
        for neighbours, order in ((before, layers), (behind, layers[::-1])):
            ranks: dict[_Item, float] = {}
            for layer in order:
                means = [
                    _mean(neighbours[item], ranks, n / len(layer)) for n, item in enumerate(layer)
                ]
                places = sorted(range(len(layer)), key=means.__getitem__)
                layer[:] = [layer[n] for n in places]
                ranks |= {item: (n + 0.5) / len(layer) for n, item in enumerate(layer)}
    return layers


def _mean(items: Sequence[_Item], ranks: Mapping[_Item, float], otherwise: float) -> float:
    known = [ranks[one] for one in items if one in ranks]
    return sum(known) / len(known) if known else otherwise


def cut(text: str) -> str:
    """A text as it fits into a box."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _size(box: Box | None) -> tuple[float, float]:
    """Width and height of a box; of an arrow that passes, what keeps others away from it."""
    if box is None:
        return 0.0, LINE / 2
    longest = max(len(cut(text)) for text in (box.name, *box.lines))
    return max(longest * LETTER + 2 * _PAD_X, _LEAST_WIDTH), (
        1 + len(box.lines)
    ) * LINE + 2 * _PAD_Y
