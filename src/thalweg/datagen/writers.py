"""Record batches into files, at once or at a rate; a file appears whole or not at all.

A file is written under a hidden name, which Spark and Thalweg's readers skip, and then renamed. Modification
times rise strictly from file to file, since they are the order in which a stream reads them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

#: The formats that can be written; each is also the ending of its files.
FORMATS: Final = ("parquet", "csv", "jsonl")
#: Spark compares modification times in milliseconds.
_STEP_NS: Final = 2_000_000

#: Called after each file with its path and its rows.
OnFile = Callable[[Path, int], None]


class _RowWriter(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


def write_files(
    batches: Iterable[pa.RecordBatch],
    folder: str | os.PathLike[str],
    *,
    rows: int,
    files: int = 1,
    format: str = "parquet",
    on_file: OnFile | None = None,
) -> list[Path]:
    """Writes ``rows`` rows into ``files`` files of equal size, in order; gives their paths.

    Files are named ``part-00000.parquet`` and so on; a Parquet row group is a batch, or the part of one that falls
    into the file.

    Raises:
        ValueError: an unknown format, fewer files than one, or a folder that has such files already.
    """
    if files < 1:
        raise ValueError(f"files is {files}, expected 1 or more")
    sizes = (rows * (i + 1) // files - rows * i // files for i in range(files))
    return _write(batches, Path(folder), sizes, format, on_file, lambda written: None)


def drip(
    batches: Iterable[pa.RecordBatch],
    folder: str | os.PathLike[str],
    rate: float,
    *,
    rows_per_file: int | None = None,
    format: str = "parquet",
    on_file: OnFile | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Path]:
    """Writes files at ``rate`` rows a second until the batches end; blocks that long and gives the paths.

    A file appears when its last row is due. A writer that fell behind catches up without a pause.

    Args:
        batches: what to write.
        folder: where to.
        rate: rows a second.
        rows_per_file: the default is the rows of one second.
        format: one of ``FORMATS``.
        on_file: called after each file.
        clock: the time in seconds; another one for tests.
        sleep: waits for seconds; another one for tests.

    Raises:
        ValueError: an unknown format, a rate or size that is not positive, or a folder that has such files already.
    """
    size = max(round(rate), 1) if rows_per_file is None else rows_per_file
    if rate <= 0 or size < 1:
        raise ValueError(f"rate is {rate} and rows_per_file {size}, expected more than 0")
    start = clock()

    def wait(written: int) -> None:
        early = start + written / rate - clock()
        if early > 0:
            sleep(early)

    return _write(batches, Path(folder), itertools.repeat(size), format, on_file, wait)


def _write(
    batches: Iterable[pa.RecordBatch],
    folder: Path,
    sizes: Iterable[int],
    format: str,
    on_file: OnFile | None,
    wait: Callable[[int], None],
) -> list[Path]:
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}, expected one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob(f"part-*.{format}")):
        # Old files beyond the last new one would be read as if they were of this run.
        raise ValueError(f"{folder} holds part-*.{format} files already, expected an empty folder")
    source = _Source(batches)
    paths: list[Path] = []
    written, last_ns = 0, 0
    for size in sizes:
        if source.ended():
            break
        if not size:
            continue
        path = folder / f"part-{len(paths):05d}.{format}"
        hidden = folder / f".{path.name}.tmp"
        rows = _write_file(source.take(size), hidden, format)
        written += rows
        wait(written)
        last_ns = max(time.time_ns(), last_ns + _STEP_NS)
        os.utime(hidden, ns=(last_ns, last_ns))
        hidden.replace(path)
        paths.append(path)
        if on_file is not None:
            on_file(path, rows)
    return paths


class _Source:
    """Batches cut to the sizes of files."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None

    def ended(self) -> bool:
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return True
        return False

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        while rows and not self.ended():
            assert self._rest is not None
            piece = self._rest.slice(0, rows)
            self._rest = self._rest.slice(piece.num_rows)
            rows -= piece.num_rows
            yield piece


def _write_file(pieces: Iterator[pa.RecordBatch], path: Path, format: str) -> int:
    first = next(pieces)
    rows = 0
    with contextlib.closing(_open(path, format, first.schema)) as writer:
        for piece in itertools.chain([first], pieces):
            writer.write_batch(piece if format == "parquet" else _with_text_times(piece))
            rows += piece.num_rows
    return rows


def _open(path: Path, format: str, schema: pa.Schema) -> _RowWriter:
    if format == "parquet":
        writer: _RowWriter = pyarrow.parquet.ParquetWriter(path, schema)
    elif format == "csv":
        writer = pyarrow.csv.CSVWriter(path, _text_schema(schema))
    else:
        writer = _JsonLines(path)
    return writer


class _JsonLines:
    """One JSON object a line, UTF-8."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def write_batch(self, batch: pa.RecordBatch) -> None:
        dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        self._file.writelines(dump(row) + "\n" for row in batch.to_pylist())

    def close(self) -> None:
        self._file.close()


def _text_schema(schema: pa.Schema) -> pa.Schema:
    fields = [
        field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
        for field in schema
    ]
    return pa.schema(fields)


def _with_text_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its timestamps as ISO 8601 text in UTC."""
    columns = [
        _iso(column) if pa.types.is_timestamp(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_text_schema(batch.schema))


def _iso(column: Any) -> Any:
    # Arrow writes a space where ISO 8601 has a T.
    return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
