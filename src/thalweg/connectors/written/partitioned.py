"""Files in folders by the values of fields, one file a batch and partition: the same layout from every host.

A file has the batch's number in its name, and appears whole. A batch that is written again replaces its files: a
reader of the folder that comes between finds some partitions of a batch and not others, and each row once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from thalweg.checkpoint import durable
from thalweg.checkpoint.paths import is_local, resolve, write_atomic
from thalweg.columns.chunks import Chunk
from thalweg.connectors.names import is_kind, named_kinds
from thalweg.connectors.once import shown_row
from thalweg.connectors.readers.partitions import NULL, folder_name
from thalweg.connectors.written.encode import (
    FileFormat,
    as_named,
    check_fields,
    csv_header,
    encoder,
)
from thalweg.errors import BuildError, DataError, EnvironmentProblem, ThalwegError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Sink
from thalweg.flow.records import Schema

#: Kinds whose values name a folder, and come back from its name as they were.
_IN_PATHS: Final = (Kind.INT, Kind.STR, Kind.CATEGORY, Kind.BOOL)
_SHAPES_IN_PATHS: Final = ("date", "timedelta", "Decimal")


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionedTarget:
    """A folder of files by partition; made by ``tw.to_files(folder, partition_by=…)``."""

    path: str
    format: FileFormat
    partition_by: tuple[str, ...]

    made_by = "tw.to_files(..., partition_by=...)"

    @property
    def place(self) -> str:
        return self.path

    def check(self, sink: Sink) -> None:
        where = f"sink {sink.name!r}: {self.made_by}"
        for name in self.partition_by:
            if name not in sink.record.names:
                raise BuildError(f"{where}: {sink.record} has no field {name!r}")
            kind = sink.record.field(name).type
            if not is_kind(kind, _IN_PATHS, _SHAPES_IN_PATHS) or name.startswith("_"):
                known = named_kinds(_IN_PATHS, _SHAPES_IN_PATHS)
                raise BuildError(
                    f"{where}: {name} is {kind}; a folder is named by one of {known}, of a field whose name does not"
                    " start with _"
                )
        inside = _inside(sink.record, self.partition_by)
        if not inside.fields:
            raise BuildError(
                f"{where}: all fields are in partition_by; one must be left for the files"
            )
        check_fields(self.format, inside, f"sink {sink.name!r}")

    def open(self, sink: Sink, query: str) -> PartitionedWriter:
        return PartitionedWriter(self, sink, query)


def _inside(record: Schema, partition_by: tuple[str, ...]) -> Schema:
    """The fields that files have."""
    fields = [one for one in record.fields if one.name not in partition_by]
    return Schema.make_record(record.name, fields)


class PartitionedWriter:
    """Writes the batches of one sink as files."""

    def __init__(self, target: PartitionedTarget, sink: Sink, query: str) -> None:
        self._target, self._sink = target, sink
        self._fs, self._root = resolve(target.path)
        self._inside = _inside(sink.record, target.partition_by)
        #: tells the files of one query and sink from those of others
        self._tag = hashlib.blake2b(f"{query}\0{sink.name}".encode(), digest_size=8).hexdigest()
        self._began = False

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes a file for each partition of a batch.

        Raises:
            DataError: a row does not fit; names it.
            EnvironmentProblem: a file cannot be written.
        """
        name = f"part-{batch:08d}-{self._tag}.{self._target.format}"
        self._refuse_unnamed(batch, table)
        written = set()
        try:
            for folder, rows in self._parts(table):
                path = f"{self._root.rstrip('/')}/{folder}/{name}"
                self._put(path, self._content(path, rows))
                written.add(path)
            if not self._began:
                self._clear(name, written)
                self._began = True
        except (OSError, ThalwegError) as error:
            if isinstance(error, DataError):
                raise
            raise EnvironmentProblem(f"{self._target.place} cannot be written: {error}") from error

    def close(self) -> None:
        pass  # files are closed as they are written

    def _parts(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The rows of each partition in their order, with its folder."""
        by = list(self._target.partition_by)
        kinds = [self._sink.record.field(name).type for name in by]
        named = [as_named(table.column(name), kind) for name, kind in zip(by, kinds, strict=True)]
        numbers: pa.Array = pa.array(range(len(table)), pa.int64())
        numbered = pa.table([*named, numbers], names=[*by, ""])
        groups = numbered.group_by(by, use_threads=False).aggregate([("", "list")])
        inside = table.select(list(self._inside.names))
        for group in groups.to_batches():
            for row in range(group.num_rows):
                values = ((name, group.column(name)[row].as_py()) for name in by)
                folder = "/".join(folder_name(name, value) for name, value in values)
                yield folder, inside.take(group.column("_list")[row].values)

    def _refuse_unnamed(self, batch: int, table: pa.Table) -> None:
        for name in self._target.partition_by:
            if self._sink.record.field(name).type.kind not in (Kind.STR, Kind.CATEGORY):
                continue
            for text in ("", NULL):
                row = table.column(name).index(pa.scalar(text, pa.string())).as_py()
                if row >= 0:
                    raise DataError(
                        f"sink {self._sink.name!r}: {self._target.place}: batch {batch}, row {row}: no folder can be"
                        f" named by {name}={text!r}\n  row: {shown_row(table, row)}"
                    )

    def _content(self, path: str, rows: pa.Table) -> Any:
        if self._target.format == "parquet":
            out = pa.BufferOutputStream()
            pq.write_table(rows.cast(self._inside.arrow), out)
            return out.getvalue()
        made = io.BytesIO()
        if self._target.format == "csv":
            made.write(csv_header(self._inside))
        try:
            chunk = Chunk.from_arrow(self._inside, rows)
            made.write(encoder(self._target.format, self._inside, path)(chunk))
        except DataError as error:
            raise DataError(f"sink {self._sink.name!r}: {path}: {error}") from None
        return made.getvalue()

    def _put(self, path: str, content: Any) -> None:
        """A file that appears whole: until then its name is hidden from readers of the folder."""
        if not is_local(self._fs):
            write_atomic(self._fs, path, content)
            return
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/.{name}"
        write_atomic(self._fs, hidden, content)
        os.replace(hidden, path)
        durable.sync_folder(folder)

    def _clear(self, name: str, written: set[str]) -> None:
        """Takes away what an earlier try of this batch, by another version of the flow, left in other partitions."""
        found = self._fs.get_file_info(pafs.FileSelector(self._root, recursive=True))
        for one in found:
            if one.path.rsplit("/", 1)[-1] == name and one.path not in written:
                self._fs.delete_file(one.path)
