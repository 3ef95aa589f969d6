"""Looking into a checkpoint from outside, while a query runs or after: what it holds, and the state itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.checkpoint import identity
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.manifest import Manifest, migrate_batch
from thalweg.checkpoint.merging import current, sorted_by
from thalweg.checkpoint.paths import FileSystem, join, resolve
from thalweg.checkpoint.record import Chains, CommitRecord
from thalweg.checkpoint.segments import read_units
from thalweg.errors import CheckpointError
from thalweg.plan.plan import TIME


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorInfo:
    """The state of an operator, or the waiting rows of a source.

    Attributes:
        kind: as in the manifest, or "source".
        rows: rows in the files, deleted and replaced ones included (:func:`read_state` gives the true state).
        bytes: their size in Arrow's memory form.
        used: how many buckets hold state.
        longest_chain, mean_chain: units a bucket, over the used ones.
    """

    name: str
    kind: str
    keys: tuple[str, ...]
    fields: tuple[str, ...]
    buckets: int
    used: int
    rows: int
    bytes: int
    files: int
    longest_chain: int
    mean_chain: float
    counters: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint at its newest committed batch; ``batch`` is -1 when there is none yet."""

    location: str
    flow: str
    version: str
    batch: int
    slots: int
    epoch: int
    finished: bool
    clock: Mapping[str, int]
    #: as :attr:`thalweg.checkpoint.manifest.Manifest.instants`
    instants: bool | None
    operators: tuple[OperatorInfo, ...]


def describe(location: str) -> CheckpointInfo:
    """What a checkpoint holds; takes the checkpoint folder or the ``thalweg`` folder in it.

    Raises:
        CheckpointError: it is not a checkpoint of ours, or cannot be read.
    """
    _, _, manifest, latest = _open(location)
    record = latest or CommitRecord(-1, "", 0)
    names = [
        *manifest.sources,
        *(
            n
            for n, one in manifest.operators.items()
            if one.kind != manifests.STATELESS or n in record.counters
        ),
    ]
    return CheckpointInfo(
        location=location,
        flow=manifest.flow,
        version=manifest.version,
        batch=record.batch,
        slots=record.slots,
        epoch=record.epoch,
        finished=record.finished,
        clock=record.clock,
        instants=manifest.instants,
        operators=tuple(_info(name, manifest, record) for name in names),
    )


def _info(name: str, manifest: Manifest, record: CommitRecord) -> OperatorInfo:
    operator = manifest.operators.get(name)
    source = manifest.sources.get(name)
    chains = record.chains.get(name, {})
    units = [unit for chain in chains.values() for unit in chain]
    fields = operator.fields if operator else source.record if source else ()
    return OperatorInfo(
        name=name,
        kind=operator.kind if operator else "source",
        keys=tuple(f"{field.name}: {field.type}" for field in (operator.keys if operator else ())),
        fields=tuple(f"{field.name}: {field.type}" for field in fields),
        buckets=operator.buckets if operator else len(chains),
        used=len(chains),
        rows=sum(unit.rows for unit in units),
        bytes=sum(unit.bytes for unit in units),
        files=len({unit.file for unit in units}),
        longest_chain=max((len(chain) for chain in chains.values()), default=0),
        mean_chain=len(units) / len(chains) if chains else 0.0,
        counters=record.counters.get(name, {}),
    )


def read_state(
    location: str, operator: str, *, limit: int | None = None, key: Any = None
) -> pa.Table:
    """The state of an operator after the newest committed batch, a row a key: keys, then fields, by key.

    Of a source or an order_by: the rows that still wait for their time.

    Args:
        limit: at most so many rows, the first by key.
        key: only this key: a value, a tuple for several key fields, or texts that stand for them.

    Raises:
        CheckpointError: there is no such operator or no state yet, or the key does not fit.
    """
    fs, root, manifest, record = _open(location)
    if operator not in manifest.operators and operator not in manifest.sources:
        known = ", ".join(sorted({*manifest.operators, *manifest.sources}))
        raise CheckpointError(f"{location} has no operator {operator!r}; it has {known}")
    one = manifest.operators.get(operator)
    keys = [field.name for field in one.keys] if one else []
    chains = record.chains.get(operator, {}) if record else {}
    if not chains:
        return pa.table({})
    table = pa.Table.from_batches(_merged(fs, root, manifest, operator, chains, len(keys)))
    if record is not None:
        table = _waiting(table, record.extra.get("gates", {}).get(operator))
    if key is not None:
        table = _only(table, keys, key)
    table = sorted_by(table, len(keys))
    return table if limit is None else table.slice(0, limit)


def _merged(
    fs: FileSystem,
    root: str,
    manifest: Manifest,
    operator: str,
    chains: Chains,
    keys: int,
) -> list[pa.RecordBatch]:
    """The current rows of each bucket, all in the schema of the units that have the most columns."""
    one = manifest.operators.get(operator)
    if one is not None and not keys and not one.waits:
        # One constant key: its last row is the state. (Rows that wait have no keys, and all count.)
        chains = {bucket: chain[-1:] for bucket, chain in chains.items()}
    places = [(u.file, u.number) for chain in chains.values() for u in chain]
    units = read_units(fs, root, places)
    schema = max((unit.schema for unit in units), key=len).remove_metadata()
    defaults = manifest.defaults(operator) if operator in manifest.operators else {}
    fitted = iter([migrate_batch(unit, schema, defaults) for unit in units])
    return [current([next(fitted) for _ in chain], keys) for chain in chains.values()]


def _waiting(table: pa.Table, facts: Mapping[str, Any] | None) -> pa.Table:
    """Without the rows that were released, which no file says: the commit record has the time up to which."""
    if not facts or "released" not in facts or TIME not in table.column_names:
        return table
    return table.filter(pc.greater(table.column(TIME), pa.scalar(facts["released"], pa.int64())))


def _only(table: pa.Table, keys: Sequence[str], key: Any) -> pa.Table:
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(keys):
        raise CheckpointError(f"expected a key of {', '.join(keys) or 'no field'}, got {values!r}")
    for i, (name, value) in enumerate(zip(keys, values, strict=True)):
        column = table.column(i)
        try:
            wanted = pa.scalar(value)
            if wanted.type != column.type:
                wanted = wanted.cast(column.type)
        except (pa.ArrowException, OverflowError) as error:
            raise CheckpointError(f"key {name}: expected {column.type}, got {value!r}") from error
        table = table.filter(pc.fill_null(_equal(column, wanted), False))
    return table


def _equal(column: pa.ChunkedArray, wanted: pa.Scalar) -> pa.ChunkedArray:
    """Which values are that one; keys are equal where they are both null, or both NaN."""
    if not wanted.is_valid:
        return pc.is_null(column)
    if pa.types.is_floating(column.type) and math.isnan(wanted.as_py()):
        return pc.is_nan(column)
    return pc.equal(column, wanted)


def _open(location: str) -> tuple[FileSystem, str, Manifest, CommitRecord | None]:
    fs, root, manifest = found_state(location)
    record = records.latest(fs, root)
    meant = manifests.in_force(manifest, {} if record is None else record.extra)
    return fs, root, meant or manifest, record


def found_state(location: str) -> tuple[FileSystem, str, Manifest]:
    """The folder of a checkpoint's state, and its manifest; takes the checkpoint folder or the state's.

    Raises:
        CheckpointError: there is none.
    """
    fs, path = resolve(location)
    places = [(fs, join(path, "thalweg")), (fs, path)]
    said = identity.read(Folder(location, fs, join(path, "thalweg")))
    if said is not None and said.state:
        places.insert(0, resolve(said.state))
    for fs, root in places:
        manifest = manifests.read(fs, root)
        if manifest is not None:
            return fs, root, manifest
    raise CheckpointError(
        f"{location}: expected a checkpoint folder with thalweg/{manifests.FILE} in it, found none;"
        " give the folder that was passed as checkpoint= when the query started"
    )
