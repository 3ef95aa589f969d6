"""The loops of a flow that come of feedback (:mod:`thalweg.flow.feedback`), and the order in which operators run.

A *loop* is all operators that can reach each other (a strongly connected component). Its operators run as one, a row
at a time, since what one row sends back must be there before the next (docs/coroutines.md). A loop is convex: no way
leads out of it and back in, so it has a place in the order of the flow as any operator.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node, OrderBy, Ref


def fed_back(node: Node) -> list[Ref]:
    """What a node reads by feedback."""
    ports = node.in_ports if isinstance(node, Coroutine) else ()
    return [port.ref for port in ports if port.feedback]


def path_between(nodes: Sequence[Node], start: int, end: int) -> list[Node]:
    """The nodes of a shortest way downstream; none where there is no way."""
    came_from, front = {start: 0}, [start]
    following = _successors(nodes, feedback=False)
    while front and end not in came_from:
        fresh = [(one, two) for one in front for two in following[one] if two not in came_from]
        came_from |= {two: one for one, two in reversed(fresh)}
        front = [two for _, two in dict.fromkeys(fresh)]
    path, at = [], end if end in came_from else 0
    while at:
        path.append(nodes[at - 1])
        at = came_from[at]
    return path[::-1]


def _successors(nodes: Sequence[Node], *, feedback: bool) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {node.index: [] for node in nodes}
    for node in nodes:
        for ref in (*node.inputs, *(fed_back(node) if feedback else ())):
            if ref.node:
                found[ref.node].append(node.index)
    return found


def check_connected(nodes: Sequence[Node]) -> None:
    """Refuses a feedback that is not connected.

    Raises:
        BuildError: naming it and who reads it.
    """
    for node in nodes:
        for ref in fed_back(node):
            if not ref.node:
                raise BuildError(
                    f"operator {node.name!r} reads feedback {ref.port!r}, which is not connected; end it with"
                    f" {ref.port}.connect(stream)"
                )


def loops_of(nodes: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
    """The loops of a flow: of each its operators in order.

    Raises:
        BuildError: an operator in a loop has a watermark of its own.
    """
    following = _successors(nodes, feedback=True)
    reached = {node.index: _reach(following, node.index) for node in nodes if fed_back(node)}
    loops = {
        tuple(sorted(n for n in there if start in _reach(following, n)))
        for start, there in reached.items()
    }
    for loop in loops:
        for index in loop:
            _check_member(nodes[index - 1], [nodes[i - 1].name for i in loop])
    return tuple(sorted(loops))


def _reach(following: dict[int, list[int]], start: int) -> set[int]:
    """The nodes downstream of one; itself only where a cycle leads back."""
    found, front = set[int](), [start]
    while front:
        fresh = {two for one in front for two in following[one]} - found
        found |= fresh
        front = list(fresh)
    return found


def _check_member(node: Node, loop: Sequence[str]) -> None:
    timed = isinstance(node, Keyed) and node.timers_give
    if timed or isinstance(node, OrderBy):
        what = "timers" if timed else "a watermark of its own"
        raise BuildError(
            f"operator {node.name!r} has {what}, and is in a feedback loop ({', '.join(loop)}), which runs a row"
            " at a time: nothing can happen between two rows there; put the operator before or after the loop"
        )


def groups_of(nodes: Sequence[Node], loops: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """The nodes, those of a loop together, so that each group stands behind all that it reads; else in their order."""
    group_of: dict[int, tuple[int, ...]] = {node.index: (node.index,) for node in nodes}
    group_of |= {index: tuple(loop) for loop in loops for index in loop}
    before = {
        group: {group_of[ref.node] for i in group for ref in nodes[i - 1].inputs} - {group}
        for group in group_of.values()
    }
    behind: dict[tuple[int, ...], list[tuple[int, ...]]] = {group: [] for group in before}
    for group, others in before.items():
        for other in others:
            behind[other].append(group)
    missing = {group: len(others) for group, others in before.items()}
    free = [group for group, count in missing.items() if not count]
    heapq.heapify(free)
    while free:
        group = heapq.heappop(free)
        yield group
        for other in behind[group]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(free, other)
