"""What may be given for a source of a flow, as a row source."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa

from thalweg.checks import kind_of
from thalweg.connectors.contracts import RowSource
from thalweg.connectors.embedded.log_source import LogSource
from thalweg.connectors.in_process.iterables import CollectionSource, IterableSource, TableSource
from thalweg.connectors.logs import Log
from thalweg.errors import BuildError

_EXPECTED = (
    "expected a pyarrow table, rows, or one of tw.files(...), tw.kafka(...), tw.tcp_lines(...), tw.push_source(),"
    " tw.from_iterable(...)"
)


def as_source(name: str, given: Any) -> RowSource:
    """What was given for the source of that name.

    Tables and collections lie there and are read as they are; an iterator is read in a thread of its own.

    Raises:
        BuildError: it is none of the kinds.
    """
    if isinstance(given, RowSource):
        return given
    if isinstance(given, Log):
        return LogSource(given)
    if isinstance(given, (str, os.PathLike)):
        raise BuildError(f"input {name!r}: {_EXPECTED}, got a path; write tw.files({str(given)!r})")
    if isinstance(given, pa.RecordBatchReader):
        return IterableSource(given)
    if isinstance(given, pa.RecordBatch) or hasattr(given, "__arrow_c_stream__"):
        return TableSource(pa.table(given))
    if isinstance(given, (Mapping, bytes, bytearray)) or not isinstance(given, Iterable):
        raise BuildError(f"input {name!r}: {_EXPECTED}, got {kind_of(given)}")
    if isinstance(given, Collection):
        return CollectionSource(given)
    return IterableSource(given)
