"""Whether a ``map_batches`` function depends on how a stream is cut."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.brief import counted
from thalweg.columns.chunks import Chunk
from thalweg.flow.records import Schema
from thalweg.testing.compare import row_difference


def assert_recut(
    function: Callable[[pa.RecordBatch], Any],
    record: Any,
    rows: Sequence[Any],
    *,
    seeds: Iterable[int] = range(8),
) -> None:
    """Checks that a ``map_batches`` function gives the same however the stream is cut into batches.

    Args:
        function: the function.
        record: the record of its input: a NamedTuple class or a pyarrow schema.
        rows: rows to try it on.
        seeds: a random cut each, beside the cut into single rows.

    Raises:
        AssertionError: some cut gives other rows than the whole.

    Example::

        >>> import pyarrow as pa
        >>> import thalweg as tw
        >>> schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
        >>> def best(batch):
        ...     top = max(batch.column("n").to_pylist())
        ...     return batch.set_column(0, "n", pa.array([top] * len(batch)))
        >>> tw.testing.assert_recut(best, schema, [(1,), (2,)])
        Traceback (most recent call last):
        ...
        AssertionError: best depends on how the stream is cut: cut at [1], row 0 differs (2 rows expected, 2 came)
          -     0  (0, {'n': 2})
          -     1  (1, {'n': 2})
          +     0  (0, {'n': 1})
          +     1  (1, {'n': 2})
          (- expected, + got)
    """
    schema = Schema.of(record)
    batch = Chunk.from_rows(schema, [schema.coerce(tuple(row)) for row in rows]).to_arrow()
    expected = _answer(function, batch, 0)
    everywhere = list(range(1, len(batch)))
    some = (sorted(random.Random(s).choices(everywhere or [0], k=3)) for s in seeds)
    for cuts in (everywhere, *some):
        edges = [0, *cuts, len(batch)]
        parts = [(start, stop) for start, stop in itertools.pairwise(edges) if stop > start]
        got = [row for start, stop in parts for row in _answer(function, batch[start:stop], start)]
        found = row_difference(expected, got)
        if found:
            name = getattr(function, "__name__", "the function")
            raise AssertionError(
                f"{name} depends on how the stream is cut: cut at {sorted(set(cuts))}, {found}"
            )


def _answer(
    function: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch, first: int
) -> list[tuple[int, dict[str, Any]]]:
    """The function's rows, each with the place of its input row in the whole."""
    if not len(batch):
        return []
    answer = function(batch)
    source = np.arange(len(batch))
    if isinstance(answer, tuple):
        answer, source = answer[0], np.asarray(answer[1], np.int64)
    assert len(source) == answer.num_rows, (
        f"the function gave {counted(answer.num_rows, 'row')} for {len(source)}; return (batch, source rows)"
        " when the number changes"
    )
    return list(zip((source + first).tolist(), answer.to_pylist(), strict=True))
