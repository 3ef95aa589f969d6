"""Cells of the table, in a process of its own: ``cell.py WAY FOLDER BEGAN QUERY ...``, a line of JSON for each query.

*Whole* is the process from its start to the end of the query's first run, *steady* a second run by itself. Where
several queries share a process (a JVM takes half a minute to warm up), the time from its start until the first query is
added to the first run of each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from thalweg.errors import BuildError
from thalweg_lab.nexmark.ways import OURS, WAYS, NotSo
from thalweg_lab.usage import Tree, forget_peak, peak_mb

#: A first run that takes more is the only one, CPU seconds.
_LONG_S: Final = 60.0


class Cells:
    """Measures the queries of a process, one after the other.

    Args:
        began: when the process was started, by ``time.time``.
    """

    def __init__(self, way: str, folder: Path, began: float) -> None:
        self._way, self._folder = way, folder
        self._tree = Tree() if way.startswith("spark") else None
        self._cpu: Callable[[], float] = self._tree.cpu_s if self._tree else time.process_time
        #: start-up of the process by the clock and by CPU; known with the first query
        self._start: tuple[float, float] | None = None
        self._began = began

    def measure(self, query: str) -> dict[str, Any]:
        """Figures of a query, or why there are none."""
        try:
            return self._measured(query)
        except (NotSo, BuildError) as why:
            return {"cannot": str(why)}
        except ImportError as error:
            return {"cannot": f"not installed: {error.name}"}
        except Exception as error:  # one of many queries of other systems; the table says it
            return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}

    def _measured(self, query: str) -> dict[str, Any]:
        make = WAYS[self._way]
        assert make is not None
        run = make(query, self._folder)
        if self._start is None:
            self._start = time.time() - self._began, self._cpu()
        forget_peak()
        wall_s, cpu_s, out = self._once(run)
        found = {"whole_s": self._start[0] + wall_s, "whole_cpu_s": self._start[1] + cpu_s}
        found["peak_mb"] = self._tree.peak_mb() if self._tree else peak_mb()
        if cpu_s < _LONG_S:
            wall_s, cpu_s, out = self._once(run)
        found |= {"wall_s": wall_s, "cpu_s": cpu_s}
        if out is not None:
            found["rows_out"] = len(out)
        if self._way in OURS:
            found |= _checked(query, self._folder, out)
        return found

    def _once(self, run: Callable[[], Any]) -> tuple[float, float, Any]:
        wall, used = time.perf_counter(), self._cpu()
        out = run()
        return time.perf_counter() - wall, self._cpu() - used, out


def _checked(query: str, folder: Path, out: Any) -> dict[str, Any]:
    """What DuckDB has and the output not, and the other way round."""
    from pyarrow import parquet

    from thalweg_lab.nexmark.in_duckdb import differences
    from thalweg_lab.nexmark.written import RECORDS

    inputs = {source: parquet.read_table(folder / source) for source in RECORDS}
    missing, extra = differences(query, inputs, out)
    return {"missing": missing, "extra": extra}


def main(way: str, folder: str, began: str, *queries: str) -> None:
    """Prints a line a query."""
    cells = Cells(way, Path(folder), float(began))
    for query in queries:
        print(json.dumps({"query": query, **cells.measure(query)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
