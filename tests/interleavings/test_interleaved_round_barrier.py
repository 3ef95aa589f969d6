"""The meeting between two rounds under every schedule: no round outlives a change of what it was made from."""

from __future__ import annotations

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.flows import Flow, ingress, operator
from tests.interleavings.plain import Mutation, Structures

from thalweg.workers.memory.layout import ACTIVE, ASKED, LEADER, ROUND_END, STATELESS

WORKERS = 3
PERIOD_NS = 1_000


def changed_while_prepared(structures: Structures) -> Make:
    """A worker prepares a round for as many workers as there are, and somebody changes how many."""
    flow = Flow(structures, [ingress(), operator(STATELESS, 0)], workers=WORKERS)
    meeting, atomics = structures.round_barrier, structures.loop

    def make(mem: Memory) -> Program:
        mem.extend(flow.memory)
        mem[LEADER] = 1
        planned: list[int] = []

        def prepare() -> None:
            asked = atomics.load(mem, ASKED)
            planned.append(atomics.load(mem, ACTIVE))
            mem.log.append(planned[-1])
            meeting.begin_round(mem, PERIOD_NS, asked)

        def change() -> None:
            for count in (1, 2):
                atomics.store(mem, ACTIVE, count)
                meeting.end_round(mem)

        def check() -> None:
            assert mem[LEADER] == 0
            if mem[ACTIVE] != planned[0]:
                assert mem[ROUND_END] == 0, "the round goes on, for workers that there are not"

        return Program([prepare, change], check)

    return make


@pytest.mark.parametrize("weak", [False, True], ids=["sc", "tso"])
def test_a_change_ends_the_round_that_is_prepared(weak: bool) -> None:
    explore(changed_while_prepared(Structures()), bound=3, weak=weak)


def led(structures: Structures) -> Make:
    """Workers meet; each leads or waits, and whoever is told to prepare a round steps back or begins one."""
    flow = Flow(structures, [ingress(), operator(STATELESS, 0)], workers=WORKERS)
    assert flow.submit(flow.memory)
    meeting, atomics = structures.round_barrier, structures.loop

    def make(mem: Memory) -> Program:
        mem.extend(flow.memory)

        def meet(w: int) -> None:
            me = flow.places.worker_at(mem, w)
            while not mem.log:
                if meeting.from_round(mem, w, me) != meeting.ASK_ROUND:
                    atomics.give_way()
                    continue
                asked = atomics.load(mem, ASKED)
                assert atomics.load(mem, LEADER) == w + 1, "two prepare a round"
                if w >= atomics.load(mem, ACTIVE):
                    meeting.leave_meeting(mem)
                    return
                meeting.begin_round(mem, PERIOD_NS, asked)
                mem.log.append(w)

        def suspend() -> None:
            atomics.store(mem, ACTIVE, 1)
            meeting.end_round(mem)

        def check() -> None:
            assert mem.log and mem[LEADER] == 0, "nobody has prepared a round"

        return Program([lambda: meet(0), lambda: meet(1), suspend], check)

    return make


def test_somebody_prepares_the_round_that_a_suspended_worker_does_not() -> None:
    explore(led(Structures()), bound=2)


MUTATIONS = {
    "a round begins whatever has been asked for": Mutation(
        "round_barrier", "    if load(mem, ASKED) != asked:\n        store(mem, ROUND_END, 0)\n", ""
    ),
    "nobody is told of a change": Mutation("round_barrier", "    add(mem, ASKED, 1)\n", ""),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_mutation_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation, match="goes on"):
        explore(changed_while_prepared(Structures(mutation)), bound=2)


def test_mutation_no_fence_is_found_with_store_buffers() -> None:
    mutation = Mutation(
        "round_barrier", "    fence()\n    if load(mem, ASKED)", "    if load(mem, ASKED)"
    )
    explore(changed_while_prepared(Structures(mutation)), bound=3)
    with pytest.raises(Violation, match="goes on"):
        explore(changed_while_prepared(Structures(mutation)), bound=3, weak=True)


def test_mutation_who_steps_back_tells_nobody_is_found() -> None:
    mutation = Mutation(
        "round_barrier", '''not; the next one that comes will."""\n    store(mem, LEADER, 0)\n''',
        '''not; the next one that comes will."""\n''',
    )  # fmt: skip
    with pytest.raises(Violation):
        explore(led(Structures(mutation)), bound=2)
