"""The table of ``thalweg bench nexmark``: a query a row, a way to run it a column."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from thalweg.printing import Table, bar
from thalweg_lab.measure import LabReport
from thalweg_lab.nexmark.spec import Spec
from thalweg_lab.nexmark.ways import OURS, TITLES, WAYS
from thalweg_lab.nexmark.written import kept

#: A query that takes longer is given up, seconds.
LIMIT_S: Final = 600.0
#: All queries of these share a process, since it takes long to start.
SHARED: Final = ("spark1", "spark2", "sparksql", "flink", "bytewax", "pathway")
#: Programs that run in another environment.
PEERS: Final = Path(__file__).resolve().parents[2] / "peers"
#: Seconds without a cell after which a line says what runs.
_SILENT_S: Final = 4.0

Cell = dict[str, Any]


class Nexmark:
    """Runs the queries in all ways and shows what they took.

    Args:
        pythons: interpreters of the ways that have an environment of their own.
        together: all queries of a way share a process.
    """

    def __init__(
        self,
        report: LabReport,
        *,
        events: int,
        queries: Sequence[str],
        ways: Sequence[str],
        pythons: dict[str, str],
        together: bool = False,
        seed: int = 0,
        cache: Path | None = None,
    ) -> None:
        self._report, self._queries, self._ways = report, queries, ways
        self._events, self._pythons, self._seed = events, pythons, seed
        self._shared = tuple(WAYS) if together else SHARED
        self._cache = cache or Path(tempfile.gettempdir()) / "thalweg-nexmark"
        #: by query and way
        self.found: dict[str, dict[str, Cell]] = {query: {} for query in queries}

    def all(self) -> str:
        """Measures all cells; gives the summary."""
        with bar(f"generating {self._events:,} events", self._events) as more:
            folder = kept(Spec(self._events, self._seed), self._cache, on_rows=more)
        for way in self._ways:
            groups = (
                [self._queries] if way in self._shared else [[query] for query in self._queries]
            )
            for group in groups:
                for query, cell in self._cells(way, folder, group):
                    self.found[query][way] = cell
                    self._report.console.print(self._line(query, way, cell))
        self._show()
        return summary(self.found, self._events)

    def _cells(self, way: str, folder: Path, queries: Sequence[str]) -> Iterator[tuple[str, Cell]]:
        """The cells of a process as they come."""
        if WAYS[way] is None:
            python = self._pythons.get(way)
            program = PEERS / f"nexmark_{way}.py"
            if python is None or not program.exists():
                why = "no program for it" if python else f"--{way} names no interpreter"
                yield from ((query, {"cannot": why}) for query in queries)
                return
            command = [python, str(program), str(plain_files(folder)), repr(time.time())]
        else:
            module = "thalweg_lab.nexmark.cell"
            command = [sys.executable, "-m", module, way, str(folder), repr(time.time())]
        left = list(queries)
        for cell in run_cells([*command, *queries], self._say(way, left)):
            query = cell.pop("query")
            left.remove(query)
            yield query, cell
        yield from ((query, {"failed": "the process ended before it"}) for query in left)

    def _say(self, way: str, left: list[str]) -> Any:
        def say(waited_s: float) -> None:
            if left:
                text = f"{left[0]} {TITLES[way]}: runs, {waited_s:.0f} s"
                self._report.console.print(text)

        return say

    def _line(self, query: str, way: str, cell: Cell) -> str:
        head = f"{query} {TITLES[way]}: "
        if "cpu_s" not in cell:
            return head + " ".join(f"{what}: {why}" for what, why in cell.items())
        wrong = cell.get("missing", 0) + cell.get("extra", 0)
        checked = "" if "missing" not in cell else ", equal" if not wrong else f", {wrong} WRONG"
        return head + (
            f"{rate(cell, self._events):,.0f} k events/CPU-s, steady {cell['wall_s']:.2f} s, {cell['cpu_s']:.2f} CPU; "
            f"whole {cell['whole_s']:.1f} s, {cell['whole_cpu_s']:.1f} CPU; {cell['peak_mb']:,.0f} MB{checked}"
        )

    def _show(self) -> None:
        for figure, title in (("cpu_s", "steady"), ("whole_cpu_s", "whole process")):
            text = f"{title}, thousand events a CPU-second"
            self._report.console.print(table(self.found, self._ways, self._events, figure, text))
        for query, cells in self.found.items():
            rows = [
                {"query": query, "way": way, "events": self._events, **cell}
                for way, cell in cells.items()
            ]
            self._report.keep("cells", rows)


def run_cells(command: Sequence[str], say: Any) -> Iterator[Cell]:
    """The lines of a program as they come; one that is silent for too long is ended.

    Args:
        say: called now and then with the seconds that have passed since the last line.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment()
        )
        threading.Thread(target=_pass_on, args=(child, lines), daemon=True).start()
        since = time.monotonic()
        try:
            while True:
                try:
                    line = lines.get(timeout=_SILENT_S)
                except queue.Empty:
                    waited = time.monotonic() - since
                    say(waited)
                    if waited > LIMIT_S:
                        return
                    continue
                if line is None:
                    break
                if line.startswith("{"):
                    since = time.monotonic()
                    yield json.loads(line)
        finally:
            child.kill()
            child.wait()


def _pass_on(child: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put(None)


def _environment() -> dict[str, str]:
    home = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": paths}


def plain_files(folder: Path) -> Path:
    """The same rows as CSV without a head, times as milliseconds: what Flink of pip reads; made the first time."""
    made = folder.with_name(f"{folder.name}-csv")
    if not made.exists():
        hidden = folder.with_name(f".{made.name}.{os.getpid()}")
        for source in ("persons", "auctions", "bids", "side"):
            (hidden / source).mkdir(parents=True)
            for path in sorted((folder / source).glob("*.parquet")):
                out = hidden / source / f"{path.stem}.csv"
                options = csv.WriteOptions(include_header=False)
                csv.write_csv(_in_milliseconds(parquet.read_table(path)), out, options)
        with contextlib.suppress(OSError):
            hidden.rename(made)
    return made


def _in_milliseconds(table: pa.Table) -> pa.Table:
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = pc.divide(table.column(number).cast(pa.int64()), 1_000)
            table = table.set_column(number, field.name, times)
    return table


def rate(cell: Cell, events: int, figure: str = "cpu_s") -> float:
    """Thousand events a CPU-second; NaN where there is no figure."""
    return events / cell[figure] / 1e3 if cell.get(figure) else math.nan


def shown(cell: Cell, events: int, figure: str) -> str:
    """A cell of the table: a figure, or a mark."""
    if cell.get("missing") or cell.get("extra"):
        return "wrong"
    value = rate(cell, events, figure)
    if math.isnan(value):
        return "–" if "cannot" in cell else "failed"
    return f"{value:,.0f}"


def table(
    found: dict[str, dict[str, Cell]], ways: Sequence[str], events: int, figure: str, title: str
) -> Table:
    """All queries and ways, for the terminal."""
    made = Table(f"NEXMark, {events:,} events, {title}")
    made.column("")
    for way in ways:
        made.column(TITLES[way], right=True)
    for query, cells in found.items():
        made.row(query, *(shown(cells.get(way, {}), events, figure) for way in ways))
    return made


def markdown(found: dict[str, dict[str, Cell]], ways: Sequence[str], events: int) -> str:
    """The table of the docs: steady, and the whole process and memory of the default; below it why cells are empty."""
    head = ["", *(TITLES[way] for way in ways), "Thalweg, whole", "MB"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for query, cells in found.items():
        ours = cells.get("default", {})
        row = [query, *(shown(cells.get(way, {}), events, "cpu_s") for way in ways)]
        row += [shown(ours, events, "whole_cpu_s"), f"{ours.get('peak_mb', math.nan):,.0f}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join([*lines, "", *reasons(found)]) + "\n"


def reasons(found: dict[str, dict[str, Cell]]) -> list[str]:
    """Why a way has no figure, the queries of one reason together."""
    why: dict[tuple[str, str], list[str]] = {}
    for query, cells in found.items():
        for way, cell in cells.items():
            if "cannot" in cell or "failed" in cell:
                text = str(cell.get("cannot", cell.get("failed")))
                why.setdefault((way, text), []).append(query)
    return [f"- {TITLES[way]}, {', '.join(names)}: {text}" for (way, text), names in why.items()]


def summary(found: dict[str, dict[str, Cell]], events: int) -> str:
    """What is wrong, and on how many queries the goals hold."""
    lines = [
        f"{query} {TITLES[way]}: {cell['missing']} rows missing, {cell['extra']} too many"
        for query, cells in found.items()
        for way, cell in cells.items()
        if way in OURS and (cell.get("missing") or cell.get("extra"))
    ]
    for way, other, least in (
        ("default", "flink", 5.0), ("default", "sparksql", 5.0), ("spark1", "sparksql", 3.0),
        ("default", "bytewax", 10.0), ("default", "pathway", 10.0), ("default", "duckdb", 0.5),
        ("default", "one", 1.0),
    ):  # fmt: skip
        ratios = {
            query: rate(cells[way], events) / rate(cells[other], events)
            for query, cells in found.items()
            if "cpu_s" in cells.get(way, {}) and "cpu_s" in cells.get(other, {})
        }
        if ratios:
            below = ", ".join(f"{query} {ratio:.2g}" for query, ratio in ratios.items() if ratio < least)  # fmt: skip
            good = sum(ratio >= least for ratio in ratios.values())
            lines.append(
                f"{TITLES[way]} at least {least:g} x {TITLES[other]}: {good} of {len(ratios)}"
                + (f"; below: {below}" if below else "")
            )
    return "\n".join([*lines, *reasons(found)]) or "no cells"
