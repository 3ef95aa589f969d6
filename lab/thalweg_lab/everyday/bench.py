"""The matrix of ``thalweg bench everyday``: functions, keys, sizes and ways, each cell in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from thalweg.cli.heartbeat import time_left
from thalweg.engine.machine import usable_processors
from thalweg.errors import BuildError
from thalweg_lab.everyday.data import data_of
from thalweg_lab.everyday.functions import EVERYDAY
from thalweg_lab.everyday.verbs import EVERYDAY as VERBS
from thalweg_lab.everyday.ways import STATIC
from thalweg_lab.measure import LabReport

#: By way, what was measured.
Cells = dict[str, dict[str, Any]]
#: What the functions, and the verbs behind them, are called in the table.
TITLES: Final = {name: one.title for name, one in {**EVERYDAY, **VERBS}.items()}
#: A cell that takes longer is given up, seconds.
LIMIT_S: Final = 900.0
#: Outputs without an order are compared by a sum, which rounds.
_CLOSE: Final = 1e-6
#: Where the default takes so many times the best of the static settings, it has lost.
LOST: Final = 1.1


class Place(NamedTuple):
    """Where a cell stands but for its way."""

    function: str
    keys: str
    rows: int


class Everyday:
    """Runs the cells and shows them.

    Args:
        sizes: rows.
        repeats: of the warm runs, at most.
        ways: names of :data:`thalweg_lab.everyday.ways.WAYS`; the plain loop is always among them.
    """

    def __init__(
        self,
        report: LabReport,
        *,
        names: Sequence[str],
        keys: Sequence[str],
        sizes: Sequence[int],
        ways: Sequence[str],
        repeats: int,
        folder: Path | None = None,
    ) -> None:
        self._report = report
        self._names, self._keys, self._sizes = names, keys, sizes
        self._ways = list(dict.fromkeys(["loop", *ways]))
        self._repeats = repeats
        self._folder = folder or Path(tempfile.gettempdir()) / "thalweg-everyday"
        #: by place and way
        self.found: dict[Place, Cells] = {}

    def all(self) -> str:
        """Measures all cells; gives the summary."""
        began_s, places = time.monotonic(), list(self._places())
        try:
            self._measure(places, began_s)
        except KeyboardInterrupt:
            self._show()  # what there is
            raise
        self._show()
        return summary(self.found)

    def _measure(self, places: Sequence[Place], began_s: float) -> None:
        total = len(places) * len(self._ways)
        for number, place in enumerate(places):
            path = data_of(
                place.function, text=place.keys == "text", rows=place.rows, folder=self._folder
            )
            cells = self.found[place] = {}
            for at, way in enumerate(self._ways):
                done = number * len(self._ways) + at
                self._report.doing = time_left(done, total, time.monotonic() - began_s)
                cells[way] = run_cell(place, way, path, self._repeats)
                self._report.console.print(_line(place, way, cells[way]))

    def _places(self) -> Iterator[Place]:
        for rows in self._sizes:
            for name in self._names:
                for keys in self._keys:
                    yield Place(name, keys, rows)

    def _show(self) -> None:
        console = self._report.console
        console.print(
            "Times as fast as the plain loop, warm; process: whole processes, by CPU time"
        )
        console.print("\n".join(_aligned(list(self._rows()))))
        for what, why in self._refused().items():
            console.print(f"{what}: {why}")
        for place, cells in self.found.items():
            kept = [{**place._asdict(), "way": way, **cell} for way, cell in cells.items()]
            self._report.keep("cells", kept)

    def _rows(self) -> Iterator[list[str]]:
        ways = [way for way in self._ways if way not in ("loop", "default")]
        yield ["", "keys", "k rows", *_head(ways), "over best", "outputs"]
        for place, cells in self.found.items():
            figures = _figures(cells, ways)
            over = _figure(over_best(cells))
            rows = str(place.rows // 1_000)
            yield [place.function, place.keys, rows, *figures, over, agreement(cells)]

    def _refused(self) -> dict[str, str]:
        """Why a function is not compiled, or not accepted."""
        found = {}
        for place, cells in self.found.items():
            default = cells.get("default", {})
            why = default.get("failed", default.get("compiled", "yes"))
            if why != "yes":
                found[f"{place.function}, {place.keys} keys"] = str(why)
        return found


def run_cell(place: Place, way: str, path: Path, repeats: int) -> dict[str, Any]:
    """A cell's figures; where it failed, why."""
    arguments = [place.function, place.keys, way, str(path), str(repeats), repr(time.time())]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "thalweg_lab.everyday.cell", *arguments],
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"took longer than {LIMIT_S:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"failed": f"ended with {done.returncode}: {done.stderr[-300:]}"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _line(place: Place, way: str, cell: dict[str, Any]) -> str:
    head = f"{place.function} {place.keys} {place.rows:,} {way}: "
    if "wall_s" not in cell:
        return head + " ".join(f"{what}: {why}" for what, why in cell.items())
    return head + (
        f"warm {cell['wall_s']:.3f} s, {cell['cpu_s']:.3f} CPU; whole {cell['whole_s']:.2f} s, "
        f"{cell['whole_cpu_s']:.2f} CPU; {cell['peak_mb']:.0f} MB"
    )


def times_loop(cells: Cells, way: str, figure: str = "wall_s") -> float:
    """How many times as fast as the plain loop over rows that are there; NaN where one of them did not run."""
    return _ratio(cells.get("loop", {}).get(figure), cells.get(way, {}).get(figure))


def over_best(cells: Cells) -> float:
    """How many times as long as the best of the static settings the default takes."""
    best = [cells[way]["wall_s"] for way in STATIC if "wall_s" in cells.get(way, {})]
    return _ratio(cells.get("default", {}).get("wall_s"), min(best) if best else None)


def _ratio(above: float | None, below: float | None) -> float:
    return above / below if above is not None and below else math.nan


def agreement(cells: Cells) -> str:
    """Whether all put out the same: in the same order to the last bit, or, without an order, the same sum."""
    loop = cells["loop"]
    wrong = [way for way, cell in cells.items() if "check" in cell and not _agrees(cell, loop)]
    return "differ: " + ", ".join(wrong) if wrong else "equal"


def _agrees(cell: dict[str, Any], loop: dict[str, Any]) -> bool:
    if "digest" in cell:
        return bool(cell["digest"] == loop.get("digest"))
    is_close = math.isclose(cell["check"], loop.get("check", math.nan), rel_tol=_CLOSE)
    return is_close and cell["rows_out"] == loop["rows_out"]


def summary(found: dict[Place, Cells]) -> str:
    """Where the default lost, and whether outputs agree."""
    lines = []
    for place, cells in found.items():
        where = f"{place.function}, {place.keys} keys, {place.rows:,} rows"
        if (over := over_best(cells)) > LOST:
            lines.append(f"{where}: the default takes {over:.2f} x the best setting")
        if (gain := times_loop(cells, "default")) < 1:
            lines.append(f"{where}: the default is {gain:.2f} x as fast as a plain loop")
        if (outputs := agreement(cells)) != "equal":
            lines.append(f"{where}: outputs {outputs}")
    return "\n".join(lines) or "everyday: no default loses, all outputs are equal"


# -- the table of the docs ----------------------------------------------------------------------------------------


def markdown(found: dict[Place, Cells], machine: str) -> str:
    """A table a size: how many times as fast as the plain loop each way is, warm, and the default's CPU and memory."""
    parts = [machine]
    for rows in sorted({place.rows for place in found}):
        mine = {place: cells for place, cells in found.items() if place.rows == rows}
        ways = [way for way in next(iter(mine.values())) if way not in ("loop", "default")]
        head = ["function", "keys", *_head(ways)]
        lines = [f"{rows:,} rows", "", _joined(head), _joined(["---"] * len(head))]
        for place, cells in mine.items():
            title = TITLES[place.function]
            lines.append(_joined([title, place.keys, *_figures(cells, ways)]))
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def put(table: str, page: Path) -> None:
    """Replaces what stands between the marks of a page."""
    begin, end = "<!-- everyday: begin -->\n", "<!-- everyday: end -->"
    head, _, rest = page.read_text().partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise BuildError(f"{page}: expected the lines {begin.strip()} and {end}")
    page.write_text(f"{head}{begin}{table}{end}{tail}")


def machine() -> str:
    """What this was measured on, in a line."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        info = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model
        )
    memory = psutil.virtual_memory().total / 1e9
    names = ("pyarrow", "numba", "duckdb", "polars", "pyspark")
    versions = ", ".join(f"{name} {_version(name)}" for name in names)
    return (
        f"{model}, {usable_processors()} cores, {memory:.0f} GB, {platform.system()}, "
        f"Python {platform.python_version()}; {versions}"
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _head(ways: Sequence[str]) -> list[str]:
    return ["compiled", "loop, s", "default", *ways, "CPU", "process", "MB"]


def _figures(cells: Cells, ways: Sequence[str]) -> list[str]:
    """As :func:`_head` names them."""
    peak = cells.get("default", {}).get("peak_mb")
    return [
        _is_compiled(cells),
        _figure(cells["loop"].get("wall_s", math.nan)),
        *(_figure(times_loop(cells, way)) for way in ("default", *ways)),
        _figure(times_loop(cells, "default", "cpu_s")),
        _figure(times_loop(cells, "default", "whole_cpu_s")),
        "–" if peak is None else f"{peak:,.0f}",
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _is_compiled(cells: Cells) -> str:
    compiled = cells.get("default", {}).get("compiled")
    return "refused" if compiled is None else "yes" if compiled == "yes" else "no"


def _figure(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _joined(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
