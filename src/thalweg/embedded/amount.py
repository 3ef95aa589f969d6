"""How much there is to read, as far as that can be told before: who reads little needs no threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from thalweg.connectors.files import FileSource, find
from thalweg.connectors.readers.packed import CODECS
from thalweg.engine.machine import usable_processors
from thalweg.errors import DataError
from thalweg.plan.plan import Plan

#: Inputs that have fewer rows in all are run by the calling thread.
SMALL: Final = 50_000
#: Bytes of a row in a file, on the low side: a row that is longer makes an input look larger than it is.
_TEXT_BYTES: Final = 40
_PACKED_BYTES: Final = 8


def rows_at_most(plan: Plan, inputs: Mapping[str, Any]) -> float:
    """About how many rows all inputs have, rather too many than too few; infinite where nobody can tell."""
    if any(source.made_by is not None for source in plan.sources):
        return float("inf")
    return sum(map(rows_of, inputs.values()), 0.0)


def needs_one_thread(rows: float) -> bool:
    """Whether one thread alone is done with so many rows before others would have begun, unless functions wait."""
    return rows < SMALL or usable_processors() == 1


def rows_of(given: Any) -> float:
    """The same of one input."""
    if isinstance(given, (pa.Table, pa.RecordBatch)):
        return float(given.num_rows)
    if isinstance(given, (list, tuple)):
        return len(given)
    if isinstance(given, FileSource) and not given.follow:
        return _rows_of_files(given)
    return float("inf")


def _rows_of_files(given: FileSource) -> float:
    try:
        found = find(given.paths, recursive=given.recursive)
    except DataError:
        return 0.0  # whoever opens them says what is wrong with them
    infos = [one.info for one in found]
    return sum(one.length / _bytes_of_a_row(one.path, given.options.format) for one in infos)


def _bytes_of_a_row(path: str, format: str) -> int:
    is_packed = format == "parquet" or os.path.splitext(path)[1].lower() in CODECS
    return _PACKED_BYTES if is_packed else _TEXT_BYTES
