"""Order columns: rows and firings of operators in the order of the stream, and streams merged into one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.contracts import KeyedResult
from thalweg.columns.keys import KeySpec
from thalweg.columns.ordering import (
    empty_order,
    keyed_chunk,
    merge,
    order_places,
    positions,
    row_order,
    serials,
    with_columns,
)
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Field, Schema
from thalweg.plan.plan import KEY, LEVEL, SEQ, TIME


class Row(NamedTuple):
    n: int


SCHEMA = Schema.of(Row)
SPEC = KeySpec((Field("key", FieldType(Kind.INT, optional=True)),))
EVENT = (TIME, LEVEL, SEQ, KEY)


def ints(*values: int) -> Int64s:
    return np.array(values, np.int64)


def chunk(values: list[int], **order: list[int]) -> Chunk:
    made = Chunk.from_rows(SCHEMA, [Row(value) for value in values])
    made.order = {name: ints(*given) for name, given in order.items()}
    return made


def numbers(made: Chunk) -> list[int]:
    return [row.n for row in made.rows()]


def test_positions() -> None:
    """Each output row's number among those of its input row."""
    assert positions(ints(0, 0, 2, 2, 2, 5)).tolist() == [0, 1, 0, 1, 2, 0]
    assert positions(ints()).tolist() == []


def test_serials_of_sources_never_meet() -> None:
    """Rows of an earlier source come first, whatever their number."""
    assert serials(1, 10**12, 2)[-1] < serials(2, 0, 1)[0]
    assert np.diff(serials(3, 5, 4)).tolist() == [1, 1, 1]


def test_row_order_counts_only_where_the_key_is_whole() -> None:
    """Rows carry their input row's columns; the counter is added where the whole key is carried."""
    timed = chunk([1, 2], _time=[5, 6])
    assert row_order(timed, ints(0, 0, 1), "_c4").keys() == {TIME}
    whole = with_columns(chunk([1, 2], _time=[5, 6]), EVENT)
    order = row_order(whole, ints(0, 0, 1), "_c4")
    assert order[TIME].tolist() == [5, 5, 6]
    assert order["_c4"].tolist() == [0, 1, 0]


def test_with_columns_fills_with_zeros() -> None:
    """Exactly the named columns, zeros (and empty keys) where there was none."""
    made = with_columns(chunk([1], _time=[5], _extra=[7]), (TIME, LEVEL, KEY))
    assert list(made.order) == [TIME, LEVEL, KEY]
    assert made.order[LEVEL].tolist() == [0]
    assert made.order[KEY].to_pylist() == [b""]
    assert list(empty_order([SEQ], 2)[SEQ]) == [0, 0]


def result(values: list[int], source: Int64s, time: Int64s, keys: list[int | None]) -> KeyedResult:
    return KeyedResult(
        Chunk.from_rows(SCHEMA, [Row(v) for v in values]).columns,
        source,
        time,
        SPEC.columns_of(keys),
    )


def test_firings_stand_behind_the_rows_of_their_time() -> None:
    """Rows in input order; timers behind all rows up to their time, ordered by (time, key), null first."""
    given_rows = chunk([0, 0, 0], _time=[1, 5, 9])
    found = result(
        [90, 10, 53, 50, 51, 52, 99],
        ints(2, 0, -1, 1, -1, -1, -1),
        ints(0, 0, 5, 0, 5, 5, 20),
        [7, None, -3, 0],
    )
    out = keyed_chunk(given_rows, found, SCHEMA, SPEC, 4, None)
    assert numbers(out) == [10, 50, 51, 52, 53, 90, 99]
    assert out.order[TIME].tolist() == [1, 5, 5, 5, 5, 9, 20]


def test_firings_in_the_whole_key() -> None:
    """A firing is an event of its own: level, key, and a counter for its several rows."""
    given_rows = with_columns(chunk([0], _time=[5], _seq=[3]), EVENT)
    found = result([1, 2, 3, 4], ints(0, -1, -1, -1), ints(0, 5, 5, 5), [1, 1, 2])
    out = keyed_chunk(given_rows, found, SCHEMA, SPEC, 4, "_c4")
    assert numbers(out) == [1, 2, 3, 4]
    assert out.order[LEVEL].tolist() == [0, 4, 4, 4]
    assert out.order[SEQ].tolist() == [3, 0, 0, 0]
    assert out.order["_c4"].tolist() == [0, 0, 1, 0]
    keys = out.order[KEY].to_pylist()
    assert keys[0] == b""
    assert keys[1] == keys[2] < keys[3]


def test_rows_alone_need_no_time() -> None:
    """Without timers, and without event time, rows stand in input order."""
    found = result([2, 1, 11], ints(1, 0, 0), ints(0, 0, 0), [])
    assert numbers(keyed_chunk(chunk([0, 0]), found, SCHEMA, SPEC, 4, None)) == [1, 11, 2]


_EVENTS = st.lists(
    st.tuples(
        st.integers(-3, 3), st.sampled_from((0, 0, 2, 5)), st.integers(0, 3), st.binary(max_size=2)
    ),
    max_size=20,
)


def keyed_rows(events: list[tuple[int, int, int, bytes]], first: int) -> Chunk:
    """Events sorted by their key, numbered from ``first``: a stream."""
    events = sorted(
        (t, level, 0 if level else seq, key if level else b"") for t, level, seq, key in events
    )
    made = Chunk.from_rows(SCHEMA, [Row(first + i) for i in range(len(events))])
    if not events:
        return Chunk.empty(SCHEMA, EVENT)
    times, levels, seqs, keys = zip(*events, strict=True)
    made.order = {
        TIME: ints(*times),
        LEVEL: ints(*levels),
        SEQ: ints(*seqs),
        KEY: pa.array(keys, pa.binary()),
    }
    return made


@settings(max_examples=150, derandomize=True, database=None, deadline=None)
@given(_EVENTS, _EVENTS)
def test_merge_is_a_stable_sort(
    one: list[tuple[int, int, int, bytes]], two: list[tuple[int, int, int, bytes]]
) -> None:
    """The merged stream is sorted by the whole key; equal keys keep the order of streams and rows."""
    parts = [keyed_rows(one, 0), keyed_rows(two, 100)]
    both = [row for part in parts for row in zip(*keys_of(part), numbers(part), strict=True)]
    merged = merge(parts, EVENT)
    found = list(zip(*keys_of(merged), numbers(merged), strict=True))
    assert found == sorted(both, key=lambda row: row[:4])


def keys_of(made: Chunk) -> list[list[object]]:
    return [made.order[n].tolist() for n in (TIME, LEVEL, SEQ)] + [made.order[KEY].to_pylist()]


def test_sorted_rows_stay_where_they_are() -> None:
    """Rows without firings that are in order need no sorting; a tie later in the key is no disorder."""
    assert order_places(chunk([1, 2, 3], _time=[1, 1, 2], _seq=[4, 5, 0])) is None
    places = order_places(chunk([1, 2, 3], _time=[1, 1, 2], _seq=[5, 4, 0]))
    assert places is not None
    assert places.tolist() == [1, 0, 2]


def test_rows_that_stand_in_order_are_not_the_operators_buffers() -> None:
    """An operator may write over its buffers of numbers in the next step."""
    found = result([1, 2], ints(0, 1), ints(0, 0), [])
    out = keyed_chunk(chunk([0, 0]), found, SCHEMA, SPEC, 4, None)
    assert numbers(out) == [1, 2]
    assert not np.shares_memory(out.columns[0].values, found.columns[0].values)
