"""How a worker finds its next operator: the free list's order, the walk of a round, who runs once, and sources."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.lockfree.rings import mpmc_push
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import new_handle
from thalweg.workers.memory.layout import Int64s, OpSpec
from thalweg.workers.memory.memory import lay_out
from thalweg.workers.memory.places import handle_at, op_at, stat_at, worker_at
from thalweg.workers.memory.room import sent
from thalweg.workers.worker_loop.next_operator import _from_free_list
from thalweg.workers.worker_loop.round_barrier import _by_priority, _once
from thalweg.workers.worker_loop.runnable import any_work, is_runnable
from thalweg.workers.worker_loop.steps import admit, offer, submit, withdraw
from thalweg.workers.worker_loop.unit_runs import run_ingress
from thalweg.workers.worker_loop.visits import begin_visit
from thalweg.workers.worker_loop.worklists import waiting_units

OPERATORS = 5


def memory(*, inputs: bool = True, capacity: int = 64, token: bool = False) -> Int64s:
    """Operators side by side that one worker at a time may run, each with a chunk in its inbox if asked for."""
    specs = [OpSpec("in", at.INGRESS, limit=1, capacity=capacity, needs_token=False)]
    specs += [
        OpSpec(f"o{i}", at.STATELESS, [(0, 0)], limit=1, capacity=capacity, needs_token=token)
        for i in range(OPERATORS)
    ]
    mem = lay_out(specs, workers=2, clocks=0, refs=1, rows_limit=1 << 30)
    if inputs:
        assert submit(mem, 0, handle_of(mem))
    return mem


def handle_of(mem: Int64s, rows: int = 0) -> int:
    """A step of so many rows."""
    handle = new_handle(mem)
    for word, value in {at.OBJECT: 0, at.COUNT: rows, at.ENDING: 0, at.ENTRY: 77}.items():
        mem[handle_at(mem, handle) + word] = value
    return handle


def is_busy(mem: Int64s, op: int, busy: bool = True) -> None:
    mem[op_at(mem, op) + at.BUSY] = int(busy)


def listed(mem: Int64s, entries: Sequence[tuple[int, int, int]]) -> int:
    """Gives the first worker a list of (operator, level, since)."""
    me = int(worker_at(mem, 0))
    for number, entry in enumerate(entries):
        first = int(mem[me + at.LIST]) + number * at.LISTED_WORDS
        mem[first : first + at.LISTED_WORDS] = entry
    mem[me + at.LISTED_OPS], mem[me + at.LIST_LEVEL] = len(entries), EMPTY
    return me


def test_the_free_list_gives_operators_in_the_order_in_which_they_came_back() -> None:
    """Who was given back last is last; a worker that found one has it out of the list."""
    mem = memory()
    me = int(worker_at(mem, 0))
    first = [int(_from_free_list(mem, 0, me)) for _ in range(OPERATORS)]
    assert first == list(range(1, OPERATORS + 1)) and mem[me + at.LISTED] == 1
    assert _from_free_list(mem, 0, me) == EMPTY, "all are out"
    for op in (3, 1, 5):
        assert mpmc_push(mem, mem[at.FREE_OPS], op)
    assert [int(_from_free_list(mem, 0, me)) for _ in range(3)] == [3, 1, 5]


def test_the_free_list_passes_over_who_cannot_run_once_around() -> None:
    """Operators that cannot run go to the end; where none can, the list is whole afterwards and nothing was found."""
    mem = memory()
    me = int(worker_at(mem, 0))
    for op in (1, 2, 4, 5):
        is_busy(mem, op)
    assert _from_free_list(mem, 0, me) == 3
    assert _from_free_list(mem, 0, me) == EMPTY
    for op in (1, 2, 4, 5):
        is_busy(mem, op, False)
    # 1 and 2 went behind 5, and then all of 4, 5, 1, 2 around once.
    assert sorted(int(_from_free_list(mem, 0, me)) for _ in range(4)) == [1, 2, 4, 5]


def test_a_round_goes_on_to_operators_of_equal_priority_and_else_begins_at_the_top() -> None:
    """Algorithm 1: behind an operator that ran come only those of its level; then the first of all that can run."""
    mem = memory()
    me = listed(mem, [(1, 0, EMPTY), (2, 1, EMPTY), (3, 1, EMPTY), (4, 1, EMPTY), (5, 2, EMPTY)])
    is_busy(mem, 1)
    is_busy(mem, 3)
    assert [int(_by_priority(mem, me)) for _ in range(3)] == [2, 4, 2], (
        "not 5, which is of another level"
    )
    is_busy(mem, 1, False)
    assert _by_priority(mem, me) == 4, "equals come first, whatever the top can do"
    assert _by_priority(mem, me) == 1, "then from the top"
    for op in range(1, 6):
        is_busy(mem, op)
    assert _by_priority(mem, me) == EMPTY and mem[me + at.LIST_LEVEL] == EMPTY


def test_operators_with_old_measures_run_once_in_a_round() -> None:
    """Each that is marked is given once if it can run, in the order of the list; one that cannot has had its turn."""
    mem = memory()
    me = listed(mem, [(2, 0, EMPTY), (4, 0, at.ONCE), (1, 0, at.ONCE), (5, 0, at.ONCE)])
    mem[me + at.LAGGING] = 3
    is_busy(mem, 1)
    assert [int(_once(mem, me)) for _ in range(3)] == [4, EMPTY, 5]
    assert mem[me + at.LAGGING] == 0
    first = int(mem[me + at.LIST])
    since = mem[first + at.E_SINCE : first + 4 * at.LISTED_WORDS : at.LISTED_WORDS]
    assert since.tolist() == [EMPTY] * 4


@pytest.mark.parametrize(("capacity", "units"), [(64, 16), (8, 2), (2, 1)])
def test_who_helps_a_full_reader_works_off_a_quarter_of_its_queue(
    capacity: int, units: int
) -> None:
    """Schneider & Wu, 4.1.4: a quarter, and at least one; who does not help has no such bound."""
    mem = memory(capacity=capacity)
    me = int(worker_at(mem, 0))
    assert begin_visit(mem, 0, me, 1, True) and mem[me + at.UNITS] == units
    assert begin_visit(mem, 0, int(worker_at(mem, 1)), 2, False)
    assert mem[int(worker_at(mem, 1)) + at.UNITS] > 1 << 40


def test_within_a_round_a_visit_is_for_the_policy_s_tuples_but_a_while_where_python_runs() -> None:
    """b tuples; of an operator that Python runs as many as take a millisecond, if these are more."""
    for token, ns_a_tuple, tuples in ((False, 1_000, 7), (True, 1_000, 1_000), (True, 10**9, 7)):
        mem = memory(token=token)
        mem[at.MODE], mem[at.BATCH] = at.BY_ROUND, 7
        stat = int(stat_at(mem, 0, 1))
        mem[stat + at.S_TIMED], mem[stat + at.S_NS] = 100, 100 * ns_a_tuple
        me = int(worker_at(mem, 0))
        assert begin_visit(mem, 0, me, 1, False) and mem[me + at.BUDGET] == tuples


# -- sources ---------------------------------------------------------------------------------------------------


def test_within_a_round_a_source_is_an_operator_that_lets_in_its_step() -> None:
    """A step that is offered waits outside until a worker comes to the source, and enters by one visit."""
    mem = memory(inputs=False)
    mem[at.MODE] = at.BY_ROUND
    assert not is_runnable(mem, 0) and not any_work(mem)
    assert offer(mem, 0, handle_of(mem, rows=9))
    assert is_runnable(mem, 0) and any_work(mem) and waiting_units(mem, op_at(mem, 0)) == 1
    assert mem[op_at(mem, 0) + at.IN] == 0, "it waits outside"
    me = listed(mem, [(3, 0, EMPTY), (0, 1, EMPTY)])
    assert _by_priority(mem, me) == 0, "the other has nothing to do yet"
    assert begin_visit(mem, 0, me, 0, False)
    run_ingress(mem, 0, me, 0)
    stat = int(stat_at(mem, 0, 0))
    assert mem[stat + at.S_IN] == mem[stat + at.S_OUT] == 9 and mem[me + at.UNITS] == 0
    assert sent(mem, op_at(mem, 0)) == 1 and not is_runnable(mem, 0)
    assert all(waiting_units(mem, op_at(mem, op)) == 1 for op in range(1, OPERATORS + 1))


def test_a_source_without_room_waits_and_one_that_gives_up_takes_its_step_back() -> None:
    """An offer enters only where there is room; a step is in, or withdrawn, and never both."""
    mem = memory(inputs=False, capacity=1)
    mem[at.MODE] = at.BY_ROUND
    assert offer(mem, 0, handle_of(mem)) and is_runnable(mem, 0) and admit(mem, 0, 0)
    assert offer(mem, 0, handle_of(mem))
    assert not is_runnable(mem, 0), "the readers are full"
    assert withdraw(mem, 0) and not withdraw(mem, 0) and not admit(mem, 0, 0)


def test_under_other_policies_steps_are_submitted() -> None:
    """Nobody would come to the source."""
    for mode in (at.BY_FREE_LIST, at.BY_PICK, at.BY_PYTHON):
        mem = memory(inputs=False)
        mem[at.MODE] = mode
        assert not offer(mem, 0, handle_of(mem)) and not any_work(mem)
