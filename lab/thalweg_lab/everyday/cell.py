"""One cell of the table, in a process of its own: ``cell.py NAME KEYS WAY FILE REPEATS BEGAN``.

The process is measured from its start to the end of the first run, then further runs by themselves. What it put out
goes into a digest afterwards.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg_lab.everyday.ways import WAYS, Cell, NotSo, Output
from thalweg_lab.usage import Tree, peak_mb

#: Repeated runs end when they have taken so long in all, seconds.
_ENOUGH_S: Final = 6.0
#: Ways whose output is compared to the last bit, in its order.
_ORDERED: Final = ("default", "serial", "one", "two", "list", "loop", "table", "spark1", "spark2")


def measure(cell: Cell, way: str, repeats: int, began: float) -> dict[str, Any]:
    """Figures of a cell.

    Args:
        began: when the process was started, by ``time.time``.
    """
    tree = Tree() if way.startswith("spark") else None
    cpu = tree.cpu_s if tree else time.process_time
    run = WAYS[way](cell)
    ready_s = time.time() - began
    out = run()
    found: dict[str, Any] = {
        "whole_s": time.time() - began,
        "whole_cpu_s": cpu(),
        "ready_s": ready_s,
        "peak_mb": tree.peak_mb() if tree else peak_mb(),
    }
    warm = [_once(run, cpu)]
    while len(warm) < repeats and sum(wall for wall, _ in warm) < _ENOUGH_S:
        warm.append(_once(run, cpu))
    found |= {"wall_s": min(wall for wall, _ in warm), "cpu_s": min(used for _, used in warm)}
    one = cell.functions.EVERYDAY[cell.name]
    found |= {"rows_out": len(out), "check": _check(out, one.check)}
    if way in _ORDERED and one.exact:
        found["digest"] = digest(out)
    if way == "default":
        found["compiled"] = _compiled(cell)
    return found


def _once(run: Callable[[], Output], cpu: Callable[[], float]) -> tuple[float, float]:
    wall, used = time.perf_counter(), cpu()
    run()
    return time.perf_counter() - wall, cpu() - used


def _compiled(cell: Cell) -> str:
    """``yes``, or why not, of all functions as ``explain`` says."""
    lines = cell.functions.flow_of(cell.name).explain().splitlines()
    why = [
        " ".join(_reason(lines, at).split())
        for at, line in enumerate(lines)
        if "interpreted:" in line
    ]
    return "; ".join(why) or "yes"


def _reason(lines: list[str], at: int) -> str:
    """A reason with the lines that it goes on in: those stand further in."""
    first = lines[at]
    indent = len(first) - len(first.lstrip())
    text = first.split("interpreted:", 1)[1]
    for line in lines[at + 1 :]:
        if not line.strip() or len(line) - len(line.lstrip()) <= indent:
            break
        text += " " + line.strip()
    return text


# -- comparing outputs ------------------------------------------------------------------------------------------


_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def _column(out: Output, name: str) -> Any:
    if isinstance(out, pa.Table):
        return out.column(name)
    place = out[0]._fields.index(name) if out else 0
    return pa.chunked_array([pa.array([row[place] for row in out])])


def _check(out: Output, name: str) -> float:
    """The sum of a column, of text that of its lengths: the same in whatever order rows came out."""
    column = _column(out, name)
    is_text = any(test(column.type) for test in _TEXTS)
    values = pc.utf8_length(column.cast(pa.large_string())) if is_text else column
    return float(pc.sum(values.cast(pa.float64())).as_py() or 0.0)


def digest(out: Output) -> str:
    """Equal for equal rows in an equal order, to the last bit, whether they are a table or records."""
    names = out.column_names if isinstance(out, pa.Table) else list(out[0]._fields) if out else []
    made = hashlib.blake2b(digest_size=16)
    for name in names:
        _take_column(made, _column(out, name))
    return made.hexdigest()


def _take_column(made: Any, column: pa.ChunkedArray) -> None:
    kind = column.type
    if any(test(kind) for test in _TEXTS):
        lengths = np.asarray(pc.binary_length(column.cast(pa.large_string())), np.int64)
        made.update(lengths)
        for chunk in column.cast(pa.large_string()).chunks:
            # One text: offsets and slices of columns do not show.
            made.update("".join(chunk.to_pylist()).encode())
        return
    numbers = column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column
    made.update(np.ascontiguousarray(numbers.to_numpy()))


def main() -> None:
    name, keys, way, path, repeats, began = sys.argv[1:]
    cell = Cell(name, keys == "text", Path(path))
    try:
        found = measure(cell, way, int(repeats), float(began))
    except NotSo as reason:
        found = {"skipped": str(reason)}
    except ImportError as error:
        found = {"skipped": f"{error.name} is not installed"}
    except Exception as error:
        # What a version refuses is a result, too.
        found = {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
