"""A plan whose sources bring only the fields that somebody reads: what nobody reads is not decoded.

Found from the end of the flow. A sink, a union, and who passes a whole row on to a function read all fields. A function
that takes single fields of a row reads those (:mod:`thalweg.engine.field_reads`), whether it is compiled or not, and
filters and windows also what those behind them read. A narrow record has these fields in order, and the same name.

A source that rejects rows keeps all its fields: which rows are good must not depend on what a flow reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from thalweg.engine.field_reads import fields_read
from thalweg.flow.operators.built_in import Stamp
from thalweg.flow.operators.nodes import Keyed, Node, OrderBy, Ref, Source, Stateless
from thalweg.flow.records import Schema
from thalweg.plan.plan import Plan

#: Names of fields; None for all there are.
Fields: TypeAlias = frozenset[str] | None
_NOTHING: Final[Fields] = frozenset()


def narrowed(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with narrow records from these sources to where their rows end; the same one where all is read."""
    wanted = _wanted(plan)
    kept = {
        node.index: record
        for node in plan.sources
        if node.name in names and (record := _narrow_source(node, wanted)) is not None
    }
    if not kept or plan.feedback:
        return plan
    nodes: list[Node] = []
    for node in plan.nodes:
        nodes.append(_rewritten(node, nodes, kept))
    return dataclasses.replace(plan, nodes=tuple(nodes))


# -- what is read ----------------------------------------------------------------------------------------


def _wanted(plan: Plan) -> dict[Ref, Fields]:
    """By stream, the fields that its readers and those behind them read."""
    wanted: dict[Ref, Fields] = {}
    for node in reversed(plan.nodes):
        for ref, fields in _reads(node, wanted):
            wanted[ref] = _both(
                wanted.get(ref, _NOTHING), fields, plan.node(ref.node).record_of(ref.port)
            )
    return wanted


def _both(one: Fields, other: Fields, record: Schema | None) -> Fields:
    """What either has; all, where it has something that is no field, as a method of the row."""
    if one is None or other is None or record is None or not other.issubset(record.names):
        return None
    return one | other


def _reads(node: Node, wanted: dict[Ref, Fields]) -> Iterator[tuple[Ref, Fields]]:
    """The streams that a node reads, and what of them."""
    for ref in node.inputs:
        yield ref, _all_of(_parts_read(node, wanted))


def _parts_read(node: Node, wanted: dict[Ref, Fields]) -> list[Fields]:
    """What a node and those behind it read of its input, in parts."""
    behind = [wanted.get(Ref(node.index, port), _NOTHING) for port in ("out", "late")]
    if isinstance(node, Stateless) and node.errors == "fail":
        passed = behind if node.verb == "filter" else []
        return [fields_read(node.function.call, 0), *passed]
    # A library's operator of another class may keep whole rows.
    if type(node) is Keyed and node.errors == "fail" and node.timing == "watermark":
        return [_key_of(node), fields_read(node.process.call, 1)]
    if isinstance(node, OrderBy):
        return [frozenset([node.field]), *behind]
    if isinstance(node, Stamp):
        return [None if one is None else one - {node.record.names[-1]} for one in behind]
    return [None]


def _all_of(parts: Sequence[Fields]) -> Fields:
    known = [one for one in parts if one is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _key_of(node: Keyed) -> Fields:
    if node.key.function is not None:
        return fields_read(node.key.function.call, 0)
    return frozenset(field.name for field in node.key.fields)


def _narrow_source(node: Source, wanted: dict[Ref, Fields]) -> Schema | None:
    """The record of what is read of a source; None where that is all, or must be."""
    own = {Ref(node.index, port) for port in ("out", "late")}
    needed = frozenset(name for name in (node.order_by, node.lane) if name)
    read = _all_of([needed, *(wanted[ref] for ref in own if ref in wanted)])
    if node.errors != "fail" or node.order != "total" or node.made_by or read is None:
        return None
    if node.record.user is not None:  # users see rows of a class that takes all fields
        return None
    # Rows without fields could not be counted.
    kept = read or {node.record.names[0]}
    return None if len(kept) == len(node.record.names) else _part(node.record, kept)


def _part(record: Schema, kept: Collection[str]) -> Schema:
    fields = [field for field in record.fields if field.name in kept]
    return Schema.make_record(record.name, fields).read_as(record.reading)


# -- the narrow plan -------------------------------------------------------------------------------------


def _rewritten(node: Node, before: Sequence[Node], kept: Mapping[int, Schema]) -> Node:
    """A node behind others that are narrow already."""
    if isinstance(node, Source):
        record = kept.get(node.index)
        return node if record is None else dataclasses.replace(node, record=record)
    if not isinstance(node, (Stateless, OrderBy, Stamp)):
        return node
    given = before[node.input.node - 1].record_of(node.input.port)
    assert given is not None
    if isinstance(node, Stamp):
        fields = [*given.fields, node.record.fields[-1]]
        given = Schema.make_record(node.record.name, fields)
    elif isinstance(node, Stateless) and node.verb != "filter":
        return node
    return node if given == node.record else dataclasses.replace(node, record=given)
