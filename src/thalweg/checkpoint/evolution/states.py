"""The state class that a user wrote, apart from what the library keeps behind its fields."""

from __future__ import annotations

from typing import Any

from thalweg.checkpoint.manifest import ManifestField, ManifestOperator
from thalweg.flow.loops.nodes import LoopByKey
from thalweg.flow.operators.nodes import Coroutine, Keyed
from thalweg.flow.state_class import StateSpec


def spec_of(node: Any) -> StateSpec | None:
    """The state class that the user wrote."""
    if isinstance(node, LoopByKey):
        node = node.loop
    if isinstance(node, Coroutine):
        return node.own
    return node.state if isinstance(node, Keyed) else None


def own_fields(node: Any, fields: tuple[ManifestField, ...]) -> tuple[ManifestField, ...]:
    """The fields of the user's class, without those that the library keeps behind them."""
    if not isinstance(node, (Coroutine, LoopByKey)):
        return fields
    kept = 2 if isinstance(node, Coroutine) else 0
    while kept < len(fields) and fields[-kept - 1].name.startswith("unread_"):
        kept += 1
    return fields[: len(fields) - kept]


def differs_from(node: Any, own: StateSpec, old: ManifestOperator) -> bool:
    """Whether the user's state class has other fields, or another name, than the checkpoint's."""
    before = [(f.name, f.type, f.arrow) for f in own_fields(node, old.fields)]
    after = [ManifestField.of(field) for field in own.schema.fields]
    return own.name != old.state or before != [(f.name, f.type, f.arrow) for f in after]
