"""The chunk forms of the operators without a function of the user's (:mod:`thalweg.flow.operators.built_in`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.encoding import null_column
from thalweg.columns.ordering import row_order, with_columns
from thalweg.columns.payload import digests
from thalweg.engine.combine import combined
from thalweg.engine.units import Given, Moment, Setting
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.loops.nodes import ToPort
from thalweg.flow.operators.built_in import BuiltIn, Combine, Digest, OwnTime, Pack, Stamp, Tag
from thalweg.flow.operators.nodes import Ref
from thalweg.plan.plan import OWN, TIME, counter


class BuiltInUnit:
    """Runs the chunk form of an operator."""

    def __init__(self, setting: Setting, node: BuiltIn) -> None:
        self._setting = setting
        self.node = node
        self._form = _FORMS[type(node)]

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """What it makes of the input's rows, by port."""
        chunk, node, given = inputs[0], self.node, Given()
        made = self._form(node, chunk)
        for port, rows in made.items():
            ref = Ref(node.index, port)
            given[ref] = with_columns(rows, self._setting.columns(ref))
        self._setting.count(node.name, **{"in": len(chunk), "out": len(made["out"])})
        if node.late_of:
            late = made["late"]
            self._setting.count(node.late_of, late=len(late))
            source = next(one for one in self._setting.plan.sources if one.name == node.late_of)
            self._setting.bad_rows.late(source.name, late, str(source.order_by), source.lateness)
        return given


def stamped(node: Stamp, chunk: Chunk) -> dict[str, Chunk]:
    """The rows with their event time, or one row for each window that holds it."""
    times = chunk.order[OWN] if OWN in chunk.order else chunk.order[TIME]
    source = np.arange(len(chunk))
    if node.every is None:
        values = times
    else:
        source, values = _window_starts(node, times)
    out = chunk if len(source) == len(chunk) else chunk.take(source)
    kind = node.record.fields[-1].type
    made = Chunk(node.record, [*out.columns, Column(kind, values)], len(source))
    made.order = row_order(chunk, source, counter(node.index) if node.many else None)
    return {"out": made}


def packed(node: Pack, chunk: Chunk) -> dict[str, Chunk]:
    """The rows with a struct in place of the columns of each whole row."""
    columns = [
        _struct(field.type, chunk.columns, place) if place[1] else chunk.columns[place[0]]
        for field, place in zip(node.record.fields, node.places, strict=True)
    ]
    source = np.arange(len(chunk))
    return {"out": Chunk(node.record, columns, len(chunk), row_order(chunk, source, None))}


def _struct(kind: FieldType, columns: Sequence[Column], place: tuple[int, int, bool]) -> Column:
    first, width, may_lack = place
    children = [one.to_arrow() for one in columns[first : first + width]]
    mask = pa.array(~columns[first + width].values.astype(np.bool_)) if may_lack else None
    fields = [kind.arrow.field(i) for i in range(width)]
    return Column(kind, pa.StructArray.from_arrays(children, fields=fields, mask=mask))


def _window_starts(node: Stamp, times: Int64s) -> tuple[Int64s, Int64s]:
    """The windows that hold each time, earliest first: (source rows, starts). Floor division throughout."""
    assert node.every is not None
    last = (times - node.origin) // node.every * node.every + node.origin
    if not node.many:
        return np.arange(len(times)), last
    counts = (node.size - 1 - (times - last)) // node.every + 1
    source = np.repeat(np.arange(len(times)), counts)
    back = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(source))
    return source, last[source] - back * node.every


def digested(node: Digest, chunk: Chunk) -> dict[str, Chunk]:
    """The rows with the digest as the last field."""
    values = digests(chunk, node.places)
    columns = [*chunk.columns, Column(node.record.fields[-1].type, values)]
    return {"out": Chunk(node.record, columns, len(chunk), chunk.order)}


def timed(node: OwnTime, chunk: Chunk) -> dict[str, Chunk]:
    """The rows in order with a time of their own, and the late ones apart (see ``operators.key_order``)."""
    *columns, times, flags = chunk.columns
    late = flags.values.astype(np.bool_)
    made = Chunk(node.record, columns, len(chunk), {**chunk.order, OWN: times.values})
    return {"out": made.take(np.flatnonzero(~late)), "late": made.take(np.flatnonzero(late))}


def tagged(node: Tag, chunk: Chunk) -> dict[str, Chunk]:
    """The rows of one side of a join as rows of both."""
    size, kinds = len(chunk), [field.type for field in node.record.fields]
    before = [np.full(size, node.is_right), chunk.order[TIME]]
    columns = [Column(kind, values) for kind, values in zip(kinds, before, strict=False)]
    given = [chunk.columns[place] for place in node.keys]
    missing = kinds[2 + len(given) : node.first]
    columns += [_retyped(one, kind) for one, kind in zip(given, kinds[2:], strict=False)]
    columns += [null_column(kind, size) for kind in missing]
    columns += map(_retyped, chunk.columns, kinds[node.first :])
    columns += [null_column(kind, size) for kind in kinds[len(columns) :]]
    return {"out": Chunk(node.record, columns, size, chunk.order)}


def to_port(node: ToPort, chunk: Chunk) -> dict[str, Chunk]:
    """The rows of one input of a loop as rows of all."""
    size, kinds = len(chunk), [field.type for field in node.record.fields]
    columns = [Column(kinds[0], np.full(size, node.place, np.int64))]
    given = [chunk.columns[place] for place in node.keys]
    columns += [_retyped(one, kind) for one, kind in zip(given, kinds[1:], strict=False)]
    columns += [null_column(kind, size) for kind in kinds[len(columns) : node.first]]
    columns += map(_retyped, chunk.columns, kinds[node.first :])
    columns += [null_column(kind, size) for kind in kinds[len(columns) :]]
    return {"out": Chunk(node.record, columns, size, chunk.order)}


def _retyped(column: Column, kind: FieldType) -> Column:
    return Column(kind, column.values, column.valid)


_FORMS: Final[dict[type[BuiltIn], Callable[[Any, Chunk], dict[str, Chunk]]]] = {
    Stamp: stamped,
    Digest: digested,
    Combine: combined,
    OwnTime: timed,
    Tag: tagged,
    ToPort: to_port,
    Pack: packed,
}
