"""The application of Caneill et al., 4.1: tuples counted by one key and then by another; and who routes them how."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg import data
from thalweg.connectors import files, never
from thalweg.datagen import KeyPair
from thalweg.datagen.pairs import KEY_PAIR_SCHEMA
from thalweg.flow.flow import Flow
from thalweg.flow.state_class import state
from thalweg.locality import Online, RoutingTable, keyed_operators
from thalweg.plan.plan import make_plan
from thalweg_lab.figures.caneill import samples

FIRST: Final = "by_first"
SECOND: Final = "by_second"
#: Different paddings of a size; so many that LZ4, which looks back 64 kB, seldom meets one twice.
_PADDINGS: Final = 1_009
#: Never proposes a table: what is left of learning is counting and looking.
COUNTING: Final = Online(every=None, drop=None, imbalance=None, first_seen=False)


class CountedTuple(NamedTuple):
    """A tuple of a second key, and which it is."""

    second: int
    tuples: int


@state
class TupleCount:
    """The tuples of a key."""

    tuples: int = 0


def count_first(count: TupleCount, pair: KeyPair) -> KeyPair:
    """Counts a tuple and hands it on, with its padding."""
    count.tuples += 1
    return pair


def count_second(count: TupleCount, pair: KeyPair) -> CountedTuple:
    """Counts a tuple."""
    count.tuples += 1
    return CountedTuple(pair.second, count.tuples)


@functools.lru_cache(maxsize=1)
def _paddings(size: int) -> list[bytes]:
    """Random paddings of so many bytes, the same in every process."""
    rng = np.random.default_rng(size)
    return [rng.bytes(size) for _ in range(_PADDINGS)]


def padding_of(size: int, number: int) -> bytes:
    """A padding of so many bytes that nothing on the way compresses."""
    return _paddings(size)[number % _PADDINGS]


def make_flow(padding: int = 0) -> Flow:
    """Tuples by their first and then by their second key.

    Args:
        padding: bytes that the first operator gives each tuple, as if a source beside it had made them; 0: it hands
            on what the source gave.
    """

    def count_and_pad(count: TupleCount, pair: KeyPair) -> KeyPair:
        count.tuples += 1
        # Keys take turns, so that tuples that follow each other differ in their paddings.
        number = count.tuples * 31 + pair.first
        return KeyPair(pair.first, pair.second, padding_of(padding, number))

    flow = Flow("caneill")
    counted = flow.source("pairs", KeyPair).key_by("first")
    first = count_and_pad if padding else count_first
    handed = counted.process(first, state=TupleCount, name=FIRST)
    handed.key_by("second").process(count_second, state=TupleCount, name=SECOND).sink("counts")
    return flow


def flight_pairs(rows: int, seed: int = 0) -> pa.Table:
    """The bundled flights as tuples of their number and destination, shuffled: stable, as the paper's Flickr data.

    Args:
        rows: how many; the flights are taken again where they are not enough.
        seed: of the order.
    """
    [source] = make_plan(samples.planned_flights()).sources
    found = files(str(data.path("nyc_flights")), format="csv", null_values=("NA",))
    known = [row for chunk, _ in found.rows(source, 8_192, never()) for row in chunk.rows()]
    numbers = {
        one: place for place, one in enumerate(sorted({(f.carrier, f.flight) for f in known}))
    }
    places = {
        one: len(numbers) + place for place, one in enumerate(sorted({f.dest for f in known}))
    }
    order = np.random.default_rng(seed).permutation(len(known))
    taken = [known[i] for i in np.resize(order, rows)]
    columns = [
        [numbers[f.carrier, f.flight] for f in taken],
        [places[f.dest] for f in taken],
        [b""] * rows,
    ]
    return pa.table(columns, schema=KEY_PAIR_SCHEMA)


def hashed_table(slots: int) -> RoutingTable:
    """Routing by hash, as a table."""
    return RoutingTable.hashed(keyed_operators(make_plan(make_flow())), slots)


def local_table(keys: int, slots: int) -> RoutingTable:
    """A key and its partner in one slot, and as many keys in each: what analysing the data would give."""
    first = {(FIRST, key): key % slots for key in range(keys)}
    second = {(SECOND, keys + key): key % slots for key in range(keys)}
    return hashed_table(slots).placed(first | second, epoch=1)


def worst_table(keys: int, slots: int) -> RoutingTable:
    """A key's partner always in another slot."""
    first = {(FIRST, key): key % slots for key in range(keys)}
    second = {(SECOND, keys + key): (key + 1) % slots for key in range(keys)}
    return hashed_table(slots).placed(first | second, epoch=1)
