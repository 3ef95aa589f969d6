"""A Delta table as a log: the rows of its snapshot, and then those that its versions append, version after version."""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.checkpoint.paths import absolute
from thalweg.checks import (
    is_int_from,
    known_keywords,
    one_of,
    path_of,
    refuse,
    require_count,
    require_flag,
)
from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.delta import tables
from thalweg.connectors.delta.versions import DataFile, Versions
from thalweg.connectors.fitting import part_chunk
from thalweg.connectors.logs import Positions
from thalweg.connectors.readers import BadRow, rows_from_table
from thalweg.errors import BuildError, DataError
from thalweg.flow.operators.nodes import Source
from thalweg.times import timestamp

OnChange = Literal["fail", "skip"]
#: Where to begin: a word, a version, or a time.
Start = Literal["snapshot", "earliest", "latest"]

_LOGGER: Final = logging.getLogger("thalweg")
#: The one lane.
LANE: Final = "table"
#: Rows that a file is taken to have where the log does not say.
_GUESS: Final = 100_000


class VersionPlace(NamedTuple):
    """A place in a table's log: in front of a file of a version, or of the snapshot that a version left."""

    version: int
    file: int = 0
    in_snapshot: bool = False

    @classmethod
    def of(cls, text: Any) -> VersionPlace:
        """From its text in a checkpoint: ``12.0``, ``@12.3``."""
        version, _, file = str(text).removeprefix("@").partition(".")
        return cls(int(version), int(file or 0), str(text).startswith("@"))

    def __str__(self) -> str:
        return f"{'@' if self.in_snapshot else ''}{self.version}.{self.file}"

    @property
    def order(self) -> tuple[int, bool, int]:
        """Where it comes among others: a snapshot behind the versions that made it."""
        return self.version + self.in_snapshot, not self.in_snapshot, self.file


@dataclasses.dataclass(frozen=True, slots=True)
class DeltaLog:
    """A Delta table as an input; made by :func:`delta`."""

    path: str
    follow: bool = True
    start: Start | int | str = "snapshot"
    #: a time to begin at, in microseconds since 1970
    start_us: int | None = None
    on_change: OnChange = "fail"
    max_rows: int | None = None
    storage: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    made_by = "tw.delta(...)"

    @property
    def place(self) -> str:
        """For messages."""
        return f"delta:{self.path}"

    def check(self, source: Source) -> None:
        pass  # the table's columns are known when it is read

    def open(self) -> DeltaReader:
        tables.package()
        return DeltaReader(self)


class DeltaReader:
    """Reads a Delta table."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._versions = Versions(log.path, dict(log.storage))
        self._snapshot: tuple[int, list[DataFile]] | None = None
        #: versions that were skipped, and said
        self._skipped: set[int] = set()

    def begin(self) -> Positions:
        log, versions = self._log, self._versions
        if log.start_us is not None:
            at = VersionPlace(versions.at(log.start_us))
        elif log.start == "snapshot":
            at = VersionPlace(versions.newest(), 0, True)
        elif log.start == "latest":
            at = VersionPlace(versions.newest() + 1)
        else:
            at = VersionPlace(0 if log.start == "earliest" else int(log.start))
            newest = versions.newest()
            if at.version > newest + 1:
                raise BuildError(
                    f"{self._log.place}: start={at.version}: its newest version is {newest}; give a version up to"
                    f" {newest + 1}, the next one, or start='latest'"
                )
        return {LANE: str(at)}

    def end(self, since: Positions) -> Positions:
        newest = VersionPlace(self._versions.newest() + 1)
        if LANE not in since:
            return {LANE: str(newest)}
        at = VersionPlace.of(since[LANE])
        if at.order > newest.order and at.version > newest.version:
            raise DataError(
                f"{self._log.place}: its newest version is {newest.version - 1}, and reading was to go on with version"
                f" {at.version}: the table was made anew. Begin anew, with a new checkpoint."
            )
        return {LANE: str(newest)}

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        reached, taken = VersionPlace.of(start[LANE]), 0
        try:
            for after, file in self._files(reached, VersionPlace.of(end[LANE])):
                reached = after
                if file is not None:
                    taken += _GUESS if file.rows is None else file.rows
                if taken >= rows:
                    return {LANE: str(reached)}
        except DataError:
            if not taken:
                raise
            return {LANE: str(reached)}  # what is good before it is read first
        return end

    def read(
        self, source: Source, start: Positions, end: Positions, chunk_rows: int, stop: Stop
    ) -> Feed:
        at = VersionPlace.of(start.get(LANE, VersionPlace(0)))
        for after, file in self._files(at, VersionPlace.of(end[LANE])):
            if file is None:
                continue
            for chunk in self._rows(source, after.version, file, chunk_rows):
                if stop.is_set():
                    return
                yield chunk

    def close(self) -> None:
        pass  # files are closed as they are read

    # -- files -------------------------------------------------------------------------------------------

    def _files(
        self, at: VersionPlace, stop: VersionPlace
    ) -> Iterator[tuple[VersionPlace, DataFile | None]]:
        """The files between two places, each with the place behind it; None where a version has no more."""
        while at.order < stop.order:
            files = self._files_of(at)
            last = len(files)
            if at.version == stop.version and at.in_snapshot == stop.in_snapshot:
                last = min(last, stop.file)
            for number in range(at.file, last):
                yield VersionPlace(at.version, number + 1, at.in_snapshot), files[number]
            at = VersionPlace(at.version + 1)
            if at.order > stop.order:
                return
            yield at, None

    def _files_of(self, at: VersionPlace) -> list[DataFile] | tuple[DataFile, ...]:
        if at.in_snapshot:
            if self._snapshot is None or self._snapshot[0] != at.version:
                self._snapshot = at.version, self._versions.snapshot(at.version)
            return self._snapshot[1]
        version = self._versions.version(at.version)
        if not version.changed:
            return version.added
        if self._log.on_change == "fail":
            raise DataError(
                f"{self._log.place}: version {at.version} changes rows that were there already ({version.changed}),"
                " and a stream of rows cannot take any back.\n"
                "Leave such versions out with on_change='skip', or begin behind it with"
                f" start={at.version + 1}."
            )
        if at.version not in self._skipped:
            self._skipped.add(at.version)
            _LOGGER.warning(
                "%s: version %d is skipped: %s", self._log.place, at.version, version.changed
            )
        return ()

    # -- rows --------------------------------------------------------------------------------------------

    def _rows(self, source: Source, version: int, file: DataFile, chunk_rows: int) -> Feed:
        where = f"{self._log.place} version {version} file {file.path.rsplit('/', 1)[-1]} row"

        def place(one: BadRow) -> str:
            return f"{where} {one.position}"

        row = 0
        for table in self._tables(source, version, file, chunk_rows):
            part = rows_from_table(table, source.record, row)
            row += table.num_rows
            yield part_chunk(source, part, place=place)

    def _tables(
        self, source: Source, version: int, file: DataFile, chunk_rows: int
    ) -> Iterator[pa.Table]:
        types = _types(self._versions.table(), source)
        try:
            with self._versions.opened(file.path) as opened:
                parquet = pq.ParquetFile(opened, buffer_size=1 << 20)
                inside = [one for one in parquet.schema_arrow.names if one in types]
                for batch in parquet.iter_batches(chunk_rows, columns=inside, use_threads=False):
                    yield _whole(batch, types, file.partition)
        except FileNotFoundError:
            raise DataError(
                f"source {source.name!r}: {self._log.place}: version {version} has a file that is not there any more:"
                f" {file.path}. VACUUM removed it before it was read.\n"
                "Begin anew with start='snapshot', and let VACUUM keep files longer than a query may stand still."
            ) from None


def _types(table: Any, source: Source) -> dict[str, pa.DataType]:
    """The types of the table's columns that the record has.

    Raises:
        DataError: it lacks one.
    """
    found = tables.columns(table)
    rows_from_table(found.empty_table(), source.record)
    return {one.name: one.type for one in found if one.name in source.record.names}


def _whole(
    batch: pa.RecordBatch, types: Mapping[str, pa.DataType], partition: Mapping[str, Any]
) -> pa.Table:
    """Rows of a file with the columns that it lacks: those of its partition, and those the table had not yet."""
    columns = {}
    for name, kind in types.items():
        if name in batch.schema.names:
            columns[name] = batch.column(name)
        else:
            columns[name] = _repeated(partition.get(name), kind, batch.num_rows)
    return pa.table(columns)


def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if value is None or (isinstance(value, pa.Scalar) and not value.is_valid):
        return pa.nulls(rows, kind)
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, pa.string())
    if pa.types.is_timestamp(kind) and pa.types.is_string(scalar.type):
        scalar = pa.scalar(timestamp(scalar.as_py()), pa.int64())
    return pa.repeat(scalar.cast(kind), rows)


@known_keywords
def delta(
    path: str,
    *,
    follow: bool = True,
    start: int | str | datetime.datetime = "snapshot",
    on_change: OnChange = "fail",
    max_rows: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeltaLog:
    """Reads a Delta table as the input of a source, in every host.

    Rows come in the order of the versions that appended them, in a version in the order of its files; those of the
    snapshot that it begins with come first, in the order of its files' times. Compaction (``dataChange=false``) adds
    no rows. Needs the package deltalake (``pip install 'thalweg[delta]'``).

    Args:
        path: of the table: a folder, or an address such as ``s3://bucket/table``.
        follow: whether versions to come are read, too; if not, what is there at the start is all.
        start: ``"snapshot"``: what the table has now; ``"earliest"``: version 0; ``"latest"``: only what comes; the
            number of the first version to read; or a time, from which on versions count.
        on_change: what becomes of a version that deletes or changes rows: ``"fail"``, or ``"skip"``: it is left out,
            and said in the log.
        max_rows: about how many rows are read at once, the most that a batch on Spark has.
        storage_options: of the object store, as deltalake has them.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_flag("delta", follow=follow)
    on_change = one_of("delta", "on_change", on_change, get_args(OnChange))
    if max_rows is not None:
        require_count("delta: max_rows", max_rows)
    first, first_us = _start(start)
    options = tables.storage_options("delta", storage_options)
    place = absolute(path_of("delta", "path", path))
    return DeltaLog(place, follow, first, first_us, on_change, max_rows, options)


def _start(given: Any) -> tuple[Start | int | str, int | None]:
    if given in get_args(Start) or is_int_from(given, 0):
        return given, None
    try:
        return "time", timestamp(given)
    except ValueError:
        expected = "'snapshot', 'earliest', 'latest', a version, or a time as ISO 8601 or datetime"
        raise refuse("delta", "start", expected, given) from None
