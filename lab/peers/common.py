"""What the programs for query 4 share: arguments, a warm-up, and the CPU time of the whole process tree.

Each program gives a function from a folder of Parquet files to an :class:`Answer`. It is called twice: on the first
2,000 rows, which with interpreter, imports, JVM and code generation counts as start-up, and on all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

GAP_S = 60 * 60
GAP_US = GAP_S * 1_000_000
WARM_UP_ROWS = 2_000


class Answer(NamedTuple):
    """Query 4: how many sessions, how many of them left a full cart, and their average number of pages."""

    sessions: int
    abandoned: int
    average_pages: float | None


def tree_cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process and its descendants, those included that ended and were waited for."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # A process reads its own clock finer than the ticks of 10 ms that others see.
        mine = one.pid == os.getpid()
        total += time.process_time() if mine else times.user + times.system
        # On Linux the children_* fields hold the dead children only, so nothing counts twice.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


def run(query: Callable[[Path], Answer]) -> None:
    """Runs a program: reads its arguments, measures, prints one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="folder of Parquet files of clicks, named in order")
    parser.add_argument("--rows", type=int, help="only the first rows")
    arguments = parser.parse_args()
    data = first_rows(arguments.data, arguments.rows) if arguments.rows else arguments.data
    here = psutil.Process()
    query(first_rows(data, WARM_UP_ROWS))
    startup = tree_cpu_s(here)
    answer = query(data)
    steady = tree_cpu_s(here) - startup
    phases = {"startup_cpu_s": round(startup, 4), "steady_cpu_s": round(steady, 4)}
    print(json.dumps({**answer._asdict(), "rows": row_count(data), "phases": phases}), flush=True)


def parquet_files(folder: Path) -> list[Path]:
    """The files of a data set in their order."""
    return sorted(folder.glob("*.parquet"))


def row_count(folder: Path) -> int:
    """The rows of a data set, from the files' footers."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in parquet_files(folder))


def record_batches(folder: Path, *columns: str, **options: Any) -> Iterator[Any]:
    """A data set as Arrow batches of up to 65,536 rows, in order."""
    from pyarrow import parquet

    for path in parquet_files(folder):
        with parquet.ParquetFile(path, **options) as file:
            yield from file.iter_batches(65_536, columns=list(columns))


def first_rows(folder: Path, rows: int) -> Path:
    """A data set of the first rows of another, kept beside it for the next time."""
    made = folder.parent / f"{folder.name}-first-{rows}"
    if made.exists():
        return made
    from pyarrow import parquet

    hidden = made.with_name(f".{made.name}.{os.getpid()}")
    hidden.mkdir(parents=True)
    files = 1 if rows <= WARM_UP_ROWS else 8
    size, batches = -(-rows // files), record_batches(folder, "ts", "user", "item", "action")
    left, rest = rows, next(batches)
    for number in range(files):
        path, room = hidden / f"part-{number:05d}.parquet", min(size, left)
        with parquet.ParquetWriter(path, rest.schema) as writer:
            while room:
                piece = rest.slice(0, room)
                writer.write_batch(piece)
                room, left, rest = room - len(piece), left - len(piece), rest.slice(len(piece))
                if not len(rest):
                    rest = next(batches, None)
                    if rest is None:
                        shutil.rmtree(hidden)
                        return folder
    hidden.rename(made)
    return made
