"""Chunks as blobs: what is sent arrives, in pieces that are not too large, whatever LZ4 makes of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.columns.ordering import merge, with_columns
from thalweg.flow.records import Schema
from thalweg.plan.plan import KEY, LEVEL, SEQ, TIME
from thalweg.spark.tasks import transport
from thalweg.spark.tasks.numbers import narrowed, widened
from thalweg.spark.tasks.transport import (
    Blob,
    decode,
    encode,
    from_batch,
    pieces,
    taken,
    to_batches,
)

ORDER = (TIME, LEVEL, SEQ, KEY)


class Wide(NamedTuple):
    """A row that may be large."""

    n: int
    data: bytes
    text: str


SCHEMA = Schema.of(Wide)
ROWS = st.lists(
    st.builds(Wide, st.integers(-(2**40), 2**40), st.binary(max_size=9), st.text(max_size=3)),
    max_size=40,
)


def chunk(rows: list[Wide]) -> Chunk:
    made = Chunk.from_rows(SCHEMA, rows)
    made.order = {SEQ: np.arange(len(rows))}
    return with_columns(made, ORDER)


def random_rows(count: int, size: int) -> list[Wide]:
    rng = np.random.default_rng(count)
    return [Wide(i, rng.bytes(size), "x") for i in range(count)]


def same(one: Chunk, other: Chunk) -> bool:
    def plain(given: Chunk) -> list[list[Any]]:
        return [given.rows(), *(np.asarray(given.order[name]).tolist() for name in ORDER)]

    return plain(one) == plain(other)


@settings(max_examples=sized(100), derandomize=True, database=None, deadline=None)
@given(ROWS)
def test_what_is_sent_arrives(rows: list[Wide]) -> None:
    """Values and order columns."""
    sent = chunk(rows)
    assert same(decode(encode(sent, ORDER), SCHEMA, ORDER), sent)


def test_whole_numbers_travel_narrow_and_come_back() -> None:
    """Any int64: near each other, in small steps over a wide range, at both ends of the range, of any distance."""
    rng = np.random.default_rng(7)
    ends = np.array([-(2**63), 2**63 - 1], np.int64)
    cases: list[tuple[Any, int | None]] = [
        (rng.integers(-100, 100, 300), 1),
        (rng.integers(2**62, 2**62 + 60_000, 300), 2),
        (np.cumsum(rng.integers(0, 2**31, 300)), 4),
        (np.cumsum(rng.integers(-9, 9, 300)) * 2**20 + 2**50, 4),
        (np.arange(300) * 2**40, 1),
        (np.r_[ends, np.zeros(300, np.int64)], None),
        (np.resize(ends, 300), 1),  # a step from one end to the other wraps around
        (np.r_[ends[1] - np.arange(300), ends[1]], 2),
        (rng.integers(-(2**63), 2**63 - 1, 300), None),
        (np.arange(9), None),
    ]
    for values, width in cases:
        found = narrowed(values)
        if width is None:
            assert found is None
        else:
            assert found is not None and found.values.itemsize == width
            back = widened(found.values, found.form)
            assert back.dtype == np.int64 and np.array_equal(back, values)


class Timed(NamedTuple):
    """A row with its time, beside a time of another kind, and values that may be missing."""

    at: tw.Timestamp
    other: tw.Timestamp | None
    kind: tw.Category | None
    n: int | None


def test_times_that_a_field_has_travel_once() -> None:
    """The time of a row is sent only where no field has it, also where a field nearly has it."""
    rows = [
        Timed(
            tw.Timestamp(i * 10**9),
            None if i % 3 else tw.Timestamp(i),
            f"k{i % 100}" if i % 4 else None,
            None if i % 5 else i,
        )
        for i in range(1_000)
    ]
    schema = Schema.of(Timed)
    sizes = []
    for late in (0, 1):
        sent = Chunk.from_rows(schema, rows)
        times = sent.columns[0].values.copy()
        times[500] += late
        sent.order = {TIME: times, SEQ: np.arange(1_000) * 7}
        blob = encode(sent, (TIME, SEQ))
        found = decode(blob, schema, (TIME, SEQ))
        assert found.rows() == rows
        assert np.array_equal(found.order[TIME], times)
        assert np.array_equal(found.order[SEQ], sent.order[SEQ])
        sizes.append(blob.size)
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("rows", "smaller"),
    [
        (random_rows(300, 3_000), False),
        ([Wide(i, bytes(3_000), "x") for i in range(300)], True),
        # The same again within the 64 kB that LZ4 looks back, though no row of its own gets smaller.
        ([random_rows(1, 9_000)[0] for _ in range(100)], True),
        (random_rows(0, 0), True),
    ],
)
def test_only_what_shrinks_is_compressed(rows: list[Wide], smaller: bool) -> None:
    """Random bytes travel as they are, zeros and repetitions do not."""
    sent = chunk(rows)
    blob = encode(sent, ORDER)
    size = sum(len(row.data) for row in rows)
    assert (blob.size < 0.2 * size + 2_000) is smaller
    assert same(decode(blob, SCHEMA, ORDER), sent)


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("size", [3, 3_000])
def test_numbers_of_blobs_at_any_place_are_aligned(shift: int, size: int) -> None:
    """A blob may stand anywhere in a column; machine code reads its numbers all the same."""
    sent = chunk(random_rows(200, size))
    blob = encode(sent, ORDER)
    room = pa.py_buffer(bytes(shift) + blob.to_pybytes())
    found = decode(room.slice(shift), SCHEMA, ORDER)
    assert found.columns[0].values.flags.aligned
    assert all(found.order[name].flags.aligned for name in (TIME, LEVEL, SEQ))
    assert same(found, sent)


@settings(max_examples=sized(100), derandomize=True, database=None, deadline=None)
@given(ROWS, st.data())
def test_pieces_are_the_rows_in_their_order(rows: list[Wide], data: st.DataObject) -> None:
    """Whatever rows are taken, and however small the pieces."""
    sent = chunk(rows)
    places = np.array(sorted(data.draw(st.sets(st.integers(0, 39)))), np.int64)
    places = places[places < len(rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "BLOB_BYTES", data.draw(st.integers(1, 400)))
        whole, some = list(pieces(sent)), list(taken(sent, places))
    for found, expected in ((whole, sent), (some, sent.take(places))):
        assert all(len(piece) for piece in found)
        if found:
            assert same(Chunk.concat(found), expected)
        else:
            assert not len(expected)


def test_pieces_of_uneven_rows_are_not_too_large() -> None:
    """Rows that are taken may be the large ones of a chunk."""
    rows = random_rows(4_000, 10) + random_rows(400, 20_000)
    sent = chunk(rows)
    found = list(taken(sent, np.arange(4_000, 4_400)))
    assert [row for piece in found for row in piece.rows()] == rows[4_000:]
    assert max(encode(piece, ORDER).size for piece in found) < 2 * transport.BLOB_BYTES


def test_blobs_pass_through_batches() -> None:
    """Rows of the frame and back; what JSON leaves behind keeps the blobs after it aligned."""
    sent = chunk(random_rows(50, 3_000))
    said = transport.report(1, 0, {"a": [1, 2, 3], 4: "b"})
    blobs = [
        said,
        Blob(2, 1, "chunk", 3, 0, 0, encode(sent, ORDER)),
        Blob(0, 0, "sink", 1, 0, 0, b""),
    ]
    joined = pa.concat_batches(to_batches(iter(blobs)))
    found = list(from_batch(joined))
    assert [one[:-1] for one in found] == [one[:-1] for one in blobs]
    assert orjson.loads(bytes(found[0].data)) == {"a": [1, 2, 3], "4": "b"}
    assert found[1].data.address % 8 == 0  # type: ignore[union-attr]
    assert same(decode(found[1].data, SCHEMA, ORDER), sent)
    assert bytes(found[2].data) == b""


@settings(max_examples=sized(60), derandomize=True, database=None, deadline=None)
@given(ROWS, st.integers(1, 5))
def test_what_was_split_merges_again(rows: list[Wide], slots: int) -> None:
    """Dealt to slots and merged from them: the stream."""
    sent = chunk(rows)
    if not rows:
        return
    parts = [sent.take(np.arange(slot, len(rows), slots)) for slot in range(slots)]
    blobs = [encode(piece, ORDER) for part in parts for piece in pieces(part)]
    assert same(merge([decode(blob, SCHEMA, ORDER) for blob in blobs], ORDER), sent)
