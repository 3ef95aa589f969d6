"""The order of categories in machine code: a rank for every text that a timer's key has had.

A category travels as the hash of its text, which says nothing about the text's place among others. So Python
orders the outputs of timers whose texts are new, ranks them, and machine code does so from then on. The ranks stand
in a hash table of (code, rank + 1) behind a word with its mask, which is never changed once it is published.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Int64s
from thalweg.compiler.code.columns import address
from thalweg.compiler.runtime.calls import get_i
from thalweg.jit import njit
from thalweg.workers.lockfree.atomics import shared

#: More texts than this are left to Python: their table would not stay in the processor's caches.
MOST: Final = 1 << 16
#: A new table is made when so many chunks a known text had an unknown one: the work, and the memory of the old
#: tables, which a thread may still be reading, stay in proportion to what is known.
_SHARE: Final = 16


@shared
def rank_of(table: int, code: int) -> int:
    """The rank of a category among those in the table, -1 for one that is not there."""
    mask = get_i(table)
    slot = code & mask
    while True:
        place = table + 8 + 16 * slot
        rank: int = get_i(place + 8)
        if rank == 0 or get_i(place) == code:
            return rank - 1
        slot = (slot + 1) & mask


@njit
def _fill(table: Int64s, codes: Int64s) -> None:
    mask = table[0]
    for rank in range(len(codes)):
        slot = codes[rank] & mask
        while table[2 + 2 * slot] != 0:
            slot = (slot + 1) & mask
        table[1 + 2 * slot] = codes[rank]
        table[2 + 2 * slot] = rank + 1


def _table(codes: Int64s) -> Int64s:
    """The table of codes that stand in the order of their texts; at most half full."""
    slots = 1 << (2 * len(codes) + 1).bit_length()
    table = np.zeros(1 + 2 * slots, np.int64)
    table[0] = slots - 1
    _fill(table, codes)
    return table


class CategoryRanks:
    """The texts met so far. Any thread may :meth:`learn` more while others read the tables."""

    def __init__(self) -> None:
        self._codes = np.zeros(0, np.int64)
        self._unknown = 0
        self._tables = [_table(self._codes)]

    @property
    def place(self) -> int:
        """The address of the last table; all tables live as long as this object."""
        return address(self._tables[-1])

    def learn(self, codes: Int64s) -> None:
        """Makes a table with these codes too, unless they are known or it is too early for a new one."""
        known = np.union1d(self._codes, codes)
        if len(known) == len(self._codes) or len(known) > MOST:
            return
        self._unknown += 1
        if self._unknown * _SHARE < len(self._codes):
            return
        # By their bytes, as ``KeySpec.sort_rows`` has it.
        texts = CATEGORIES.decode(known).cast(pa.binary())
        self._tables.append(_table(known[pc.sort_indices(texts).to_numpy()]))
        self._codes, self._unknown = known, 0
