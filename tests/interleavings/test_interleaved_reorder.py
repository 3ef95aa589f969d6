"""Prasaad et al., Theorem 3.1, under every schedule: outputs leave in serial order, and none stays behind."""

from __future__ import annotations

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.plain import Mutation, Structures

from thalweg.workers.lockfree.atomics import EMPTY


def sending(
    structures: Structures, threads: int, units: int, size: int, *, locked: bool = False
) -> Make:
    """Every thread processes some units; the ring downstream has room for all."""
    rings, reorder, workers = structures.rings, structures.reorder, structures.workers
    process = workers.process_and_send_locked if locked else workers.process_and_send
    total = threads * units

    def make(mem: Memory) -> Program:
        buffer = mem.reserve(reorder.reorder_words(size))
        out = mem.reserve(rings.spsc_words(total))
        reorder.reorder_init(mem, buffer, size)
        rings.spsc_init(mem, out, total)

        def body() -> None:
            for _ in range(units):
                process(mem, buffer, out, 100)

        def check() -> None:
            sent = [rings.spsc_pop(mem, out) for _ in range(total)]
            assert sent == [100 + serial for serial in range(total)]

        return Program([body] * threads, check)

    return make


@pytest.mark.parametrize("locked", [False, True], ids=["non-blocking", "lock-based"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_theorem_3_1(size: int, locked: bool) -> None:
    """Two threads with two units each, through buffers smaller and larger than what is under way."""
    explore(sending(Structures(), 2, 2, size, locked=locked), bound=2)


def test_theorem_3_1_three_threads() -> None:
    explore(sending(Structures(), 3, 1, 2), bound=2)


def test_theorem_3_1_with_store_buffers() -> None:
    explore(sending(Structures(), 2, 1, 2), bound=3, weak=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.exhaustive), 2, 3])
def test_theorem_3_1_deeper(size: int) -> None:
    explore(sending(Structures(), 2, 2, size), bound=3)
    explore(sending(Structures(), 3, 1, size), bound=3)
    explore(sending(Structures(), 2, 2, size), bound=2, weak=True)


def full_downstream(structures: Structures, senders: int, *, locked: bool = False) -> Make:
    """The ring has room for one output and holds one. Others are sent while it is popped from, once each.

    When all have returned, an output is in the buffer only if the ring is full.
    """
    rings, reorder, workers = structures.rings, structures.reorder, structures.workers
    process = workers.process_and_send_locked if locked else workers.process_and_send
    pop = workers.pop_and_make_room_locked if locked else workers.pop_and_make_room

    def make(mem: Memory) -> Program:
        buffer = mem.reserve(reorder.reorder_words(4))
        out = mem.reserve(rings.spsc_words(1))
        reorder.reorder_init(mem, buffer, 4)
        rings.spsc_init(mem, out, 1)
        process(mem, buffer, out, 100)

        def send() -> None:
            process(mem, buffer, out, 100)

        def consume() -> None:
            popped = [pop(mem, buffer, out) for _ in range(senders)]
            mem.log.extend(v for v in popped if v != EMPTY)

        def check() -> None:
            while len(mem.log) <= senders:
                assert rings.spsc_len(mem, out) == 1, "an output waits beside room"
                mem.log.append(pop(mem, buffer, out))
            assert mem.log == [100 + serial for serial in range(senders + 1)]

        return Program([send] * senders + [consume], check)

    return make


@pytest.mark.parametrize("locked", [False, True], ids=["non-blocking", "lock-based"])
def test_no_output_waits_beside_room(locked: bool) -> None:
    explore(full_downstream(Structures(), 1, locked=locked), bound=4)
    explore(full_downstream(Structures(), 2, locked=locked), bound=1)


def test_no_output_waits_beside_room_with_store_buffers() -> None:
    explore(full_downstream(Structures(), 1), bound=3, weak=True)


@pytest.mark.slow
@pytest.mark.parametrize("locked", [False, True], ids=["non-blocking", "lock-based"])
def test_no_output_waits_beside_room_deeper(locked: bool) -> None:
    explore(full_downstream(Structures(), 2, locked=locked), bound=3)


RECHECK = """\
        clear(mem, at)
        if pending(mem, at) == EMPTY or spsc_free(mem, out) == 0:
            return
"""
RECHECK_BEFORE = """\
        over = pending(mem, at) == EMPTY
        clear(mem, at)
        if over:
            return
"""
MUTATIONS = {
    "no re-check after the flag is cleared": Mutation(
        "reorder", RECHECK, "        clear(mem, at)\n        return\n"
    ),
    "the re-check stands before the flag is cleared": Mutation("reorder", RECHECK, RECHECK_BEFORE),
    "the flag is looked at and written, not exchanged": Mutation(
        "reorder",
        "    return swap(mem, at + _FLAG, 1) == 0\n",
        "    return load(mem, at + _FLAG) == 0 and store(mem, at + _FLAG, 1) is None\n",
    ),
    "next moves on before the slot is emptied": Mutation(
        "reorder",
        "    store(mem, at + _SLOTS + (following & mem[at + _MASK]), EMPTY)\n"
        "    store(mem, at + _NEXT, following + 1)\n",
        "    store(mem, at + _NEXT, following + 1)\n"
        "    store(mem, at + _SLOTS + (following & mem[at + _MASK]), EMPTY)\n",
    ),
    "the window is larger than the buffer": Mutation(
        "reorder", "following + int(mem[at + _SIZE])", "following + int(mem[at + _SIZE]) + 1"
    ),
}


def test_mutation_the_drain_loop_dropped_is_found() -> None:
    """One output is sent where several are next."""
    one = Mutation("reorder", "    while v != EMPTY and", "    if v != EMPTY and")
    once = Mutation("reorder", "    while begin(mem, at):", "    if begin(mem, at):")
    with pytest.raises(Violation):
        explore(sending(Structures(one, once), 2, 2, 2), bound=3)


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_mutation_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation):
        explore(sending(Structures(mutation), 2, 2, 2), bound=3)


WEAK_MUTATIONS = {
    "the flag is cleared by a plain store": Mutation(
        "reorder", "    swap(mem, at + _FLAG, 0)\n", "    store(mem, at + _FLAG, 0)\n"
    ),
    "the flag is looked at before it is tried": Mutation(
        "reorder",
        "    return swap(mem, at + _FLAG, 1) == 0\n",
        "    return load(mem, at + _FLAG) == 0 and swap(mem, at + _FLAG, 1) == 0\n",
    ),
}


@pytest.mark.parametrize("mutation", WEAK_MUTATIONS.values(), ids=WEAK_MUTATIONS)
def test_mutation_is_found_with_store_buffers(mutation: Mutation) -> None:
    """Right if memory were sequentially consistent, wrong on the processors there are."""
    explore(sending(Structures(mutation), 2, 1, 2), bound=3)
    with pytest.raises(Violation):
        explore(sending(Structures(mutation), 2, 1, 2), bound=3, weak=True)


ROOM_MUTATIONS = {
    "the consumer does not send what waited for the room": Mutation(
        "workers",
        "    v = spsc_pop(mem, out)\n    send_pending(mem, buffer, out)\n",
        "    v = spsc_pop(mem, out)\n",
    ),
    "room made meanwhile is not looked for": Mutation(
        "reorder", " or spsc_free(mem, out) == 0", " or True"
    ),
}


@pytest.mark.parametrize("mutation", ROOM_MUTATIONS.values(), ids=ROOM_MUTATIONS)
def test_mutation_about_room_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation):
        explore(full_downstream(Structures(mutation), 1), bound=3)
