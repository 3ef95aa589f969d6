"""One measured run, and how results are shown and kept."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from thalweg.columns.chunks import Chunk
from thalweg.connectors import as_source, never
from thalweg.engine.build import prepare
from thalweg.engine.serial import SerialEngine
from thalweg.flow.flow import Flow
from thalweg.plan.plan import Edge, make_plan
from thalweg.printing import Table, Terminal
from thalweg.stats import MarkerLog, OperatorProgress
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A run: rows of the sources, seconds by the clock and of CPU, latency of markers in ms, shares of worker time."""

    rows: int
    wall_s: float
    cpu_s: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    shares: Mapping[str, float]

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.wall_s


def run(flow: Flow, inputs: Mapping[str, Any], how: Options | None, *, chunk_rows: int) -> Measured:
    """Runs a flow once over tables; ``how`` None is the serial engine (threading ``manual``).

    The first and last fifth of the markers are left out (Prasaad et al., section 7).
    """
    plan, log = make_plan(flow), MarkerLog()

    def leave(edge: Edge, chunk: Chunk, entry_ns: int) -> None:
        log.add(entry_ns, time.monotonic_ns(), len(chunk))

    prepared = prepare(plan)
    engine = (
        SerialEngine(prepared, chunk_rows=chunk_rows)
        if how is None
        else ParallelEngine(prepared, chunk_rows=chunk_rows, options=how, leave=leave)
    )
    fed = [
        (source.name, list(as_source(source.name, inputs[source.name]).rows(source, chunk_rows, never())))
        for source in plan.sources
    ]  # fmt: skip
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        for name, parts in fed:
            for chunk, bad in parts:
                _note(log, engine.feed(name, chunk, bad))
                for leaving in engine.advance():
                    _note(log, leaving)
        for leaving in engine.finish():
            _note(log, leaving)
        for leaving in engine.settle():
            _note(log, leaving)
    finally:
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        engine.stop()
    latency = log.markers().latency()
    rows = sum(len(chunk) for _, parts in fed for chunk, _ in parts)
    times = [latency.mean, latency.p50, latency.p99] if latency else [0.0, 0.0, 0.0]
    mean, p50, p99 = (1e3 * one for one in times)
    return Measured(rows, wall, cpu, mean, p50, p99, _shares(engine.operators()))


def _note(log: MarkerLog, leaving: Mapping[Edge, Sequence[Chunk]]) -> None:
    """What a serial step gave has no waiting behind it: only its end is known."""
    now = time.monotonic_ns()
    for chunks in leaving.values():
        for chunk in chunks:
            log.add(now, now, len(chunk))


def _shares(operators: Sequence[OperatorProgress]) -> dict[str, float]:
    busy = {one.name: one.busy_ns or 0 for one in operators}
    total = sum(busy.values())
    return {name: ns / total for name, ns in busy.items()} if total else {}


def best(runs: Sequence[Measured]) -> Measured:
    """The run with the median throughput."""
    return sorted(runs, key=lambda one: one.rows_per_s)[len(runs) // 2]


def in_a_process(module: str, *arguments: object) -> dict[str, Any]:
    """What a module's program prints as its last line, JSON, in a process of its own.

    Raises:
        RuntimeError: with what the process said, where it failed.
    """
    home = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    if done.returncode:
        told = " ".join(map(str, arguments))
        raise RuntimeError(f"{module} {told}: the run failed:\n{done.stderr[-4_000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class LabReport:
    """Rows of several experiments: shown as tables as they come, kept as JSON, drawn where matplotlib is there."""

    def __init__(self, name: str, out: Path | None, console: Terminal) -> None:
        self.name = name
        self.console = console
        self._out = out
        self._found: dict[str, list[dict[str, Any]]] = {}
        #: how much is done, for who waits
        self.doing = ""
        load = ", ".join(f"{one:.1f}" for one in psutil.getloadavg())
        console.print(f"{psutil.cpu_count()} logical processors, load {load}")

    def add(self, experiment: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Shows one experiment's rows, which have the same keys."""
        self._found[experiment] = [dict(row) for row in rows]
        self._write()
        table = Table(experiment)
        for key in rows[0]:
            table.column(key, right=is_number(rows[0][key]))
        for row in rows:
            table.row(*(_shown(value) for value in row.values()))
        self.console.print(table)

    def keep(self, experiment: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows to what is written, without showing them."""
        self._found.setdefault(experiment, []).extend(dict(row) for row in rows)
        self._write()

    def _write(self) -> Path | None:
        """What there is so far stays, also where the rest is interrupted."""
        if self._out is None:
            return None
        self._out.mkdir(parents=True, exist_ok=True)
        path = self._out / f"{self.name}.json"
        path.write_text(json.dumps(self._found, indent=1) + "\n")
        return path

    def tell_partial(self) -> None:
        """Says where what was measured is, where the rest was interrupted."""
        path = self._write() if self._found else None
        if path is not None:
            self.console.print(f"interrupted; what was measured until then: {path}")
        elif self._found:
            self.console.print("interrupted; the tables above are whole")

    def finish(self, summary: str) -> None:
        """Writes what there is, and the one line that says it all."""
        if self._out is not None and (path := self._write()) is not None:
            self.console.print(f"written: {path}")
            self._draw(self._out)
        self.console.print(summary)

    def _draw(self, folder: Path) -> None:
        try:
            from thalweg_lab.plots import draw
        except ImportError:
            self.console.print("no plots: they need matplotlib (pip install 'thalweg[bench]')")
            return
        draw(folder, self.name, self._found)


def is_number(value: Any) -> bool:
    """Whether a cell is a measurement, not a label."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:,.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
