"""Columns of state in a new type, value by value the same, or not at all.

By name inside records; a number widens where it stays equal; what may be null now may be. All else needs a function.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.flow.fields.field_types import FieldType, Kind


class Unconvertible(Exception):
    """A column has a value that the new type does not have; the text says which."""


def converted(array: pa.Array, kind: FieldType, *, lossy: bool = False) -> pa.Array:
    """The values of a column in the Arrow form of a type.

    Args:
        array: the values.
        kind: the type.
        lossy: whether fields inside records may be left out.

    Raises:
        Unconvertible: a value would be another one.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    wanted = kind.arrow
    if array.null_count and not kind.optional:
        raise Unconvertible("there are nulls, which the new type does not have")
    if array.type == wanted:
        return array
    if kind.kind is Kind.LIST and pa.types.is_list(array.type):
        return _list(array, kind, lossy)
    if kind.kind is Kind.RECORD and pa.types.is_struct(array.type):
        return _record(array, kind, lossy)
    return _plain(array, kind)


def _list(array: pa.Array, kind: FieldType, lossy: bool) -> pa.Array:
    assert kind.item is not None
    if array.null_count or array.offset:
        # Its items in a row of their own, without those of nulls.
        array = pa.concat_arrays([array])
    items = converted(array.flatten(), kind.item, lossy=lossy)
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, items, type=kind.arrow, mask=mask)


def _record(array: pa.Array, kind: FieldType, lossy: bool) -> pa.Array:
    assert kind.record is not None
    known = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    gone = sorted(known.keys() - set(kind.record.names))
    if gone and not lossy:
        raise Unconvertible(f"the field {gone[0]!r} inside it would be lost")
    columns = pc.struct_field
    made = []
    for field in kind.record.fields:
        if field.name in known:
            # Fields of a record that is null are no values.
            inner = columns(array, [known[field.name]])
            inner_kind = field.type
            if array.null_count and not inner_kind.optional:
                inner = _without_nulls(inner, array)
            made.append(converted(inner, inner_kind, lossy=lossy))
        elif field.type.optional:
            made.append(pa.nulls(len(array), field.type.arrow))
        else:
            raise Unconvertible(f"older rows have no {field.name!r}, which cannot be None")
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(made, fields=list(kind.arrow), mask=mask)


def _without_nulls(inner: pa.Array, outer: pa.Array) -> pa.Array:
    """The values of a field; where the record around it is null, some value that nobody sees."""
    found = inner.drop_null()
    filler = found[0] if len(found) else None
    if filler is None:
        filler = pa.scalar(_zero(inner.type), inner.type)
    return pc.if_else(outer.is_valid(), inner, filler)


def _zero(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_list(kind):
        return []
    return False if pa.types.is_boolean(kind) else 0


def _plain(array: pa.Array, kind: FieldType) -> pa.Array:
    old = array.type
    if pa.types.is_boolean(old) and kind.kind in (Kind.INT, Kind.FLOAT):
        return array.cast(pa.int64()).cast(kind.arrow)
    if pa.types.is_int64(old) and kind.kind is Kind.FLOAT:
        made = array.cast(pa.float64(), safe=False)
        back = made.cast(pa.int64(), safe=False)
        # The greatest int rounds to a float that no int of 64 bits is.
        same = pc.and_(pc.equal(back, array), pc.less(made, pa.scalar(2.0**63)))
        wrong = array.filter(pc.invert(pc.fill_null(same, True)))
        if len(wrong):
            raise Unconvertible(f"{wrong[0].as_py()} is a number that a float cannot hold")
        return made
    raise Unconvertible(f"{old} is not {kind.arrow}")
