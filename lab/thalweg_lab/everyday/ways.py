"""The ways to run one of the ten: each is a function from the file of its input to a function that runs once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from thalweg_lab.everyday.data import VERBS

#: What a run gives: a pyarrow table, or a list of records.
Output = Any
Run = Callable[[], Output]


class Cell(NamedTuple):
    """What is run: a function by its name, its kind of keys, and the file of its input."""

    name: str
    is_text: bool
    path: Path

    @property
    def functions(self) -> Any:
        """The module of the ten, or of the verbs, with such keys."""
        suffix = "_text" if self.is_text else ""
        kind = "verbs" if self.name in VERBS else "functions"
        return importlib.import_module(f"thalweg_lab.everyday.{kind}{suffix}")


class NotSo(Exception):
    """This way cannot run that function: the reason, for the table."""


def _thalweg(**how: Any) -> Callable[[Cell], Run]:
    def prepare(cell: Cell) -> Run:
        import thalweg as tw

        flow, table = cell.functions.flow_of(cell.name), parquet.read_table(cell.path)
        return lambda: tw.run(flow, {"rows": table}, **how).sinks["out"]

    return prepare


def rows_of(row: Any, table: pa.Table) -> list[Any]:
    """The rows of a table as records, times as ints."""
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in table.columns
    ]
    return list(map(row._make, zip(*columns, strict=True)))


def _loop(cell: Cell) -> Run:
    """From rows that are there already."""
    one = cell.functions.EVERYDAY[cell.name]
    rows = rows_of(one.row, parquet.read_table(cell.path))
    return lambda: one.loop(rows)


def _loop_of_a_table(cell: Cell) -> Run:
    """From the table that Thalweg gets, to a table."""
    one = cell.functions.EVERYDAY[cell.name]
    table = parquet.read_table(cell.path)

    def run() -> Output:
        out = one.loop(rows_of(one.row, table))
        columns = zip(*out, strict=True)
        return pa.table(dict(zip(out[0]._fields, map(list, columns), strict=True)))

    return run


def _list(cell: Cell) -> Run:
    """By default, from a list of rows to a list of rows."""
    import thalweg as tw

    flow = cell.functions.flow_of(cell.name)
    rows = rows_of(cell.functions.EVERYDAY[cell.name].row, parquet.read_table(cell.path))
    return lambda: tw.run(flow, {"rows": rows}).rows("out")


def _polars(cell: Cell) -> Run:
    from thalweg_lab.everyday import in_polars

    return in_polars.prepare(cell)


def _duckdb(cell: Cell) -> Run:
    from thalweg_lab.everyday import in_duckdb

    return in_duckdb.prepare(cell)


def _spark(name: str, **how: Any) -> Callable[[Cell], Run]:
    def prepare(cell: Cell) -> Run:
        from thalweg_lab.everyday import in_spark

        run: Run = getattr(in_spark, name)(cell, **how)
        return run

    return prepare


WAYS: Final[dict[str, Callable[[Cell], Run]]] = {
    "default": _thalweg(),
    "serial": _thalweg(threading="manual"),
    "one": _thalweg(threads=1),
    "two": _thalweg(threads=2),
    "list": _list,
    "loop": _loop,
    "table": _loop_of_a_table,
    "polars": _polars,
    "duckdb": _duckdb,
    "spark1": _spark("thalweg", slots=1),
    "spark2": _spark("thalweg", slots=2),
    "sparksql": _spark("sql"),
    "sparkstate": _spark("state"),
}
#: Settings that the default is compared with.
STATIC: Final = ("serial", "one", "two")
#: What needs no Java.
IN_PROCESS: Final[Sequence[str]] = tuple(way for way in WAYS if not way.startswith("spark"))
