"""A Delta table as an output: a batch is a version, and its number is in the same commit.

The number is an *app transaction* of Delta's protocol, under the name of query and sink: the commit of a batch that
the table has is refused by the protocol itself, whoever tries it. Commits of others that come in between are no
conflict for rows that are appended; a MERGE that others overtook is made again on what they left.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from thalweg.checkpoint.paths import absolute
from thalweg.checks import known_keywords, one_of, path_of
from thalweg.connectors.delta import tables
from thalweg.connectors.fitting_columns import (
    cast_rows,
    check_columns,
    refuse_durations,
    with_nulls,
)
from thalweg.connectors.names import check_field, field_names
from thalweg.connectors.once import Left, Numbers, last_of_each, shown_row
from thalweg.connectors.waiting import CONFLICT, PeerWait, answered, patience_of
from thalweg.errors import BuildError, DataError, EnvironmentProblem
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Sink

Mode = Literal["append", "upsert"]

_LOG: Final = logging.getLogger("thalweg")
#: Kinds, and Python's own types that are such inside.
_Kinds: TypeAlias = tuple[tuple[Kind, ...], tuple[str, ...]]
#: Those whose values name a folder, and come back from its name as they were. deltalake writes the Decimal -0.01 as
#: the text 0.-1.
_IN_PATHS: Final[_Kinds] = ((Kind.INT, Kind.STR, Kind.CATEGORY, Kind.BOOL), ("date",))
#: Those that are equal, or not, to themselves and to nothing else.
_KEYS: Final[_Kinds] = (
    (*_IN_PATHS[0], Kind.BYTES, Kind.TIMESTAMP, Kind.TIMER), ("date", "Decimal", "datetime"),
)  # fmt: skip
#: From so many files on a reader notices them; looked at once in so many batches.
MANY_FILES: Final = 1000
_LOOK_BATCHES: Final = 256
#: Commits that are searched for one of our own whose answer was lost.
_COMMITS: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class DeltaTarget:
    """A Delta table that batches are appended to or merged into; made by :func:`to_delta`."""

    path: str
    partition_by: tuple[str, ...] = ()
    mode: Mode = "append"
    key: tuple[str, ...] = ()
    #: of the object store; may hold secrets
    storage: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    patience_s: float = 60.0

    made_by = "tw.to_delta(...)"

    @property
    def place(self) -> str:
        return f"delta:{self.path}"

    def check(self, sink: Sink) -> None:
        where = f"sink {sink.name!r}: {self.made_by}"
        if not sink.record.fields:
            raise BuildError(
                f"{where}: {sink.record.name} has no fields, so there is nothing to write"
            )
        refuse_durations(where, sink.record, "Delta Lake")
        for name in self.partition_by:
            check_field(f"{where}: partition_by", sink.record, name, *_IN_PATHS, optional=True)
        for name in self.key:
            check_field(f"{where}: key", sink.record, name, *_KEYS, optional=False)
        if len(self.partition_by) == len(sink.record.fields):
            raise BuildError(
                f"{where}: partition_by has all fields; one must be left for the files"
            )

    def open(self, sink: Sink, query: str) -> DeltaWriter:
        table = tables.existing(self.path, dict(self.storage))
        if table is None:
            schema = sink.record.arrow
            table = tables.created(self.path, dict(self.storage), schema, self.partition_by)
        self._check_partitions(table, sink)
        check_columns(f"sink {sink.name!r}: {self.place}", sink.record, tables.columns(table))
        return DeltaWriter(self, table, sink, query)

    def _check_partitions(self, table: Any, sink: Sink) -> None:
        found = tuple(table.metadata().partition_columns)
        if self.partition_by and found != self.partition_by:
            raise BuildError(
                f"sink {sink.name!r}: {self.place} is partitioned by ({', '.join(found)}), and partition_by says"
                f" ({', '.join(self.partition_by)}); leave partition_by out, or name another table"
            )
        for name in (one for one in found if one in sink.record.names):
            shape = sink.record.field(name).type.shape
            if shape is not None and shape.name == "Decimal":
                raise BuildError(
                    f"sink {sink.name!r}: {self.place} is partitioned by {name}, a {shape}, which deltalake cannot"
                    " write; name another table"
                )


class DeltaWriter:
    """Writes the batches of one sink to a Delta table."""

    def __init__(self, target: DeltaTarget, table: Any, sink: Sink, query: str) -> None:
        self._target, self._sink = target, sink
        self._kept = tables.KeptTable(table, target.path, dict(target.storage))
        self._app = f"thalweg/{query}/{sink.name}"
        self._where = f"sink {sink.name!r}: {target.place}"
        self._numbers = Numbers(target.place)
        #: the texts among the partition columns
        self._texts = [
            name
            for name in table.metadata().partition_columns
            if name in sink.record.names
            and sink.record.field(name).type.kind in (Kind.STR, Kind.CATEGORY)
        ]
        self._written = 0
        self._said_many = False

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes a batch as a version of the table.

        Raises:
            DataError: a row does not fit.
            EnvironmentProblem: the table cannot be written, or another process writes the same batches.
        """
        _refuse_empty_texts(self._where, batch, table, self._texts)
        if self._target.mode == "upsert":
            table = last_of_each(table, self._target.key)
        package = tables.package()
        conflict = package.exceptions.CommitFailedError
        try:
            answered(
                PeerWait(self._target.place, self._target.patience_s, trouble=CONFLICT),
                lambda: self._try(batch, table),
                lambda error: isinstance(error, conflict),
                tables.first_line,
            )
        except package.exceptions.DeltaError as error:
            raise self._failed(batch, error) from error
        except OSError as error:
            raise EnvironmentProblem(
                f"{self._target.place} cannot be written: {tables.first_line(error)}"
            ) from error
        self._hint()

    def close(self) -> None:
        pass  # a table has no connection

    @property
    def _table(self) -> Any:
        return self._kept.table

    def _try(self, batch: int, rows: pa.Table) -> None:
        self._kept.newest()
        if not self._numbers.is_new(batch, self._found(batch)):
            return
        found = tables.columns(self._table)
        check_columns(self._where, self._sink.record, found)
        rows = cast_rows(self._where, batch, rows, found)
        if self._target.mode == "append":
            self._append(batch, with_nulls(rows, found))
        else:
            self._merge(batch, rows)
        self._numbers.note(batch)

    def _found(self, batch: int) -> Left | None:
        last = self._table.transaction_version(self._app)
        if last is None:
            return None
        return Left(last, self._numbers.writer if last == batch and self._is_own(batch) else "")

    def _is_own(self, batch: int) -> bool:
        """Whether a commit of this writer has the batch: its answer was lost then."""
        wanted = (self._numbers.writer, str(batch))
        return any(
            (one.get("thalweg.writer"), one.get("thalweg.batch")) == wanted
            for one in self._table.history(_COMMITS)
        )

    def _properties(self, batch: int) -> Any:
        deltalake = tables.package()
        return deltalake.CommitProperties(
            app_transactions=[deltalake.Transaction(self._app, batch)],
            custom_metadata={"thalweg.writer": self._numbers.writer, "thalweg.batch": str(batch)},
        )

    def _append(self, batch: int, rows: pa.Table) -> None:
        # The package writes the parts of a table side by side, in any order; one part stays as it is.
        rows = rows.combine_chunks()
        tables.package().write_deltalake(
            self._table, rows, mode="append", commit_properties=self._properties(batch)
        )
        self._written += 1

    def _merge(self, batch: int, rows: pa.Table) -> None:
        same = " and ".join(f'old."{name}" = new."{name}"' for name in self._target.key)
        values = {f'"{name}"': f'new."{name}"' for name in rows.column_names}
        merge = self._table.merge(
            rows,
            predicate=same,
            source_alias="new",
            target_alias="old",
            commit_properties=self._properties(batch),
        )
        merge.when_matched_update(updates=values).when_not_matched_insert(updates=values).execute()
        self._written += 1

    def _failed(self, batch: int, error: Exception) -> Exception:
        said = str(error)
        if "failed validation check" in said:
            return DataError(f"{self._where}: batch {batch} breaks a constraint: {said}")
        return EnvironmentProblem(f"{self._target.place} cannot be written: {said[:1000]}")

    def _hint(self) -> None:
        """Says once that the table has many files."""
        if self._said_many or self._written % _LOOK_BATCHES:
            return
        many = len(self._table.file_uris())
        if many >= MANY_FILES:
            self._said_many = True
            _LOG.warning(
                "%s has %s files, which makes it slow to read; compact it now and then:"
                " DeltaTable(path).optimize.compact()", self._target.place, f"{many:,}",
            )  # fmt: skip


def _refuse_empty_texts(place: str, batch: int, table: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        row = table.column(name).index(pa.scalar("", pa.string())).as_py()
        if row >= 0:
            raise DataError(
                f"{place}: batch {batch}, row {row}: the partition column {name} is an empty text, which Delta gives"
                f" back as null\n  row: {shown_row(table, row)}"
            )


@known_keywords
def to_delta(
    path: str,
    *,
    partition_by: str | Sequence[str] | None = None,
    mode: Mode = "append",
    key: str | Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    patience: str | datetime.timedelta = "1 minute",
) -> DeltaTarget:
    """Writes a sink's rows to a Delta table, each batch once, in every host; made where it is missing.

    Needs the package deltalake (``pip install 'thalweg[delta]'``), and no JVM.

    Args:
        path: of the table: a folder, or an address such as ``s3://bucket/table``.
        partition_by: fields by whose values the files lie in folders; for a table that is there they must be its own.
        mode: ``"append"``, or ``"upsert"``: a row takes the place of that with its key, the last one of a batch.
        key: the fields that tell rows apart, for ``"upsert"``.
        storage_options: of the object store, as deltalake has them.
        patience: how long a batch is tried that meets the commits of others.

    Raises:
        BuildError: an argument cannot be meant.
    """
    mode = one_of("to_delta", "mode", mode, get_args(Mode))
    keys = field_names("to_delta", "key", key)
    if bool(keys) != (mode == "upsert"):
        raise BuildError(
            "to_delta: mode='upsert' and key=, the fields that tell rows apart, go together"
        )
    return DeltaTarget(
        absolute(path_of("to_delta", "path", path)),
        field_names("to_delta", "partition_by", partition_by),
        mode,
        keys,
        tables.storage_options("to_delta", storage_options),
        patience_of("to_delta", patience),
    )
