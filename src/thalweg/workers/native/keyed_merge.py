"""Merges the outputs of a chunk's partitions into the stream's next block, in machine code."""

from __future__ import annotations

import numba
import numpy as np

from thalweg.compiler.keyed import layout as code
from thalweg.compiler.kinds import NO_VALUE
from thalweg.compiler.runtime.calls import free, malloc, words_at
from thalweg.compiler.runtime.support import get_b, get_i, get_u, put_i, put_u
from thalweg.workers.lockfree.atomics import add, shared
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.blocks import (
    NO_PAYLOAD,
    free_block,
    new_block,
    payload_row_word,
    payload_word,
    table_word,
    texts_word,
    time_word,
)
from thalweg.workers.native.keyed_keys import field, put
from thalweg.workers.native.keyed_order import PICK_BITS, PLACE, arrange, part_of
from thalweg.workers.native.keyed_run import column_of, run_partition
from thalweg.workers.native.keyed_split import free_split, split_keyed

# -- the block -------------------------------------------------------------------------------------------------


@shared
def _new_block(ctx: int, rows: int) -> int:
    """A block with room for so many rows, its columns in their places; 0 when there is no memory."""
    block: int = new_block(field(ctx, at.SHAPE), rows)
    if block == 0:
        return 0
    fields, has_payload = field(ctx, at.OUT_FIELDS), field(ctx, at.HAS_PAYLOAD)
    table = block + 8 * table_word(fields)
    put(block, 0, rows)
    for i in range(2 * fields):
        put(block, 1 + i, field(table, 1 + has_payload + i))
    put(block, payload_word(fields), NO_PAYLOAD)
    put(block, texts_word(fields), 0)
    put(block, payload_row_word(fields), field(table, 1) if has_payload else 0)
    return block


@shared
def _put_plain(size: int, source: int, target: int, places: int, count: int) -> None:
    """The values of a field, each at its place."""
    if size == 8:
        for i in range(count):
            put_i(target + 8 * get_i(places + 8 * i), get_i(source + 8 * i))
    else:
        for i in range(count):
            put_u(target + get_i(places + 8 * i), get_u(source + i))


@shared
def _put_valid(size: int, valid: int, values: int, target: int, places: int, count: int) -> bool:
    """The validity of a field's values, those of nulls set to zero; whether there are none."""
    whole = True
    for i in range(count):
        place = get_i(places + 8 * i)
        put_u(target + place, get_u(valid + i))
        if not get_b(valid + i):
            whole = False
            if size == 8:
                put_i(values + 8 * place, 0)
            else:
                put_u(values + place, numba.uint8(0))
    return whole


@shared
def _put_texts(
    ctx: int, block: int, handles: int, sources: int, target: int, places: int, count: int
) -> None:
    """Handles (fields of the input) as columns of the payload."""
    for i in range(count):
        handle = get_i(handles + 8 * i)
        if handle != NO_VALUE:
            origin = block + 8 + 16 * handle
            numbers = get_i(origin)
            row = get_i(sources + 8 * i)
            handle = get_i(numbers + 8 * row) if numbers != 0 else get_i(origin + 8)
        put_i(target + 8 * get_i(places + 8 * i), handle)


@shared
def _put_order(
    ctx: int, block: int, out: int, sources: int, times: int, places: int, count: int
) -> None:
    """The time of each output, and its row of the payload (of a timer's, which has no values there, any)."""
    given, fields = field(ctx, at.IN_FIELDS), field(ctx, at.OUT_FIELDS)
    if field(ctx, at.OUT_TIMED):
        target, arrived = field(out, time_word(fields)), field(block, time_word(given))
        for i in range(count):
            row = get_i(sources + 8 * i)
            time = get_i(times + 8 * i)
            if row >= 0:
                time = get_i(arrived + 8 * row) if arrived != 0 else 0
            put_i(target + 8 * get_i(places + 8 * i), time)
    if field(ctx, at.HAS_PAYLOAD):
        target, rows = field(out, payload_row_word(fields)), field(block, payload_row_word(given))
        for i in range(count):
            row = max(get_i(sources + 8 * i), 0)
            if rows != 0 and get_i(block) > 0:
                row = get_i(rows + 8 * row)
            put_i(target + 8 * get_i(places + 8 * i), row)


@shared
def _put_part(ctx: int, split: int, part: int, out: int, places: int, whole: int) -> None:
    """A partition's outputs at their places in the block; clears the flags of fields that have nulls."""
    count, buffer, capacity = (
        field(part, at.PART_USED), field(part, at.PART_BUFFER), field(part, at.PART_CAPACITY),
    )  # fmt: skip
    block = field(split, at.IN_BLOCK)
    sources = column_of(ctx, buffer, capacity, code.SOURCE)
    first = field(ctx, at.COLUMNS) - 2 * field(ctx, at.OUT_FIELDS)
    kind = field(ctx, at.OUT_KINDS)
    for f in range(field(ctx, at.OUT_FIELDS)):
        values = column_of(ctx, buffer, capacity, first + 2 * f)
        target, size = field(out, 1 + 2 * f), field(kind, 0)
        if field(kind, 2):
            _put_texts(ctx, block, values, sources, target, places, count)
        else:
            _put_plain(size, values, target, places, count)
        if field(kind, 1):
            valid = column_of(ctx, buffer, capacity, first + 2 * f + 1)
            if not _put_valid(size, valid, target, field(out, 2 + 2 * f), places, count):
                put(whole, f, 0)
        kind += 8 * at.KIND_WORDS
    times = column_of(ctx, buffer, capacity, code.OUT_TIME)
    _put_order(ctx, block, out, sources, times, places, count)


@shared
def _fill(ctx: int, split: int, out: int, total: int, picks: int, room: int) -> None:
    """Fills the block; ``room`` has a word an output, a partition and a field."""
    partitions, fields = field(ctx, at.PARTITIONS), field(ctx, at.OUT_FIELDS)
    starts = room + 8 * total
    whole = starts + 8 * partitions
    place = room
    for p in range(partitions):
        put(starts, p, place)
        place += 8 * field(part_of(split, p), at.PART_USED)
    for f in range(fields):
        put(whole, f, 1)
    for k in range(total):
        pick = get_i(picks + 8 * k)
        put_i(field(starts, pick >> PICK_BITS) + 8 * (pick & PLACE), k)
    for p in range(partitions):
        if field(part_of(split, p), at.PART_USED) > 0:
            _put_part(ctx, split, part_of(split, p), out, field(starts, p), whole)
    for f in range(fields):
        if field(whole, f):
            put(out, 2 + 2 * f, 0)
    if field(ctx, at.HAS_PAYLOAD):
        block, given = field(split, at.IN_BLOCK), field(ctx, at.IN_FIELDS)
        put(out, payload_word(fields), field(block, payload_word(given)))
        put(out, texts_word(fields), field(block, texts_word(given)))


@shared
def _has_fired(ctx: int, part: int) -> bool:
    """Whether a timer put something out."""
    buffer, capacity = field(part, at.PART_BUFFER), field(part, at.PART_CAPACITY)
    source = column_of(ctx, buffer, capacity, code.SOURCE)
    fired = 0
    for i in range(field(part, at.PART_USED)):
        fired += field(source, i) < 0
    return fired > 0


@shared
def _has_key_texts(ctx: int, part: int) -> bool:
    """Whether a timer put out text of its key, which stands in no payload."""
    buffer, capacity = field(part, at.PART_BUFFER), field(part, at.PART_CAPACITY)
    first = field(ctx, at.COLUMNS) - 2 * field(ctx, at.OUT_FIELDS)
    for f in range(field(ctx, at.OUT_FIELDS)):
        if field(field(ctx, at.OUT_KINDS) + 8 * at.KIND_WORDS * f, 2):
            handles = column_of(ctx, buffer, capacity, first + 2 * f)
            for i in range(field(part, at.PART_USED)):
                handle = field(handles, i)
                if handle < 0 and handle != NO_VALUE:
                    return True
    return False


@shared
def _needs_python(ctx: int, part: int) -> bool:
    """Whether only Python can order what a partition gave."""
    joins = field(ctx, at.JOINS)
    if field(part, at.PART_PYTHON) or joins == at.ALL_BY_PYTHON:
        return True
    if joins == at.TIMERS_BY_PYTHON and _has_fired(ctx, part):
        return True
    return field(part, at.PART_KEYS) != 0 and _has_key_texts(ctx, part)


@shared
def _count(ctx: int, rows_in: int, rows_out: int, disarmed: int) -> None:
    counts = words_at(field(ctx, at.COUNTS))
    add(counts, at.ROWS_IN, rows_in)
    if rows_out:
        add(counts, at.ROWS_OUT, rows_out)
    if disarmed:
        add(counts, at.DISARMED_COUNT, disarmed)


@shared
def _joined(ctx: int, split: int, total: int) -> int:
    """The outputs as a block; 0 when only Python can order them."""
    out = _new_block(ctx, total)
    if out == 0 or total == 0:
        return out
    few = field(ctx, at.PARTITIONS) + field(ctx, at.OUT_FIELDS)
    room = malloc(8 * (4 * total + max(field(split, at.ROWS), few)))
    if room == 0 or not arrange(ctx, split, total, room, room + 8 * total):
        free_block(out, 0, 0)
        out = 0
    else:
        _fill(ctx, split, out, total, room, room + 8 * total)
    free(room)
    return out


@shared
def merge_keyed(ctx: int, split: int, scratch: int) -> int:
    """The output block of a split chunk whose partitions have run, and frees it. 0: needs Python, nothing freed."""
    total = disarmed = 0
    for p in range(field(ctx, at.PARTITIONS)):
        part = part_of(split, p)
        if _needs_python(ctx, part):
            return 0
        total += field(part, at.PART_USED)
        disarmed += field(part, at.PART_DISARMED)
    out = _joined(ctx, split, total)
    if out != 0:
        _count(ctx, field(split, at.ROWS), total, disarmed)
        free_split(split, 0, 0)
    return out


@shared
def run_serial(ctx: int, block: int, scratch: int) -> int:
    """All of it in a row, for an operator of one partition: the output block.

    0: needs Python. Then SERIAL has the split chunk, which Python resumes, or 0 where nothing was begun.
    """
    put(ctx, at.SERIAL, 0)
    split = split_keyed(ctx, block, scratch)
    if split == 0:
        return 0
    put_i(scratch, np.int64(0))
    out = 0
    if run_partition(ctx, split, scratch):
        out = merge_keyed(ctx, split, scratch)
    if out == 0:
        put(ctx, at.SERIAL, split)
    return out
