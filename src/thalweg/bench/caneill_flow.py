"""The application of Caneill et al., 4.1: tuples counted by one key and then by another; and who routes them how."""

from __future__ import annotations

from typing import Final, NamedTuple

from thalweg.datagen import KeyPair
from thalweg.flow import Flow
from thalweg.locality import Online, RoutingTable, keyed_operators
from thalweg.plan import make_plan
from thalweg.records import state

FIRST: Final = "by_first"
SECOND: Final = "by_second"
#: Never proposes a table: what is left of learning is counting and looking.
COUNTING: Final = Online(every=None, drop=None, imbalance=None)


class Counted(NamedTuple):
    """A tuple of a second key, and which it is."""

    second: int
    tuples: int


@state
class Count:
    """The tuples of a key."""

    tuples: int = 0


def count_first(count: Count, pair: KeyPair) -> KeyPair:
    """Counts a tuple and hands it on, with its padding."""
    count.tuples += 1
    return pair


def count_second(count: Count, pair: KeyPair) -> Counted:
    """Counts a tuple."""
    count.tuples += 1
    return Counted(pair.second, count.tuples)


def make_flow() -> Flow:
    """Tuples by their first and then by their second key."""
    flow = Flow("caneill")
    counted = flow.source("pairs", KeyPair).key_by("first")
    handed = counted.process(count_first, state=Count, name=FIRST)
    handed.key_by("second").process(count_second, state=Count, name=SECOND).sink("counts")
    return flow


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
