"""The ways to run a query: each gives a function that runs it once over a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

#: Runs a query; gives its output as a table, or None where the sink keeps nothing.
Run = Callable[[], Any]


class NotSo(Exception):
    """This way cannot run that query: the reason, for the table."""


def _thalweg(**how: Any) -> Callable[[str, Path], Run]:
    def prepare(name: str, folder: Path) -> Run:
        import thalweg as tw
        from thalweg.examples.nexmark.queries import flow_of, sources_of

        flow = flow_of(name)

        def run() -> Any:
            given = {one: tw.files(str(folder / one), "parquet") for one in sources_of(name)}
            return tw.run(flow, given, **how).sinks["out"]

        return run

    return prepare


def _duckdb(name: str, folder: Path) -> Run:
    from thalweg_lab.nexmark import in_duckdb

    return in_duckdb.prepare(name, folder)


def _polars(name: str, folder: Path) -> Run:
    from thalweg_lab.nexmark import in_polars

    return in_polars.prepare(name, folder)


def _spark(function: str, **how: Any) -> Callable[[str, Path], Run]:
    def prepare(name: str, folder: Path) -> Run:
        from thalweg_lab.nexmark import in_spark

        run: Run = getattr(in_spark, function)(name, folder, **how)
        return run

    return prepare


#: Those of other environments have None: programs in lab/peers.
WAYS: Final[dict[str, Callable[[str, Path], Run] | None]] = {
    "default": _thalweg(),
    "one": _thalweg(threads=1),
    "duckdb": _duckdb,
    "polars": _polars,
    "spark1": _spark("thalweg", slots=1),
    "spark2": _spark("thalweg", slots=2),
    "sparksql": _spark("sql"),
    "flink": None,
    "bytewax": None,
    "pathway": None,
}
TITLES: Final = {
    "default": "Thalweg",
    "one": "Thalweg, 1 thread",
    "duckdb": "DuckDB, batch",
    "polars": "Polars, batch",
    "spark1": "Thalweg on Spark, 1 slot",
    "spark2": "Thalweg on Spark, 2 slots",
    "sparksql": "Structured Streaming",
    "flink": "Flink SQL",
    "bytewax": "Bytewax",
    "pathway": "Pathway",
}
#: What needs neither Java nor another environment.
IN_PROCESS: Final = ("default", "one", "duckdb", "polars")
#: Their output is compared with DuckDB's.
OURS: Final = ("default", "one", "spark1", "spark2")
