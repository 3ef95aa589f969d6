"""Rows that are stamped with the time at which they came: a field that the host fills, not the input.

What a clock on the wall says enters a flow only as data: as the stamp of a row, which a host that keeps a checkpoint
logs with the row's place, and as a decision about a silent source (:mod:`thalweg.flow.operators.idle`). So the same
rows with the same stamps and decisions give the same output (docs/wall-clock.md).
"""

from __future__ import annotations

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Schema


def stamp_field(
    source: str, schema: Schema, stamp: str | None, *, order_by: str | None, lane: str | None,
    is_total: bool, takes_part: tuple[str, ...],
) -> str | None:  # fmt: skip
    """``stamp=`` of a source, checked; None: its input has all fields.

    Args:
        source: its name.
        schema: its record.
        stamp: as given.
        order_by, lane: of the source.
        is_total: whether all its rows have one order.
        takes_part: other fields whose values the input must have.

    Raises:
        BuildError: it is no field that a host can fill, or the rest does not go with it.
    """
    if stamp is None:
        return None
    where = f"source {source!r}: stamp={stamp!r}"
    kind = schema.field(stamp).type
    if kind.kind is not Kind.TIMESTAMP or kind.shape is not None or kind.optional:
        raise BuildError(
            f"{where} is {kind}; the time of arrival goes into a field of type tw.Timestamp"
        )
    if stamp in takes_part or stamp == lane:
        raise BuildError(
            f"{where}: names=, arrival= and lane= are about what the input has, and it has no such field"
        )
    if len(schema.fields) == 1:
        raise BuildError(f"{where}: the record has no other field, so an input would have none")
    if stamp == order_by and not (is_total and lane is None):
        raise BuildError(
            f"{where} is order_by=, too: rows then come in the order of their stamps, so there is nothing to say by"
            " lane= or order='key'; leave that out"
        )
    return stamp


def without(schema: Schema, field: str) -> Schema:
    """The record as an input of a stamped source has it."""
    fields = [one for one in schema.fields if one.name != field]
    return Schema.make_record(schema.name, fields).read_as(schema.reading)
