"""An operator's rows of state as a checkpoint has them, and in the form of a flow: a bucket at a time, by columns.

Files of several ages have fields of several ages, always the first of the manifest's; what is missing has the default
that it came with. Columns are read by place, since a key and a field may have one name.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.checkpoint.evolution.arrays import Unconvertible, converted
from thalweg.checkpoint.manifest import ManifestField, from_json
from thalweg.checkpoint.merging import current
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import Chains
from thalweg.checkpoint.segments import read_units
from thalweg.checkpoint.state_tables.table_form import DELETED
from thalweg.columns.chunks import Column
from thalweg.flow.fields.hints import from_arrow_type
from thalweg.flow.records import Field, Missing
from thalweg.plan.plan import TIME
from thalweg.times import NEVER


class OldForm(NamedTuple):
    """How rows stand in the files of a checkpoint.

    Attributes:
        keys: how many key columns come first.
        fields: those that follow.
        is_queue: whether all rows count, as those that wait for their time; they have more columns behind.
        released: of a queue, the time up to which rows have left.
    """

    keys: int
    fields: tuple[ManifestField, ...]
    is_queue: bool = False
    released: int | None = None


class Bucket(NamedTuple):
    """The state of a bucket: its columns, the keys first; of a queue, what stands behind the fields last."""

    number: int
    keys: list[pa.Array]
    fields: list[pa.Array]
    behind: dict[str, pa.Array]
    rows: int


@dataclasses.dataclass(frozen=True)
class NewForm:
    """How rows stand in the files of a flow: the key, the fields, and of a queue the columns behind."""

    keys: tuple[Field, ...]
    fields: tuple[Field, ...]

    def schema(self, behind: Sequence[str] = ()) -> pa.Schema:
        """The Arrow form."""
        found = [
            pa.field(f.name, f.type.arrow, f.type.optional) for f in (*self.keys, *self.fields)
        ]
        extra = [pa.field(name, pa.int64(), False) for name in behind]
        return pa.schema([*found, *extra, pa.field(DELETED, pa.bool_(), False)])


def buckets(fs: FileSystem, root: str, chains: Chains, form: OldForm) -> Iterator[Bucket]:
    """The current state of each bucket."""
    if not form.keys and not form.is_queue:
        # One constant key: its last row is the state.
        chains = {number: chain[-1:] for number, chain in chains.items()}
    types = _types(fs, root, chains, form)
    for number, chain in sorted(chains.items()):
        units = read_units(fs, root, [(unit.file, unit.number) for unit in chain])
        whole = [_whole(unit, form, types) for unit in units]
        yield _bucket(number, whole, form)


def _types(fs: FileSystem, root: str, chains: Chains, form: OldForm) -> list[pa.DataType | None]:
    """The type of each field in the youngest file that has it; None where none has."""
    found: list[pa.DataType | None] = [None] * len(form.fields)
    if form.is_queue:
        return found
    one_of_each = {unit.file: unit.number for chain in chains.values() for unit in chain}
    for unit in read_units(fs, root, list(one_of_each.items())):
        for place, column in enumerate(unit.schema.types[form.keys : -1]):
            found[place] = column
    return found


def _whole(
    unit: pa.RecordBatch, form: OldForm, types: Sequence[pa.DataType | None]
) -> pa.RecordBatch:
    """A unit with all fields of the manifest."""
    missing = form.fields[unit.num_columns - 1 - form.keys :]
    if form.is_queue or not missing:
        return unit
    *columns, deleted = unit.columns
    names = unit.schema.names[:-1]
    for field, kind in zip(missing, types[-len(missing) :], strict=True):
        values = [from_json(field.default)] * unit.num_rows
        columns.append(pa.array(values, kind) if kind is not None else pa.array(values))
        names.append(field.name)
    return pa.RecordBatch.from_arrays([*columns, deleted], names=[*names, DELETED])


def _bucket(number: int, units: Sequence[pa.RecordBatch], form: OldForm) -> Bucket:
    if form.is_queue:
        return _queue(number, units, form)
    rows = current([_plain(unit, units[-1].schema) for unit in units], form.keys)
    columns = rows.columns
    return Bucket(number, columns[: form.keys], columns[form.keys :], {}, rows.num_rows)


def _plain(unit: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Units differ in what may be null only."""
    return (
        unit
        if unit.schema.equals(schema)
        else pa.RecordBatch.from_arrays(unit.columns, schema=schema)
    )


def _queue(number: int, units: Sequence[pa.RecordBatch], form: OldForm) -> Bucket:
    rows = pa.concat_batches([_plain(unit, units[-1].schema) for unit in units])
    if form.released is not None:
        place = rows.schema.names.index(TIME, len(form.fields))
        rows = rows.filter(pc.greater(rows.column(place), pa.scalar(form.released, pa.int64())))
    count = len(form.fields)
    names = rows.schema.names[count:-1]
    behind = dict(zip(names, rows.columns[count:-1], strict=True))
    return Bucket(number, [], rows.columns[:count], behind, rows.num_rows)


def rewritten(
    bucket: Bucket, form: OldForm, new: NewForm, *, shift: int = 0, lossy: bool = False
) -> pa.RecordBatch:
    """A bucket's rows in the new form, by the names of fields.

    Raises:
        Unconvertible: a value would be lost or another one; the text names the field.
    """
    if not bucket.rows:
        schema = new.schema(list(bucket.behind))
        return pa.RecordBatch.from_arrays(
            [pa.array([], kind) for kind in schema.types], schema=schema
        )
    known = {field.name: column for field, column in zip(form.fields, bucket.fields, strict=True)}
    columns = []
    for field in new.fields:
        try:
            if field.name in known:
                columns.append(converted(known[field.name], field.type, lossy=lossy))
            else:
                columns.append(_defaults(field, bucket.rows))
        except (Unconvertible, pa.ArrowException) as error:
            raise Unconvertible(f"field {field.name}: {error}") from error
    if shift:
        place = next(i for i, field in enumerate(new.fields) if field.type.kind.value == "Timer")
        columns[place] = _shifted(columns[place], shift)
    return assembled(bucket, new, columns)


def assembled(bucket: Bucket, new: NewForm, fields: Sequence[pa.Array]) -> pa.RecordBatch:
    """The rows of a bucket with these columns of fields."""
    keys = [converted(key, f.type) for key, f in zip(bucket.keys, new.keys, strict=True)]
    deleted = pa.array(np.zeros(bucket.rows, np.bool_))
    schema = new.schema(list(bucket.behind))
    arrays = [*keys, *fields, *bucket.behind.values(), deleted]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _defaults(field: Field, rows: int) -> pa.Array:
    default = None if isinstance(field.default, Missing) else field.default
    return Column.from_python(field.type, [default] * rows).to_arrow()


def _shifted(timers: pa.Array, by: int) -> pa.Array:
    """Timers that stand, so much later."""
    times = timers.to_numpy(zero_copy_only=False)
    late = np.minimum(times, NEVER - 1 - max(by, 0)) + by
    return pa.array(np.where(times == NEVER, NEVER, late), pa.int64())


def python_fields(bucket: Bucket, fields: Sequence[ManifestField]) -> Mapping[str, list[Any]]:
    """The fields of a bucket's rows as a user's function knows them."""
    found = {}
    for field, column in zip(fields, bucket.fields, strict=True):
        kind = from_arrow_type(column.type, field.name, True)
        values = Column.from_arrow(kind, column).to_python()
        found[field.name] = [_form(field, value) for value in values]
    return found


def _form(field: ManifestField, value: Any) -> Any:
    """Containers as the state class had them."""
    form = field.type.partition("[")[0]
    if value is None or form not in ("dict", "deque", "tuple"):
        return value
    if form == "dict":
        return dict(value)
    if form == "deque":
        return collections.deque(value)
    return tuple(value)
