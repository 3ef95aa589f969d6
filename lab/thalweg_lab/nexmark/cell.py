"""One cell of the table, in a process of its own: ``cell.py QUERY WAY FOLDER BEGAN``.

The process is measured from its start to the end of the first run, and then a second run by itself, which is *steady*.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from thalweg.errors import BuildError
from thalweg_lab.nexmark.ways import OURS, WAYS, NotSo
from thalweg_lab.usage import Tree, peak_mb

#: A first run that takes longer counts as the second one, too, seconds.
_LONG_S: Final = 100.0


def measure(query: str, way: str, folder: Path, began: float) -> dict[str, Any]:
    """Figures of a cell.

    Args:
        began: when the process was started, by ``time.time``.
    """
    tree = Tree() if way.startswith("spark") else None
    cpu = tree.cpu_s if tree else time.process_time
    make = WAYS[way]
    assert make is not None
    run = make(query, folder)
    wall, used = time.perf_counter(), cpu()
    out = run()
    found: dict[str, Any] = {
        "whole_s": time.time() - began,
        "whole_cpu_s": cpu(),
        "wall_s": time.perf_counter() - wall,
        "cpu_s": cpu() - used,
        "peak_mb": tree.peak_mb() if tree else peak_mb(),
    }
    if found["wall_s"] < _LONG_S:
        wall, used = time.perf_counter(), cpu()
        out = run()
        found |= {"wall_s": time.perf_counter() - wall, "cpu_s": cpu() - used}
    if out is not None:
        found["rows_out"] = len(out)
    if way in OURS:
        found |= _checked(query, folder, out)
    return found


def _checked(query: str, folder: Path, out: Any) -> dict[str, Any]:
    """What DuckDB has and the output not, and the other way round."""
    from pyarrow import parquet

    from thalweg_lab.nexmark.in_duckdb import differences
    from thalweg_lab.nexmark.written import RECORDS

    inputs = {source: parquet.read_table(folder / source) for source in RECORDS}
    missing, extra = differences(query, inputs, out)
    return {"missing": missing, "extra": extra}


def main(query: str, way: str, folder: str, began: str) -> None:
    """Prints the figures, or why there are none, as a line of JSON."""
    try:
        found = measure(query, way, Path(folder), float(began))
    except (NotSo, BuildError) as why:
        found = {"cannot": str(why)}
    except ImportError as error:
        found = {"cannot": f"not installed: {error.name}"}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
