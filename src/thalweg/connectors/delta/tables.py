"""Delta tables through the package ``deltalake``, which needs no JVM: opening and creating them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.errors import BuildError, EnvironmentProblem, missing_package

#: After so many new versions a table is opened anew.
REOPEN_VERSIONS: Final = 32


def package() -> Any:
    """The package deltalake.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import deltalake
    except ImportError:
        raise missing_package("Delta tables need", "deltalake", "delta") from None
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


class KeptTable:
    """A table that is kept open over many versions; one user at a time.

    The package adds what it reads of each version to what it has, in time and memory that grow with every one; an opened
    table is compact. So it is opened anew now and then.

    Args:
        table: of the package.
        path: of the table.
        storage: options of its object store.
    """

    def __init__(self, table: Any, path: str, storage: Mapping[str, str]) -> None:
        self.table, self._path, self._storage = table, path, dict(storage)
        self._opened_at = table.version()

    def newest(self) -> Any:
        """The table as it is now; errors are the package's."""
        if self.table.version() - self._opened_at >= REOPEN_VERSIONS:
            self.table = package().DeltaTable(self._path, storage_options=self._storage)
            self._opened_at = self.table.version()
        else:
            self.table.update_incremental()
        return self.table


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
