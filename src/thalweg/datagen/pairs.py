"""Tuples of two integers that go together more or less often, and a padding (Caneill et al., 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.datagen.frames import require
from thalweg.flow.records import Schema

#: About so many bytes are made at once.
_BLOCK_BYTES: Final = 8 << 20


class KeyPair(NamedTuple):
    """Two keys; ``padding`` is what a tuple carries along."""

    first: int
    second: int
    padding: bytes


#: The Arrow schema of every batch and file.
KEY_PAIR_SCHEMA: Final[pa.Schema] = Schema.of(KeyPair).arrow


def key_pairs(
    rows: int, keys: int = 1_000, *, locality: float = 0.8, padding: int = 0, seed: int = 0
) -> Iterator[pa.RecordBatch]:
    """Tuples whose first key is uniform over 0 to keys - 1, in batches of about 8 MB.

    The second key is the first one's partner, ``keys`` more, in a share of the tuples; else it is the partner of any
    other first key, all alike. In the paper partners are equal numbers. A hash that all operators have in common
    brings equal numbers together by itself, and correlated keys of real data are not equal, so here they differ.

    Args:
        rows: how many.
        keys: of each of both fields, at least 2.
        locality: the share of tuples whose keys are partners.
        padding: bytes a tuple, random so that nothing on the way compresses them.
        seed: other tuples.

    Raises:
        ValueError: a number is out of its range.
    """
    require("rows", rows, rows >= 0, "0 or more")
    require("keys", keys, keys >= 2, "2 or more")
    require("locality", locality, 0 <= locality <= 1, "0 to 1")
    require("padding", padding, padding >= 0, "0 or more")
    return _batches(rows, keys, locality, padding, np.random.default_rng(seed))


def _batches(
    rows: int, keys: int, locality: float, padding: int, rng: np.random.Generator
) -> Iterator[pa.RecordBatch]:
    size = max(_BLOCK_BYTES // (padding + 16), 1)
    for start in range(0, rows, size):
        count = min(size, rows - start)
        first = rng.integers(0, keys, count)
        others = rng.integers(1, keys, count)
        away = np.where(rng.random(count) < locality, 0, others)
        second = keys + (first + away) % keys
        ends = np.arange(count + 1, dtype=np.int32) * padding
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(rng.bytes(count * padding))]
        carried = pa.Array.from_buffers(pa.binary(), count, buffers)
        yield pa.record_batch([first, second, carried], schema=KEY_PAIR_SCHEMA)
