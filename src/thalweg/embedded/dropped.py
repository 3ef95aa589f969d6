"""What a run says at its end of rows that are in no output: late and rejected ones whose streams nobody reads."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from thalweg.brief import counted
from thalweg.flow.loops.nodes import LoopByKey
from thalweg.flow.operators.built_in import OwnTime
from thalweg.flow.operators.nodes import Node, Ref, Source
from thalweg.plan.plan import Plan

_LOG: Final = logging.getLogger("thalweg")
#: What is told of rows that leave the flow by a stream which nobody reads.
_DROPPED: Final = {
    "late": "its stream .late has them, and a greater lateness= waits for them",
    "rejected": "its stream .rejected has them, with reasons",
}


def tell_dropped(plan: Plan, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Warns of rows that were late or rejected where the flow does not read the stream that has them."""
    read = {ref for node in plan.nodes for ref in node.inputs}
    for node in plan.nodes:
        its, name = counts.get(node.label, {}), _named(node)
        for what, advice in _DROPPED.items():
            count = its.get(what, 0)
            if count and not read.issuperset(_streams(plan, node, what)):
                _LOG.warning(
                    "%s: %s of %s rows were %s and are not in the output; %s",
                    name, f"{count:,}", f"{its.get('in', 0):,}", what, advice,
                )  # fmt: skip
        unread = its.get("unread", 0)
        if unread and isinstance(node, LoopByKey):
            _LOG.warning(
                "%s: %s left in the states of their keys when the flow ended: they still waited for other rows",
                name, f"{counted(unread, 'row')} {'was' if unread == 1 else 'were'}",
            )  # fmt: skip
        elif unread:
            _LOG.warning(
                "%s: %s left at its inputs when it ended: nobody read them; the log says at which (level info)",
                name, f"{counted(unread, 'row')} {'was' if unread == 1 else 'were'}",
            )  # fmt: skip


def _streams(plan: Plan, node: Node, what: str) -> set[Ref]:
    """The streams that have a node's late or rejected rows: under ``order="key"`` each key judges what is late."""
    if isinstance(node, Source) and what == "late":
        judges = [one for one in plan.nodes if isinstance(one, OwnTime) and one.source == node.name]
        if judges:
            return {Ref(one.index, what) for one in judges}
    return {Ref(node.index, what)}


def _named(node: Node) -> str:
    if isinstance(node, OwnTime):
        return f"source {node.source!r}"
    return f"{'source' if isinstance(node, Source) else 'operator'} {node.name!r}"
