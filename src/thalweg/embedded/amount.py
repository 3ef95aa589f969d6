"""How much there is to read, as far as that can be told before: who reads little needs no threads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.connectors.files import FileSource, Found, find
from thalweg.connectors.readers.packed import CODECS
from thalweg.engine.machine import usable_processors
from thalweg.errors import DataError
from thalweg.plan.plan import Plan

#: Inputs that have fewer rows in all are run by the calling thread.
SMALL: Final = 50_000
#: Bytes of a row in a file, on the low side: a row that is longer makes an input look larger than it is.
_TEXT_BYTES: Final = 40
_PACKED_BYTES: Final = 8
#: Parquet files say how many rows they have; of many files so many are asked.
_LOOKS: Final = 8


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
    if given.options.format == "parquet":
        return _rows_of_parquet(found)
    return sum(one.info.length / _bytes_of_a_row(one.info.path) for one in found)


def is_small(given: FileSource) -> bool:
    """Whether files have few rows, for sure, by a look at their sizes alone."""
    try:
        found = find(given.paths, recursive=given.recursive)
    except DataError:
        return True
    is_packed = given.options.format == "parquet"
    return (
        sum(
            one.info.length / (_PACKED_BYTES if is_packed else _bytes_of_a_row(one.info.path))
            for one in found
        )
        < SMALL
    )


def _rows_of_parquet(found: Sequence[Found]) -> float:
    """What the ends of some files say, and as many for each byte of the others."""
    seen = [
        (rows, one.info.length) for one in found[:_LOOKS] if (rows := _rows_in(one)) is not None
    ]
    if not seen:
        return sum(one.info.length / _PACKED_BYTES for one in found)
    rows, size = sum(one[0] for one in seen), sum(one[1] for one in seen)
    return float(rows * sum(one.info.length for one in found) / max(size, 1))


def _rows_in(one: Found) -> int | None:
    """How many rows a Parquet file has; None where whoever reads it will say what is wrong with it."""
    try:
        with one.fs.open_input_file(one.info.path) as source:
            return int(pq.read_metadata(source).num_rows)
    except (OSError, pa.ArrowException):
        return None


def _bytes_of_a_row(path: str) -> int:
    is_packed = os.path.splitext(path)[1].lower() in CODECS
    return _PACKED_BYTES if is_packed else _TEXT_BYTES
