"""Reads the pairs of keys in rows before routing, at the input of the first operators by key."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.keys import KeySpec
from thalweg.engine.build import Prepared
from thalweg.flow.operators.nodes import Keyed
from thalweg.hashing import UInt64s, bucket_of
from thalweg.locality import OperatorKey, PairCount
from thalweg.locality.links import Foreseen
from thalweg.slots.router import KeyFinders

#: Pairs that are looked at in one go, the most frequent; keys of others go by hash.
MOST: Final = 100_000
#: A longer key, in ordered bytes, goes by hash: it would be in each new table, and in each process.
LONGEST: Final = 1_000

#: A pair: the place of its :class:`Read`, its keys as ordered bytes, and how often it comes.
PAIRS: Final = pa.schema(
    [
        pa.field("link", pa.int32()),
        pa.field("left", pa.binary()),
        pa.field("right", pa.binary()),
        pa.field("tuples", pa.int64()),
    ]
)


class Read(NamedTuple):
    """A link by the indices of its operators and of the one at whose input both keys are read."""

    first: int
    left: int
    right: int


def reads_of(links: Sequence[Foreseen], nodes: Mapping[str, Keyed]) -> list[Read]:
    """The links by index."""
    return [
        Read(one.first.index, nodes[one.link[0]].index, nodes[one.link[1]].index) for one in links
    ]


class PairReader:
    """Counts the pairs of chunks.

    Args:
        prepared: the flow.
        reads: the links to look at.
    """

    def __init__(self, prepared: Prepared, reads: Sequence[Read]) -> None:
        self._prepared = prepared
        self._reads = reads
        self._finders = KeyFinders(prepared)
        ends = {end for read in reads for end in (read.left, read.right)}
        self._specs = {end: KeySpec(self._keyed(end).key.fields) for end in ends}
        self._parts: list[pa.Table] = []

    def pairs(self) -> pa.Table:
        """All pairs since the last time, the most frequent first."""
        if not self._parts:
            return PAIRS.empty_table()
        found, self._parts = _summed(pa.concat_tables(self._parts)), []
        order = [("tuples", "descending"), *((name, "ascending") for name in PAIRS.names[:3])]
        return found.sort_by(order).slice(0, MOST)

    def take(self, first: int, chunk: Chunk) -> None:
        """Counts what comes to an operator, if any link is read there."""
        mine = [(place, read) for place, read in enumerate(self._reads) if read.first == first]
        if not mine:
            return
        columns, places, _ = self._finders.of(self._keyed(first)).find(chunk)
        for place, read in mine:
            left, right = (
                columns if end == first else self._carried(end, chunk, places)
                for end in (read.left, read.right)
            )
            keys = [self._specs[read.left].ordered_bytes(left, len(places))]
            keys.append(self._specs[read.right].ordered_bytes(right, len(places)))
            link = pa.array(np.full(len(places), place, np.int32))
            ones = pa.array(np.ones(len(places), np.int64))
            pairs = pa.table([link, *keys, ones], schema=PAIRS)
            self._parts.append(_summed(pairs.filter(_are_short(*keys))))

    def _keyed(self, index: int) -> Keyed:
        node = self._prepared.plan.node(index)
        assert isinstance(node, Keyed)
        return node

    def _carried(self, index: int, chunk: Chunk, places: Int64s) -> list[Column]:
        """The key of an operator further on, which the rows have already."""
        return [chunk.column(name).take(places) for name in self._specs[index].names]


def _are_short(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.less_equal(
        pc.max_element_wise(pc.binary_length(left), pc.binary_length(right)), LONGEST
    )


def _summed(pairs: pa.Table) -> pa.Table:
    """Each pair once."""
    names = PAIRS.names
    summed = pairs.group_by(names[:3], use_threads=False).aggregate([("tuples", "sum")])
    return summed.select([*names[:3], "tuples_sum"]).rename_columns(names)


class BatchPairs:
    """Pairs with their keys as users see them.

    Args:
        pairs: as PAIRS.
        links: by place, the names of the operators.
        specs: by operator, its key.

    Attributes:
        key_hashes: by operator, the stable hash of each key, once.
    """

    def __init__(
        self, pairs: pa.Table, links: Sequence[tuple[str, str]], specs: Mapping[str, KeySpec]
    ) -> None:
        self._specs = specs
        #: of each link: its operators, the pairs' keys as ordered bytes, how often each pair comes
        self._parts: list[tuple[tuple[str, str], tuple[pa.Array, pa.Array], pa.Array]] = []
        parts: dict[str, list[pa.Array]] = {}
        for place, link in enumerate(links):
            mine = pairs.filter(pc.equal(pairs.column("link"), place)).combine_chunks()
            left, right, tuples = (mine.column(i).combine_chunks() for i in (1, 2, 3))
            self._parts.append((link, (left, right), tuples))
            for name, column in zip(link, (left, right), strict=True):
                parts.setdefault(name, []).append(column.unique())
        self._names = {name: pa.concat_arrays(mine).unique() for name, mine in parts.items()}
        self.key_hashes: dict[str, UInt64s] = {
            name: specs[name].hashes(specs[name].decode_ordered(unique), len(unique))
            for name, unique in self._names.items()
        }

    @functools.cached_property
    def pairs(self) -> list[PairCount]:
        """Each pair once; a link may be read at several operators."""
        counts: dict[tuple[OperatorKey, OperatorKey], int] = {}
        for link, columns, tuples in self._parts:
            ends = [self._ends(name, column) for name, column in zip(link, columns, strict=True)]
            for left, right, count in zip(*ends, tuples.to_pylist(), strict=True):
                counts[left, right] = counts.get((left, right), 0) + count
        return [PairCount(*pair, count) for pair, count in counts.items()]

    @functools.cached_property
    def operators(self) -> dict[str, tuple[list[Any], UInt64s]]:
        """By name, the keys and their hashes."""
        return {
            name: ([key for _, key in self._ends(name, unique)], self.key_hashes[name])
            for name, unique in self._names.items()
        }

    @functools.cached_property
    def hashes(self) -> dict[OperatorKey, int]:
        """The hash of each key of an operator."""
        return {
            (name, key): code
            for name, (keys, hashes) in self.operators.items()
            for key, code in zip(keys, hashes.tolist(), strict=True)
        }

    def share(self, ends: Set[OperatorKey]) -> float:
        """Of all tuples of pairs, those with one of some keys."""
        some = sum(one.count for one in self.pairs if one.left in ends or one.right in ends)
        return some / sum(one.count for one in self.pairs)

    def _ends(self, name: str, names: pa.Array) -> list[OperatorKey]:
        """An operator's keys from their ordered bytes."""
        spec = self._specs[name]
        return [(name, key) for key in spec.python_keys(spec.decode_ordered(names), len(names))]

    def buckets(self, counts: Mapping[str, int]) -> dict[OperatorKey, int]:
        """The bucket of each key.

        Args:
            counts: the buckets of each operator.
        """
        found: dict[OperatorKey, int] = {}
        for name, (keys, hashes) in self.operators.items():
            places = bucket_of(hashes, counts[name]).tolist()
            found |= zip(((name, key) for key in keys), places, strict=True)
        return found
