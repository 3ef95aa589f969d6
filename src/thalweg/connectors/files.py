"""Local files as the input of a source: strict types, exact line numbers, arrival order."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from pyarrow import fs as pafs

from thalweg.checks import path_of, require_flag
from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.fitting import GO_ON, part_chunk, with_places
from thalweg.connectors.readers import (
    FileInfo,
    Format,
    ReadOptions,
    describe_bad,
    list_files,
    read_file,
    read_options,
)
from thalweg.connectors.readers.packed import CODECS
from thalweg.connectors.readers.steady import Look
from thalweg.errors import BuildError, DataError
from thalweg.flow.operators.nodes import Source

Location: TypeAlias = str | os.PathLike[str]

FORMATS: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".txt": "text",
    ".log": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(path: str) -> Format | None:
    """The format that the file's name tells, before or after the end of a compression."""
    bare, end = os.path.splitext(path)
    if end.lower() in CODECS:
        _, end = os.path.splitext(bare)
    return FORMATS.get(end.lower())


@dataclasses.dataclass(frozen=True, slots=True)
class FileSource:
    """Files, folders and globs, read once in the order of modification time and path; made by :func:`files`."""

    paths: tuple[str, ...]
    options: ReadOptions
    recursive: bool

    live = False
    made_by = "tw.files(...)"

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        try:
            found = find(self.paths, recursive=self.recursive)
        except DataError as error:
            raise BuildError(f"input {source.name!r}: {error}") from None
        if not found:
            raise BuildError(
                f"input {source.name!r}: there are no files at {', '.join(self.paths)}"
            )
        return self._read(source, found, chunk_rows, stop)

    def close(self) -> None:
        pass

    def _read(self, source: Source, found: list[FileInfo], chunk_rows: int, stop: Stop) -> Feed:
        for one in found:
            fs = pafs.LocalFileSystem()
            chunks = file_chunks(source, fs, one.path, self.options, chunk_rows, listed=one.look)
            for chunk in chunks:
                if stop.is_set():
                    return
                yield chunk


def find(paths: Sequence[str], *, recursive: bool) -> list[FileInfo]:
    """The files at these places, each once, by time of change and then by path.

    Raises:
        DataError: there is nothing at one of them.
    """
    fs = pafs.LocalFileSystem()
    found = {one.path: one for path in paths for one in list_files(fs, path, recursive=recursive)}
    return sorted(found.values(), key=lambda one: (one.mtime_us, one.path))


def file_chunks(
    source: Source,
    fs: pafs.FileSystem,
    path: str,
    options: ReadOptions,
    chunk_rows: int,
    *,
    listed: Look | None = None,
) -> Feed:
    """The rows of one file as chunks, with the rows that do not fit, in file order.

    Raises:
        DataError: the file, or under ``errors="fail"`` a row, does not fit; names source, file and line.
    """
    name = path.rsplit("/", 1)[-1]
    unit: Literal["line", "row"] = "row" if options.format == "parquet" else "line"
    try:
        parts = read_file(fs, path, source.record, options, listed=listed, batch_rows=chunk_rows)
        for part in parts:
            part = with_places(source, part, unit)
            if part.bad and source.errors == "fail":
                bad = part.bad[0]
                raise DataError(f"{describe_bad(path, bad)}\n  row: {bad.text}\n{GO_ON}")
            yield part_chunk(
                source, part, place=lambda one: f"{name} {one.unit} {one.position}", unit=unit
            )
    except DataError as error:
        raise DataError(f"source {source.name!r}: {error}") from error


def files(
    path: Location | Sequence[Location],
    format: Format | None = None,
    *,
    recursive: bool = False,
    **options: Any,
) -> FileSource:
    """Reads local files once, as the input of a source, with strict types and exact line numbers.

    Args:
        path: a file, a folder, a glob, or several of these.
        format: ``"csv"``, ``"json"`` (a JSON value a line), ``"text"`` or ``"parquet"``; None: as the names end.
        recursive: also files in folders below.
        options: of the format, see :class:`thalweg.connectors.readers.ReadOptions`.

    Raises:
        BuildError: an option does not belong to the format, or the names do not tell one format.
    """
    require_flag("files", recursive=recursive)
    given = path if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    if not given:
        raise BuildError(f"files: expected a path, a glob or several of them, got {path!r}")
    paths = tuple(os.path.abspath(path_of("files", "path", one)) for one in given)
    chosen = _format_of_all(paths, recursive=recursive) if format is None else format
    return FileSource(paths, read_options("files", chosen, options, ("recursive",)), recursive)


def _format_of_all(paths: Sequence[str], *, recursive: bool) -> Format:
    names: list[str] = []
    for path in paths:
        try:
            told = format_of(path) is not None and not os.path.isdir(path)
            names += [path] if told else [one.path for one in find([path], recursive=recursive)]
        except DataError as error:
            raise BuildError(f"files: {error}") from None
    formats = {name: format_of(name) for name in names}
    if not formats:
        raise BuildError(f"files: there are no files at {', '.join(paths)}; give format=")
    chosen = next(iter(formats.values()))
    odd = next((name for name, one in formats.items() if one is None or one != chosen), None)
    if chosen is None or odd is not None:
        raise BuildError(
            f"files: {odd} has another file format than the others, or an unknown extension; give format="
            f" (known extensions: {', '.join(FORMATS)})"
        )
    return chosen
