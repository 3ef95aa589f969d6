"""A compiled chain of map, filter and flat_map as machine code from block to block.

What the kernel leaves open is done here, as :class:`~thalweg.compiler.stateless.CompiledChain` and
:class:`~thalweg.engine.units.ChainUnit` do it in Python: room for the outputs, their order columns by the row
they come from, and which payload column and row a text stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from thalweg.compiler.code.columns import address
from thalweg.compiler.kinds import NO_VALUE, field_type
from thalweg.compiler.runtime.arena import ARENA_WORDS, free_arena
from thalweg.compiler.runtime.calls import address_of, call3, copy_bytes, get_i, put_i, words_at
from thalweg.compiler.runtime.support import DONE, get_b, put_b
from thalweg.compiler.stateless import COUNTS, NEEDED, OUT, STOP, CompiledChain
from thalweg.engine.units import ChainUnit
from thalweg.plan.units import expands
from thalweg.workers.lockfree.atomics import add, line_up, new_words, shared
from thalweg.workers.native.blocks import (
    NO_PAYLOAD,
    BlockShape,
    free_block,
    grow_block,
    has_whole_key,
    new_block,
    own_word,
    payload_row_word,
    payload_word,
    table_word,
    texts_word,
    time_word,
    values_word,
)

#: Words of a context. Constants; the kind of each output field; then, several times and on lines of their own so
#: that workers write to different ones: the rows in, the rows out of each step, and the outputs to expect.
_KERNEL: Final = 0
_SHAPE: Final = 1
_STEPS: Final = 2
_GIVEN: Final = 3  # fields of the input
_FIELDS: Final = 4  # fields of the output
_WORDS: Final = 5  # where a block's further words begin
_EXPANDS: Final = 6  # 1: an input row can give several rows
_PAYLOAD: Final = 7  # 1: the output has fields of variable width, or the whole order key
_TALLY: Final = 8  # where the counts begin
_TALLY_WORDS: Final = 9  # of one worker
_KINDS: Final = 10
_TALLIES: Final = 8
#: Outputs are expected as so many for 256 rows; at least one a row, and not so many that a tiny chunk with large
#: outputs makes the next one ask for all the memory there is.
_EXPECTED_LEAST: Final = 256
_EXPECTED_MOST: Final = 64 * 256

#: Kinds of output fields: with a value in each row; optional, of 8 bytes or one a row; of variable width.
_PLAIN: Final = 0
_WIDE: Final = 1
_SMALL: Final = 2
_TEXT: Final = 3


@shared
def run_chain(ctx: int, block: int, scratch: int) -> int:
    """Runs the chain over a block.

    Args:
        ctx: the address of a :class:`NativeChain`'s context.
        block: the input, which stays; 0 where it exists in Python only.
        scratch: any address that differs between workers; nothing is written there.

    Returns:
        A block of its own for :func:`~thalweg.workers.native.blocks.free_block`; 0 when Python must run the chunk:
        a function raised, or memory has run out. Nothing was counted then.
    """
    if block == 0:
        return 0
    mine = (scratch >> 6) & (_TALLIES - 1)
    tally = get_i(ctx + 8 * _TALLY) + mine * get_i(ctx + 8 * _TALLY_WORDS)
    expected = ctx + 8 * (tally + 1 + get_i(ctx + 8 * _STEPS))
    made = _outputs(ctx, block, get_i(expected))
    if made != 0:
        rows = _finish(ctx, block, made)
        put_i(made, rows)
        _count(ctx, tally, get_i(block), made + 8 * (get_i(ctx + 8 * _WORDS) + COUNTS))
        if get_i(ctx + 8 * _EXPANDS) != 0 and get_i(block) > 0:
            # A sixteenth more, so that chunks of about the same outputs need no second block.
            found = (rows << 8) // get_i(block)
            put_i(expected, min(max(found + (found >> 4), _EXPECTED_LEAST), _EXPECTED_MOST))
    return made


@shared
def _outputs(ctx: int, block: int, expected: int) -> int:
    """Runs the kernel; the block whose table it filled, or 0."""
    rows, words = get_i(block), 8 * get_i(ctx + 8 * _WORDS)
    table = 8 * table_word(get_i(ctx + 8 * _FIELDS))
    made = new_block(get_i(ctx + 8 * _SHAPE), rows * expected >> 8)
    if made == 0:
        return 0
    arena = COUNTS + 2 * get_i(ctx + 8 * _STEPS)
    for i in range(arena + ARENA_WORDS):
        put_i(made + words + 8 * i, 0)
    put_i(made + words + 8 * STOP, rows)
    while True:
        control = made + words
        status, code = call3(get_i(ctx + 8 * _KERNEL), block, made + table, control)
        if status != 0 or code == DONE:
            free_arena(control + 8 * arena)
        if status != 0:
            free_block(made, 0, 0)
            return 0
        if code == DONE:
            return made
        made = grow_block(made, get_i(control + 8 * OUT), get_i(control + 8 * NEEDED))
        if made == 0:
            return 0


@shared
def _finish(ctx: int, block: int, made: int) -> int:
    """Makes the kernel's outputs a block; its number of rows."""
    given, fields = get_i(ctx + 8 * _GIVEN), get_i(ctx + 8 * _FIELDS)
    rows = get_i(made + 8 * (get_i(ctx + 8 * _WORDS) + OUT))
    # The same number of rows, at most one of each: row by row.
    aligned = rows == get_i(block) and get_i(ctx + 8 * _EXPANDS) == 0
    table = made + 8 * table_word(fields)
    source = get_i(table + 8)
    _order(block + 8 * time_word(given), made + 8 * time_word(fields), source, rows, aligned)
    _order(block + 8 * own_word(given), made + 8 * own_word(fields), source, rows, aligned)
    for i in range(fields):
        kind, at = get_i(ctx + 8 * (_KINDS + i)), made + 8 * values_word(i)
        values, valid = get_i(table + 8 * (2 + 2 * i)), get_i(table + 8 * (3 + 2 * i))
        if kind == _TEXT:
            _texts(block, source, rows, values, at)
        else:
            if kind != _PLAIN:
                valid = _nulls(kind, values, valid, rows)
            put_i(at, values)
            put_i(at + 8, valid)
    if get_i(ctx + 8 * _PAYLOAD) != 0:
        _payload(block, made, given, fields, source, rows, aligned)
    else:
        put_i(made + 8 * payload_word(fields), NO_PAYLOAD)
        put_i(made + 8 * payload_row_word(fields), 0)
        put_i(made + 8 * texts_word(fields), 0)
    return rows


@shared
def _take(column: int, source: int, rows: int, out: int) -> None:
    """Takes the source rows of an int64 column; ``out`` may be ``source``."""
    for i in range(rows):
        put_i(out + 8 * i, get_i(column + 8 * get_i(source + 8 * i)))


@shared
def _order(given: int, made: int, source: int, rows: int, aligned: bool) -> None:
    """An order column, between the words that hold its address: of the source row, zeros if the input has none."""
    column, out = get_i(given), get_i(made)
    if out == 0:
        return
    if column == 0:
        for i in range(rows):
            put_i(out + 8 * i, 0)
    elif aligned:
        copy_bytes(out, column, 8 * rows)
    else:
        _take(column, source, rows, out)


@shared
def _nulls(kind: int, values: int, valid: int, rows: int) -> int:
    """Zeros where there is no value; the address of the validity, 0 when all rows have one."""
    present = 0
    for i in range(rows):
        present += get_b(valid + i)
    if present == rows:
        return 0
    if kind == _WIDE:
        for i in range(rows):
            put_i(values + 8 * i, get_i(values + 8 * i) if get_b(valid + i) else 0)
    else:
        for i in range(rows):
            put_b(values + i, get_b(values + i) and get_b(valid + i))
    return valid


@shared
def _number(block: int, handle: int, row: int) -> int:
    """The payload column that a field of the input stands for in a row."""
    if handle == NO_VALUE:
        return NO_VALUE
    at = block + 8 * values_word(handle)
    numbers = get_i(at)
    return get_i(numbers + 8 * row) if numbers != 0 else get_i(at + 8)


@shared
def _is_constant(block: int, handles: int, rows: int) -> bool:
    """Whether all rows stand for one payload column: one handle, and that of a field with one column."""
    first, other = get_i(handles), 0
    for i in range(rows):
        other |= get_i(handles + 8 * i) ^ first
    if other != 0:
        return False
    return first == NO_VALUE or get_i(block + 8 * values_word(first)) == 0


@shared
def _texts(block: int, source: int, rows: int, handles: int, out: int) -> None:
    """From numbers of input fields, which the kernel gives, to numbers of payload columns."""
    if rows == 0 or _is_constant(block, handles, rows):
        put_i(out, 0)
        put_i(out + 8, _number(block, get_i(handles), 0) if rows != 0 else NO_VALUE)
        return
    for i in range(rows):
        number = _number(block, get_i(handles + 8 * i), get_i(source + 8 * i))
        put_i(handles + 8 * i, number)
    put_i(out, handles)
    put_i(out + 8, 0)


@shared
def _payload(
    block: int, made: int, given: int, fields: int, source: int, rows: int, aligned: bool
) -> None:
    """The payload stays; its rows are those of the source rows and stand in the source column."""
    put_i(made + 8 * payload_word(fields), get_i(block + 8 * payload_word(given)))
    put_i(made + 8 * texts_word(fields), get_i(block + 8 * texts_word(given)))
    rows_at = get_i(block + 8 * payload_row_word(given))
    if rows_at != 0:
        _take(rows_at, source, rows, source)
    put_i(made + 8 * payload_row_word(fields), 0 if aligned and rows_at == 0 else source)


@shared
def _count(ctx: int, tally: int, rows: int, counts: int) -> None:
    """Counts the rows of the block and of each step. Atomically: workers beyond the number of tallies share them."""
    memory = words_at(ctx)
    add(memory, tally, rows)
    for i in range(get_i(ctx + 8 * _STEPS)):
        add(memory, tally + 1 + i, get_i(counts + 8 * i))


def eligible(unit: Any, order_names: Sequence[str]) -> bool:
    """Whether a unit can run as machine code: one compiled chain, which a whole order key need not count.

    Blocks have no room for new texts: what puts some out is run by Python.
    """
    if not isinstance(unit, ChainUnit) or len(unit.parts) != 1:
        return False
    nodes, made = unit.parts[0]
    counts = has_whole_key(order_names) and any(map(expands, nodes))
    return isinstance(made, CompiledChain) and not made.texts.made and not counts


class NativeChain:
    """What machine code needs to run a compiled chain; must outlive its use and all blocks it made.

    ``ctx`` and ``function`` are the addresses of the context and of :func:`run_chain`, ``free`` that of
    :func:`~thalweg.workers.native.blocks.free_block`.
    """

    def __init__(self, compiled: CompiledChain, order_names: Sequence[str]) -> None:
        """``order_names``: the order columns of the outputs."""
        self.compiled = compiled
        steps, fields = len(compiled.steps), compiled.out.fields
        kinds = [_kind(field.type) for field in fields]
        self.shape = BlockShape(
            compiled.out, order_names, columns=1, words=COUNTS + 2 * steps + ARENA_WORDS
        )
        #: which word of a block names its payload; 0 where blocks have none
        has_payload = _TEXT in kinds or has_whole_key(order_names)
        self.payload_word = payload_word(len(fields)) if has_payload else 0
        tally, each = line_up(_KINDS + len(fields)), line_up(2 + steps)
        self._memory = new_words(tally + _TALLIES * each)
        self._memory[:_KINDS] = [
            address_of(compiled.kernel), self.shape.address, steps, len(compiled.source.fields), len(fields),
            self.shape.words_at, any(step.kind == "flat_map" for step in compiled.steps), has_payload,
            tally, each,
        ]  # fmt: skip
        self._memory[_KINDS : _KINDS + len(fields)] = kinds
        tallies = self._memory[tally:].reshape(_TALLIES, each)
        tallies[:, 1 + steps] = _EXPECTED_LEAST
        self._tallies = tallies[:, : 1 + steps]
        self.ctx = address(self._memory)
        self.function = address_of(run_chain)
        self.free = address_of(free_block)

    def counts(self) -> tuple[int, list[int]]:
        """How many rows came in so far, and how many each step put out."""
        arrived, *out = np.sum(self._tallies, axis=0).tolist()
        return arrived, out


def _kind(kind: Any) -> int:
    made = field_type(kind)
    if made.tag == "handle":
        return _TEXT
    if not made.boxed:
        return _PLAIN
    return _SMALL if made.size == 1 else _WIDE
