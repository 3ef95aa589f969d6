"""Workers that sleep and are woken one by one, under every schedule: nobody sleeps beside work.

That no step is stuck where they do is in ``test_interleaved_dispatch.py`` (``sleeping_line``).
"""

from __future__ import annotations

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.plain import Mutation, Structures
from tests.interleavings.scenarios import sleeping_line
from tests.interleavings.workers import FOR_EVER

from thalweg.workers.lockfree.atomics import EMPTY, give_way


def claimed(structures: Structures, workers: int, events: int) -> Make:
    """Workers fall asleep once each; as many events as there are workers wake each of them, once."""
    sleepers, parking = structures.sleepers, structures.parking

    def make(mem: Memory) -> Program:
        bits = mem.reserve(sleepers.sleepers_words(workers))
        parks = [mem.reserve(parking.parking_words()) for _ in range(workers)]
        for one in parks:
            parking.parking_init(mem, one)

        def wake() -> None:
            for _ in range(events):
                while (w := sleepers.claim(mem, bits, workers)) == EMPTY:
                    give_way()
                mem.log.append(w)
                parking.unpark(mem, parks[w])

        def fall_asleep(w: int) -> None:
            key = parking.prepare(mem, parks[w])
            sleepers.announce(mem, bits, w)
            parking.park(mem, parks[w], key, FOR_EVER)
            assert not sleepers.withdraw(mem, bits, w), "woken by nobody"

        def check() -> None:
            assert sorted(mem.log) == list(range(workers)), "not each of them, once"

        return Program([wake, *(lambda w=w: fall_asleep(w) for w in range(workers))], check)

    return make


def test_each_sleeper_is_claimed_once() -> None:
    explore(claimed(Structures(), 2, 2), bound=2)


MUTATIONS = {
    "a bit is cleared by two": (
        claimed,
        Mutation(
            "sleepers",
            "            if cas(mem, word, bits, bits - (1 << place)):\n                return group",
            "            if store(mem, word, bits - (1 << place)) is None:\n                return group",
        ),
    ),
    "who has work wakes nobody": (
        sleeping_line,
        Mutation(
            "waking",
            "    if w != EMPTY:\n        unpark(mem, mem[worker_at(mem, w) + EVENT])\n",
            "    pass\n",
        ),
    ),
    "work is looked for before the sleeper is announced": (
        sleeping_line,
        Mutation(
            "waking",
            "    if load(mem, me + FIXED) == EMPTY:\n        announce(mem, mem[SLEEPERS], w)\n    return key\n",
            "    return key\n",
        ),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_found(name: str) -> None:
    """A lost wake-up, or one that comes twice, shows."""
    scenario, mutation = MUTATIONS[name]
    structures = Structures(mutation)
    is_alone = scenario is claimed
    made = claimed(structures, 2, 2) if is_alone else sleeping_line(structures, 1, 1)
    with pytest.raises(Violation):
        explore(made, bound=2 if is_alone else 1)
