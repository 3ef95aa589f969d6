"""From nodes to implementations: compiled where it can be, interpreted where it must be, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.operators.nodes import Keyed, Stateless
from thalweg.plan import Plan
from thalweg.runtime.contracts import KeyedOperator, StatelessOperator
from thalweg.runtime.interpreted import InterpretedChain, InterpretedKeyed


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a node's functions run compiled, and if not, why."""

    compiled: bool
    reason: str = ""


@dataclasses.dataclass(slots=True)
class Built:
    """The implementations of a plan's operators and the verdict on each node."""

    chains: dict[int, list[tuple[Sequence[Stateless], StatelessOperator]]]
    keyed: dict[int, KeyedOperator]
    keys: dict[int, Callable[..., Any] | None]
    verdicts: dict[int, Verdict]


def build_chain(nodes: Sequence[Stateless]) -> list[tuple[Sequence[Stateless], StatelessOperator]]:
    return [(nodes, InterpretedChain(nodes))]


def build_keyed(node: Keyed) -> KeyedOperator:
    return InterpretedKeyed(node)


def build_key(node: Keyed) -> Callable[..., Any] | None:
    if node.key.function is None:
        return None
    key = Stateless(
        node.index,
        node.name,
        "map",
        node.input,
        node.key.function,
        _key_record(node),
        False,
        node.errors,
        node.compile,
    )
    return InterpretedChain([_bare(key)])


def _key_record(node: Keyed) -> Any:
    from thalweg.records import Schema

    return Schema.make_record("Key", node.key.fields[:1])


def _bare(node: Stateless) -> Stateless:
    """A key function gives a bare value; the operator wants a record."""
    call, make = node.function.call, node.record.make

    def wrapped(row: Any) -> Any:
        return make((call(row),))

    return dataclasses.replace(node, function=dataclasses.replace(node.function, call=wrapped))


def plan_chain(plan: Plan, indices: Sequence[int]) -> list[Stateless]:
    """The nodes of a fused unit."""
    return [node for i in indices if isinstance(node := plan.node(i), Stateless)]
