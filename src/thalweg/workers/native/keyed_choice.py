"""Which keyed operators machine code runs, and what Python does for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.columns.key_ranges import RangeUnits
from thalweg.compiler.keyed.operator import CompiledKeyed
from thalweg.compiler.stateless import CompiledChain
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Keyed
from thalweg.plan.units import expands
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.blocks import has_whole_key
from thalweg.workers.native.keyed import NativeKeyed


def eligible(unit: KeyedUnit) -> bool:
    """Whether machine code can split an operator's chunks and run its partitions.

    Blocks have no room for new texts: what puts some out, or makes keys of them, is run by Python.
    """
    key, function = unit.spec, unit.key_function
    # The ordered bytes of categories are those of their texts, which only Python knows.
    is_known = not key.has_text or all(one.type.kind is not Kind.CATEGORY for one in key.fields)
    # Nor are they the places of texts in ranges.
    is_known = is_known and not (
        isinstance(unit.units, RangeUnits) and unit.units.texts is not None
    )
    return (
        unit.node.timing in ("watermark", "own")
        and (function is None or isinstance(function, CompiledChain))
        and is_known
        and all(isinstance(one, CompiledKeyed) and not one.texts.made for one in unit.operators)
        and not (isinstance(function, CompiledChain) and function.texts.made)
    )


def who_joins(node: Keyed, order_names: Sequence[str]) -> int:
    """When Python must order an operator's outputs, which carry these order columns."""
    if node.timing == "own":
        return at.ALL_BY_PYTHON
    if not has_whole_key(order_names):
        return at.BY_MACHINE
    return at.ALL_BY_PYTHON if expands(node) else at.TIMERS_BY_PYTHON


def native_keyed(unit: KeyedUnit, order_names: Sequence[str], domain: int) -> NativeKeyed:
    """Machine code for an operator that is eligible.

    Args:
        order_names: the order columns of its outputs.
        domain: by whose clock it lives, 0 for none.
    """
    key, own = unit.key_function, unit.node.timing == "own"
    return NativeKeyed(
        [one for one in unit.operators if isinstance(one, CompiledKeyed)],
        timed=own or bool(domain),
        order_names=order_names,
        joins=who_joins(unit.node, order_names),
        own=own,
        key=key if isinstance(key, CompiledChain) else None,
    )
