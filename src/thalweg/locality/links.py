"""Which keyed operators follow each other, so that a tuple may stay on its slot between them (Caneill et al., 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Coroutine, Keyed, OrderBy, Ref
from thalweg.flow.records import Field
from thalweg.locality.counting.summary import Link
from thalweg.locality.routing import routed_by
from thalweg.plan.plan import Plan


def links_of(plan: Plan) -> tuple[Link, ...]:
    """The pairs of keyed operators of which the second takes what the first gives, in the order of the flow.

    Stateless operators and unions may lie between them. What goes through a stateful operator, an ``order_by`` or a
    coroutine, goes through one slot, so that no link leads there. Neither does one to an operator whose tuples are in
    their key's slot already (:func:`thalweg.locality.routed_by`).
    """
    homes = routed_by(plan)
    found = {
        (homes[before.name], node.name): None
        for node in plan.keyed
        if homes.get(node.name) == node.name
        for before in _keyed_before(plan, node.input)
        if before.name in homes
    }
    return tuple(found)


def _keyed_before(plan: Plan, ref: Ref) -> Iterator[Keyed]:
    """The nearest keyed operators that a stream comes from by ways without a single slot."""
    node = plan.node(ref.node)
    if isinstance(node, Keyed):
        if node.key.fields and ref.port in node.main:
            yield node
    elif not isinstance(node, (OrderBy, Coroutine)):
        for one in node.inputs:
            yield from _keyed_before(plan, one)


class Foreseen(NamedTuple):
    """A link whose pairs can be read from the rows that come to an operator of the first stage."""

    link: Link
    #: that operator: the first of the link, or one before it
    first: Keyed


def foreseen_links(plan: Plan) -> tuple[list[Foreseen], dict[Link, str]]:
    """The links whose pairs can be read before the batch runs; of the others, why they cannot.

    The key of an operator behind another one is in rows that do not exist yet. It is read from what the first operator
    takes if it is made of fields that all records on the way have, under one name and type: most operators pass on
    what they do not change. An operator that puts something else there makes the guess wrong. Then keys are placed
    that do not come, at the price of locality and never of correctness.
    """
    homes = routed_by(plan)
    firsts = [
        node for node in plan.keyed if plan.stage(node.index) == 1 and node.name in homes.values()
    ]
    nodes = {node.name: node for node in plan.keyed}
    found: list[Foreseen] = []
    reasons: dict[Link, str] = {}
    for link in links_of(plan):
        left, right = nodes[link[0]], nodes[link[1]]
        ways = [
            Foreseen(link, first)
            for first in firsts
            if (left is first or _is_carried(plan, first, left)) and _is_carried(plan, first, right)
        ]
        found += ways
        if not ways:
            reasons[link] = _why_not(right)
    return found, reasons


def required_links(plan: Plan) -> tuple[list[Foreseen], list[str]]:
    """The links whose pairs can be read beforehand, and why others cannot.

    Raises:
        BuildError: there is none; it says why.
    """
    found, reasons = foreseen_links(plan)
    if not found:
        why = "; ".join(reasons.values()) or "no two operators by key follow each other"
        raise BuildError(
            f"locality: first_seen places keys by what is known before they are routed, and in flow {plan.flow!r}"
            f" nothing is: {why}.\nLeave first_seen out, or let the record before carry the key's fields"
        )
    return found, list(reasons.values())


def _why_not(node: Keyed) -> str:
    if node.key.function is not None:
        return f"the key of {node.name} is computed by a function of rows that do not exist before"
    names = ", ".join(field.name for field in node.key.fields)
    return f"the key of {node.name} ({names}) is not in all records on the way from the first operator by key"


def _is_carried(plan: Plan, first: Keyed, node: Keyed) -> bool:
    """Whether an operator's key is in all records from what ``first`` takes to what it takes itself."""
    if node.key.function is not None or node is first:
        return False
    return _has_way(plan, first, node.input, [(one.name, one.type) for one in node.key.fields])


def _has_way(plan: Plan, first: Keyed, ref: Ref, key: Sequence[tuple[str, object]]) -> bool:
    node = plan.node(ref.node)
    if ref.port not in node.main or not _has(plan, ref, key):
        return False
    if node is first:
        return _has(plan, first.input, key)
    return any(_has_way(plan, first, one, key) for one in node.inputs)


def _has(plan: Plan, ref: Ref, key: Sequence[tuple[str, object]]) -> bool:
    record = plan.node(ref.node).record_of(ref.port)
    fields: Sequence[Field] = () if record is None else record.fields
    return set(key) <= {(field.name, field.type) for field in fields}
