"""What the engine runs as one: a node, a fused chain of stateless nodes, or a loop of feedback."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from thalweg.flow.operators.built_in import BuiltIn
from thalweg.flow.operators.feedback import groups_of
from thalweg.flow.operators.nodes import (
    Batches,
    Coroutine,
    Keyed,
    Node,
    OrderBy,
    Ref,
    Stateless,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """What the engine runs as one: a node, a fused chain of stateless nodes, or a loop of feedback."""

    nodes: tuple[int, ...]
    stage: int
    #: the operators of a loop of feedback
    loop: bool = False


def ports(node: Node) -> tuple[str, ...]:
    """The ports by which a node's streams leave."""
    return (*node.main, "late", "rejected")


def expands(node: Node) -> bool:
    """Whether one input tuple (or one firing of a timer) can give several output tuples."""
    if isinstance(node, Keyed):
        own = node.timing == "own" and node.on_timer is not None
        return own or node.many or node.timer_many
    if isinstance(node, (Stateless, BuiltIn)):
        return node.many
    return isinstance(node, (Batches, Coroutine))


def reroutes(node: Node) -> bool:
    """Whether a node's input must be brought to the slot that owns the key, or to the only one."""
    return isinstance(node, (Keyed, OrderBy, Coroutine))


def stages_of(nodes: Sequence[Node], loops: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Of each node how often its rows have been brought to other slots before it."""
    stages: dict[int, int] = {}
    for group in groups_of(nodes, loops):
        members = [nodes[index - 1] for index in group]
        refs = [ref for node in members for ref in node.inputs if ref.node not in group]
        before = max((stages[ref.node] for ref in refs), default=0)
        moves = any(reroutes(node) and not at_home(nodes, node) for node in members)
        stages |= dict.fromkeys(group, before + moves)
    return tuple(stages[node.index] for node in nodes)


def at_home(nodes: Sequence[Node], node: Node) -> bool:
    """Whether a keyed operator's rows were just brought to its slot, to be put in the order of the same key."""
    if not isinstance(node, Keyed) or node.timing != "own":
        return False
    before = nodes[node.input.node - 1]
    while isinstance(before, BuiltIn):
        before = nodes[before.input.node - 1]
    return isinstance(before, Keyed) and before.timing == "end" and before.key == node.key


def units_of(
    nodes: Sequence[Node],
    merges: frozenset[Ref],
    loops: Sequence[Sequence[int]],
    stages: Sequence[int],
    said_of: Callable[[int], object],
) -> Iterator[Unit]:
    """Chains of stateless nodes, each the only reader of the one before, fused; loops; all else alone.

    A node whose rejected stream leads to a union begins a chain: inside one, rows carry no counters of the
    expanding operators before it, and its rejected rows would lose their place.

    Args:
        said_of: what the flow's author says of a node, by index; one chain has one answer.
    """
    readers: dict[Ref, int] = {}
    for node in nodes:
        for ref in node.inputs:
            readers[ref] = readers.get(ref, 0) + 1
    following: dict[int, Stateless] = {}
    inner: set[int] = set()
    in_loops = {index for loop in loops for index in loop}
    for node in nodes:
        if not isinstance(node, Stateless) or node.index in in_loops:
            continue
        before = nodes[node.input.node - 1]
        fits = isinstance(before, Stateless) and before.errors == node.errors
        fits = fits and before.index not in in_loops
        fits = fits and said_of(before.index) == said_of(node.index)
        fits = fits and Ref(node.index, "rejected") not in merges
        if fits and node.input.port == "out" and readers[node.input] == 1:
            following[before.index] = node
            inner.add(node.index)
    for group in groups_of(nodes, loops):
        if group[0] in in_loops:
            yield Unit(group, stages[group[0] - 1], loop=True)
        elif group[0] not in inner:
            chain = [*group]
            while chain[-1] in following:
                chain.append(following[chain[-1]].index)
            yield Unit(tuple(chain), stages[group[0] - 1])
