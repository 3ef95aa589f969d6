"""How what tasks count of their keys comes to the driver, and what a batch's counts say by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from thalweg.hashing import Int64s
from thalweg.locality import KeySummary
from thalweg.locality.counting.counts import Counts
from thalweg.locality.counting.names import KeyNames

#: What tasks told: the batch's attempt, stage, slot, and a summary as bytes.
Told: TypeAlias = list[tuple[str, int, int, bytes]]


class ToldParam(AccumulatorParam[Told]):
    """Adds up what tasks tell."""

    def zero(self, value: Told) -> Told:
        return []

    def addInPlace(self, value1: Told, value2: Told) -> Told:
        value1 += value2
        return value1


def top_keys(parts: Sequence[KeySummary], name: str, size: int) -> tuple[pa.Array, Int64s]:
    """An operator's most frequent keys that have a name, and how often each came, the most frequent first."""
    top = Counts.merged([part.keys[name] for part in parts]).top(size)
    hashes = np.ascontiguousarray(top.items[:, 0])
    names, counts = [pa.array([], pa.binary())], []
    for hash_, count in zip(hashes, top.counts.tolist(), strict=True):
        found = _name(parts, name, hash_)
        if found is not None:
            names.append(found)
            counts.append(count)
    return pa.concat_arrays(names), np.array(counts, np.int64)


def _name(parts: Sequence[KeySummary], operator: str, hash_: np.uint64) -> pa.Array | None:
    """What a part calls a key, as an array of one."""
    for part in parts:
        hashes, names = part.names[operator]
        [place] = KeyNames(hashes).places(np.array([hash_])).tolist()
        if place >= 0:
            return names.slice(place, 1)
    return None
