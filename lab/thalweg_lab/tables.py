"""Rows into tables through a flow, beside the bare library that writes the same table in the same run."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import psutil
import pyarrow as pa

import thalweg as tw
from thalweg.connectors.embedded.target_sink import BATCH_ROWS
from thalweg.flow.records import Schema
from thalweg.plan.plan import make_plan
from thalweg_lab.measure import LabReport

#: Rows of a batch whose time is its fixed cost, and how many such batches.
_FEW, _BATCHES = 10, 40
_COLUMNS: Final = (
    "id bigint not null, name text not null, at timestamptz not null, share float8 not null"
)


class TableRow(NamedTuple):
    id: int
    name: str
    at: tw.Timestamp
    share: float


def rows_of(many: int) -> pa.Table:
    """Rows of an id, one of a thousand names, a time and a float."""
    ids = np.arange(many)
    names = pa.array([f"name{n}" for n in range(1000)]).take(pa.array(ids % 1000))
    columns = [
        pa.array(ids),
        names,
        pa.array(ids * 1000).view(pa.timestamp("us", "UTC")),
        pa.array(ids / 7),
    ]
    return pa.table(columns, schema=Schema.of(TableRow).arrow)


class Tables:
    """The measurements.

    Args:
        report: where they go.
        rows: of a run.
        repeats: of each way; the best counts.
        dsn: of a PostgreSQL whose tables ``thalweg_bench_*`` are made and dropped; None: without it.
    """

    def __init__(self, report: LabReport, *, rows: int, repeats: int, dsn: str | None) -> None:
        self._report, self._repeats, self._dsn = report, repeats, dsn
        self._table = rows_of(rows)
        self._flow = tw.Flow("copied")
        self._flow.source("in", TableRow).sink("out")

    def all(self) -> str:
        """All of them, and a line."""
        with tempfile.TemporaryDirectory(prefix="thalweg-tables-") as folder:
            found = self._delta(Path(folder))
            if self._dsn is not None:
                found += self._postgres(self._dsn)
        self._report.add("rows into tables", found)
        ours = [row for row in found if row["way"].startswith("tw.run")]
        return "; ".join(f"{row['way']}: {row['rows/s']:,.0f} rows/s" for row in ours)

    def _delta(self, folder: Path) -> list[dict[str, Any]]:
        import deltalake

        def bare(step: int) -> None:
            for start in range(0, self._table.num_rows, step):
                part = self._table.slice(start, step)
                deltalake.write_deltalake(folder / f"bare{step}", part, mode="append")

        target = tw.to_delta(str(folder / "ours"))
        return [
            self._timed("deltalake, one write", lambda: bare(self._table.num_rows)),
            self._timed("deltalake, a write a batch", lambda: bare(BATCH_ROWS)),
            self._timed("tw.run, to_delta", lambda: self._run(target), self._fixed_ms(target)),
        ]

    def _postgres(self, dsn: str) -> list[dict[str, Any]]:
        with _dropped(dsn) as connection:
            connection.execute(f"create table thalweg_bench_bare ({_COLUMNS})")

            def bare() -> None:
                statement = "copy thalweg_bench_bare from stdin (format binary)"
                with connection.cursor().copy(statement) as copy:
                    copy.set_types(["int8", "text", "timestamptz", "float8"])
                    columns = [column.to_pylist() for column in self._table.columns]
                    for row in zip(*columns, strict=True):
                        copy.write_row(row)

            found = [self._timed("psycopg, COPY by rows", bare)]
            for name, key in (("ours", None), ("keyed", "id")):
                target = tw.to_postgres(dsn, f"thalweg_bench_{name}", key=key)
                way = f"tw.run, to_postgres{' by key' if key else ''}"
                call = self._call(target)
                found.append(self._timed(way, call, self._fixed_ms(target)))
        return found

    def _call(self, target: Any) -> Callable[[], None]:
        return lambda: self._run(target)

    def _run(self, target: Any) -> None:
        tw.run(self._flow, {"in": self._table}, {"out": target})

    def _fixed_ms(self, target: Any) -> float:
        """What a batch of few rows costs."""
        writer = target.open(make_plan(self._flow).sinks[0], "fixed")
        begin = time.perf_counter()
        for batch in range(_BATCHES):
            writer.write(batch, self._table.slice(0, _FEW))
        took_s = time.perf_counter() - begin
        writer.close()
        return 1000 * took_s / _BATCHES

    def _timed(
        self, way: str, call: Callable[[], None], fixed_ms: float | None = None
    ) -> dict[str, Any]:
        walls, cpus = [], []
        for _ in range(self._repeats):
            cpu, begin = sum(psutil.Process().cpu_times()[:2]), time.perf_counter()
            call()
            walls.append(time.perf_counter() - begin)
            cpus.append(sum(psutil.Process().cpu_times()[:2]) - cpu)
        return {
            "way": way,
            "rows/s": self._table.num_rows / min(walls),
            "seconds": min(walls),
            "CPU, s": min(cpus),
            "ms a batch": "" if fixed_ms is None else f"{fixed_ms:.1f}",
        }


@contextlib.contextmanager
def _dropped(dsn: str) -> Iterator[Any]:
    """A connection; the tables of the measurements are not there before and after."""
    import psycopg

    drop = "drop table if exists thalweg_bench_bare, thalweg_bench_ours, thalweg_bench_keyed"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(drop)
        try:
            yield connection
        finally:
            connection.execute(drop)


def dsn_of(given: str | None) -> str | None:
    """The address that was given, or that of ``THALWEG_BENCH_DSN``."""
    return given or os.environ.get("THALWEG_BENCH_DSN")
