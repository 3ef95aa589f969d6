"""Workers that sleep and are woken one by one, under every schedule: nobody sleeps beside work."""

from __future__ import annotations

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.flows import Flow, ingress, operator
from tests.interleavings.plain import Mutation, Structures
from tests.interleavings.workers import FOR_EVER

from thalweg.workers.lockfree.atomics import EMPTY, give_way
from thalweg.workers.memory.layout import STATEFUL


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


def two_lines(structures: Structures) -> Make:
    """A source feeds two operators by one event, and two workers that sleep; nothing but wake-ups tells them."""
    flow = Flow(
        structures,
        [ingress(2), operator(STATEFUL, 0, capacity=2), operator(STATEFUL, 0, capacity=2)],
    )
    return flow.program(
        1,
        lambda mem: flow.submit_and_settle(mem, 1),
        *(lambda mem, w=w: flow.work_off_or_sleep(mem, w, 1) for w in range(2)),
    )


def test_each_sleeper_is_claimed_once() -> None:
    explore(claimed(Structures(), 2, 2), bound=3)


def test_two_pieces_of_work_and_one_wake_up() -> None:
    """Whoever was woken sees that there is more."""
    explore(two_lines(Structures()), bound=1)


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
        two_lines,
        Mutation(
            "waking",
            "    if w != EMPTY:\n        unpark(mem, mem[worker_at(mem, w) + EVENT])\n",
            "    pass\n",
        ),
    ),
    "work is looked for before the sleeper is announced": (
        two_lines,
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
    with pytest.raises(Violation):
        if scenario is claimed:
            explore(claimed(structures, 2, 2), bound=2)
        else:
            explore(two_lines(structures), bound=1)
