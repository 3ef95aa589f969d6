"""Random texts by the column: words of letters and spaces, and cuts of one long text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, np.dtype[Any]]
_LEAST: Final = 3
#: One in so many characters is the special one.
_SPECIAL_OF: Final = 13
_POOL: Final = 1 << 20
_A: Final = ord("a")


def words(rng: np.random.Generator, rows: int, most: int, special: str = " ") -> pa.Array:
    """Texts of 3 to ``most - 1`` letters, some of them ``special``; spaces at the ends are cut off."""
    lengths = rng.integers(_LEAST, most, rows)
    size = int(lengths.sum())
    letters = rng.integers(_A, _A + 26, size, dtype=np.uint8)
    letters[rng.integers(0, _SPECIAL_OF, size, dtype=np.uint8) == 0] = ord(special)
    return pc.utf8_trim(_texts(letters, lengths), characters=" ")


def pool(seed: int) -> Array:
    """The long text that :func:`fillers` are cut from."""
    return np.random.default_rng([seed, 1 << 40]).integers(_A, _A + 26, _POOL, dtype=np.uint8)


def fillers(
    rng: np.random.Generator, letters: Array, used: Array | int, average: int, rows: int
) -> pa.Array:
    """Texts that fill rows up to an average size: of what is left to it, 80 to 120 %; none where nothing is left.

    Args:
        letters: of :func:`pool`.
        used: bytes of the other fields of each row.
    """
    left = np.maximum(average - np.broadcast_to(used, rows), 0)
    spread = np.rint(left * 0.2).astype(np.int64)
    lengths = left - spread + rng.integers(0, np.maximum(2 * spread, 1))
    start = rng.integers(0, _POOL - average * 2, rows)
    ends = np.cumsum(lengths)
    place = np.arange(int(ends[-1]) if rows else 0) + np.repeat(start - (ends - lengths), lengths)
    return _texts(letters[place], lengths)


def _texts(letters: Array, lengths: Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    texts, ends = pa.py_buffer(letters), pa.py_buffer(offsets)
    return pa.StringArray.from_buffers(len(lengths), ends, texts)


def picks(rng: np.random.Generator, rows: int, choice: Sequence[str]) -> pa.Array:
    """One of some texts in each row."""
    return pa.array(choice).take(pa.array(rng.integers(0, len(choice), rows)))


def sizes(*columns: pa.Array) -> Array:
    """Bytes of the texts of each row."""
    found: Array = sum(
        pc.binary_length(column).to_numpy(zero_copy_only=False) for column in columns
    )
    return found.astype(np.int64)
