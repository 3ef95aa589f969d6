"""The row of words by which machine code knows a table: addresses, then sizes."""

from __future__ import annotations

from typing import Final

RECORDS: Final = 0
FLAGS: Final = 1
WORDS: Final = 2
#: of two words: a lower bound of all timers, and the entries in use
BOUNDS: Final = 3
INDEX: Final = 4
HASHES: Final = 5
BLOCKS: Final = 6
OFFSETS: Final = 7
ARENA: Final = 8
INDEX_SIZE: Final = 9
CAPACITY: Final = 10
BLOCK_COUNT: Final = 11
ARENA_SIZE: Final = 12
TABLE_WIDTH: Final = 13
