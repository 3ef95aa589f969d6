"""An Iceberg table as an output: a batch is a commit of rows together with a property that has its number.

pyiceberg itself would commit rows again on top of what others committed in between, without a look at that property;
so its own repeats are switched off here, and each try begins with the table as it is then.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.checks import known_keywords, require_flag, require_text
from thalweg.connectors.fitting_columns import (
    cast_rows,
    check_columns,
    refuse_durations,
    with_nulls,
)
from thalweg.connectors.names import check_field, field_names
from thalweg.connectors.once import Left, Numbers, last_of_each, shown_row
from thalweg.connectors.waiting import CONFLICT, PeerWait, answered, patience_of
from thalweg.errors import BuildError, DataError, EnvironmentProblem, missing_package
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Sink
from thalweg.time_texts import FIRST, LAST

#: Kinds by which rows can be told apart.
_KEYS: Final = (Kind.INT, Kind.STR, Kind.CATEGORY, Kind.BOOL, Kind.TIMESTAMP, Kind.TIMER)
_KEY_SHAPES: Final = ("date", "Decimal", "datetime")
_RETRIES: Final = "commit.retry.num-retries"


def package() -> Any:
    """The package pyiceberg.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import pyiceberg.catalog
        import pyiceberg.exceptions
    except ImportError:
        raise missing_package("Iceberg tables need", "pyiceberg", "iceberg") from None
    return pyiceberg


@dataclasses.dataclass(frozen=True, slots=True)
class IcebergTarget:
    """An Iceberg table that batches are appended to or merged into; made by :func:`to_iceberg`."""

    catalog: str
    table: str
    key: tuple[str, ...] = ()
    create: bool = True
    #: of the catalog; may hold secrets
    properties: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    patience_s: float = 60.0

    made_by = "tw.to_iceberg(...)"

    @property
    def place(self) -> str:
        return f"iceberg:{self.catalog}/{self.table}"

    def check(self, sink: Sink) -> None:
        where = f"sink {sink.name!r}: {self.made_by}"
        if not sink.record.fields:
            raise BuildError(
                f"{where}: {sink.record.name} has no fields, so there is nothing to write"
            )
        refuse_durations(where, sink.record, "Iceberg")
        for name in self.key:
            check_field(f"{where}: key", sink.record, name, _KEYS, _KEY_SHAPES, optional=False)

    def open(self, sink: Sink, query: str) -> IcebergWriter:
        package()
        try:
            catalog = package().catalog.load_catalog(self.catalog, **dict(self.properties))
            table = self._table(catalog, sink)
        except (BuildError, EnvironmentProblem):
            raise
        except Exception as error:
            raise _unreachable(self.place, error) from error
        check_columns(f"sink {sink.name!r}: {self.place}", sink.record, table.schema().as_arrow())
        return IcebergWriter(self, table, sink, query)

    def _table(self, catalog: Any, sink: Sink) -> Any:
        """The table; it is made where it is missing."""
        if catalog.table_exists(self.table):
            return catalog.load_table(self.table)
        if not self.create:
            raise BuildError(f"{self.place}: there is no such table; create=True makes it")
        namespace = self.table.rpartition(".")[0]
        catalog.create_namespace_if_not_exists(namespace)
        return catalog.create_table_if_not_exists(self.table, schema=sink.record.arrow)


class IcebergWriter:
    """Writes the batches of one sink to an Iceberg table."""

    def __init__(self, target: IcebergTarget, table: Any, sink: Sink, query: str) -> None:
        self._target, self._table, self._sink = target, table, sink
        self._where = f"sink {sink.name!r}: {target.place}"
        self._property = f"thalweg.{query}.{sink.name}.batch"
        self._numbers = Numbers(target.place)

    def write(self, batch: int, table: pa.Table) -> None:
        """Writes a batch in one commit.

        Raises:
            DataError: a row does not fit.
            EnvironmentProblem: the table cannot be written, or another process writes the same batches.
        """
        _refuse_times(self._where, batch, table)
        if self._target.key:
            table = last_of_each(table, self._target.key)
        errors = package().exceptions
        passing = (
            errors.CommitFailedException, errors.CommitStateUnknownException,
            errors.ServiceUnavailableError, errors.ValidationException,
        )  # fmt: skip
        try:
            answered(
                PeerWait(self._target.place, self._target.patience_s, trouble=CONFLICT),
                lambda: self._try(batch, table),
                lambda error: isinstance(error, passing),
            )
        except (EnvironmentProblem, BuildError, DataError):
            raise
        except Exception as error:
            raise _unreachable(self._target.place, error) from error

    def close(self) -> None:
        pass  # a catalog's connections end with it

    def _try(self, batch: int, rows: pa.Table) -> None:
        table = self._table
        table.refresh()
        if not self._numbers.is_new(batch, self._found()):
            return
        found = table.schema().as_arrow()
        check_columns(self._where, self._sink.record, found)
        rows = cast_rows(self._where, batch, rows, found)
        # In memory only: whoever commits in between is looked at, and not written behind.
        table.metadata.properties[_RETRIES] = "0"
        with table.transaction() as commit:
            if self._target.key:
                commit.upsert(with_nulls(rows, found), join_cols=list(self._target.key))
            else:
                commit.append(with_nulls(rows, found))
            commit.set_properties({self._property: f"{batch} {self._numbers.writer}"})
        self._numbers.note(batch)

    def _found(self) -> Left | None:
        batch, _, writer = self._table.properties.get(self._property, "").partition(" ")
        return Left(int(batch), writer) if batch else None


def _refuse_times(where: str, batch: int, table: pa.Table) -> None:
    """Refuses times that pyiceberg has no date for when it counts a file's statistics."""
    for field in table.schema:
        if not pa.types.is_timestamp(field.type):
            continue
        times = table.column(field.name).cast(pa.int64())
        far = pc.or_(pc.less(times, FIRST), pc.greater(times, LAST)).fill_null(False)
        row = far.index(pa.scalar(True)).as_py()
        if row >= 0:
            raise DataError(
                f"{where}: batch {batch}, row {row}: {field.name} is outside the years 1 to 9999\n"
                f"  row: {shown_row(table, row)}"
            )


def _unreachable(place: str, error: Exception) -> EnvironmentProblem:
    lines = str(error).splitlines() or [""]
    return EnvironmentProblem(
        f"{place} cannot be reached or written: {type(error).__name__}: {lines[0][:300]}"
    )


@known_keywords
def to_iceberg(
    catalog: str,
    table: str,
    *,
    key: str | Sequence[str] | None = None,
    create: bool = True,
    properties: Mapping[str, str] | None = None,
    patience: str | datetime.timedelta = "1 minute",
) -> IcebergTarget:
    """Writes a sink's rows to an Iceberg table, each batch once, in every host.

    Needs the package pyiceberg (``pip install 'thalweg[iceberg]'``). The number of the last batch is a property of
    the table, in the same commit as its rows.

    Args:
        catalog: its name, as pyiceberg knows it (``.pyiceberg.yaml``), or any with ``properties``.
        table: ``namespace.table``.
        key: fields by which a row takes the place of another, the last one of a batch; None: rows are appended.
        create: whether a table that is missing is made, without partitions.
        properties: of the catalog: ``{"type": "rest", "uri": …}``.
        patience: how long a batch is tried that meets the commits of others.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("to_iceberg", catalog=catalog, table=table)
    if "." not in table:
        raise BuildError(f"to_iceberg: table: expected 'namespace.table', got {table!r}")
    require_flag("to_iceberg", create=create)
    pairs: Any = () if properties is None else properties
    if isinstance(pairs, Mapping):
        pairs = tuple(sorted(pairs.items()))
    if not isinstance(pairs, tuple) or not all(
        isinstance(one, str) for pair in pairs for one in pair
    ):
        raise BuildError("to_iceberg: properties: expected a dict of texts by name")
    keys = field_names("to_iceberg", "key", key)
    return IcebergTarget(catalog, table, keys, create, pairs, patience_of("to_iceberg", patience))
