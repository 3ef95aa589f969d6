"""Time domains: which sources share a watermark."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Node, OrderBy, Source, Union


def domains_of(nodes: Sequence[Node]) -> tuple[int, ...]:
    """One domain for all timed sources that a union connects, named by the first of them."""
    parent = list(range(len(nodes) + 1))

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    domains: list[int] = []
    for node in nodes:
        if isinstance(node, Source):
            domains.append(node.index if node.sorts else 0)
        elif isinstance(node, OrderBy):
            domains.append(node.index)
        else:
            mine = [
                domains[ref.node - 1] if ref.port in nodes[ref.node - 1].main else 0
                for ref in node.inputs
            ]
            for other in mine[1:]:
                first, second = sorted((root(mine[0]), root(other)))
                if first != second:
                    _refuse_two_clocks(nodes, node, first, second)
                parent[second] = first
            domains.append(mine[0])
    return tuple(root(one) for one in domains)


def _refuse_two_clocks(nodes: Sequence[Node], where: Node, first: int, second: int) -> None:
    """An order_by has a watermark of its own, so what it gives cannot be merged with other streams as they come."""
    for index in (second, first):
        node = nodes[index - 1]
        what = "union" if isinstance(where, Union) else "operator"
        if isinstance(node, OrderBy):
            raise BuildError(
                f"{what} {where.name!r}: a stream sorted by order_by {node.name!r} has a watermark of its own and"
                f" cannot be merged with a stream of another watermark; put order_by behind the {what}"
            )
