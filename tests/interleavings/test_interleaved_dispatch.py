"""How chunks move between operators, under every schedule: every step once and in order, and none waits beside room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.interleavings.explorer import Make, Violation, explore
from tests.interleavings.flows import Flow, ingress, operator
from tests.interleavings.plain import Mutation, Structures
from tests.interleavings.scenarios import (
    chain,
    diamond,
    fan_out,
    into_a_full_inbox,
    line,
    ranges,
    relieved_chain,
    sleeping_line,
    two_finish,
    two_readers,
)

from thalweg.workers.memory.layout import HYBRID, PARTITIONED, SHARED, STATELESS, UNITS

Scenario = Callable[[Structures], Make]
#: More than the threads of any program here take when they get anywhere.
STEPS = 4000
MEMORY_MODELS = pytest.mark.parametrize("weak", [False, True], ids=["sc", "tso"])
#: Deeper with store buffers takes an hour in all.
DEEP_MODELS = pytest.mark.parametrize(
    "weak", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["sc", "tso"]
)
SENDING = pytest.mark.parametrize("locking", [0, 1], ids=["non-blocking", "lock-based"])

# -- from the source to the last operator ----------------------------------------------------------------------


@SENDING
def test_every_step_passes_once_and_in_order(locking: int) -> None:
    explore(line(Structures(), 2, 1, locking), bound=1, steps=STEPS)
    explore(line(Structures(), 2, 2, locking), bound=1, steps=STEPS)


def test_every_step_passes_once_and_in_order_with_store_buffers() -> None:
    explore(line(Structures(), 2, 1), bound=1, weak=True, steps=STEPS)


@pytest.mark.slow
@DEEP_MODELS
@SENDING
def test_every_step_passes_once_and_in_order_deeper(locking: int, weak: bool) -> None:
    explore(line(Structures(), 2, 1, locking), bound=2, weak=weak, steps=STEPS)
    explore(line(Structures(), 3, 2, locking), bound=1, weak=weak, steps=STEPS)


@MEMORY_MODELS
def test_an_operator_takes_the_same_step_from_each_input(weak: bool) -> None:
    explore(diamond(Structures()), bound=1, weak=weak, steps=STEPS)


# -- room ------------------------------------------------------------------------------------------------------

ROOM: dict[str, Scenario] = {
    "into a full inbox": into_a_full_inbox,
    "into a full inbox, lock-based": lambda structures: into_a_full_inbox(structures, 1),
    "chain": chain,
    "chain, lock-based": lambda structures: chain(structures, 1),
    "relieved chain": relieved_chain,
    "relieved chain, lock-based": lambda structures: relieved_chain(structures, 1),
    "fan-out": fan_out,
    "two finish": two_finish,
    "two finish, without order": lambda structures: two_finish(structures, 0),
}


@MEMORY_MODELS
@pytest.mark.parametrize("scenario", ROOM.values(), ids=ROOM)
def test_no_output_waits_beside_room(scenario: Scenario, weak: bool) -> None:
    explore(scenario(Structures()), bound=1 if weak else 2, weak=weak, steps=STEPS)


@pytest.mark.slow
@MEMORY_MODELS
@pytest.mark.parametrize("scenario", ROOM.values(), ids=ROOM)
def test_no_output_waits_beside_room_deeper(scenario: Scenario, weak: bool) -> None:
    explore(scenario(Structures()), bound=2 if weak else 3, weak=weak, steps=STEPS)


def test_who_helps_a_full_reader_runs_a_quarter_of_its_queue() -> None:
    """Schneider & Wu, 4.1.4: then the helper goes back; who comes by itself stays."""
    flow = Flow(Structures(), [ingress(), operator(STATELESS, 0, capacity=8)])
    me = flow.places.worker_at(flow.memory, 0)
    for helping, units in ((True, 2), (False, 1 << 60)):
        assert flow.loop.begin_visit(flow.memory, 0, me, 1, helping)
        assert flow.memory[me + UNITS] == units
        flow.loop.end_visit(flow.memory, 0, me)


# -- handles ---------------------------------------------------------------------------------------------------


@MEMORY_MODELS
def test_a_handle_is_freed_once(weak: bool) -> None:
    explore(two_readers(Structures()), bound=2, weak=weak)


# -- sleep -----------------------------------------------------------------------------------------------------


def test_nobody_sleeps_for_ever() -> None:
    explore(sleeping_line(Structures(), 4, 1), bound=1, steps=STEPS)
    explore(sleeping_line(Structures(), 1, 2), bound=1, steps=STEPS)


def test_nobody_sleeps_for_ever_with_store_buffers() -> None:
    explore(sleeping_line(Structures(), 1, 1), bound=1, weak=True, steps=STEPS)


@pytest.mark.slow
def test_nobody_sleeps_for_ever_deeper() -> None:
    explore(sleeping_line(Structures(), 1, 1), bound=2, steps=STEPS)
    explore(sleeping_line(Structures(), 4, 2), bound=1, steps=STEPS)
    explore(sleeping_line(Structures(), 2, 2), bound=1, weak=True, steps=STEPS)


# -- ranges ----------------------------------------------------------------------------------------------------

QUEUES = pytest.mark.parametrize(
    "kind", [HYBRID, PARTITIONED, SHARED], ids=["hybrid", "partitioned", "shared"]
)


@QUEUES
def test_a_chunk_is_merged_once_when_all_ranges_are_done(kind: int) -> None:
    explore(ranges(Structures(), kind, 1, 2), bound=1, steps=STEPS)
    explore(ranges(Structures(), kind, 2, 1), bound=1, steps=STEPS)


def test_a_chunk_without_rows_is_merged() -> None:
    explore(ranges(Structures(), HYBRID, 2, 1, rows=(0, 0)), bound=1, steps=STEPS)


@pytest.mark.slow
@DEEP_MODELS
@QUEUES
def test_a_chunk_is_merged_once_when_all_ranges_are_done_deeper(kind: int, weak: bool) -> None:
    explore(ranges(Structures(), kind, 1, 1), bound=2, weak=weak, steps=STEPS)
    explore(ranges(Structures(), kind, 2, 2), bound=1, weak=weak, steps=STEPS)


# -- mutations -------------------------------------------------------------------------------------------------

RELIEVE_AT_THE_END = Mutation(
    "visits", "        relieve(mem, w, op)\n        unlock", "        unlock"
)
RELIEVE_WAITING = Mutation(
    "unit_runs",
    "    if mem[o + KIND] == STATEFUL:\n        relieve_waiting(mem, w, op)\n",
    "",
)
#: Where the mutation is found, and what is said then.
MUTATIONS: dict[str, tuple[Scenario, str, Mutation | tuple[Mutation, ...]]] = {
    "a stateful operator makes room and does not tell": (
        into_a_full_inbox,
        "beside room",
        (RELIEVE_AT_THE_END, RELIEVE_WAITING),
    ),
    "who sends makes room and does not tell": (
        relieved_chain,
        "deadlock",
        Mutation("dispatch", "    if moved:\n        relieve(mem, worker, op)\n", ""),
    ),
    "relief goes up one operator only": (
        relieved_chain,
        "deadlock",
        Mutation("dispatch", "if moved and top < mem[STACK_WORDS]:", "if False:"),
    ),
    "who blocks says so after its last look": (
        into_a_full_inbox,
        "beside room",
        (
            Mutation(
                "dispatch",
                "            store(mem, o + BLOCKED, 1)\n            fence()\n"
                "            full = without_room(mem, op)\n            if full != EMPTY:\n"
                "                return moved, full\n",
                "            return moved, full\n",
            ),
            Mutation(
                "dispatch",
                "            if full_reader(mem, op) != EMPTY:\n                break\n",
                "            if full_reader(mem, op) != EMPTY:\n"
                "                store(mem, op_at(mem, op) + BLOCKED, 1)\n                break\n",
            ),
        ),
    ),
    "no look at the room after the flag is cleared": (
        into_a_full_inbox,
        "beside room",
        Mutation(
            "dispatch",
            "            if full_reader(mem, op) != EMPTY:\n                break\n",
            "            break\n",
        ),
    ),
    "no look at what is next after the flag is cleared": (
        two_finish,
        "beside room",
        Mutation("dispatch", "        elif pending(mem, buffer) == EMPTY:\n", "        else:\n"),
    ),
    "no second look behind the lock": (
        lambda structures: into_a_full_inbox(structures, 1),
        "beside room",
        Mutation(
            "dispatch",
            "    if full != EMPTY:\n        # Whoever",
            "    if False:\n        # Whoever",
        ),
    ),
    "the room that was seen is not used up": (
        lambda structures: line(structures, 3, 1),
        "deadlock",
        Mutation("dispatch", "    mem[port + CREDIT] -= 1\n", ""),
    ),
    "any reader with room is enough": (
        fan_out,
        "stuck",
        Mutation(
            "room",
            "            if mem[port + CREDIT] <= 0:\n                mem[o + FULL_EDGE]",
            "            if mem[port + CREDIT] <= 0 and edge == 0:\n                mem[o + FULL_EDGE]",
        ),
    ),
    "only the reader that had no room the last time is looked at": (
        fan_out,
        "stuck",
        Mutation("room", "        edge = (hint + i) % count\n", "        edge = hint\n"),
    ),
    "readers are counted without an atomic operation": (
        two_readers,
        "not every handle free",
        Mutation(
            "handles",
            "add(mem, at + READERS, -1) != 1:",
            "store(mem, at + READERS, load(mem, at + READERS) - 1) is None and load(mem, at + READERS):",
        ),
    ),
    "the last range is added before the number is known": (
        lambda structures: ranges(structures, HYBRID, 1, 1),
        "deadlock",
        Mutation(
            "dispatch",
            "    add(mem, at + LEFT, count - _UNKNOWN)\n    queue_add(mem, kind, queue, held, handle)\n",
            "    queue_add(mem, kind, queue, held, handle)\n    add(mem, at + LEFT, count - _UNKNOWN)\n",
        ),
    ),
    "ranges left are counted without an atomic operation": (
        lambda structures: ranges(structures, HYBRID, 1, 2),
        "not one merge",
        Mutation(
            "unit_runs",
            "add(mem, at + LEFT, -1) != 1:",
            "store(mem, at + LEFT, load(mem, at + LEFT) - 1) is None and load(mem, at + LEFT):",
        ),
    ),
    "the end of a visit wakes nobody": (
        lambda structures: sleeping_line(structures, 2, 2),
        "deadlock",
        Mutation(
            "visits",
            "    wake_worker(mem)\n    if mem[o + N_OUT]",
            "    if mem[o + N_OUT]",
        ),
    ),
    "what is sent wakes nobody": (
        lambda structures: sleeping_line(structures, 1, 1),
        "deadlock",
        Mutation(
            "dispatch",
            "        _wake_behind(mem, o)\n        if mem[o + KIND]",
            "        if mem[o + KIND]",
        ),
    ),
    "room does not wake the source": (
        lambda structures: sleeping_line(structures, 4, 1),
        "deadlock",
        Mutation(
            "dispatch",
            "<= mem[o + CAPACITY]:\n            unpark(mem, mem[o + ROOM])\n",
            "<= mem[o + CAPACITY]:\n            pass\n",
        ),
    ),
    "the last step wakes nobody": (
        lambda structures: sleeping_line(structures, 1, 1),
        "deadlock",
        Mutation(
            "visits",
            "    if mem[o + N_OUT] == 0:\n        unpark(mem, mem[o + SETTLED])\n",
            "",
        ),
    ),
    "settled is what every operator has counted": (
        lambda structures: sleeping_line(structures, 1, 2),
        "deadlock",
        Mutation(
            "steps",
            "if mem[o + N_OUT] == 0 and sent(mem, o) < steps",
            "if sent(mem, o) < steps",
        ),
    ),
    "serials without order are counted without an atomic operation": (
        lambda structures: two_finish(structures, 0),
        "stuck",
        Mutation(
            "dispatch",
            "        mem[at + SERIAL] = add(mem, o + OUT, 1)\n",
            "        mem[at + SERIAL] = load(mem, o + OUT)\n        store(mem, o + OUT, mem[at + SERIAL] + 1)\n",
        ),
    ),
    "no output has an order": (
        lambda structures: two_finish(structures, 1),
        "not once, in order",
        Mutation("dispatch", "    if mem[o + ORDERED] == 0:\n", "    if True:\n"),
    ),
    "two workers in a stateful operator": (
        lambda structures: line(structures, 2, 2),
        "not once, in order",
        (
            Mutation("visits", "        if not lock_consumer(mem, ring):", "        if False:"),
            Mutation(
                "visits",
                "if add(mem, o + BUSY, 1) >= mem[o + LIMIT]:",
                "if add(mem, o + BUSY, 1) < 0:",
            ),
        ),
    ),
}


def explore_ever_deeper(make: Make, bound: int) -> None:
    """Small bounds first: most of what goes wrong does so with few deviations."""
    for smaller in range(bound + 1):
        explore(make, bound=smaller, steps=STEPS)


@pytest.mark.parametrize(("scenario", "message", "mutations"), MUTATIONS.values(), ids=MUTATIONS)
def test_mutation_is_found(
    scenario: Scenario, message: str, mutations: Mutation | tuple[Mutation, ...]
) -> None:
    changed = (mutations,) if isinstance(mutations, Mutation) else mutations
    with pytest.raises(Violation, match=message):
        explore_ever_deeper(scenario(Structures(*changed)), 2)


def test_mutation_is_found_with_store_buffers() -> None:
    """Looking for who waits, without a fence, is right only if memory is sequentially consistent."""
    explore(into_a_full_inbox(Structures(RELIEVE_AT_THE_END)), bound=2, steps=STEPS)
    with pytest.raises(Violation, match="beside room"):
        explore(into_a_full_inbox(Structures(RELIEVE_AT_THE_END)), bound=2, weak=True, steps=STEPS)
