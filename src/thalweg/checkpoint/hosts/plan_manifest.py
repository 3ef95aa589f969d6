"""What a plan's state means, as the manifest of a checkpoint."""

from __future__ import annotations

from typing import Any

from thalweg.checkpoint.manifest import (
    ORDER_BY,
    STATELESS,
    Manifest,
    ManifestField,
    ManifestOperator,
    ManifestSource,
)
from thalweg.flow.fields.user_rows import is_library
from thalweg.flow.loops.nodes import LoopByKey
from thalweg.flow.operators.built_in import BuiltIn, Combine, Digest, Stamp
from thalweg.flow.operators.joining.join_nodes import Join, NextRow
from thalweg.flow.operators.lanes import meaning
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node, OrderBy, Sink, Source
from thalweg.plan.plan import Plan
from thalweg.version import __version__


def manifest_of(plan: Plan) -> Manifest:
    """The manifest of a plan: its stateful operators and sources by name, and the names of the others."""
    operators = {
        node.name: _operator(plan, node)
        for node in plan.nodes
        if not isinstance(node, (Source, Sink))
    }
    sources = {source.name: _source(source) for source in plan.sources}
    return Manifest(plan.flow, __version__, operators, sources)


def _operator(plan: Plan, node: Node) -> ManifestOperator:
    if isinstance(node, Keyed):
        return ManifestOperator(
            node.kind.value,
            tuple(ManifestField.of(field) for field in node.key.fields),
            node.key.buckets,
            node.state.name,
            tuple(ManifestField.of(field) for field in node.state.schema.fields),
            node.state.timer or "",
            _asked(plan, node),
        )
    if isinstance(node, Coroutine):
        fields = tuple(ManifestField.of(field) for field in node.state.schema.fields)
        return ManifestOperator(
            "coroutine", (), 1, node.state.name, fields, asked=_asked_of_loop(node)
        )
    if isinstance(node, OrderBy):
        fields = tuple(ManifestField.of(field) for field in node.record.fields)
        asked = {"lateness": node.lateness}
        return ManifestOperator("stateful", (), 1, ORDER_BY + node.field, fields, asked=asked)
    return ManifestOperator(STATELESS)


def _asked(plan: Plan, node: Keyed) -> dict[str, Any]:
    """What was asked of one of the library's operators, also of those that it has put in front of itself."""
    if isinstance(node, NextRow):
        return {"nearest": node.nearest}
    if isinstance(node, Join):
        return {
            "reach": [side.within for side in node.sides],
            "keeps": [side.keeps for side in node.sides],
        }
    asked = dict(node.asked)
    if not asked or isinstance(node, LoopByKey):
        return asked
    before = plan.node(node.input.node)
    while isinstance(before, BuiltIn):
        if isinstance(before, Stamp) and before.every is not None:
            asked |= {"every": before.every, "start": before.origin}
        if isinstance(before, Digest):
            asked["content"] = [before.record.names[place] for place in before.places]
        if isinstance(before, Combine):
            parts = zip(asked["aggregates"].items(), before.parts, strict=True)
            asked["aggregates"] = {
                name: {**one, "does": part.described} for (name, one), (_, part) in parts
            }
        before = plan.node(before.input.node)
    return asked


def _asked_of_loop(node: Coroutine) -> dict[str, Any]:
    """The inputs of a coroutine operator, and the numbers that a verb of the library gave it."""
    asked: dict[str, Any] = {"inputs": [port.name for port in node.in_ports]}
    if is_library(node.function.call):
        asked |= {name: value for name, value in node.constants if isinstance(value, int)}
    return asked


def _source(node: Source) -> ManifestSource:
    fields = tuple(ManifestField.of(field) for field in node.record.fields)
    lanes = meaning(node.lane, node.lanes)
    lane = node.lane or ""
    return ManifestSource(fields, node.order_by or "", node.lateness, lane, node.order, lanes)
