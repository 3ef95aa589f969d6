"""The event count under every schedule: nobody sleeps beside work."""

from __future__ import annotations

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.plain import Mutation, Structures


def handing_out(structures: Structures, consumers: int, items: int = 1) -> Make:
    """Consumers sleep until they have had their items each; nothing but an event wakes them."""
    rings, parking, workers = structures.rings, structures.parking, structures.workers
    total = consumers * items

    def make(mem: Memory) -> Program:
        at = mem.reserve(parking.parking_words())
        parking.parking_init(mem, at)
        ring = mem.reserve(rings.mpmc_words(total))
        rings.mpmc_init(mem, ring, total)

        def produce() -> None:
            for item in range(total):
                workers.push_and_wake(mem, at, ring, item)

        def consume() -> None:
            for _ in range(items):
                mem.log.append(workers.pop_or_sleep(mem, at, ring))

        def check() -> None:
            assert sorted(mem.log) == list(range(total))
            before = list(mem)
            parking.unpark(mem, at)
            assert list(mem) == before, "a sleeper is still announced"

        return Program([produce] + [consume] * consumers, check)

    return make


@pytest.mark.parametrize("weak", [False, True], ids=["sc", "tso"])
def test_no_wake_up_is_lost(weak: bool) -> None:
    explore(handing_out(Structures(), 1, 2), bound=4 - weak, weak=weak)
    explore(handing_out(Structures(), 2), bound=2 - weak, weak=weak)


@pytest.mark.slow
def test_no_wake_up_is_lost_deeper() -> None:
    explore(handing_out(Structures(), 2), bound=3)
    explore(handing_out(Structures(), 3), bound=2)


AGAIN = """\
        v = mpmc_pop(mem, ring)
        if v != EMPTY:
            cancel(mem, parking)
"""
MUTATIONS = {
    "no second look": Mutation(
        "workers", AGAIN, "        if v != EMPTY:\n            cancel(mem, parking)\n"
    ),
    "a second look before the sleeper is announced": Mutation(
        "workers",
        "        key = prepare(mem, parking)\n" + AGAIN,
        "        v = mpmc_pop(mem, ring)\n"
        "        key = prepare(mem, parking)\n"
        "        if v != EMPTY:\n"
        "            cancel(mem, parking)\n",
    ),
    "the epoch is read at the time of parking": Mutation(
        "parking",
        "    _sleep(mem, at, key, limit_us)\n",
        "    _sleep(mem, at, load(mem, at + _EPOCH), limit_us)\n",
    ),
    "an event does not move the epoch": Mutation(
        "parking",
        '    """Moves the epoch and wakes all who sleep."""\n    add(mem, at + _EPOCH, 1)\n',
        '    """Moves the epoch and wakes all who sleep."""\n    add(mem, at + _EPOCH, 0)\n',
    ),
    "waking comes before the work": Mutation(
        "workers",
        "    mpmc_push(mem, ring, v)\n    unpark(mem, parking)\n",
        "    unpark(mem, parking)\n    mpmc_push(mem, ring, v)\n",
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_mutation_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation, match="deadlock"):
        explore(handing_out(Structures(mutation), 1, 2))


def test_mutation_no_fence_before_the_look_at_the_sleepers_is_found_with_store_buffers() -> None:
    mutation = Mutation(
        "parking",
        "    fence()\n    if load(mem, at + _SLEEPERS) > 0:\n",
        "    if load(mem, at + _SLEEPERS) > 0:\n",
    )
    explore(handing_out(Structures(mutation), 1))
    with pytest.raises(Violation, match="deadlock"):
        explore(handing_out(Structures(mutation), 1), weak=True)
