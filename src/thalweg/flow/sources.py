"""A source of a flow, checked as it is given: its record, order, lanes, idleness and how its fields are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg.checks import refuse, require_optional_text, require_text
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.fields.reading import PLAIN, reading_of
from thalweg.flow.operators import key_order
from thalweg.flow.operators import lanes as lane_rules
from thalweg.flow.operators.arguments import Duration, choice, lateness_span, record_of, time_field
from thalweg.flow.operators.idle import GivenIdle, idle_span
from thalweg.flow.operators.lanes import GivenLanes
from thalweg.flow.operators.nodes import Errors, Order, Source
from thalweg.flow.operators.stamp import stamp_field
from thalweg.time_texts import EpochUnit


def source_node(
    index: int,
    full_name: Callable[[], str],
    errors: Errors,
    name: str,
    record: Any,
    *,
    order_by: str | None,
    lateness: Duration,
    lane: str | None,
    lanes: GivenLanes,
    idle: GivenIdle,
    stamp: str | None,
    arrival: Sequence[str],
    order: Order,
    names: Mapping[str, str] | None,
    epoch_unit: EpochUnit | None,
    timestamp_formats: Sequence[str],
) -> tuple[Source, FieldType | None, key_order.Own | None]:
    """The source, its time field, and its own order where that is by key.

    Args:
        index: the source's number among the flow's operators.
        full_name: the name under which it stands, with the flow's prefix; refuses one that is taken.
        errors: what becomes of rows that do not fit.
        name: for messages; this and all others as :meth:`thalweg.Flow.source` has them.
    """
    require_text("source", name=name)
    require_optional_text(f"source {name!r}", order_by=order_by, stamp=stamp)
    if isinstance(arrival, str) or not isinstance(arrival, Sequence):
        raise refuse(f"source {name!r}", "arrival", "a list of field names", arrival)
    schema = record_of(f"source {name!r}", "record", record)
    where = f"source {name!r}"
    fields, times = schema.names, schema.has_times
    reading = reading_of(where, fields, times, names, epoch_unit, timestamp_formats)
    if reading != PLAIN:
        schema = schema.read_as(reading)
    for field in (*arrival, *((lane,) if lane else ())):
        schema.index(field)
    if lane is None and lanes is not None:
        raise BuildError(f"source {name!r}: lanes= needs lane=, the field whose values they are")
    known = None if lane is None else lane_rules.declared(name, schema.field(lane), lanes)
    time = time_field(schema, order_by, name) if order_by else None
    if order_by is None and lateness != 0:
        raise BuildError(f"source {name!r}: lateness needs order_by")
    chosen: Order = choice("order", order, ("total", "key"), name)
    if chosen == "key" and (order_by is None or lane is not None):
        raise BuildError(
            f"source {name!r}: order='key' needs order_by, and no lane, since lateness is judged by key"
        )
    if lane is not None and order_by is None:
        raise BuildError(
            f"source {name!r}: lane={lane!r} needs order_by=: lanes say which rows are late and how far the"
            " watermark is, and without event time there is neither"
        )
    node = Source(
        index,
        full_name(),
        schema,
        order_by,
        lateness_span(time, lateness, f"source {name!r}: lateness") if time else 0,
        lane,
        tuple(arrival),
        errors,
        chosen,
        known,
        idle=idle_span(
            name, idle, sorts=order_by is not None and chosen == "total",
            knows_lanes=lane is None or known is not None,
        ),
        stamp=stamp_field(
            name, schema, stamp, order_by=order_by, lane=lane, is_total=chosen == "total",
            takes_part=(*arrival, *(names or ())),
        ),
    )  # fmt: skip
    own = key_order.Own(node.index, node.name, node.lateness) if chosen == "key" else None
    return node, time, own
