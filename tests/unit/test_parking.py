"""The event count and the clock: sleepers wake by an event or by their limit."""

from __future__ import annotations

import threading
import time

import pytest

from thalweg.jit import njit
from thalweg.workers.lockfree.atomics import Words, load, new_words, store
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.parking import (
    cancel,
    park,
    parking_init,
    parking_words,
    prepare,
    unpark,
)

#: Longer than any test may take: a thread that is not woken fails by the timeout of the test.
FOR_EVER_US = 3_600_000_000


@pytest.fixture
def mem() -> Words:
    words = new_words(parking_words() + 8)
    parking_init(words, 0)
    return words


@njit
def compiled_now_ns() -> int:
    return now_ns()


def test_the_compiled_clock_is_the_monotonic_one() -> None:
    before = time.monotonic_ns()
    assert before <= compiled_now_ns() <= now_ns() <= time.monotonic_ns()


def test_parking_ends_with_its_limit(mem: Words) -> None:
    before = time.monotonic()
    park(mem, 0, prepare(mem, 0), 2000)
    assert time.monotonic() - before >= 0.002


def test_an_event_after_prepare_lets_nobody_sleep(mem: Words) -> None:
    key = prepare(mem, 0)
    unpark(mem, 0)
    park(mem, 0, key, FOR_EVER_US)


def test_an_event_without_sleepers_leaves_nothing_behind(mem: Words) -> None:
    """Neither before anybody was announced nor after a cancel; so it costs no more than a look."""
    before = mem.copy()
    unpark(mem, 0)
    prepare(mem, 0)
    cancel(mem, 0)
    unpark(mem, 0)
    assert (mem == before).all()


WORK, ASLEEP = parking_words(), parking_words() + 1


@njit
def sleep_until_work(mem: Words, work: int, asleep: int) -> int:
    """How often it parked before it saw the word set."""
    parked = 0
    while True:
        key = prepare(mem, 0)
        if load(mem, work) != 0:
            cancel(mem, 0)
            return parked
        store(mem, asleep, 1)
        park(mem, 0, key, FOR_EVER_US)
        parked += 1


def test_one_event_wakes_all_sleepers(mem: Words) -> None:
    """Threads in compiled code, without a time limit that could save them."""
    threads = [
        threading.Thread(target=sleep_until_work, args=(mem, WORK, ASLEEP)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    while mem[ASLEEP] == 0:
        time.sleep(0)
    mem[WORK] = 1
    unpark(mem, 0)
    for thread in threads:
        thread.join()
