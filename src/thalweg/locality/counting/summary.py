"""What slots have counted, on its way to who decides: merged, as bytes, and read as statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.hashing import Int64s, UInt64s, bucket_of
from thalweg.locality.counting.counts import Counts
from thalweg.locality.counting.names import KeyNames
from thalweg.locality.statistics import Key, KeyCount, KeyLoads, PairCount, Statistics

#: Two consecutive keyed operators, by name.
Link: TypeAlias = tuple[str, str]
#: The keys of an operator by their names, as many.
Decode: TypeAlias = Callable[[str, pa.BinaryArray], list[Key]]
Names: TypeAlias = tuple[UInt64s, pa.BinaryArray]


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class KeySummary:
    """The counts of one or several slots.

    Attributes:
        buckets: by keyed operator, in the order of the flow, the tuples of each bucket.
        keys: by operator, the counts of its keys.
        pairs: by link, the counts of its pairs.
        names: by operator, hashes in ascending order and what the keys are called.
    """

    buckets: Mapping[str, Int64s]
    keys: Mapping[str, Counts]
    pairs: Mapping[Link, Counts]
    names: Mapping[str, Names]

    @classmethod
    def merged(cls, parts: Sequence[KeySummary]) -> KeySummary:
        """The counts of several slots or times, at least one.

        Raises:
            BuildError: they are of different operators or links.
        """
        one, *others = parts
        shape = one._shape()
        for other in map(KeySummary._shape, others):
            if other != shape:
                raise BuildError(f"counts of {shape} cannot be merged with counts of {other}")
        return cls(
            bucket_loads(parts),
            {name: Counts.merged([part.keys[name] for part in parts]) for name in one.keys},
            {link: Counts.merged([part.pairs[link] for part in parts]) for link in one.pairs},
            {name: _all_names([part.names[name] for part in parts]) for name in one.names},
        )

    def top(self, *, pairs: int, keys: int) -> KeySummary:
        """Only the most frequent pairs and keys, shared out as a sketch shares its counters, and the names of these."""
        kept_keys = {
            name: one.top(max(1, keys // len(self.keys))) for name, one in self.keys.items()
        }
        kept_pairs = {
            link: one.top(max(1, pairs // len(self.pairs))) for link, one in self.pairs.items()
        }
        names = {}
        for name, (hashes, texts) in self.names.items():
            known = [kept_keys[name].items[:, 0]]
            for link, one in kept_pairs.items():
                known += [one.items[:, side] for side in (0, 1) if link[side] == name]
            places = KeyNames(hashes).places(np.concatenate(known))
            used = np.zeros(len(hashes), np.bool_)
            used[places[places >= 0]] = True
            kept = np.flatnonzero(used)
            names[name] = (hashes[kept], texts.take(pa.array(kept)))
        return KeySummary(self.buckets, kept_keys, kept_pairs, names)

    def _shape(self) -> dict[str, Any]:
        return {
            "operators": {name: len(one) for name, one in self.buckets.items()},
            "links": [list(link) for link in self.pairs],
        }

    def to_bytes(self) -> bytes:
        """As bytes: Arrow streams one after the other, the first with the operators and links in its metadata."""
        sink = pa.BufferOutputStream()
        shape = pa.schema([], metadata={"shape": orjson.dumps(self._shape())})
        batches = [pa.RecordBatch.from_arrays([], schema=shape)]
        for name, loads in self.buckets.items():
            hashes, names = self.names[name]
            batches += [
                pa.record_batch([pa.array(loads)], ["tuples"]),
                pa.record_batch([pa.array(hashes), names], ["hash", "name"]),
                self.keys[name].to_batch(),
            ]
        batches += [counts.to_batch() for counts in self.pairs.values()]
        for batch in batches:
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> KeySummary:
        """What :meth:`to_bytes` made bytes of."""
        batches = _batches(data)
        shape = orjson.loads(next(batches).schema.metadata[b"shape"])
        buckets, keys, names = {}, {}, {}
        for name in shape["operators"]:
            buckets[name] = next(batches).column(0).to_numpy()
            named = next(batches)
            names[name] = (named.column(0).to_numpy(), named.column(1))
            keys[name] = Counts.from_batch(next(batches))
        pairs = {(left, right): Counts.from_batch(next(batches)) for left, right in shape["links"]}
        return cls(buckets, keys, pairs, names)

    def statistics(self, decode: Decode) -> Statistics:
        """The counts by key. Pairs and keys without a name are left out; their tuples stay with their bucket.

        Args:
            decode: tells keys by their names.
        """
        keys = {
            name: _Keys(name, decode(name, names), hashes)
            for name, (hashes, names) in self.names.items()
        }
        pairs = [pair for link in self.pairs for pair in self._link_pairs(link, keys)]
        loads = {name: self._loads(name, keys[name]) for name in self.buckets}
        return Statistics(tuple(self.buckets), loads, tuple(pairs))

    def _link_pairs(self, link: Link, keys: Mapping[str, _Keys]) -> Iterator[PairCount]:
        counts = self.pairs[link]
        left, right = (keys[name] for name in link)
        lefts, rights = left.places(counts.items[:, 0]), right.places(counts.items[:, 1])
        sure = counts.counts > counts.errors
        known = np.flatnonzero((lefts >= 0) & (rights >= 0) & sure)
        columns = (lefts, rights, counts.counts, counts.errors)
        for at, to, count, error in zip(*(one[known].tolist() for one in columns), strict=True):
            yield PairCount(left.ends[at], right.ends[to], count, error)

    def _loads(self, name: str, keys: _Keys) -> KeyLoads:
        counts = self.keys[name]
        most = np.full(len(keys.keys), counts.floor, np.int64)
        sure = np.zeros(len(keys.keys), np.int64)
        places = keys.places(counts.items[:, 0])
        named = places >= 0
        most[places[named]] = counts.counts[named]
        sure[places[named]] = (counts.counts - counts.errors)[named]
        sure = np.maximum(sure, self._paired(name, keys))
        most = np.maximum(most, sure)
        buckets = bucket_of(keys.hashes, len(self.buckets[name]))
        rest = self.buckets[name].copy()
        np.subtract.at(rest, buckets, sure)
        found = np.flatnonzero(sure)
        columns = (found, buckets[found], most[found], (most - sure)[found])
        known = tuple(
            KeyCount(keys.keys[place], bucket, count, error)
            for place, bucket, count, error in zip(*(one.tolist() for one in columns), strict=True)
        )
        unpinned = tuple(np.maximum(rest, 0).tolist())
        return KeyLoads(name, int(self.buckets[name].sum()), known, unpinned)

    def _paired(self, name: str, keys: _Keys) -> Int64s:
        """By key, the tuples that its pairs are sure to stand for.

        A tuple that comes makes one pair at most; one that leaves may have made several, so pairs of a left key count
        in the proportion of all tuples to all pairs.
        """
        # Timers make pairs also where no tuple came.
        taken = max(int(self.buckets[name].sum()), 1)
        coming = np.zeros(len(keys.keys))
        found = coming.copy()
        for link, counts in self.pairs.items():
            for side, operator in enumerate(link):
                if operator == name:
                    places = keys.places(counts.items[:, side])
                    known = places >= 0
                    sure = (counts.counts - counts.errors)[known]
                    tuples = np.bincount(places[known], sure, minlength=len(keys.keys))
                    if side == 0:
                        found = np.maximum(found, tuples * min(1.0, taken / max(counts.total, 1)))
                    else:
                        coming += tuples
        return np.ceil(np.maximum(found, coming)).astype(np.int64)


class _Keys:
    """An operator's keys and their hashes, in ascending order."""

    def __init__(self, operator: str, keys: list[Key], hashes: UInt64s) -> None:
        self.keys = keys
        #: as the ends of pairs, each made once: many small objects are dear to the garbage collector
        self.ends = [(operator, key) for key in keys]
        self.hashes = hashes

    def places(self, hashes: UInt64s) -> Int64s:
        """The place of each hash, -1 for none."""
        return KeyNames(self.hashes).places(np.ascontiguousarray(hashes))


def bucket_loads(parts: Sequence[KeySummary]) -> dict[str, Int64s]:
    """By operator, the tuples of each bucket in all parts."""
    return {
        name: np.sum([part.buckets[name] for part in parts], axis=0) for name in parts[0].buckets
    }


def _all_names(parts: Sequence[Names]) -> Names:
    names = KeyNames()
    names.add(
        np.concatenate([hashes for hashes, _ in parts]),
        pa.concat_arrays([texts for _, texts in parts]),
    )
    return names.hashes, names.names


def _batches(data: bytes) -> Iterator[pa.RecordBatch]:
    reader = pa.BufferReader(data)
    while reader.tell() < len(data):
        with pa.ipc.open_stream(reader) as stream:
            yield from stream
