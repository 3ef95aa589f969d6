"""The operators that verbs of the library put in front of their own: times, digests and parts of aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.built_in import Combine, Digest, Pack, Stamp, Tag
from thalweg.flow.operators.combining import Partial
from thalweg.flow.operators.generated import Packs, spare_name
from thalweg.flow.operators.joining.join_nodes import JoinSide
from thalweg.flow.operators.nodes import OrderBy, Source, Union
from thalweg.flow.records import Field, Schema

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


def stamp(
    stream: Stream[Any], what: str, size: int = 0, every: int | None = None, origin: int = 0
) -> Stream[Any]:
    """The rows with their event time behind, or the start of each window that holds them."""
    assert stream.time is not None
    field = Field(spare_name(what, stream.schema.names), stream.time)
    record = Schema.make_record("Stamped", [*stream.schema.fields, field])
    flow = stream.flow
    node = Stamp(flow._next(), flow._stateless_name(what), stream.ref, record, size, every, origin)
    return flow._add(node, stream.time, stream.own)


def pack(stream: Stream[Any], label: str, packs: Packs) -> Stream[Any]:
    """Whole rows in place of their fields."""
    flow = stream.flow
    name = flow._stateless_name(f"{label}/rows")
    node = Pack(flow._next(), name, stream.ref, packs.record, packs.places)
    return flow._add(node, stream.time, stream.own)


def combine(stream: Stream[Any], label: str, partial: Partial) -> Stream[Any]:
    """Parts of aggregates in place of rows."""
    flow, record = stream.flow, partial.record
    by = record.names[: len(record.names) - len(partial.parts)]
    name = flow._stateless_name(f"{label}/combine")
    node = Combine(flow._next(), name, stream.ref, record, by, partial.parts)
    return flow._add(node, stream.time, stream.own)


def tagged(
    label: str, streams: Sequence[Stream[Any]], record: Schema, sides: Sequence[JoinSide]
) -> Stream[Any]:
    """The rows of the left and of the right in one stream, each tagged with its side."""
    flow, made = streams[0].flow, []
    for what, stream, side in zip(("left", "right"), streams, sides, strict=True):
        name = flow._stateless_name(f"{label}/{what}")
        tag = Tag(flow._next(), name, stream.ref, record, what == "right", side.keys, side.first)
        made.append(flow._add(tag, stream.time))
    name = flow._stateless_name(f"{label}/both")
    both = Union(flow._next(), name, tuple(one.ref for one in made), record)
    return flow._add(both, made[0].time)


def digest(stream: Stream[Any], keys: Sequence[str]) -> Stream[Any]:
    """The rows with a digest behind of all their fields but the event time and the key, to compare rows of one key."""
    field = Field(spare_name("payload", stream.schema.names), FieldType(Kind.INT))
    record = Schema.make_record("Digested", [*stream.schema.fields, field])
    flow = stream.flow
    left_out = {*_time_names(stream), *keys}
    places = tuple(i for i, name in enumerate(stream.schema.names) if name not in left_out)
    node = Digest(flow._next(), flow._stateless_name("digest"), stream.ref, record, places)
    return flow._add(node, stream.time, stream.own)


def _time_names(stream: Stream[Any]) -> set[str]:
    """The fields that hold the event time: those by which the rows were sorted, as far as functions kept them."""
    names: set[str] = set()
    waiting, seen = [stream.ref], {stream.ref}
    while waiting:
        node = stream.flow.nodes[waiting.pop().node - 1]
        if isinstance(node, OrderBy):
            names.add(node.field)
        elif isinstance(node, Source):
            names |= {node.order_by} if node.order_by else set()
        else:
            waiting += [one for one in node.inputs if one not in seen]
            seen.update(node.inputs)
    return {f.name for f in stream.schema.fields if f.name in names and f.type == stream.time}
