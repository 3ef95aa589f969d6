"""Coroutine operators without inputs: they are sources, whose rows are what they push.

One with several outputs is one source of tagged rows, which are told apart behind it; so what it pushes to one and
to the other has one order, and a union of both gives it back.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Coroutine, Errors, OutPort, Ref, Source, Stateless
from thalweg.flow.records import Field, Schema


def source_of(node: Coroutine, errors: Errors) -> tuple[Source, list[Stateless]]:
    """The source that an operator without inputs is, and for each of several outputs what gives its rows.

    Args:
        node: the operator.
        errors: the flow's policy; what an operator pushes fits its record, or ends the flow.

    Raises:
        BuildError: it has no outputs either.
    """
    if not node.out_ports:
        raise BuildError(
            f"operator {node.name!r}: {node.function.where} has neither inputs nor outputs, so nothing would run it;"
            " annotate its ports tw.Input and tw.Output"
        )
    several = len(node.out_ports) > 1
    record = tagged_record(node) if several else node.out_ports[0].record
    source = Source(node.index, node.name, record, None, 0, None, (), errors, made_by=node)
    return source, outputs_of(node, errors)


def outputs_of(node: Coroutine, errors: Errors) -> list[Stateless]:
    """What gives each output of an operator whose rows are tagged; of one with a single output nothing need."""
    several = len(node.out_ports) > 1
    return [_output(node, place, errors) for place in range(len(node.out_ports))] * several


def tagged(node: Coroutine, port: OutPort, row: Any) -> Any:
    """A row of one of its outputs as a row of the source."""
    if len(node.out_ports) == 1:
        return row
    return tuple(row if one is port else None for one in node.out_ports)


def tagged_record(node: Coroutine) -> Schema:
    """A field for each output, of which one is not null."""
    fields = [
        Field(port.name, FieldType(Kind.RECORD, optional=True, record=port.record), None)
        for port in node.out_ports
    ]
    return Schema.make_record("Pushed", fields)


def _output(node: Coroutine, place: int, errors: Errors) -> Stateless:
    def pushed(row: Any) -> Any:
        return row[place]

    port = node.out_ports[place]
    function = dataclasses.replace(Function.of(pushed, node.name), name=port.parameter)
    return Stateless(
        node.index + 1 + place, f"{node.name}/{port.name}", "map", Ref(node.index), function,
        port.record, many=False, errors=errors, compile="never",
    )  # fmt: skip
