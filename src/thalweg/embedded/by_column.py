"""Which inputs have columns by name, of which some can be left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from thalweg.connectors.files import FileSource


def by_column(inputs: Mapping[str, Any]) -> frozenset[str]:
    """The sources whose rows come from tables, Parquet files, or CSV files that name their columns."""
    return frozenset(name for name, given in inputs.items() if _has_columns(given))


def _has_columns(given: Any) -> bool:
    if isinstance(given, FileSource):
        options = given.options
        named = options.format == "parquet" or (options.format == "csv" and options.header)
        return named and not options.partitions
    return isinstance(given, (pa.Table, pa.RecordBatch))
