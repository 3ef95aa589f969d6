"""Which workers sleep: a bit each, so that who has work for one wakes one, and nobody else's sleep is ended.

A worker that found nothing sets its bit (:func:`announce`), looks for work once more, and then sleeps on an event count
of its own. Who has made work available clears one bit (:func:`claim`) and wakes that worker. Both write before they
look: so either the worker's second look finds the work, or its bit is seen. A worker that finds its bit cleared has
been counted on (:func:`withdraw`): it must see that nobody else was needed.

Bits stand together, 48 on a cache line; they are written when a worker falls asleep or is woken, and only read else.
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import EMPTY, LINE, Words, add, cas, fence, load, shared

#: Bits of a word, below the sign.
_BITS: Final = 48


@shared
def sleepers_words(workers: int) -> int:
    """The words for so many workers, whole lines."""
    return (workers + _BITS - 1) // _BITS * LINE


@shared
def announce(mem: Words, at: int, worker: int) -> None:
    """The worker is about to sleep; it looks for work once more after this."""
    add(mem, at + worker // _BITS * LINE, 1 << worker % _BITS)
    fence()


@shared
def withdraw(mem: Words, at: int, worker: int) -> bool:
    """The worker is awake; False where somebody has woken it, or is about to."""
    word, bit = at + worker // _BITS * LINE, 1 << worker % _BITS
    while True:
        bits = load(mem, word)
        if bits & bit == 0:
            return False
        if cas(mem, word, bits, bits - bit):
            return True


@shared
def claim(mem: Words, at: int, workers: int) -> int:
    """A sleeping worker, which the caller wakes; EMPTY where none sleeps. Of several that with the least number, whose
    cache is the warmest."""
    for group in range((workers + _BITS - 1) // _BITS):
        word = at + group * LINE
        bits = load(mem, word)
        while bits:
            place = 0
            while bits >> place & 1 == 0:
                place += 1
            if cas(mem, word, bits, bits - (1 << place)):
                return group * _BITS + place
            bits = load(mem, word)
    return EMPTY
