"""The stable hash: it is XXH64, in all its forms, for ever; and the folder of compiled code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.hashing import bucket_of, hash_bytes, hash_texts, hash_words, text_buffers

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
WORDS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_known_values_never_change(data: bytes, expected: int) -> None:
    """The numbers that others publish for XXH64: a checkpoint depends on them."""
    assert hash_bytes(data) == expected
    assert hash_texts(pa.array([data])).tolist() == [expected]


@given(st.lists(st.binary(max_size=100)))
@QUICK
def test_every_form_agrees_with_the_reference(values: list[bytes]) -> None:
    """Plain and compiled forms equal the xxhash package, for every length and storage."""
    expected = [xxhash.xxh64_intdigest(value) for value in values]
    assert [hash_bytes(value) for value in values] == expected
    for kind in (pa.binary(), pa.large_binary()):
        assert hash_texts(pa.array(values, kind)).tolist() == expected


@given(st.integers(0, 9), st.data())
@QUICK
def test_words_hash_as_their_bytes(width: int, data: st.DataObject) -> None:
    """A row of words hashes as its little-endian bytes, whatever the width."""
    rows = data.draw(st.lists(st.lists(WORDS, min_size=width, max_size=width), min_size=1))
    words = np.array(rows, np.int64).reshape(len(rows), width)
    expected = [hash_bytes(row.astype("<i8").tobytes()) for row in words]
    assert hash_words(words).tolist() == expected


def test_slices_and_nulls() -> None:
    """A slice hashes as its own rows; null is 0; strided words hash alike."""
    texts = pa.array(["a", None, "", "é" * 40, "b"])
    whole = hash_texts(texts)
    assert whole[1] == 0
    assert hash_texts(texts.slice(2, 2)).tolist() == whole[2:4].tolist()
    assert hash_texts(texts.cast(pa.large_string()).slice(3)).tolist() == whole[3:].tolist()
    assert hash_texts(pa.array([], pa.string())).tolist() == []
    assert hash_texts(pa.array([None, None], pa.string())).tolist() == [0, 0]
    words = np.arange(12).reshape(6, 2)
    assert hash_words(words[::2]).tolist() == hash_words(words)[::2].tolist()


def test_other_arrays_are_refused() -> None:
    """Only text and bytes have text buffers."""
    with pytest.raises(TypeError, match="int64"):
        text_buffers(pa.array([1]))


@given(st.lists(st.integers(0, 2**64 - 1)), st.sampled_from([1, 2, 3, 128, 2**31]))
@QUICK
def test_buckets_are_in_range_and_defined(hashes: list[int], buckets: int) -> None:
    """bucket_of is the multiply-shift of the high 32 bits that its text promises."""
    got = bucket_of(np.array(hashes, np.uint64), buckets).tolist()
    assert got == [(one >> 32) * buckets >> 32 for one in hashes]
    assert all(0 <= one < buckets for one in got)


def test_buckets_are_even() -> None:
    """Keys that count up spread over the buckets within a few per cent of even."""
    sizes = np.bincount(bucket_of(hash_words(np.arange(128_000)[:, None]), 128), minlength=128)
    assert sizes.min() > 850
    assert sizes.max() < 1150
