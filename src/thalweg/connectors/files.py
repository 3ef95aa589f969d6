"""Local files as the input of a source: strict types, exact line numbers, arrival order."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pyarrow import fs as pafs

from thalweg.checkpoint.paths import absolute, resolve
from thalweg.checks import path_of, require_count, require_flag
from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.fitting import GO_ON, placed_chunk, with_places
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


#: The option that reads files in folders below.
BELOW: Final = "recursive=True"
#: How long a look for new files is put off that found none, seconds.
_LOOK_S: Final = 0.5


class Found(NamedTuple):
    """A file and the file system that has it."""

    fs: pafs.FileSystem
    info: FileInfo


@dataclasses.dataclass(frozen=True, slots=True)
class FileSource:
    """Files, folders and globs, read in the order of modification time and path; made by :func:`files`."""

    paths: tuple[str, ...]
    options: ReadOptions
    recursive: bool
    #: whether new files are picked up; None: as the host does
    follow: bool | None = None
    #: at most so many files a batch
    max_files_per_trigger: int | None = None

    made_by = "tw.files(...)"

    @property
    def live(self) -> bool:
        return bool(self.follow)

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        try:
            found = find(self.paths, recursive=self.recursive)
        except DataError as error:
            raise BuildError(f"input {source.name!r}: {error}") from None
        if not found and not self.follow:
            raise BuildError(f"input {source.name!r}: {nothing_at(self.paths)}")
        return self._read(source, found, chunk_rows, stop)

    def close(self) -> None:
        pass

    def _read(self, source: Source, found: list[Found], chunk_rows: int, stop: Stop) -> Feed:
        seen: set[str] = set()
        while True:
            for fs, one in found:
                seen.add(one.path)
                chunks = file_chunks(
                    source, fs, one.path, self.options, chunk_rows, listed=one.look
                )
                for chunk in chunks:
                    if stop.is_set():
                        return
                    yield chunk
            if not self.follow or stop.is_set():
                return
            found = self._new_files(source, seen)
            if not found:
                stop.wait(_LOOK_S)

    def _new_files(self, source: Source, seen: set[str]) -> list[Found]:
        try:
            found = find(self.paths, recursive=self.recursive)
        except DataError as error:
            raise DataError(f"source {source.name!r}: {error}, any more") from None
        return [one for one in found if one.info.path not in seen]


def find(paths: Sequence[str], *, recursive: bool) -> list[Found]:
    """The files at these places, each once, by time of change and then by path.

    Raises:
        DataError: there is nothing at one of them.
    """
    found = {}
    for path in paths:
        fs, inner = resolve(path)
        for one in list_files(fs, inner, recursive=recursive):
            found[one.path] = Found(fs, one)
    return sorted(found.values(), key=lambda one: (one.info.mtime_us, one.info.path))


def nothing_at(paths: Sequence[str]) -> str:
    """What to say where there are no files: maybe they lie in folders below, as those of batches do."""
    places = ", ".join(paths)
    try:
        below = find(paths, recursive=True)
    except DataError:
        below = []
    if not below:
        return f"there are no files at {places}"
    return (
        f"there are no files at {places} itself, but {len(below)} in folders below, such as {below[0].info.path};"
        f" {BELOW} reads these"
    )


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
            yield placed_chunk(source, part, lambda one: f"{name} {one.unit} {one.position}")
    except DataError as error:
        raise DataError(f"source {source.name!r}: {error}") from error


def files(
    path: Location | Sequence[Location],
    format: Format | None = None,
    *,
    recursive: bool = False,
    follow: bool | None = None,
    max_files_per_trigger: int | None = None,
    **options: Any,
) -> FileSource:
    """Reads files as the input of a source, in arrival order, with strict types and exact line numbers.

    Args:
        path: a file, a folder, a glob, or several of these; plain, or as Spark writes it (``file:``, ``hdfs:``,
            ``s3a:``, …).
        format: ``"csv"``, ``"json"`` (a JSON value a line), ``"text"`` or ``"parquet"``; None: as the names end.
        recursive: also files in folders below; ``partitions=True`` reads these, too.
        follow: whether files that come later are read, too: each once, as it is when it is found. None: on Spark with
            a checkpoint they are, else not.
        max_files_per_trigger: on Spark at most so many files a batch.
        options: of the format, see :class:`thalweg.connectors.readers.ReadOptions`.

    Raises:
        BuildError: an option does not belong to the format, or the names do not tell one format.
    """
    require_flag("files", recursive=recursive)
    if follow is not None:
        require_flag("files", follow=follow)
    if max_files_per_trigger is not None:
        require_count("files: max_files_per_trigger", max_files_per_trigger)
    given = path if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    if not given:
        raise BuildError(f"files: expected a path, a glob or several of them, got {path!r}")
    paths = tuple(absolute(path_of("files", "path", one)) for one in given)
    recursive = recursive or options.get("partitions") is True
    chosen = _format_of_all(paths, recursive=recursive) if format is None else format
    own = ("recursive", "follow", "max_files_per_trigger")
    read = read_options("files", chosen, options, own)
    return FileSource(paths, read, recursive, follow, max_files_per_trigger)


def _format_of_all(paths: Sequence[str], *, recursive: bool) -> Format:
    names: list[str] = []
    for path in paths:
        try:
            told = format_of(path) is not None and not os.path.isdir(path)
            found = [] if told else find([path], recursive=recursive)
            names += [path] if told else [one.info.path for one in found]
        except DataError as error:
            raise BuildError(f"files: {error}") from None
    formats = {name: format_of(name) for name in names}
    if not formats:
        said = nothing_at(paths)
        raise BuildError(f"files: {said}{'' if BELOW in said else '; give format='}")
    chosen = next(iter(formats.values()))
    odd = next((name for name, one in formats.items() if one is None or one != chosen), None)
    if chosen is None or odd is not None:
        raise BuildError(
            f"files: {odd} has another file format than the others, or an unknown extension; give format="
            f" (known extensions: {', '.join(FORMATS)})"
        )
    return chosen
