"""Query 4 (cart abandonment) with Thalweg and with what one would use instead, one after the other.

    python lab/peers/run.py [--quick] [--rows N] [--only NAME ...] [--repeat N] [CACHE]

Every candidate is a program of its own, ``q4_*.py``, in a fresh process. Measured from outside: wall time, CPU time and
peak memory of its process tree; from inside: the CPU time of start-up apart from that of the work. All answers are
compared with a reference. Raw numbers and the facts of the machine go to ``lab/peers/results/``.

Net is rows per CPU-second of the work alone, gross of everything from the start of the interpreter. A slow candidate
gets the first part of the data only; its line says how many rows. CPU seconds compare better than wall time on a busy
machine, yet they too suffer from it: compare numbers of one run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
from common import first_rows
from peers.measuring import HERE, Candidate, PeerRun, measure, missing_modules
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

#: As many clicks a day at every size, those of 5 million in a week, so that sessions look alike.
ROWS_A_DAY = 5_000_000 / 7


CANDIDATES = (
    Candidate("thalweg_kernel", "Thalweg, embedded", ("thalweg", "numba"), ours=True),
    Candidate("thalweg_spark", "Thalweg on Spark", ("thalweg", "pyspark"), ours=True),
    Candidate("thalweg_spark_slots", "… with two slots", ("thalweg", "pyspark"), ours=True),
    Candidate("session_window", "Spark session_window", ("pyspark",), "a"),
    Candidate(
        "apply_in_pandas_with_state",
        "Spark applyInPandasWithState",
        ("pyspark", "pandas"),
        "b",
        most_rows=200_000,
    ),
    Candidate("bytewax_by_hand", "Bytewax, by hand", ("bytewax",), "c"),
    Candidate("bytewax_window", "Bytewax windows", ("bytewax",), "c", most_rows=1_000_000),
    Candidate("pathway", "Pathway", ("pathway", "pandas"), "d", most_rows=200_000),
    Candidate("duckdb", "DuckDB, batch", ("duckdb",), "e"),
    Candidate("polars", "Polars, batch", ("polars",), "f"),
    Candidate("python", "plain Python loop", (), "g"),
    Candidate("numpy", "NumPy, one-query program", ("numpy",)),
)
REFERENCES = ("duckdb", "python")


# -- measuring -----------------------------------------------------------------------------------------


def same_answer(one: dict[str, Any], other: dict[str, Any]) -> bool:
    counts = all(one[name] == other[name] for name in ("sessions", "abandoned"))
    means = one["average_pages"], other["average_pages"]
    if None in means:
        return counts and means == (None, None)
    return counts and math.isclose(*means, rel_tol=1e-9)


class References:
    """The right answer of each data set, by DuckDB where it is installed, else by the plain loop."""

    def __init__(self, python: str, timeout_s: float) -> None:
        self.python, self.timeout_s = python, timeout_s
        self.known: dict[Path, dict[str, Any]] = {}

    def answer(self, data: Path) -> dict[str, Any]:
        if data not in self.known:
            by_name = {one.name: one for one in CANDIDATES}
            for name in REFERENCES:
                if not missing_modules(self.python, by_name[name].needs):
                    self.known[data] = measure(
                        by_name[name], self.python, data, self.timeout_s
                    ).answer
                    break
        return self.known[data]


def clicks(cache: Path, rows: int, seed: int) -> Path:
    """The data, generated the first time."""
    folder = cache / f"clicks-{rows}-{seed}"
    if not folder.exists():
        from thalweg import datagen

        hidden = cache / f".{folder.name}.{os.getpid()}"
        with Progress(transient=True) as progress:
            task = progress.add_task(f"generating {rows:,} clicks", total=rows)
            datagen.write_files(
                datagen.clickstream(rows, seed=seed, days=rows / ROWS_A_DAY),
                hidden,
                rows=rows,
                files=8,
                on_file=lambda path, done: progress.advance(task, done),
            )
        hidden.rename(folder)
    return folder


def runs(arguments: argparse.Namespace, console: Console) -> Iterator[PeerRun]:
    """All candidates that were asked for, one run after the other."""
    data = clicks(arguments.cache, arguments.rows, arguments.seed)
    references = References(arguments.peers_python, arguments.timeout)
    for candidate in CANDIDATES:
        if arguments.only and candidate.name not in arguments.only:
            continue
        python = sys.executable if candidate.ours else arguments.peers_python
        blank = PeerRun(candidate.name, candidate.label, "not installed")
        if not candidate.program.exists():
            continue
        if missing := missing_modules(python, candidate.needs):
            yield replace(blank, error=f"no module {', '.join(missing)}")
            continue
        most = candidate.most_rows // (10 if arguments.quick else 1)
        part = data if most >= arguments.rows else first_rows(data, most)
        for _ in range(arguments.repeat):
            with console.status(f"{candidate.label} ..."):
                run = measure(candidate, python, part, arguments.timeout)
                if run.status == "done" and not same_answer(run.answer, references.answer(part)):
                    run.status = "wrong answer"
                    run.error = f"expected {references.answer(part)}, got {run.answer}"
            yield run


# -- telling -------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the numbers depend on beside the programs."""
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
    }


def versions(python: str) -> dict[str, str]:
    """The versions of what takes part, as an interpreter has them."""
    names = [
        "thalweg",
        "numba",
        "pyspark",
        "pyarrow",
        "numpy",
        "pandas",
        "bytewax",
        "pathway",
        "duckdb",
        "polars",
    ]
    code = (
        "import json, sys, importlib.metadata as m\n"
        "have = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({n: have[n] for n in sys.argv[1:] if n in have}))"
    )
    done = subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def median_runs(found: list[PeerRun]) -> list[PeerRun]:
    """One run a candidate: of each number the median over its good runs."""
    out = []
    for name in dict.fromkeys(run.candidate for run in found):
        mine = [run for run in found if run.candidate == name]
        good = [run for run in mine if run.status == "done"]
        if len(good) < len(mine):
            out.append(next(run for run in mine if run.status != "done"))
            continue
        numbers = ("wall_s", "cpu_s", "startup_cpu_s", "steady_cpu_s", "peak_rss_mb")
        middle = {n: statistics.median(getattr(run, n) for run in good) for n in numbers}
        out.append(replace(good[0], **middle))
    return out


def speed_table(found: list[PeerRun]) -> Table:
    table = Table(title="Query 4, cart abandonment", title_justify="left")
    table.add_column("candidate")
    table.add_column("")
    for column in ("rows", "wall s", "CPU s", "start-up", "net rows/CPU-s", "gross", "peak MB"):
        table.add_column(column, justify="right")
    table.add_column("answer")
    letters = {one.name: one.baseline for one in CANDIDATES}
    for run in sorted(found, key=lambda run: -run.net if run.net == run.net else math.inf):
        cells = [run.label, letters[run.candidate]]
        if run.status == "done":
            cells += [f"{run.rows:,}", f"{run.wall_s:.1f}", f"{run.cpu_s:.1f}"]
            cells += [f"{run.startup_cpu_s:.1f}", thousands(run.net), thousands(run.gross)]
            cells += [f"{run.peak_rss_mb:,.0f}", "same"]
        else:
            cells += [""] * 7 + [f"{run.status}: {run.error}"]
        table.add_row(*cells)
    return table


def ratio_table(found: list[PeerRun]) -> Table | None:
    """How many times the baselines' rows a CPU-second ours handle; None without a run of ours."""
    names = {one.name: one for one in CANDIDATES}
    ours = [run for run in found if names[run.candidate].ours and run.status == "done"]
    if not ours:
        return None
    table = Table(
        title="Thalweg against the baselines, rows/CPU-s net (gross)", title_justify="left"
    )
    table.add_column("baseline")
    for run in ours:
        table.add_column(run.label, justify="right")
    for run in found:
        letter = names[run.candidate].baseline
        if letter and run.status == "done":
            ratios = [f"{times(one.net, run.net)} ({times(one.gross, run.gross)})" for one in ours]
            table.add_row(f"({letter}) {run.label}", *ratios)
    return table


def times(one: float, other: float) -> str:
    ratio = one / other
    return f"{ratio:.2f} ×" if ratio == ratio else "–"


def thousands(value: float) -> str:
    if value != value:
        return "–"
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:,.1f} k"


def plot(found: list[PeerRun], path: Path) -> bool:
    """A bar chart of net and gross; False when matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    done = sorted((run for run in found if run.status == "done"), key=lambda run: run.gross)
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(done) + 1.5), layout="constrained")
    places = range(len(done))
    axes.barh([p + 0.2 for p in places], [run.net for run in done], 0.4, label="net of start-up")
    axes.barh([p - 0.2 for p in places], [run.gross for run in done], 0.4, label="gross")
    axes.set_yticks(places, [f"{run.label}\n{run.rows:,} rows" for run in done], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("rows per CPU-second")
    axes.set_title("Query 4, cart abandonment")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def summary(found: list[PeerRun]) -> str:
    done = [run for run in found if run.status == "done"]
    bad = [run for run in found if run.status in ("failed", "wrong answer")]
    best = max(done, key=lambda run: run.net if run.net == run.net else 0.0, default=None)
    text = f"{len(done)} of {len(found)} candidates done, {len(bad)} failed or wrong"
    return f"{text}; fastest net: {best.label}, {thousands(best.net)} rows/CPU-s" if best else text


def parsed(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(tempfile.gettempdir()) / "thalweg-bench"
    parser.add_argument("cache", type=Path, nargs="?", default=default, help="folder for the data")
    parser.add_argument("--rows", type=int, help="default 5,000,000")
    parser.add_argument("--quick", action="store_true", help="200,000 rows")
    names = [one.name for one in CANDIDATES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--repeat", type=int, default=1, help="runs a candidate; medians are shown")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=900, help="seconds a run")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder for results")
    parser.add_argument(
        "--peers-python", default=sys.executable, help="interpreter that has the peers"
    )
    arguments = parser.parse_args(argv)
    arguments.rows = arguments.rows or (200_000 if arguments.quick else 5_000_000)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    arguments.results.mkdir(parents=True, exist_ok=True)
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments, console = parsed(argv), Console()
    if not console.is_terminal:
        console.width = max(console.width, 130)
    facts = machine() | {"rows": arguments.rows, "seed": arguments.seed}
    facts["versions"] = versions(arguments.peers_python)
    facts["our_versions"] = versions(sys.executable)
    stem = arguments.results / f"q4-{facts['time'].replace(':', '').removesuffix('+0000')}"
    raw = stem.with_suffix(".jsonl")
    found = []
    with raw.open("w") as file:
        file.write(json.dumps({"machine": facts}) + "\n")
        for run in runs(arguments, console):
            found.append(run)
            # NaN is not JSON.
            line = {k: None if v != v else v for k, v in asdict(run).items()}
            file.write(json.dumps(line) + "\n")
            file.flush()
            console.print(f"{run.label}: {run.status} {run.error}", style="dim", markup=False)
    middle = median_runs(found)
    console.print(speed_table(middle))
    if (ratios := ratio_table(middle)) is not None:
        console.print(ratios)
    drawn = plot(middle, stem.with_suffix(".png"))
    console.print(f"raw numbers: {raw}{f', {stem.name}.png' if drawn else ''}", soft_wrap=True)
    console.print(summary(middle), soft_wrap=True)
    return any(run.status in ("failed", "wrong answer") for run in found)


if __name__ == "__main__":
    sys.exit(main())
