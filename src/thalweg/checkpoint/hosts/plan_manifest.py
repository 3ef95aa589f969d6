"""What a plan's state means, as the manifest of a checkpoint."""

from __future__ import annotations

from thalweg.checkpoint.manifest import (
    ORDER_BY,
    STATELESS,
    Manifest,
    ManifestField,
    ManifestOperator,
    ManifestSource,
)
from thalweg.flow.operators.lanes import meaning
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node, OrderBy, Sink, Source
from thalweg.plan.plan import Plan
from thalweg.version import __version__


def manifest_of(plan: Plan) -> Manifest:
    """The manifest of a plan: its stateful operators and sources by name, and the names of the others."""
    operators = {
        node.name: _operator(node) for node in plan.nodes if not isinstance(node, (Source, Sink))
    }
    sources = {source.name: _source(source) for source in plan.sources}
    return Manifest(plan.flow, __version__, operators, sources)


def _operator(node: Node) -> ManifestOperator:
    if isinstance(node, Keyed):
        return ManifestOperator(
            node.kind.value,
            tuple(ManifestField.of(field) for field in node.key.fields),
            node.key.buckets,
            node.state.name,
            tuple(ManifestField.of(field) for field in node.state.schema.fields),
            node.state.timer or "",
        )
    if isinstance(node, Coroutine):
        fields = tuple(ManifestField.of(field) for field in node.state.schema.fields)
        return ManifestOperator("coroutine", (), 1, node.state.name, fields)
    if isinstance(node, OrderBy):
        fields = tuple(ManifestField.of(field) for field in node.record.fields)
        return ManifestOperator("stateful", (), 1, ORDER_BY + node.field, fields)
    return ManifestOperator(STATELESS)


def _source(node: Source) -> ManifestSource:
    fields = tuple(ManifestField.of(field) for field in node.record.fields)
    lanes = meaning(node.lane, node.lanes)
    lane = node.lane or ""
    return ManifestSource(fields, node.order_by or "", node.lateness, lane, node.order, lanes)
