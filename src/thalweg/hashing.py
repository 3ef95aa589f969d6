"""The stable hash: XXH64 with seed 0 over the canonical form of a key, equal everywhere for ever.

Buckets, routing tables and category codes hang on it, so it is part of the format of a checkpoint.
The algorithm is the public XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md); Python's own
``hash`` is salted per process and therefore never used. Here are its compiled forms; Python calls
``xxhash.xxh64_intdigest``. Canonical forms:

- A *text* (str, bytes, Category) hashes as XXH64 of its bytes (UTF-8 for str), without a length or
  an end mark. A Category's code is this hash, read as a signed 64-bit integer.
- Every fixed-width value is a *word*, 8 bytes in little-endian order: int and Timestamp in two's
  complement, bool as 0 or 1, float as its IEEE 754 bits after -0.0 became 0.0 and every NaN became
  0x7ff8000000000000, a Category as its code.
- A key of *only fixed-width fields* hashes as XXH64 of its words in field order; if any of the
  fields is Optional, a last word follows whose bit i is set when the i-th fixed-width field is null
  (the word of a null is 0). The empty key hashes as XXH64 of nothing.
- A key of *one str or bytes field that is not Optional* hashes as a text.
- *Every other key* hashes as XXH64 of its ordered bytes (see :mod:`thalweg.columns.keys`), which
  also cover nulls.

A null text in :func:`hash_texts` hashes as 0 here; a caller that tells nulls apart keeps a mask.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.jit import njit
from thalweg.jit.memory import eight_bytes

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: The bits that stand for every NaN.
NAN_BITS: Final = 0x7FF8000000000000

_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_MASK: Final = 2**64 - 1


_U1: Final = np.uint64(_P1)
_U2: Final = np.uint64(_P2)
_U3: Final = np.uint64(_P3)
_U4: Final = np.uint64(_P4)
_U5: Final = np.uint64(_P5)
_FIRST_LANE: Final = np.uint64((_P1 + _P2) & _MASK)
_LAST_LANE: Final = np.uint64(-_P1 & _MASK)
_ZERO: Final = np.uint64(0)


@njit(forceinline=True)
def _turn(value: Any, by: Any) -> Any:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@njit(forceinline=True)
def _mix(lane: Any, word: Any) -> Any:
    return _turn(lane + word * _U2, 31) * _U1


@njit(forceinline=True)
def _merge(value: Any, lane: Any) -> Any:
    return (value ^ _mix(_ZERO, lane)) * _U1 + _U4


@njit(forceinline=True)
def _join(a: Any, b: Any, c: Any, d: Any) -> Any:
    value = _turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)
    return _merge(_merge(_merge(_merge(value, a), b), c), d)


@njit(forceinline=True)
def _word_step(value: Any, word: Any) -> Any:
    return _turn(value ^ _mix(_ZERO, word), 27) * _U1 + _U4


@njit(forceinline=True)
def _avalanche(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(33))) * _U2
    value = (value ^ (value >> np.uint64(29))) * _U3
    return value ^ (value >> np.uint64(32))


@njit
def _load4(data: Bytes, at: int) -> Any:
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + 1]) << np.uint64(8))
        | (np.uint64(data[at + 2]) << np.uint64(16))
        | (np.uint64(data[at + 3]) << np.uint64(24))
    )


@njit
def hash_span(data: Bytes, start: Any, stop: Any) -> Any:
    """XXH64 of ``data[start:stop]``, for compiled callers."""
    at = start
    if stop - start >= 32:
        a, b, c, d = _FIRST_LANE, _U2, _ZERO, _LAST_LANE
        while at + 32 <= stop:
            a = _mix(a, eight_bytes(data, at))
            b = _mix(b, eight_bytes(data, at + 8))
            c = _mix(c, eight_bytes(data, at + 16))
            d = _mix(d, eight_bytes(data, at + 24))
            at += 32
        value = _join(a, b, c, d)
    else:
        value = _U5
    value += np.uint64(stop - start)
    while at + 8 <= stop:
        value = _word_step(value, eight_bytes(data, at))
        at += 8
    if at + 4 <= stop:
        value = _turn(value ^ (_load4(data, at) * _U1), 23) * _U2 + _U3
        at += 4
    while at < stop:
        value = _turn(value ^ (np.uint64(data[at]) * _U5), 11) * _U1
        at += 1
    return _avalanche(value)


@njit
def hash_row(words: Int64s, row: int) -> Any:
    """XXH64 of one row of a word matrix, for compiled callers."""
    width = words.shape[1]
    at = 0
    if width >= 4:
        a, b, c, d = _FIRST_LANE, _U2, _ZERO, _LAST_LANE
        while at + 4 <= width:
            a = _mix(a, np.uint64(words[row, at]))
            b = _mix(b, np.uint64(words[row, at + 1]))
            c = _mix(c, np.uint64(words[row, at + 2]))
            d = _mix(d, np.uint64(words[row, at + 3]))
            at += 4
        value = _join(a, b, c, d)
    else:
        value = _U5
    value += np.uint64(8 * width)
    while at < width:
        value = _word_step(value, np.uint64(words[row, at]))
        at += 1
    return _avalanche(value)


@njit
def _hash_spans(data: Bytes, offsets: Any, out: UInt64s) -> None:
    for i in range(len(out)):
        out[i] = hash_span(data, np.int64(offsets[i]), np.int64(offsets[i + 1]))


@njit
def _hash_rows(words: Int64s, out: UInt64s) -> None:
    for i in range(len(out)):
        out[i] = hash_row(words, i)


@njit
def _hash_single(words: Int64s, out: UInt64s) -> None:
    """As :func:`_hash_rows` of a single word, without branches, so that it becomes vector code."""
    for i in range(len(out)):
        out[i] = _avalanche(_word_step(_U5 + np.uint64(8), np.uint64(words[i])))


def text_buffers(array: pa.Array) -> tuple[Any, Bytes]:
    """The n + 1 offsets and the bytes of a string or binary array, as views that copy nothing.

    Raises:
        TypeError: the array is of another type.
    """
    kind = array.type
    if kind == pa.string() or kind == pa.binary():
        dtype: Any = np.int32
    elif kind == pa.large_string() or kind == pa.large_binary():
        dtype = np.int64
    else:
        raise TypeError(f"expected an Arrow array of text or bytes, got {kind}")
    _, offsets, data = array.buffers()
    # An empty array may come without offsets.
    ends = np.zeros(len(array) + 1, dtype)
    if offsets is not None and offsets.size:
        ends = np.frombuffer(offsets, dtype)[array.offset :]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    ends = ends[: len(array) + 1]
    # Arrow's buffers are read-only or not; compiled code is made once for one of the two.
    ends.flags.writeable = content.flags.writeable = False
    return ends, content


def hash_texts(array: pa.Array) -> UInt64s:
    """The hash of each text of a string or binary array (also large), 0 where it is null."""
    out = np.empty(len(array), np.uint64)
    offsets, data = text_buffers(array)
    _hash_spans(data, offsets, out)
    if array.null_count:
        out[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return out


def hash_words(words: Int64s) -> UInt64s:
    """The hash of each row of an ``int64[n, w]`` matrix, taken as w little-endian words."""
    out = np.empty(len(words), np.uint64)
    words = np.ascontiguousarray(words)
    if words.shape[1] == 1:
        _hash_single(words.ravel(), out)
    else:
        _hash_rows(words, out)
    return out


@njit
def _buckets(hashes: UInt64s, buckets: Any, out: Int64s) -> None:
    for i in range(len(out)):
        out[i] = np.int64(((hashes[i] >> np.uint64(32)) * buckets) >> np.uint64(32))


def bucket_of(hashes: UInt64s, buckets: int) -> Int64s:
    """The bucket of each hash: its high 32 bits times the number of buckets, divided by 2**32.

    The high bits choose the bucket, so that the low ones are still evenly spread inside it, where a
    table uses them. At most 2**31 buckets.
    """
    out = np.empty(len(hashes), np.int64)
    _buckets(hashes, np.uint64(buckets), out)
    return out


def contains(known: UInt64s, hashes: UInt64s) -> npt.NDArray[np.bool_]:
    """For each hash, whether it is among others.

    Args:
        known: ascending.
        hashes: to look for.
    """
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[places] == hashes
    return found
