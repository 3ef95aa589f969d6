"""Which keyed operators follow each other, so that a tuple may stay on its slot between them (Caneill et al., 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.locality.routing import routed_by
from thalweg.locality.summary import Link
from thalweg.operators.nodes import Coroutine, Keyed, OrderBy, Ref
from thalweg.plan import Plan


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
