"""One local file as the output of a sink: it is there when it is whole."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol, get_args, overload

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.checkpoint.paths import TEMPORARY, absolute
from thalweg.checks import known_keywords, one_of, path_of
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import RowSink
from thalweg.connectors.files import Location, format_of
from thalweg.connectors.names import field_names
from thalweg.connectors.readers.packed import codec_of, compressed
from thalweg.connectors.written.batch_folders import batches_in
from thalweg.connectors.written.encode import Encoder, FileFormat, check_fields, csv_header, encoder
from thalweg.connectors.written.partitioned import PartitionedTarget
from thalweg.errors import BuildError, DataError, EnvironmentProblem
from thalweg.flow.operators.nodes import Sink
from thalweg.flow.records import Schema

#: Chunks are gathered to row groups of at least so many rows.
GROUP_ROWS: Final = 131_072


class _Writer(Protocol):
    def write(self, chunk: Chunk) -> None: ...

    def close(self) -> None: ...


class FileSink(RowSink):
    """The rows of a sink in one file, in order; made by :func:`to_files`.

    They are written under a temporary name beside it; a run that fails leaves no file, and an older one as it was.
    """

    made_by = "tw.to_files(...)"

    def __init__(self, path: str, format: FileFormat) -> None:
        self.path = path
        self.format = format
        self._lock = threading.Lock()
        self._temporary = ""
        self._name = ""
        self._writer: _Writer | None = None

    def __repr__(self) -> str:
        return f"to_files({self.path!r}, {self.format!r})"

    def open(self, sink: Sink) -> None:
        self._name = sink.name
        check_fields(self.format, sink.record, f"sink {sink.name!r}")
        if os.path.isdir(self.path):
            raise BuildError(
                f"sink {sink.name!r}: {self.path} is a folder, of batches that a run with checkpoint= wrote; name"
                " another file, or go on with that checkpoint="
            )
        self._temporary = f"{self.path}.{os.urandom(6).hex()}{TEMPORARY}"
        with self._told():
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            try:
                self._writer = self._made(sink.record)
            except BaseException:
                self._discard()
                raise

    def write(self, chunk: Chunk) -> None:
        with self._lock, self._told():
            if self._writer is None:
                raise BuildError(f"sink {self._name!r}: {self.path} is closed")
            self._writer.write(chunk)

    def close(self, *, failed: bool) -> None:
        with self._lock, self._told():
            writer, self._writer = self._writer, None
            if writer is None:
                return
            try:
                writer.close()
                if not failed:
                    os.replace(self._temporary, self.path)
            finally:
                self._discard()

    def _discard(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def _made(self, record: Schema) -> _Writer:
        if self.format == "parquet":
            return _ParquetWriter(self._temporary, record)
        return _LineWriter(self._temporary, codec_of(self.path), self.format, record)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EnvironmentProblem(
                f"sink {self._name!r}: {self.path} cannot be written: {error}"
            ) from error
        except DataError as error:
            raise DataError(f"sink {self._name!r}: {error}") from None


class _LineWriter:
    def __init__(
        self, path: str, codec: str | None, format: Literal["csv", "json"], record: Schema
    ) -> None:
        self._encode: Encoder = encoder(format, record, path)
        self._out: Any = compressed(path, codec)
        if format == "csv":
            self._out.write(csv_header(record))

    def write(self, chunk: Chunk) -> None:
        self._out.write(self._encode(chunk))

    def close(self) -> None:
        self._out.close()


class _ParquetWriter:
    def __init__(self, path: str, record: Schema) -> None:
        self._record = record
        self._out = pq.ParquetWriter(path, record.arrow)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, chunk: Chunk) -> None:
        self._held.append(chunk.to_arrow())
        self._rows += len(chunk)
        if self._rows >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        try:
            if self._rows:
                self._flush()
        finally:
            self._out.close()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held, schema=self._record.arrow)
        self._out.write_table(table, row_group_size=len(table))
        self._held, self._rows = [], 0


@overload
def to_files(
    path: Location, format: FileFormat | None = None, *, partition_by: None = None
) -> FileSink: ...


@overload
def to_files(
    path: Location, format: FileFormat | None = None, *, partition_by: str | Sequence[str]
) -> PartitionedTarget: ...


@known_keywords
def to_files(
    path: Location,
    format: FileFormat | None = None,
    *,
    partition_by: str | Sequence[str] | None = None,
) -> FileSink | PartitionedTarget:
    """Writes a sink's rows, in order, to one file, which appears when the run has succeeded; or to a folder of files.

    A file of that name is replaced. Texts are compressed if the name ends so (``out.csv.gz``). With ``partition_by``
    the path is a folder that gets a file for each batch and each of the fields' values, in folders such as
    ``day=2024-01-01``: in every host the same; ``tw.files(folder, partitions=True)`` reads them.

    Args:
        path: the file, or the folder; missing folders are made.
        format: ``"parquet"``, ``"csv"`` (with a header) or ``"json"`` (lines); None: as the name ends, and in folders
            Parquet.
        partition_by: fields by whose values the files lie in folders; the files are without them.

    Raises:
        BuildError: the name does not tell one of these formats, or a folder has it.
    """
    by = field_names("to_files", "partition_by", partition_by)
    if by:
        return _partitioned(
            path_of("to_files", "path", path), "parquet" if format is None else format, by
        )
    place = os.path.abspath(path_of("to_files", "path", path))
    if os.path.isdir(place) and not batches_in(place):
        raise BuildError(f"to_files: {place} is a folder; name the file to write")
    return FileSink(place, _format_of_file(place, format))


def _format_of_file(place: str, format: FileFormat | None) -> FileFormat:
    """The format that is given, or that the file's name tells.

    Raises:
        BuildError: neither tells one that is written.
    """
    known = get_args(FileFormat)
    told: Any = format_of(place)
    if format is None and told not in known:
        name = os.path.basename(place)
        raise BuildError(
            f"to_files: the name {name!r} tells no format; let it end with one, say"
            f" {os.path.splitext(name)[0] + '.parquet'!r}, or give format=, one of {', '.join(known)};"
            " a folder of files takes partition_by="
        )
    chosen: FileFormat = one_of("to_files", "format", told if format is None else format, known)
    return chosen


def _partitioned(path: str, format: FileFormat, by: tuple[str, ...]) -> PartitionedTarget:
    format = one_of("to_files", "format", format, get_args(FileFormat))
    place = absolute(path)
    if os.path.isfile(place):
        raise BuildError(f"to_files: {place} is a file; with partition_by name a folder")
    return PartitionedTarget(place, format, by)
