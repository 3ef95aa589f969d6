"""Delta tables through the package ``deltalake``, which needs no JVM: opening, creating, and whether columns fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.flow.records import Schema

_SIGNED: Final = (pa.int8(), pa.int16(), pa.int32())


def package() -> Any:
    """The package deltalake.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import deltalake
    except ImportError:
        raise EnvironmentProblem(
            "Delta tables need the package deltalake: pip install 'thalweg[delta]'"
        ) from None
    return deltalake


def storage_options(where: str, given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Options of an object store, as a description keeps them.

    Raises:
        BuildError: they are no texts by name.
    """
    if given is None:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else [("", None)]
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in pairs):
        raise BuildError(f"{where}: storage_options: expected a dict of texts by name")
    return tuple(sorted(pairs))


def existing(path: str, storage: Mapping[str, str]) -> Any:
    """The table at a path; None where there is none.

    Raises:
        EnvironmentProblem: the place cannot be read.
    """
    deltalake = package()
    try:
        return deltalake.DeltaTable(path, storage_options=dict(storage))
    except deltalake.exceptions.TableNotFoundError:
        return None
    except Exception as error:
        raise EnvironmentProblem(f"delta:{path} cannot be read: {first_line(error)}") from error


def created(
    path: str, storage: Mapping[str, str], schema: pa.Schema, partition_by: Sequence[str]
) -> Any:
    """The table at a path, made where there was none.

    Raises:
        EnvironmentProblem: it cannot be made there.
    """
    try:
        return package().DeltaTable.create(
            path,
            schema=schema,
            mode="ignore",
            partition_by=list(partition_by),
            storage_options=dict(storage),
        )
    except Exception as error:
        raise EnvironmentProblem(f"delta:{path} cannot be made: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What an error says, short."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


def columns(table: Any) -> pa.Schema:
    """The columns of a table, as it is known now."""
    return pa.schema(table.schema().to_arrow())


def check_columns(place: str, record: Schema, found: pa.Schema) -> None:
    """Refuses a table that does not take the rows of a record as they are.

    Raises:
        BuildError: naming the fields; the table is not changed.
    """
    problems = [_problem(one, found) for one in record.arrow]
    problems += [
        f"it has a column {one.name} that may not be null, and {record.name} has no such field"
        for one in found
        if one.name not in record.names and not one.nullable
    ]
    said = [one for one in problems if one]
    if said:
        raise BuildError(
            f"{place}: its columns do not fit {record.name}, and its schema is not changed by a run:\n  "
            + "\n  ".join(said)
            + "\nChange the table, or the record, or name another table."
        )


def _problem(field: pa.Field, found: pa.Schema) -> str:
    place = found.get_field_index(field.name)
    if place < 0:
        return f"it has no column {field.name} ({field.type})"
    column = found.field(place)
    if not _fits(field.type, column.type):
        return f"its column {field.name} is {column.type}, the field {field.type}"
    if field.nullable and not column.nullable:
        return f"its column {field.name} may not be null, the field may be None"
    return ""


def _fits(field: pa.DataType, column: pa.DataType) -> bool:
    """Whether a column takes values of a field, as they are or after a cast that fails where one does not fit."""
    types = pa.types
    if types.is_list(field):
        return bool(types.is_list(column) or types.is_large_list(column)) and _fits(
            field.value_type, column.value_type
        )
    if types.is_struct(field):
        names = [one.name for one in field]
        return (
            types.is_struct(column)
            and [one.name for one in column] == names
            and all(_fits(field.field(one).type, column.field(one).type) for one in names)
        )
    if field == pa.int64() and column in _SIGNED:
        return True
    return bool(column == field)
