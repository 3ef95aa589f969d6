"""Orders timers where each key has a time of its own: by the row of the key that made them fire.

No watermark fires such timers; a key's next row with a greater time does, so what the timer gave stands just before
what that row gives, and the order stays that of the rows' arrival, whatever the number of slots. At the end of
the stream the timers that are left fire by (time, operator, key), like all others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult
from thalweg.columns.keys import KeySpec
from thalweg.plan.plan import OWN


def settle(
    chunk: Chunk, keys: Sequence[Column], result: KeyedResult, spec: KeySpec, *, ending: bool
) -> KeyedResult:
    """The result with every output's own time and, unless the stream ends, timers as outputs of the row behind.

    Args:
        chunk: the rows that the operator processed; those of one key stand in the order of their own time.
        keys: their key columns.
        result: what the operator gave.
        spec: the key.
        ending: whether the timers fired because the stream ends.
    """
    by_timer = np.flatnonzero(result.source < 0)
    by_row = np.flatnonzero(result.source >= 0)
    time = result.time.copy()
    time[by_row] = chunk.order[OWN][result.source[by_row]]
    if ending or not len(by_timer):
        return dataclasses.replace(result, time=time)
    source = result.source.copy()
    source[by_timer] = triggers(keys, chunk.order[OWN], result.timer_keys, time[by_timer], spec)
    is_row = result.source >= 0
    places = np.lexsort((np.where(is_row, 0, time), is_row, source))
    return KeyedResult(
        [column.take(places) for column in result.columns],
        source[places],
        time[places],
        [column.take(np.zeros(0, np.int64)) for column in result.timer_keys],
        result.disarmed,
        result.rejected,
    )


def triggers(
    keys: Sequence[Column],
    own: Int64s,
    timer_keys: Sequence[Column],
    times: Int64s,
    spec: KeySpec,
) -> Int64s:
    """For each timer that fired the place of the row that made it due: its key's first with a greater time."""
    rows, timers = len(own), len(times)
    texts = pa.chunked_array(
        [spec.ordered_bytes(keys, rows), spec.ordered_bytes(timer_keys, timers)]
    )
    codes = texts.combine_chunks().dictionary_encode().indices.to_numpy()
    is_timer = np.r_[np.zeros(rows, np.bool_), np.ones(timers, np.bool_)]
    order = np.lexsort((is_timer, np.r_[own, times], codes))
    # The next row in this order is the one: a timer stands behind its key's rows with a time up to its own.
    at = np.where(is_timer[order], rows + timers, np.arange(rows + timers))
    behind = order[np.minimum.accumulate(at[::-1])[::-1][is_timer[order]]]
    found = np.empty(timers, np.int64)
    found[order[is_timer[order]] - rows] = behind
    assert bool((codes[found] == codes[rows:]).all())
    return found
