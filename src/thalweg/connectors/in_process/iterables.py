"""Inputs that lie in memory, and iterators that give their items when they have them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from thalweg.checks import known_keywords, refuse, require_seconds
from thalweg.connectors.contracts import LINGER_S, Feed, Stop
from thalweg.connectors.fitting import Fitter
from thalweg.connectors.in_process.handover import Handover
from thalweg.connectors.readers.tables import check_types
from thalweg.errors import DataError, OperatorError, SchemaError
from thalweg.flow.operators.nodes import Source


def check_columns(source: Source, found: pa.Schema) -> None:
    """Refuses columns that do not fit the source's record, before any row is read.

    Raises:
        SchemaError: naming column, found and expected type.
    """
    try:
        check_types(found, source.record, f"the input of source {source.name!r}")
    except DataError as error:
        raise SchemaError(str(error)) from None


class TableSource:
    """A pyarrow table."""

    live = False

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        check_columns(source, self._table.schema)
        return _until(stop, Fitter(source, chunk_rows).chunks([self._table]))

    def close(self) -> None:
        pass


class CollectionSource:
    """A list or another collection of records, mappings, record batches or tables."""

    live = False

    def __init__(self, items: Collection[Any]) -> None:
        self._items = items

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        return _until(stop, Fitter(source, chunk_rows).chunks(self._items))

    def close(self) -> None:
        pass


def _until(stop: Stop, chunks: Feed) -> Feed:
    for one in chunks:
        if stop.is_set():
            return
        yield one


class IterableSource:
    """What an iterable gives, read ahead in a thread of its own, since ``next`` cannot be interrupted.

    The thread reads at most a chunk ahead. When the run is over it ends with the next item, and closes a generator.
    """

    made_by = "tw.from_iterable(...)"

    def __init__(self, items: Iterable[Any], *, linger_s: float = LINGER_S) -> None:
        self._items = items
        self._linger_s = linger_s
        #: Arrow's readers give what is there already.
        self.live = not isinstance(items, pa.RecordBatchReader)

    def __repr__(self) -> str:
        return f"from_iterable(<{type(self._items).__name__}>)"

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        if isinstance(self._items, pa.RecordBatchReader):
            check_columns(source, self._items.schema)
        return self._read(source, chunk_rows, stop)

    def close(self) -> None:
        pass  # the iterator of rows ends the thread

    def _read(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        handover = Handover(chunk_rows, self._linger_s)
        threading.Thread(
            target=_read_ahead,
            args=(source.name, self._items, handover),
            name=f"source-{source.name}",
            daemon=True,
        ).start()
        fitter = Fitter(source, chunk_rows)
        try:
            while items := handover.take(chunk_rows, stop):
                yield from _until(stop, fitter.chunks(items))
        finally:
            handover.close()


def _read_ahead(name: str, items: Iterable[Any], handover: Handover) -> None:
    """Puts the items into the hand-over until they end or nobody takes them any more."""
    given = 0
    try:
        iterator = iter(items)
        with contextlib.ExitStack() as stack:
            if hasattr(iterator, "close"):
                stack.callback(iterator.close)
            for item in iterator:
                rows = item.num_rows if isinstance(item, (pa.RecordBatch, pa.Table)) else 1
                if not handover.put(item, rows):
                    return
                given += 1
    except OperatorError as error:
        handover.fail(error)
    except BaseException as error:
        failure = DataError(
            f"source {name!r}: its iterator failed after {given} items: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        handover.fail(failure)
    finally:
        handover.close()


@known_keywords
def from_iterable(items: Iterable[Any], *, linger_s: float = LINGER_S) -> IterableSource:
    """Reads an iterable, which may be endless, as the input of a source.

    An iterator or generator that is given as it stands is read in the same way. A chunk is what is there, and no item
    waits for others longer than ``linger_s``.

    Args:
        items: records, tuples, mappings, record batches or tables.
        linger_s: the longest that an item waits for the next ones, in seconds; more makes larger chunks.

    Raises:
        BuildError: that is not an iterable, or the time is negative.
    """
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes)):
        raise refuse("from_iterable", "items", "an iterable of rows", items)
    require_seconds("from_iterable", linger_s=linger_s)
    return IterableSource(items, linger_s=linger_s)
