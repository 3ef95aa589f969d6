"""Categories: texts of which there are few travel as their 64-bit hashes, and become texts again at the edges."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import ThalwegError
from thalweg.hashing import hash_texts

Int64s = npt.NDArray[np.int64]


class Categories:
    """The texts behind the category hashes seen in this process; two texts of one hash are an error."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def encode(self, values: pa.Array) -> Int64s:
        """The hashes of a string (or dictionary) array; nulls come as 0."""
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        texts = values.dictionary
        hashes = hash_texts(texts).view(np.int64)
        for code, text in zip(hashes.tolist(), texts.to_pylist(), strict=True):
            if self._texts.setdefault(code, text) != text:
                raise ThalwegError(
                    f"the category texts {self._texts[code]!r} and {text!r} have the same 64-bit hash;"
                    " declare the field as str"
                )
        if not len(hashes):
            return np.zeros(len(values), np.int64)
        codes = np.append(hashes, np.int64(0))
        indices = pc.fill_null(values.indices.cast(pa.int64()), len(hashes))
        out: Int64s = codes[indices.to_numpy(zero_copy_only=False)]
        return out

    def code(self, text: str) -> int:
        """The hash of one text."""
        return int(self.encode(pa.array([text], pa.string()))[0])

    def decode(self, codes: Int64s) -> pa.Array:
        """The texts of these hashes as a string array."""
        coded = self.decode_dictionary(codes)
        return coded.dictionary.take(coded.indices)

    def decode_dictionary(self, codes: Int64s) -> pa.DictionaryArray:
        """The texts of these hashes as a dictionary array."""
        coded = pa.array(codes).dictionary_encode()
        texts = [self._texts.get(code, "") for code in coded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string()))


CATEGORIES: Final = Categories()
