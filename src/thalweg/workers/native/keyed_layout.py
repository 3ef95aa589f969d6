"""The layouts of a native keyed operator: its context, its partitions' work areas, a split chunk.

Everything is an address and an offset in 8-byte words (docs/blocks.md has pictures). A name belongs to the base of its
section: ``ctx``, ``area``, ``split`` or ``part``. Some names (PHASE, ROWS, PARTITIONS ...) are also in
:mod:`thalweg.workers.memory.layout`, where they are offsets in ``mem``; these here are used as ``at.PHASE``.

The operator's arrays belong to Python (:class:`thalweg.workers.native.keyed.NativeKeyed`); split chunks and the outputs
of their partitions are taken from the C library and given back by the merge, or by ``free_split``.
"""

from __future__ import annotations

from typing import Final

from thalweg.compiler.keyed.layout import CONTROL_SIZE
from thalweg.compiler.kinds import field_type
from thalweg.flow.fields.field_types import FieldType, Kind

# -- context ---------------------------------------------------------------------------------------------------
KERNEL: Final = 0  # address of the generated kernel
PARTITIONS: Final = 1
BUCKETS: Final = 2  # of the key space
WIDTH: Final = 3  # words of a key
NULL_WORD: Final = 4  # 1: the last of them is the null mask
KEY_FIELDS: Final = 5
KEYS: Final = 6  # address of KEY_WORDS words of each key field
IN_FIELDS: Final = 7
OUT_FIELDS: Final = 8
OUT_KINDS: Final = 9  # address of (bytes of a value, boxed, handle) of each output field
COLUMNS: Final = 10  # columns of an output buffer,
PLACES: Final = 11  # address of (is of bytes, place among its like) of each,
WIDE: Final = 12  # the number of those of 8 bytes
SMALL: Final = 13  # and of those of 1 byte
TIMED: Final = 14  # 1: rows have times and timers may fire
OUT_TIMED: Final = 15  # 1: outputs carry their time
EARLIEST: Final = 16  # address of a lower bound of each partition's timers
LEAST: Final = 17  # address of a lower bound of each state unit's timers
AREAS: Final = 18  # address of the partitions' work areas
AREA_WORDS: Final = 19
RECORD_SIZE: Final = 20
TIMER_OFFSET: Final = 21  # of the timer in a record, -1 none
COUNTS: Final = 22  # address of the counts
SERIAL: Final = 23  # a split chunk that run_serial left to Python, 0 none
HAS_PAYLOAD: Final = 24  # 1: output blocks name a payload
SHAPE: Final = 25  # address of the shape of output blocks
RANKS: Final = 26  # address of the ranks of categories
UNITS: Final = 27  # state units: the buckets, then the groups of pinned keys
PARTITION_OF: Final = 28  # address of the partition of each, ascending
PINNED: Final = 29  # pinned keys; addresses, as in StateUnits, of
PIN_HASHES: Final = 30  # their hashes,
PIN_GROUPS: Final = 31  # their groups,
PIN_INDEX: Final = 32  # and the index of the hashes
PIN_CELLS: Final = 33  # cells of the index
HAS_BYTES: Final = 34  # 1: keys have an identity in bytes, since a field of theirs is text
PLAIN_TEXT: Final = 35  # 1: that is the text of the only field; 0: the fields' ordered bytes
KEY_FUNCTION: Final = (
    36  # address of the context of the chain that makes the first key field, 0 none
)
TIMES_WORD: Final = 37  # which word of an input block has the rows' times
JOINS: Final = 38  # when Python orders the outputs: one of the values below
BOUNDS: Final = 39  # where units are ranges of keys: address of where each but the first begins
BOUND_COUNT: Final = 40  # and how many those are, -1: units are buckets and groups
CONTEXT_WORDS: Final = 41

#: Values of JOINS. Of a whole order key machine code knows that of what rows gave, without counters; not of timers.
BY_MACHINE: Final = 0
TIMERS_BY_PYTHON: Final = 1
ALL_BY_PYTHON: Final = 2

#: Words of a key field.
KEY_COLUMN: Final = 0  # its column in the chunk; of what a function makes, in the chunk of keys
KEY_KIND: Final = 1
KEY_OPTIONAL: Final = 2
KEY_MADE: Final = 3  # 1: a function makes it
KEY_WORDS: Final = 4

#: Kinds of key fields.
WORD_KEY: Final = 0  # int, timestamp
FLOAT_KEY: Final = 1
BOOL_KEY: Final = 2
CATEGORY_KEY: Final = 3  # its code says nothing about its order, see keyed_ranks
TEXT_KEY: Final = 4  # str, bytes
KEY_KINDS: Final = {
    Kind.FLOAT: FLOAT_KEY,
    Kind.BOOL: BOOL_KEY,
    Kind.CATEGORY: CATEGORY_KEY,
    Kind.STR: TEXT_KEY,
    Kind.BYTES: TEXT_KEY,
}

#: Words of an output field.
KIND_WORDS: Final = 3

#: Counts, added up by all threads.
ROWS_IN: Final = 0
ROWS_OUT: Final = 1
DISARMED_COUNT: Final = 2
COUNT_WORDS: Final = 8

# -- work area of a partition ----------------------------------------------------------------------------------
TABLES: Final = 0  # address of its table of tables
PHASE: Final = 1  # how far the unit at hand has come
FIRST_UNIT: Final = 2  # the state units of the partition
LAST_UNIT: Final = 3  # + 1
CANDIDATES: Final = 4  # address of an int64 a unit of the partition
DUE_RANGES: Final = 5  # address of a range a unit of the partition
DUE_ENTRIES: Final = 6  # address of the entries whose timers fire, 0 none
BUFFER: Final = 7  # address of the outputs, 0 none
GUESS: Final = 8  # outputs of the last unit that had some
CHUNK: Final = 9  # addresses of the three arrays that the kernel is given
OUT_TABLE: Final = 10
BACKUP_PLACE: Final = 11
DEFAULT_PLACE: Final = 12
CONTROL: Final = 16
AREA_HEAD: Final = CONTROL + CONTROL_SIZE

#: Values of PHASE.
FIND: Final = 0
IN_ROWS: Final = 1
IN_TIMERS: Final = 2
OVER: Final = 3

# -- split chunk -----------------------------------------------------------------------------------------------
ROWS: Final = 0
ROWS_BY_PARTITION: Final = 1  # address of int64[partitions]
FIRST: Final = 2  # address of int64[partitions + 1]: the first range of each
IN_BLOCK: Final = 3  # address of the chunk
ORDER: Final = 4  # address of int64[rows]: rows by state unit
ENTRIES: Final = 5  # address of int64[rows]
HASHES: Final = 6  # address of uint64[rows]
WORDS: Final = 7  # address of int64[rows, width]
RANGES: Final = 8  # address of int64[ranges, RANGE_WIDTH]
PARTS: Final = 9  # address of what each partition gave
PART_COUNT: Final = 10  # the number of partitions
KEY_ENDS: Final = (
    11  # address of int64[rows + 1]: the identity of row i is bytes i to i + 1 of these
)
KEY_BYTES: Final = 12  # address of the identities, taken by itself; 0 where keys have none
SPLIT_WORDS: Final = 13

#: Words of what a partition gave.
PART_BUFFER: Final = 0  # address of its outputs, 0 none
PART_CAPACITY: Final = 1
PART_USED: Final = 2
PART_DISARMED: Final = 3
PART_PYTHON: Final = 4  # 1: Python holds the outputs
PART_KEYS: Final = 5  # address of the ends of the identities of outputs, empty those of rows, and the bytes; 0 none
PART_WORDS: Final = 6


def kind_words(kind: FieldType) -> tuple[int, bool, bool]:
    """Bytes of a value, whether it may be null, whether it is passed through by handle."""
    made = field_type(kind)
    return made.size, made.boxed, made.tag == "handle"
