"""Where the nodes of a graph stand: columns by the longest way from a source, rows near those that they read.

An edge over several columns takes a place in each of them, so that it runs between nodes and not through them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

#: A node's name, or the place that an edge takes in a column: (from, to, column).
Item: TypeAlias = str | tuple[str, str, int]
#: How often rows are put in the order of their neighbours.
_SWEEPS: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Layers:
    """Places of nodes and edges, in columns and rows; rows of a column lie around 0.

    Attributes:
        places: by node its column and row.
        ways: by edge the columns and rows between its ends.
    """

    places: Mapping[str, tuple[int, float]]
    ways: Mapping[tuple[str, str], Sequence[tuple[int, float]]]


def layered(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layers:
    """Places nodes whose edges have no circle.

    Args:
        nodes: in topological order.
        edges: from one to another; without those that go back.
    """
    column = _columns(nodes, edges)
    items, links = _with_ways(nodes, edges, column)
    columns = _swept(items, links)
    rows = {item: row - (len(those) - 1) / 2 for those in columns for row, item in enumerate(those)}
    ways = {(a, b): [(n, rows[a, b, n]) for n in range(column[a] + 1, column[b])] for a, b in edges}
    return Layers({name: (column[name], rows[name]) for name in nodes}, ways)


def _columns(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    column = dict.fromkeys(nodes, 0)
    readers = collections.defaultdict(list)
    for giver, reader in edges:
        readers[giver].append(reader)
    for name in nodes:
        for reader in readers[name]:
            column[reader] = max(column[reader], column[name] + 1)
    return column


def _with_ways(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], column: Mapping[str, int]
) -> tuple[list[list[Item]], list[tuple[Item, Item]]]:
    """The items of each column, and which are next to each other."""
    items: list[list[Item]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for name in nodes:
        items[column[name]].append(name)
    links: list[tuple[Item, Item]] = []
    for giver, reader in dict.fromkeys(edges):
        before: Item = giver
        for n in range(column[giver] + 1, column[reader]):
            items[n].append((giver, reader, n))
            links.append((before, (giver, reader, n)))
            before = giver, reader, n
        links.append((before, reader))
    return items, links


def _swept(
    columns: Sequence[Sequence[Item]], links: Sequence[tuple[Item, Item]]
) -> list[list[Item]]:
    """The columns, each in the order of the middle of its neighbours, there and back some times."""
    ahead, behind = collections.defaultdict(list), collections.defaultdict(list)
    for a, b in links:
        behind[b].append(a)
        ahead[a].append(b)
    made = [list(those) for those in columns]
    for sweep in range(_SWEEPS):
        near = ahead if sweep % 2 else behind
        rows = {item: row for those in made for row, item in enumerate(those)}
        for those in reversed(made) if sweep % 2 else made:
            wanted = {
                item: sum(rows[one] for one in near[item]) / len(near[item])
                if near[item]
                else rows[item]
                for item in those
            }
            those.sort(key=wanted.__getitem__)
            rows |= {item: row for row, item in enumerate(those)}
    return made
