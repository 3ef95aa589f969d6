"""Slots that exchange messages: what waits for state that is on its way and what does not, errors, threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.engine.contract import Leaving
from thalweg.engine.units import Moment
from thalweg.errors import BuildError, OperatorError
from thalweg.locality import (
    Assignment,
    Report,
    RoutingTable,
    Statistics,
    keyed_operators,
    moves_between,
)
from thalweg.plan.plan import Edge, Plan, make_plan
from thalweg.slots import SlottedEngine, Stepped, Threads
from thalweg.slots.arrivals import INGRESS
from thalweg.slots.messages import (
    AckReconf,
    Instance,
    Migrate,
    Propagate,
    SendReconf,
    Settled,
    Work,
)
from thalweg.slots.stage_slot import StageSlot


class Row(NamedTuple):
    key: str
    value: int


class Total(NamedTuple):
    key: str
    total: int


@tw.state
class Sum:
    total: int = 0


def add(sum: Sum, row: Row) -> Total:
    if row.value < 0:
        raise ValueError("negative")
    sum.total += row.value
    return Total(row.key, sum.total)


def totals(compile: Literal["auto", "never"] = "never") -> Plan:
    flow = tw.Flow("totals")
    rows = flow.source("rows", Row)
    rows.key_by("key", buckets=4).process(add, state=Sum, name="add", compile=compile).sink("out")
    return make_plan(flow)


def pinned(table: RoutingTable, **slots: int) -> RoutingTable:
    """The next table, with these keys in these slots."""
    keys = {("add", key): slot for key, slot in slots.items()}
    return table.assigned(
        Assignment(table.slots, keys, table.assignment().buckets, Report(1.0, {}, 1.0))
    )


PLAN = totals()
READER = Edge(next(node.index for node in PLAN.nodes if node.name == "add"), 0)
FIRST = pinned(RoutingTable.hashed(keyed_operators(PLAN), 2), a=0, b=0, c=1)
HERE, THERE, SINKS = Instance(1, 1), Instance(1, 0), Instance(2, 0)
QUIET = Moment({})


class Slot:
    """Slot 1 of two, to which messages are handed one by one."""

    def __init__(self) -> None:
        self.stage = StageSlot(prepare(PLAN), HERE, INGRESS, FIRST, joins=False, counts_keys=False)
        self.arrived = 0

    def work(self, step: int, *rows: Row) -> list[Any]:
        """The ingress sends a step's rows; the answers."""
        chunk = Chunk.from_rows(PLAN.sources[0].record, rows)
        zeros = np.zeros(len(rows), np.int64)
        seq = np.arange(self.arrived, self.arrived + len(rows))
        self.arrived += len(rows)
        names = self.stage.engine.edge_columns(PLAN.node(READER.node).inputs[0], READER)
        keys = Chunk.empty(chunk.schema, names).order
        order = {
            name: seq
            if name == "_seq"
            else zeros
            if isinstance(values, np.ndarray)
            else no_keys(len(rows))
            for name, values in keys.items()
        }
        part: Leaving = (
            {READER: [Chunk(chunk.schema, chunk.columns, len(rows), order)]} if rows else {}
        )
        return self.handle(INGRESS, Work(step, QUIET, part))

    def handle(self, sender: Instance, message: Any) -> list[Any]:
        return [(one.receiver, one.message) for one in self.stage.handle(sender, message)]

    def reconfigure(self, router: RoutingTable, step: int) -> list[Any]:
        """The manager's message, and the word of the ingress; the answers to the latter."""
        mine = moves_between(FIRST, router).message(router, 1)
        told = SendReconf(FIRST, router, mine.send, mine.receive)
        assert self.handle(INGRESS, told) == [(INGRESS, AckReconf(router.epoch))]
        return self.handle(INGRESS, Propagate(router.epoch, step))

    @property
    def taken(self) -> int:
        """The tuples that the operator has taken."""
        return self.stage.engine.counts.get("add", {}).get("in", 0)


def no_keys(count: int) -> pa.Array:
    """The key column of rows that no timer made."""
    return pa.array([b""] * count, pa.binary())


def rows_of(answers: list[Any]) -> list[Any]:
    """The rows that went to the sinks with the answers."""
    works = [message for place, message in answers if place == SINKS and isinstance(message, Work)]
    return [
        row
        for work in works
        for chunks in work.parts.values()
        for one in chunks
        for row in one.rows()
    ]


def state_of(router: RoutingTable, *rows: Row) -> Migrate:
    """The state that slot 0 hands over to slot 1 when it has taken these rows."""
    slot = Slot()
    slot.stage.place = THERE
    slot.work(0, *rows)
    there = moves_between(FIRST, router).message(router, 0)
    slot.handle(INGRESS, SendReconf(FIRST, router, there.send, there.receive))
    answers = slot.handle(INGRESS, Propagate(router.epoch, 1))
    (message,) = [m for place, m in answers if place == HERE and isinstance(m, Migrate)]
    return message


def test_tuples_wait_for_their_state_and_others_do_not() -> None:
    """A key whose state is on its way: its tuples wait, those of others are taken; all leave together, in order."""
    slot, router = Slot(), pinned(FIRST, a=1, b=0, c=1)
    assert rows_of(slot.work(0, Row("c", 1))) == [Total("c", 1)]
    told = slot.reconfigure(router, 1)
    assert told == [(SINKS, Propagate(router.epoch, 1))]
    assert slot.work(1, Row("a", 10), Row("c", 1), Row("a", 20)) == []
    assert slot.taken == 2
    assert slot.work(2, Row("c", 5)) == []
    answers = slot.handle(THERE, state_of(router, Row("a", 100), Row("b", 7)))
    assert (INGRESS, Settled(router.epoch)) in answers
    assert rows_of(answers) == [Total("a", 110), Total("c", 2), Total("a", 130), Total("c", 7)]
    assert slot.taken == 5


def test_state_may_come_before_the_word() -> None:
    """State that arrives while the old table holds waits for the new one."""
    slot, router = Slot(), pinned(FIRST, a=1, b=0, c=1)
    mine = moves_between(FIRST, router).message(router, 1)
    slot.handle(INGRESS, SendReconf(FIRST, router, mine.send, mine.receive))
    assert slot.handle(THERE, state_of(router, Row("a", 100))) == []
    assert rows_of(slot.work(0, Row("c", 1))) == [Total("c", 1)]
    assert (INGRESS, Settled(router.epoch)) in slot.handle(INGRESS, Propagate(router.epoch, 1))
    assert rows_of(slot.work(1, Row("a", 1))) == [Total("a", 101)]


def test_the_sender_hands_over_once_the_table_holds() -> None:
    """A slot keeps a key until the step in front of which the table holds; then its state goes."""
    slot, router = Slot(), pinned(FIRST, a=0, b=0, c=0)
    slot.work(0, Row("c", 3))
    mine = moves_between(FIRST, router).message(router, 1)
    slot.handle(INGRESS, SendReconf(FIRST, router, mine.send, mine.receive))
    assert slot.handle(INGRESS, Propagate(router.epoch, 2)) == []
    answers = slot.work(1, Row("c", 4))
    assert rows_of(answers) == [Total("c", 7)]
    (state,) = [m for place, m in answers if place == THERE and isinstance(m, Migrate)]
    (batch,) = state.states["add"]
    assert batch.column("total").to_pylist() == [7]
    assert sum(len(table) for table in slot.stage.engine.keyed["add"].tables.values()) == 0


# -- the whole ---------------------------------------------------------------------------------------------


def ran(engine: SlottedEngine, rows: list[Row], after: Callable[[int], object]) -> list[Any]:
    """Feeds rows one by one; ``after`` is told the number of each."""
    found: list[Any] = []

    def collect(leaving: Leaving) -> None:
        found.extend(row for chunks in leaving.values() for one in chunks for row in one.rows())

    try:
        for number, row in enumerate(rows):
            collect(engine.feed("rows", Chunk.from_rows(PLAN.sources[0].record, [row])))
            after(number)
        for leaving in engine.finish():
            collect(leaving)
        return found
    finally:
        engine.stop()


ROWS = [Row("abcdefg"[i % 7], i) for i in range(140)]
EXPECTED = [
    Total(row.key, sum(r.value for r in ROWS[: i + 1] if r.key == row.key))
    for i, row in enumerate(ROWS)
]


@pytest.mark.parametrize("compile", ["auto", "never"])
def test_threads_and_growing_and_shrinking(compile: Literal["auto", "never"]) -> None:
    """Slots in threads of their own, from two to four to one while rows pass, compiled operators and others."""
    engine = SlottedEngine(prepare(totals(compile)), slots=2)
    wanted = iter([4, 3, 1])

    def rescale(counted: Statistics | None, table: RoutingTable) -> RoutingTable | None:
        assert counted is None
        slots = next(wanted, None)
        return None if slots is None else table.rescaled(slots)

    found = ran(engine, ROWS, lambda number: engine.reconfigure(rescale))
    assert found == EXPECTED
    assert engine.table.epoch >= 1
    assert engine.counts["add"]["in"] == len(ROWS)


def last_to(
    receiver: Instance,
) -> Callable[[Sequence[tuple[Instance, Instance]]], int]:
    """Delivers to a place only what nobody else waits for."""

    def pick(channels: Sequence[tuple[Instance, Instance]]) -> int:
        return min(range(len(channels)), key=lambda i: channels[i][1] == receiver)

    return pick


@pytest.mark.parametrize("late", [SINKS, HERE, THERE, INGRESS], ids=str)
@pytest.mark.parametrize("turns", [1, 20])
def test_one_place_hears_last(late: Instance, turns: int) -> None:
    """Words that come late, also to where the sinks' rows are collected, do not mix with those of the next table."""
    engine = SlottedEngine(
        prepare(PLAN), slots=2, transport=lambda handle, is_host: Stepped(handle, is_host, last_to(late), lambda: turns)
    )  # fmt: skip

    def rescale(counted: Statistics | None, table: RoutingTable) -> RoutingTable:
        return table.rescaled(5 - table.slots)

    assert ran(engine, ROWS[:50], lambda number: engine.reconfigure(rescale)) == EXPECTED[:50]
    assert engine.table.epoch > 1


@pytest.mark.parametrize("transport", [Threads, "stepped"])
def test_an_operator_that_raises_ends_the_run(transport: Any) -> None:
    """The error of an operator in a slot reaches the host."""
    if transport == "stepped":
        transport = lambda handle, is_host: Stepped(handle, is_host, lambda channels: 0, lambda: 5)  # noqa: E731
    engine = SlottedEngine(prepare(PLAN), slots=2, transport=transport)
    with pytest.raises(OperatorError, match="negative"):
        ran(engine, [Row("a", 1), Row("a", -1), *ROWS], lambda number: None)


def test_tables_that_do_not_fit() -> None:
    """More slots than buckets, a table for other slots, and one that is not newer are refused."""
    with pytest.raises(BuildError, match="5 slots, but operator 'add' has 4 buckets"):
        SlottedEngine(prepare(PLAN), slots=5)
    with pytest.raises(BuildError, match="for 2 slots, and 3 are asked for"):
        SlottedEngine(prepare(PLAN), slots=3, table=FIRST)
    engine = SlottedEngine(
        prepare(PLAN), slots=2, table=FIRST,
        transport=lambda handle, is_host: Stepped(handle, is_host, lambda channels: 0, lambda: 50),
    )  # fmt: skip
    with pytest.raises(BuildError, match="epoch 1 cannot follow epoch 1"):
        ran(
            engine,
            ROWS[:5],
            lambda number: engine.reconfigure(lambda counted, table: table),
        )
