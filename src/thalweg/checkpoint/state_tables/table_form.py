"""What both tables of keyed state share: flags, the Arrow form, and the records of compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.checkpoint.state_tables import cells
from thalweg.checkpoint.state_tables.cells import is_plain, row_words
from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Bools, Column, numpy_dtype
from thalweg.columns.keys import KeySpec
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import Kind
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

#: The field before it where rows own memory: the address of the log of the call at hand.
LOG: Final = "_log"

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
    """The array type of a compiled state, with ``_drop`` last; see :mod:`thalweg.checkpoint.state_tables.cells`.

    Raises:
        SchemaError: a field cannot be held; such a state is interpreted.
    """
    fields: list[Any] = []
    for field in state.schema.fields:
        if is_plain(field.type):
            fields.append((field.name, numpy_dtype(field.type.kind)))
            continue
        _refuse_filled_texts(state, field)
        try:
            fields.append((field.name, np.dtype(np.int64), (row_words(field.type),)))
        except SchemaError as error:
            raise SchemaError(
                f"state {state.name}.{field.name}: {error}; it holds int, float, bool, Timestamp, Category,"
                " Timer and str, each also | None, tuples and records of these but for str, and lists, deques and"
                " dicts of such values, there with str"
            ) from None
    if owns_memory(state):
        fields.append((LOG, np.dtype(np.int64)))
    return np.dtype([*fields, (DROP, np.dtype(np.uint8))], align=True)


def _refuse_filled_texts(state: StateSpec, field: Field) -> None:
    """Refuses a container that starts with texts: a copy of its buffer would name the texts of another key.

    Raises:
        SchemaError: it is one.
    """
    item = field.type.item
    if item is None or not _starts_filled(field) or not cells.is_cell(item):
        return
    if cells.text_places(item):
        raise SchemaError(
            f"state {state.name}.{field.name}: {field.type} starts with {field.default!r}; a compiled state's"
            " containers of str start empty"
        )


class Shape(NamedTuple):
    """What the memory of an operator's tables depends on."""

    record: np.dtype[Any]
    #: words of a key
    width: int
    has_text: bool


class TableForm(NamedTuple):
    """What all tables of an operator share: made once, since making it costs more than a table.

    Attributes:
        schema: the Arrow form.
        default: a record with every field at its default.
        bare: one that owns nothing, as those of dead entries.
        owns: whether rows own memory outside of the arrays, which goes with them.
        shape: what their memory depends on.
    """

    schema: pa.Schema
    default: npt.NDArray[Any]
    bare: npt.NDArray[Any]
    owns: bool
    shape: Shape

    @classmethod
    def of(cls, spec: KeySpec, state: StateSpec) -> TableForm:
        """That of an operator's tables."""
        bare = default_record(state)
        shape = Shape(bare.dtype, spec.width, spec.has_text)
        return cls(arrow_schema(spec, state), whole_default(state), bare, owns_memory(state), shape)


def owns_memory(state: StateSpec) -> bool:
    """Whether rows own memory outside of the table."""
    return any(cells.owns_memory(field.type) for field in state.schema.fields)


def default_record(state: StateSpec) -> npt.NDArray[Any]:
    """One record with every field at its default, lists, dicts and texts empty: it owns nothing, as those of dead keys.

    Raises:
        SchemaError: a field cannot be held; such a state is interpreted.
    """
    record = np.zeros(1, record_dtype(state))
    for field in state.schema.fields:
        if is_plain(field.type):
            category = field.type.kind is Kind.CATEGORY
            record[field.name] = CATEGORIES.code(field.default) if category else field.default
            continue
        if not _starts_filled(field):
            record[field.name] = cells.words_of(
                field.type, Column.from_python(field.type, [field.default])
            )
    return record


def whole_default(state: StateSpec) -> npt.NDArray[Any]:
    """One record with every field at its default, those that own memory too; others may copy it, nobody changes it.

    It is made once a process for all states with these defaults, and stays.
    """
    filled = [field for field in state.schema.fields if _starts_filled(field)]
    made = default_record(state)
    for field in filled:
        key = f"{field.type} {field.default!r}"
        if key not in _FILLED:
            column = Column.from_python(field.type, [field.default])
            _FILLED[key] = cells.words_of(field.type, column)
        made[field.name] = _FILLED[key]
    return made


def filled_places(state: StateSpec) -> list[tuple[str, int, int]]:
    """The fields that do not start empty: name, words in the row, bytes of what they own."""
    whole, fields = whole_default(state), state.schema.fields
    return [
        (field.name, cells.row_words(field.type), cells.memory_of(field.type, whole[field.name]))
        for field in fields
        if _starts_filled(field)
    ]


def _starts_filled(field: Field) -> bool:
    return cells.owns_memory(field.type) and bool(field.default)


#: What fields that do not start empty start with.
_FILLED: Final[dict[str, Any]] = {}


def set_values(records: npt.NDArray[Any], field: Field, rows: Any, column: Column) -> None:
    """Gives a field of these rows the values of a column; what they owned is given back."""
    if is_plain(field.type):
        records[field.name][rows] = column.values
        return
    release_values(records, field, rows)
    records[field.name][rows] = cells.words_of(field.type, column)


def set_value(records: npt.NDArray[Any], field: Field, row: int, value: Any) -> None:
    """Gives a field of one row a value of its type; what it owned is given back."""
    if not is_plain(field.type):
        set_values(records, field, np.array([row]), Column.from_python(field.type, [value]))
        return
    is_text = field.type.kind is Kind.CATEGORY
    records[field.name][row] = CATEGORIES.code(value) if is_text else value


def release_values(records: npt.NDArray[Any], field: Field, rows: Any) -> None:
    """Gives back what a field of these rows owns; it is empty then."""
    if cells.owns_memory(field.type):
        cells.release(field.type, records[field.name][rows])
        records[field.name][rows] = 0


def column_of(records: npt.NDArray[Any], field: Field) -> Column:
    """A field of these records as a column."""
    values = records[field.name]
    if is_plain(field.type):
        return Column(field.type, np.ascontiguousarray(values))
    return cells.column_of(field.type, values)


def state_values(state: StateSpec, records: npt.NDArray[Any]) -> list[Any]:
    """The values of one record, as :meth:`StateSpec.restore` takes them."""
    return [_value_of(records, field) for field in state.schema.fields]


def _value_of(records: npt.NDArray[Any], field: Field) -> Any:
    if is_plain(field.type) and field.type.kind is not Kind.CATEGORY:
        return records[field.name][0].item()
    return column_of(records, field).to_python()[0]


def table_parts(
    spec: KeySpec, state: StateSpec, batch: pa.RecordBatch
) -> tuple[list[Column], list[Column], Bools]:
    """The key columns, state columns and deletions of a batch, taken by place."""
    fields: tuple[Field, ...] = (*spec.fields, *state.schema.fields)
    columns = [Column.from_arrow(f.type, batch.column(i)) for i, f in enumerate(fields)]
    deleted = batch.column(len(fields)).to_numpy(zero_copy_only=False)
    return columns[: len(spec.fields)], columns[len(spec.fields) :], deleted
