"""Plans as bytes for the workers."""

from __future__ import annotations

from typing import Any

from thalweg.engine.build import Prepared
from thalweg.flow.fields.user_rows import users_own
from thalweg.flow.loops.nodes import LoopByKey, StatelessLoop
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node
from thalweg.plan.plan import Plan
from thalweg.spark.by_value import pickled


def pickled_plan(prepared: Prepared) -> bytes:
    """The plan's bytes, with the modules of its functions and records."""
    return pickled(prepared, _modules(prepared.plan))


def _modules(plan: Plan) -> set[str]:
    names: set[str] = set()
    for node in plan.nodes:
        names |= _modules_of(node)
        if isinstance(node, (LoopByKey, StatelessLoop)):
            names |= _modules_of(node.loop)
    return names - {"", "__main__"}


def _modules_of(node: Node) -> set[str]:
    names: set[str] = set()
    for value in vars(node).values():
        if isinstance(value, Function):
            names.add(getattr(users_own(value.call), "__module__", "") or "")
    if isinstance(node, Keyed):
        names.add(node.state.cls.__module__)
    if isinstance(node, Coroutine) and node.own is not None:
        names.add(node.own.cls.__module__)
    for port in node.main:
        record: Any = node.record_of(port)
        if record is not None:
            names.add(record.cls.__module__)
            names.add(record.user.cls.__module__ if record.user is not None else "")
    return names
