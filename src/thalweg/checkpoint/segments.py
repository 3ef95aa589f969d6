"""Segments: what one slot saved of one operator in one batch, as an Arrow IPC file that any tool can open.

A *unit* is the snapshot or delta of one bucket. A file holds the units of one (slot, attempt, operator), in
the operator's own schema (keys, state fields, ``_deleted``) plus ``_bucket``, so pandas, Polars and DuckDB
read it as one table. Small units share a record batch: a record batch of its own for each of 128 buckets
of ten rows makes the file 2 to 6 times larger and 30 times slower to compress. The footer says where each
unit lies, with a checksum a record batch; the schema's metadata says flow, operator, keys, batch and version.
Compression is zstd (35 % of the bytes where lz4 leaves 55 %, at 0.5 GB/s).
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.ipc as ipc

from thalweg.checkpoint.paths import FileSystem, is_local, join, write_atomic
from thalweg.errors import CheckpointError

#: A snapshot holds every key of its bucket; a delta the keys written since the unit before it; a merge
#: holds several deltas in one, and takes their place; *moved* are keys that come from other buckets, written by the
#: slot that had them there.
UnitKind: TypeAlias = Literal["snapshot", "delta", "merge", "moved"]

BUCKET: Final = "_bucket"
DELETED: Final = "_deleted"
#: Units are put together until a record batch has this size; larger ones stay alone.
GROUP_BYTES: Final = 256 * 1024

_OPTIONS: Final = ipc.IpcWriteOptions(compression="zstd", use_threads=False)
#: Where the footer has a checksum a record batch: 16 hexadecimal digits for its end, 8 for the CRC-32.
_SUMS: Final = "thalweg.sums"
_SUM_CHARS: Final = 24
_PLAIN_NAME: Final = re.compile(r"[a-z0-9_]{1,80}")


class SegmentUnit(NamedTuple):
    """A unit just written; ``number`` is its place in the file, -1 for the snapshot of an empty bucket.

    ``bytes`` is its size in Arrow's memory form, which does not depend on the compression. ``start`` is, for a
    merge, the place in the bucket's old chain from which on it replaces the units.
    """

    bucket: int
    kind: UnitKind
    number: int
    rows: int
    bytes: int
    start: int = 0


class Segment(NamedTuple):
    """What a slot saved of an operator: the file relative to the root ("" if nothing needed one) and its units."""

    operator: str
    file: str
    units: tuple[SegmentUnit, ...]

    def tags(self) -> dict[int, str]:
        """For each bucket saved, the tag of the state it has here now (see :func:`tag`); moved keys are not here."""
        saved = [unit for unit in self.units if unit.kind != "moved"]
        return {unit.bucket: tag(self.file, unit.number) for unit in saved}


class NewUnit(NamedTuple):
    """A unit to write: the operator's Arrow form (keys, fields, ``_deleted``)."""

    bucket: int
    kind: UnitKind
    rows: pa.RecordBatch
    start: int = 0


class _Place(NamedTuple):
    """Where a unit lies: which record batch, from which row, how many rows."""

    group: int
    row: int
    rows: int


class _Sum(NamedTuple):
    """The checksum of the part of a file that ends with a record batch."""

    start: int
    end: int
    crc32: int


def tag(file: str, number: int) -> str:
    """Names the state of a bucket after a unit; "" is the state of an empty bucket."""
    return "" if number < 0 else f"{file}#{number}"


def segment_path(batch: int, stage: int, slot: int, attempt: str, operator: str) -> str:
    """The file of a segment, relative to the root.

    Names that are not plain lower-case words get a digest, so that two never meet in one file, also on a
    file system that folds case.
    """
    name = operator
    if not _PLAIN_NAME.fullmatch(operator):
        digest = blake2b(operator.encode(), digest_size=5).hexdigest()
        name = f"{re.sub(r'[^a-z0-9_]+', '-', operator.lower())[:60]}.{digest}"
    return f"state/{batch}/{stage}-{slot}-{attempt}-{name}.arrow"


def segment_batch(file: str) -> int | None:
    """The batch a state file belongs to; None if it is not one of ours."""
    parts = file.split("/")
    return (
        int(parts[1]) if len(parts) == 3 and parts[0] == "state" and parts[1].isdecimal() else None
    )


def write_segment(
    fs: FileSystem,
    root: str,
    *,
    batch: int,
    stage: int,
    slot: int,
    attempt: str,
    operator: str,
    metadata: Mapping[str, str],
    units: Iterable[NewUnit],
) -> Segment:
    """Writes the units of one operator as one file, which appears whole or not at all.

    An empty snapshot takes no room and gets number -1; without any rows there is no file. All units have one
    schema. ``attempt`` must be unique among all tries of the batch, also those of an earlier driver: a
    file of that name is replaced, and caches know a state by its file's name.

    Args:
        metadata: what the file says about itself beside ``thalweg.batch`` and ``thalweg.operator``, such as
            ``flow``, ``keys``, ``version``; the names get the prefix ``thalweg.``.
    """
    all_units = list(units)
    kept = [unit for unit in all_units if unit.rows.num_rows]
    file = segment_path(batch, stage, slot, attempt, operator) if kept else ""
    written: list[SegmentUnit] = []
    sizes: list[int] = []
    for unit in all_units:
        rows, number = unit.rows.num_rows, -1
        if rows:
            number = len(sizes)
            sizes.append(unit.rows.nbytes)
        size = sizes[number] if rows else 0
        written.append(SegmentUnit(unit.bucket, unit.kind, number, rows, size, unit.start))
    if kept:
        about = {**metadata, "batch": str(batch), "operator": operator}
        write_atomic(fs, join(root, file), _encode(kept, sizes, about))
    return Segment(operator, file, tuple(written))


def _encode(units: Sequence[NewUnit], sizes: Sequence[int], about: Mapping[str, str]) -> bytes:
    first = units[0].rows.schema.remove_metadata()
    schema = first.append(pa.field(BUCKET, pa.int32(), nullable=False)).with_metadata(
        {f"thalweg.{name}": value for name, value in about.items()}
    )
    groups, places = _group(units, sizes)
    footer = {
        "thalweg.places": orjson.dumps([list(place) for place in places]),
        "thalweg.kinds": orjson.dumps([unit.kind for unit in units]),
        _SUMS: (blank := os.urandom(_SUM_CHARS // 2).hex() * len(groups)),
    }
    sink = pa.BufferOutputStream()
    ends = []
    with ipc.new_file(sink, schema, options=_OPTIONS, metadata=footer) as writer:
        for group in groups:
            writer.write_batch(_join(group, first, schema))
            ends.append(sink.tell())
    return _with_sums(bytearray(sink.getvalue()), ends, blank.encode())


def _with_sums(content: bytearray, ends: Sequence[int], blank: bytes) -> bytes:
    """The file with its checksums in the place that the footer, which is written first, has for them."""
    view, start, sums = memoryview(content), 0, b""
    for end in ends:
        sums += b"%016x%08x" % (end, zlib.crc32(view[start:end]))
        start = end
    place = content.rindex(blank)
    view[place : place + len(blank)] = sums
    return bytes(content)


def _sums_of(text: bytes) -> list[_Sum]:
    """What :func:`_with_sums` has written."""
    parts = [text[i : i + _SUM_CHARS] for i in range(0, len(text), _SUM_CHARS)]
    ends = [int(part[:16], 16) for part in parts]
    return [
        _Sum(start, end, int(part[16:], 16))
        for start, end, part in zip([0, *ends], ends, parts, strict=False)
    ]


def _group(
    units: Sequence[NewUnit], sizes: Sequence[int]
) -> tuple[list[list[NewUnit]], list[_Place]]:
    """Puts small neighbours together."""
    groups: list[list[NewUnit]] = [[]]
    places, filled, row = [], 0, 0
    for unit, size in zip(units, sizes, strict=True):
        if groups[-1] and filled + size > GROUP_BYTES:
            groups.append([])
            filled = row = 0
        groups[-1].append(unit)
        places.append(_Place(len(groups) - 1, row, unit.rows.num_rows))
        filled += size
        row += unit.rows.num_rows
    return groups, places


def _join(units: Sequence[NewUnit], first: pa.Schema, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of some units as one record batch with their buckets."""
    parts = [unit.rows for unit in units]
    for i, part in enumerate(parts):
        if part.schema.names != first.names or part.schema.types != first.types:
            raise ValueError(f"the units of one segment differ: {part.schema} and {first}")
        if not part.schema.equals(first, check_metadata=True):
            # They came from different files: nullability or metadata differ, the columns do not.
            parts[i] = pa.RecordBatch.from_arrays(part.columns, schema=first)
    rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    buckets = np.array([unit.bucket for unit in units], np.int32)
    column = pa.array(np.repeat(buckets, [unit.rows.num_rows for unit in units]))
    return pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema)


class SegmentReader:
    """An open segment; reads only the record batches that are asked for, mapped into memory if local.

    Raises:
        CheckpointError: the file is missing, torn or not ours; so do the methods.
    """

    def __init__(self, fs: FileSystem, root: str, file: str) -> None:
        self._path = join(root, file)
        try:
            self._source = (
                pa.memory_map(self._path) if is_local(fs) else fs.open_input_file(self._path)
            )
            self._file = ipc.open_file(self._source)
            self._places = [
                _Place(*one) for one in orjson.loads(self._file.metadata[b"thalweg.places"])
            ]
            self.kinds: list[UnitKind] = orjson.loads(self._file.metadata[b"thalweg.kinds"])
            # Files of before there were checksums have none.
            self._sums = _sums_of(self._file.metadata.get(_SUMS.encode(), b""))
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise self._broken(error) from error
        self._groups: dict[int, pa.RecordBatch] = {}
        self._schema = pa.schema([*self._file.schema][:-1])

    @property
    def about(self) -> dict[str, str]:
        """What the file says about itself, without the prefix."""
        pairs: Mapping[bytes, bytes] = self._file.schema.metadata or {}
        return {
            name.decode().removeprefix("thalweg."): text.decode() for name, text in pairs.items()
        }

    def __len__(self) -> int:
        return len(self._places)

    def unit(self, number: int) -> pa.RecordBatch:
        """A unit in the operator's Arrow form (without ``_bucket``)."""
        try:
            place = self._places[number]
            if place.group not in self._groups:
                self._check(place.group)
                self._groups[place.group] = self._file.get_batch(place.group)
        except (pa.ArrowException, OSError, IndexError, ValueError) as error:
            raise self._broken(error) from error
        # By place: a key and a state field may have the same name, here and wherever rows are read.
        group = self._groups[place.group]
        columns = [column.slice(place.row, place.rows) for column in group.columns[:-1]]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _check(self, group: int) -> None:
        """Refuses a record batch whose bytes are not those that were written."""
        if self._sums:
            start, end, crc32 = self._sums[group]
            self._source.seek(start)
            if zlib.crc32(self._source.read_buffer(end - start)) != crc32:
                raise ValueError(f"its bytes {start} to {end} are not what was written")

    def _broken(self, error: Any) -> CheckpointError:
        what = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        return CheckpointError(
            f"the state file {self._path} {what}: {type(error).__name__}: {str(error)[:200]}\n"
            "A commit record names it, so it was written whole once. Bring it back from a copy of the"
            " checkpoint, or start with a new checkpoint folder."
        )


def read_units(
    fs: FileSystem, root: str, wanted: Sequence[tuple[str, int]]
) -> list[pa.RecordBatch]:
    """The units at these (file, number), in this order; each file is opened once.

    Raises:
        CheckpointError: a file is missing or torn.
    """
    found: dict[tuple[str, int], pa.RecordBatch] = {}
    for file, places in groupby(sorted(set(wanted)), key=lambda one: one[0]):
        reader = SegmentReader(fs, root, file)
        for place in places:
            found[place] = reader.unit(place[1])
    return [found[one] for one in wanted]
