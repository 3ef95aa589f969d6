"""What the log of a Delta table says: the files that a version added, in its order, and whether it changed others."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.fs as pafs

from thalweg.checkpoint.paths import resolve
from thalweg.connectors.delta import tables
from thalweg.errors import DataError, EnvironmentProblem

#: Versions whose actions are kept.
_KEPT: Final = 256
_LOG: Final = "_delta_log"


class DataFile(NamedTuple):
    """A Parquet file of a table."""

    path: str
    #: the columns that are in no file: a text, or None, or a value of Arrow
    partition: Mapping[str, Any]
    #: None where the log does not say
    rows: int | None


class Version(NamedTuple):
    """What a version did: the files that it added, and in words what it changed, if it did."""

    added: tuple[DataFile, ...]
    changed: str
    #: when it was committed, in microseconds since 1970; 0 where the log does not say
    at: int


class Versions:
    """The versions of one table.

    Args:
        path: of the table.
        storage: options of its object store.
    """

    def __init__(self, path: str, storage: Mapping[str, str]) -> None:
        self._place, self._path, self._storage = f"delta:{path}", path, dict(storage)
        self._kept: tables.KeptTable | None = None
        self.files, self.root = _files(path, self._storage)
        self.version = functools.lru_cache(_KEPT)(self._version)

    def table(self) -> Any:
        """The table as it is now.

        Raises:
            EnvironmentProblem: there is none, or it cannot be read.
        """
        if self._kept is None:
            table = tables.existing(self._path, self._storage)
            if table is None:
                raise EnvironmentProblem(f"{self._place}: there is no Delta table")
            self._check_names(table)
            self._kept = tables.KeptTable(table, self._path, self._storage)
            return table
        try:
            return self._kept.newest()
        except Exception as error:
            self._kept = None
            raise EnvironmentProblem(
                f"{self._place} cannot be read: {tables.first_line(error)}"
            ) from error

    def _check_names(self, table: Any) -> None:
        mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mode != "none":
            raise EnvironmentProblem(
                f"{self._place}: its files have other column names than the table (column mapping by {mode}), which is"
                " not read here; copy it to a table without"
            )

    def opened(self, path: str) -> Any:
        """A file of the table, to read.

        Raises:
            FileNotFoundError: it is not there.
        """
        if "://" in path:  # a clone has the files of another table
            files, path = resolve(path)
            return files.open_input_file(path)
        return self.files.open_input_file(f"{self.root}{path}")

    def newest(self) -> int:
        """The number of the newest version."""
        return int(self.table().version())

    def oldest(self) -> int:
        """The number of the oldest version that the log still has by itself."""
        found = self.files.get_file_info(pafs.FileSelector(f"{self.root}{_LOG}"))
        numbers = [
            int(posixpath.basename(one.path)[:-5])
            for one in found
            if posixpath.basename(one.path)[:-5].isdigit() and one.path.endswith(".json")
        ]
        return min(numbers, default=self.newest() + 1)

    def _version(self, number: int) -> Version:
        path = f"{self.root}{_LOG}/{number:020d}.json"
        try:
            with self.files.open_input_stream(path) as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            raise DataError(
                f"{self._place}: its log does not have version {number} any more: it begins with version"
                f" {self.oldest()}, and what the versions before it added can no longer be told.\n"
                "Begin anew with start='snapshot', and have the table keep its log longer"
                " (delta.logRetentionDuration)."
            ) from None
        return _actions(self._place, number, [orjson.loads(line) for line in lines if line])

    def snapshot(self, number: int) -> list[DataFile]:
        """The files of the table as a version left it, the oldest first.

        Raises:
            DataError: some rows of the files are deleted by marks (deletion vectors), or it cannot be made any more.
        """
        deltalake = tables.package()
        try:
            table = deltalake.DeltaTable(self._path, version=number, storage_options=self._storage)
        except Exception as error:
            raise DataError(
                f"{self._place}: version {number} cannot be had any more: {tables.first_line(error)}"
            ) from error
        if pa.table(table.deletion_vectors()).num_rows:
            raise DataError(f"{self._place}: version {number} {_MARKS}")
        found = pa.table(table.get_add_actions())
        return [file for _, _, file in sorted(_snapshot_files(found), key=lambda one: one[:2])]

    def at(self, when_us: int) -> int:
        """The first version committed at a time or later; the one to come where there is none yet.

        Raises:
            DataError: the log does not reach back to that time.
        """
        number, first = self.newest(), self.oldest()
        while number >= first and self.version(number).at >= when_us:
            number -= 1
        if number < first and first > 0:
            self.version(first - 1)  # raises: it is not there
        return number + 1


_MARKS: Final = (
    "has rows that are deleted by marks beside the files (deletion vectors), which are not read here; compact the"
    " table: REORG TABLE … APPLY (PURGE)"
)


def _files(path: str, storage: dict[str, str]) -> tuple[Any, str]:
    """The file system of a table, and what stands in front of its paths."""
    if "://" not in path or path.startswith("file:"):
        fs, root = resolve(path)
        return fs, f"{root.rstrip('/')}/"
    tables.package()
    from deltalake.fs import DeltaStorageHandler

    return pafs.PyFileSystem(DeltaStorageHandler(path, storage)), ""


def _snapshot_files(found: pa.Table) -> Iterator[tuple[int, str, DataFile]]:
    names = (
        [one.name for one in found.schema.field("partition").type]
        if ("partition" in found.column_names)
        else []
    )
    paths, times, rows = (
        found.column(name).to_pylist() for name in ("path", "modification_time", "num_records")
    )
    for place, (path, time, many) in enumerate(zip(paths, times, rows, strict=True)):
        values = {name: found.column("partition")[place][name] for name in names}
        yield time, path, DataFile(unquote(path), values, many)


def _actions(place: str, number: int, actions: list[Any]) -> Version:
    added, removed, at, operation = [], 0, 0, "a commit"
    for action in actions:
        if "add" in action and action["add"].get("dataChange", True):
            added.append(action["add"])
        elif "remove" in action and action["remove"].get("dataChange", True):
            removed += 1
        elif "commitInfo" in action:
            at = 1000 * int(action["commitInfo"].get("timestamp") or 0)
            operation = str(action["commitInfo"].get("operation") or operation)
    if not removed and any(one.get("deletionVector") for one in added):
        raise DataError(f"{place}: version {number} {_MARKS}")
    changed = f"{operation}, {removed} file(s) removed" if removed else ""
    return Version(tuple(map(_data_file, added)), changed, at)


def _data_file(add: Mapping[str, Any]) -> DataFile:
    stats = orjson.loads(add["stats"]) if add.get("stats") else {}
    partition = {name: value or None for name, value in add.get("partitionValues", {}).items()}
    return DataFile(unquote(add["path"]), partition, stats.get("numRecords"))
