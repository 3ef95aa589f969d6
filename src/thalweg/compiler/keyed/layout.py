"""Where things stand in the arrays by which a compiled keyed operator is run: control, chunk, outputs."""

from __future__ import annotations

from typing import Final

from thalweg.compiler.runtime.arena import ARENA_WORDS

#: Offsets in the control array.
RANGE: Final = 0  # the range at hand, and
LAST: Final = 1  # the one to stop at
PLACE: Final = 2  # the place in the order of rows, -1 for the range's first
OUT: Final = 3  # outputs so far
NEEDED: Final = 4  # room needed when FULL
FIRING: Final = 5  # 1 while on_timer runs, 0 while process does
ENTRY: Final = 6  # the entry that the function works on
TIME: Final = 7  # the timer's time while on_timer runs
DISARMED: Final = 8  # timers armed again while ending
ENDING: Final = 9  # 1: what on_timer arms is dropped
DUE: Final = 10  # 1: the places hold entries whose timers below CLOCK fire; 0: rows
CLOCK: Final = 11
ARENA: Final = 12  # of the texts that the run makes
CONTROL_SIZE: Final = ARENA + ARENA_WORDS

#: Offsets in the chunk array: addresses of the ranges, the order of rows, their entries, their times (0:
#: no timers), the table of tables, the default record and the copy of the state; then the columns.
RANGES: Final = 0
ORDER: Final = 1
ENTRIES: Final = 2
TIMES: Final = 3
TABLES: Final = 4
DEFAULT: Final = 5
BACKUP: Final = 6
COLUMNS: Final = 7

#: int64 columns before the fields of an output: source, time, bucket, entry, then the words of the key.
SOURCE: Final = 0
OUT_TIME: Final = 1
OUT_BUCKET: Final = 2
OUT_ENTRY: Final = 3
OUT_WORDS: Final = 4


def log_place(size: int) -> int:
    """How far behind the copy of a state of this size the address of the log of the call stands."""
    return -(-size // 8) * 8
