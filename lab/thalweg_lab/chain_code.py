"""Operators and sources of chains as machine code: they work for so long, let so many tuples through, and keep time.

A block is one tuple of the input and what operators have made of it, with its place in the input and its times. Blocks
belong to the one who feeds; an operator writes into the block that it got and hands it on.
"""

from __future__ import annotations

import functools
import time
from typing import Final

from thalweg.compiler.runtime.calls import get_i, put_i
from thalweg.jit import njit
from thalweg.workers.lockfree.atomics import shared
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.parking import park, prepare
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import new_handle
from thalweg.workers.memory.layout import Int64s
from thalweg.workers.memory.places import block_word, handle_at
from thalweg.workers.steps import has_room, submit

#: Words of an operator: turns of its loop a tuple; its selectivity in units of 2**-30; its number; whether what it
#: puts out has left; tuples taken and given so far.
TURNS: Final = 0
SELECTIVITY: Final = 1
NUMBER: Final = 2
IS_LAST: Final = 3
TAKEN: Final = 4
GIVEN: Final = 5
CONTEXT_WORDS: Final = at.LINE
ONE: Final = 1 << 30
#: Words of a tuple's block: how many tuples it is by now; its place in the input; when it is due, ns since the start;
#: when it left, monotonic ns, 0: it has not.
COUNT: Final = 0
PLACE: Final = 1
DUE: Final = 2
LEFT: Final = 3
BLOCK_WORDS: Final = 4
#: Words of a source: its ingress; its first tuple and the end of its tuples; the next one to hand over; the first that
#: is not due yet.
INGRESS: Final = 0
FIRST: Final = 1
END: Final = 2
NEXT: Final = 3
COME: Final = 4
SOURCE_WORDS: Final = at.LINE
#: The source's thread looks at the clock so often at most, and counts queued tuples so often.
_TICK_US: Final = 500
SAMPLE_NS: Final = 5_000_000
FOR_EVER: Final = 1 << 62


@functools.cache
def turn_ns() -> float:
    """CPU time of a turn of an operator's loop on this machine, ns: the least of several looks."""
    _spin(1, 1.0)
    looks, turns = [], 1_000_000
    for _ in range(7):
        began = time.thread_time_ns()
        _spin(turns, 1.0)
        looks.append((time.thread_time_ns() - began) / turns)
    return min(looks)


@njit
def _spin(turns: int, value: float) -> float:
    """Dependent additions and multiplications."""
    for _ in range(turns):
        value = value * 0.999 + 1.0
    return value


@njit
def _drawn(number: int, place: int, selectivity: int) -> int:
    """How many tuples operator ``number`` makes of the tuple at ``place``: its selectivity on average."""
    mixed = place * 0x5851F42D4C957F2D + number * 0x14057B7EF767814F + 0x2545F4914F6CDD1D
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 29)) * 0x369DEA0F31A53F85
    return (selectivity + ((mixed >> 32) & (ONE - 1))) // ONE


@njit
def operate(context: int, block: int, scratch: int) -> int:
    """Works on a block's tuples, which stay in it or are gone."""
    count, place, left = get_i(block), get_i(block + 8 * PLACE), 0
    value = _spin(get_i(context) * count, float(scratch & 7))
    for copy in range(count):
        number = get_i(context + 8 * NUMBER) + (copy << 16)
        left += _drawn(number, place, get_i(context + 8 * SELECTIVITY))
    put_i(block, left)
    put_i(context + 8 * TAKEN, get_i(context + 8 * TAKEN) + count)
    put_i(context + 8 * GIVEN, get_i(context + 8 * GIVEN) + left)
    if left and get_i(context + 8 * IS_LAST):
        put_i(block + 8 * LEFT, now_ns())
    # No turn of the loop can be left out, since the result seems to matter.
    return block if value >= 0.0 else scratch


@njit
def free(context: int, block: int, scratch: int) -> int:
    return 0


# -- the sources -----------------------------------------------------------------------------------------------


@shared
def _hand_over(mem: Int64s, source: Int64s, blocks: Int64s, begin: int, now: int) -> int:
    """Hands over a source's tuples that are due while there is room; when the next one is due, monotonic ns."""
    ingress, end = source[INGRESS], source[END]
    while source[COME] < end and begin + blocks[source[COME], DUE] <= now:
        source[COME] += 1
    while source[NEXT] < source[COME] and has_room(mem, ingress):
        handle = new_handle(mem)
        if handle < 0:
            break
        number, place = source[NEXT], handle_at(mem, handle)
        mem[place + at.ENTRY] = begin + blocks[number, DUE]
        mem[place + at.OBJECT] = 0
        mem[place + at.COUNT] = 1
        mem[place + at.ENDING] = 0
        mem[block_word(mem, place, 0)] = blocks.ctypes.data + 8 * BLOCK_WORDS * number
        submit(mem, ingress, handle)
        source[NEXT] += 1
    return begin + blocks[source[COME], DUE] if source[COME] < end else FOR_EVER


@shared
def _queued(sources: Int64s, contexts: Int64s) -> int:
    """Tuples that are due and wait."""
    waiting = 0
    for q in range(len(sources)):
        waiting += sources[q, COME] - sources[q, FIRST]
    for op in range(len(contexts)):
        waiting -= contexts[op, TAKEN]
        if contexts[op, IS_LAST] == 0:
            waiting += contexts[op, GIVEN]
    return waiting


@shared
def feed(
    mem: Int64s,
    event: Int64s,
    sources: Int64s,
    blocks: Int64s,
    contexts: Int64s,
    samples: Int64s,
    length: int,
) -> tuple[int, int, int]:
    """Feeds all sources for so many ns, or until they end; (when it began, when it ended, samples taken).

    Args:
        event: an event count that nobody knows of.
        sources: their words, int64[sources, SOURCE_WORDS].
        blocks: all tuples, int64[tuples, BLOCK_WORDS].
        contexts: of the operators, int64[operators, CONTEXT_WORDS].
        samples: takes how many tuples are queued, every ``SAMPLE_NS``.
        length: ns; ``FOR_EVER``: until all tuples have been handed over.
    """
    begin = now = now_ns()
    sampled = 0
    while now - begin < length:
        following, more = begin + sampled * SAMPLE_NS, length < FOR_EVER
        if sampled < len(samples) and now >= following:
            samples[sampled] = _queued(sources, contexts)
            sampled += 1
            following += SAMPLE_NS
        for q in range(len(sources)):
            following = min(following, _hand_over(mem, sources[q], blocks, begin, now))
            more = more or sources[q, NEXT] < sources[q, END]
        if not more:
            break
        # Nobody wakes it: this is a sleep.
        park(event, 0, prepare(event, 0), max((following - now) // 1_000, _TICK_US))
        now = now_ns()
    return begin, now, sampled
