"""What both tables of keyed state share: flags, the Arrow form, and the records of compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.columns.chunks import CATEGORIES, Bools, Column, numpy_dtype
from thalweg.columns.keys import KeySpec
from thalweg.errors import SchemaError
from thalweg.flow.field_types import Kind
from thalweg.flow.records import Field
from thalweg.flow.state_class import StateSpec
from thalweg.hashing import UInt64s

#: Bits of ``BucketTable.flags``: the key has a state; it was written since mark_saved; it is on disk.
ALIVE: Final = 1
DIRTY: Final = 2
SAVED: Final = 4

#: The last column of the Arrow form: whether the key's state was dropped.
DELETED: Final = "_deleted"

#: The last field of ``BucketTable.records``, set by ``tw.drop`` in a compiled function.
DROP: Final = "_drop"

#: Says of the hashes of keys which of them stay.
Stays: TypeAlias = Callable[[UInt64s], Bools]
#: Of the number of entries whose timers have one bound.
BLOCK_BITS: Final = 5
#: Fewer dead entries than this are not worth the work of removing them.
FEW: Final = 64


def arrow_schema(spec: KeySpec, state: StateSpec) -> pa.Schema:
    """The Arrow form of a bucket: key fields, state fields, ``_deleted``; to be read by place."""
    fields = [
        pa.field(f.name, f.type.arrow, nullable=f.type.optional)
        for f in (*spec.fields, *state.schema.fields)
    ]
    return pa.schema([*fields, pa.field(DELETED, pa.bool_(), nullable=False)])


def record_dtype(state: StateSpec) -> np.dtype[Any]:
    """The array type of a compiled state, with ``_drop`` last.

    Raises:
        SchemaError: a field is Optional or not of fixed width; such a state is interpreted.
    """
    for field in state.schema.fields:
        if not field.type.fixed_width or field.type.optional:
            raise SchemaError(
                f"state {state.name}.{field.name}: {field.type} does not fit a compiled table; it"
                " holds int, float, bool, tw.Timestamp, tw.Category and tw.Timer, none Optional"
            )
    fields = [(f.name, numpy_dtype(f.type.kind)) for f in state.schema.fields]
    return np.dtype([*fields, (DROP, np.dtype(np.uint8))], align=True)


def default_record(state: StateSpec) -> npt.NDArray[Any]:
    """One record with every field at its default."""
    record = np.zeros(1, record_dtype(state))
    for field in state.schema.fields:
        category = field.type.kind is Kind.CATEGORY
        record[field.name] = CATEGORIES.code(field.default) if category else field.default
    return record


def table_parts(
    spec: KeySpec, state: StateSpec, batch: pa.RecordBatch
) -> tuple[list[Column], list[Column], Bools]:
    """The key columns, state columns and deletions of a batch, taken by place."""
    fields: tuple[Field, ...] = (*spec.fields, *state.schema.fields)
    columns = [Column.from_arrow(f.type, batch.column(i)) for i, f in enumerate(fields)]
    deleted = batch.column(len(fields)).to_numpy(zero_copy_only=False)
    return columns[: len(spec.fields)], columns[len(spec.fields) :], deleted
