"""The manager of reconfigurations: with kills between any two steps no key is lost, doubled or in two state units."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from locality_kit import BUCKETS, count
from reconfiguration_kit import OPERATORS, Row, Storage, check, new_table, run_batch, serial
from tests.sizes import sized

from thalweg.errors import BuildError, ThalwegError
from thalweg.locality import (
    Assignment,
    KeyCount,
    KeyLoads,
    Moves,
    PairCount,
    Report,
    Statistics,
    decode_table,
    partition,
)
from thalweg.locality.evaluate import evaluate
from thalweg.locality.reconfiguration import (
    Action,
    BatchCommitted,
    BatchPlanned,
    Event,
    Manager,
    PruneTables,
    ReadTable,
    ResetStatistics,
    RunBatch,
    StatisticsArrived,
    TableRead,
    WriteTable,
)
from thalweg.locality.routing import RoutingTable
from thalweg.locality.triggers import Decision, History, Online
from thalweg.locality.turns import Turn

KEYS = "pqrs"
#: Slots and rows of each batch; the slots change in between.
SLOTS = (2, 3, 3, 1, 4)
BATCHES: list[list[Row]] = [
    [(10 * n + i, KEYS[(n + i) % 4], KEYS[(i * i) % 4]) for i in range(5)]
    for n in range(len(SLOTS))
]
#: What the reconfiguration at the end of each batch pins, or None: pin, move and pin, unpin and move, unpin all.
PINS: list[dict[tuple[str, str], int] | None] = [
    {("a", "p"): 1, ("b", "p"): 1},
    {("a", "p"): 0, ("b", "p"): 2, ("a", "q"): 2},
    {("a", "q"): 1},
    {},
    None,
]
NOTHING = Statistics(
    ("a", "b"), {n: KeyLoads(n, 0, (), (0,) * c) for n, (_, c) in OPERATORS.items()}, ()
)


def assignment(slots: int, pins: dict[tuple[str, str], int], turn: int) -> Assignment:
    """The pins, as far as there are slots, and buckets that turn."""
    keys = {end: slot % slots for end, slot in pins.items()}
    buckets = {n: tuple((b + turn) % slots for b in range(c)) for n, (_, c) in OPERATORS.items()}
    return Assignment(slots, keys, buckets, Report(1.0, {}, 1.03))


class Scripted:
    """Proposes what the script says of the batch, and something else when the batch runs again."""

    def __init__(self) -> None:
        self.batch = 0
        self.tries = 0

    def __call__(self, statistics: Statistics, table: RoutingTable, history: History) -> Decision:
        outcome = evaluate(table.assignment(), statistics)
        pins = PINS[self.batch]
        if pins is None or self.tries % 3 == 1:
            return Decision(None, "nothing", outcome)
        made = assignment(table.slots, pins, self.batch + self.tries)
        return Decision("in turn", "script", outcome, outcome, made)


def steps(storage: Storage, script: Scripted) -> Iterator[str]:
    """All batches that Spark has not logged, by a manager that knows nothing yet."""
    manager = Manager(new_table(SLOTS[0]), script, storage.newest())
    for batch in range(storage.logged + 1, len(BATCHES)):
        script.batch = batch
        manager.handle(StatisticsArrived(NOTHING))
        yield from run_batch(storage, manager, batch, SLOTS[batch], BATCHES[batch])


def run(kills: Sequence[int]) -> int:
    """Runs to the end, killed after so many steps, again and again; checks after every step. The steps it took."""
    storage, script, taken = Storage(), Scripted(), 0
    for limit in (*kills, None):
        for _ in itertools.islice(steps(storage, script), limit):
            taken += 1
            check(storage, BATCHES)
        script.tries += 1
    assert storage.logged == len(BATCHES) - 1
    return taken


class Watched(Manager):
    """Remembers the moves of each batch."""

    def handle(self, event: Event) -> list[Action]:
        actions = super().handle(event)
        self.seen = getattr(self, "seen", [])
        self.seen += [one.moves for one in actions if isinstance(one, RunBatch)]
        return actions


def test_the_script_does_what_it_is_for() -> None:
    """Without a kill the script pins, moves and unpins keys that have state, and keys change slots by all of it."""
    storage, script = Storage(), Scripted()
    manager = Watched(new_table(SLOTS[0]), script, storage.newest())
    for batch, slots in enumerate(SLOTS):
        script.batch = batch
        manager.handle(StatisticsArrived(NOTHING))
        list(run_batch(storage, manager, batch, slots, BATCHES[batch]))
        check(storage, BATCHES)
    assert [len(one.keys) for one in manager.seen] == [2, 3, 3, 1, 0]
    assert all(one.units for one in manager.seen[:3])
    assert sorted(storage.tables) == [7, 8]


def test_one_kill_at_any_step() -> None:
    """Killed after each step in turn: the storage is whole at every moment, and the end is the serial run's."""
    whole = run(())
    assert whole > 30
    for kill in range(whole + 1):
        run((kill,))


@pytest.mark.slow
def test_two_kills_at_any_steps() -> None:
    """Every pair of kills: also the batch that runs again, with another decision, may be killed anywhere."""
    whole = run(())
    for first in range(whole + 1):
        for second in range(whole + 8 - first):
            run((first, second))


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[int, list[Row]]]:
    """Slots and rows of some batches."""
    numbers = itertools.count()
    pair = st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS))
    batch = st.tuples(st.integers(1, 5), st.lists(pair, max_size=6))
    return [
        (slots, [(next(numbers), *keys) for keys in rows])
        for slots, rows in draw(st.lists(batch, min_size=1, max_size=6))
    ]


@given(programs(), st.lists(st.integers(0, 25), max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=sized(200), deadline=None, derandomize=True)
def test_random_batches_kills_and_tables(
    program: list[tuple[int, list[Row]]], kills: list[int], choice: random.Random
) -> None:
    """Random rows, slots, assignments and kills: the same holds, also for keys placed when they are first seen."""
    rows = [part for _, part in program]
    storage = Storage()

    def propose(statistics: Statistics, table: RoutingTable, history: History) -> Decision:
        outcome = evaluate(table.assignment(), statistics)
        if choice.random() < 0.3:
            return Decision(None, "nothing", outcome)
        ends = [(name, key) for name in OPERATORS for key in KEYS if choice.random() < 0.5]
        made = assignment(
            table.slots, {end: choice.randrange(table.slots) for end in ends}, choice.randrange(5)
        )
        return Decision("in turn", "random", outcome, outcome, made)

    def all_batches() -> Iterator[str]:
        manager = Manager(new_table(program[0][0]), propose, storage.newest())
        for batch in range(storage.logged + 1, len(program)):
            slots, mine = program[batch]
            manager.handle(StatisticsArrived(NOTHING))
            known = serial(rows[:batch])
            base = storage.previous(batch)
            pinned = set()
            if base is not None and base.following in storage.tables:
                pinned = set(decode_table(storage.tables[base.following]).assignment().keys)
            new = {
                (name, key): choice.randrange(slots)
                for _, *keys in mine
                for name, key in zip(OPERATORS, keys, strict=True)
                if (name, key) not in known and (name, key) not in pinned
            }
            yield from run_batch(storage, manager, batch, slots, mine, new)

    for limit in (*kills, None):
        for _ in itertools.islice(all_batches(), limit):
            check(storage, rows)
    assert storage.logged == len(program) - 1


# -- the machine -----------------------------------------------------------------------------------------------


def test_the_steps_of_a_reconfiguration() -> None:
    """The table is written before the batch, holds from the next one, and what was counted is forgotten."""
    script = Scripted()
    manager = Manager(new_table(2), script)
    manager.handle(StatisticsArrived(NOTHING))
    first, second, runs = manager.handle(BatchPlanned(0, 2, None))
    assert isinstance(first, WriteTable)
    assert isinstance(second, WriteTable)
    assert isinstance(runs, RunBatch)
    assert (first.table.epoch, second.table.epoch) == (1, 2)
    assert runs.table == first.table
    assert runs.following == 2
    assert {(one.operator, one.key) for one in runs.moves.keys} == {("a", "p"), ("b", "p")}
    assert manager.handle(BatchCommitted(0)) == [ResetStatistics(), PruneTables(frozenset({1, 2}))]
    (only,) = manager.handle(BatchPlanned(1, 2, 2))
    assert isinstance(only, RunBatch)
    assert only.table == second.table
    assert (only.following, only.moves, only.decision) == (2, Moves(), None)


def test_the_record_rules() -> None:
    """A batch that Spark repeats starts from the table that its base names, whatever the manager made of it before."""
    manager = Manager(new_table(2))
    manager.handle(BatchPlanned(0, 2, None))
    manager.handle(BatchCommitted(0))
    written, _ = manager.handle(BatchPlanned(1, 3, 1))
    assert isinstance(written, WriteTable)
    assert written.table.epoch == 2
    assert manager.handle(BatchCommitted(1)) == [PruneTables(frozenset({1, 2}))]
    assert manager.handle(BatchPlanned(1, 4, 1)) == [ReadTable(1)]
    read = dataclasses.replace(new_table(2), epoch=1)
    written, runs = manager.handle(TableRead(read))
    assert isinstance(written, WriteTable)
    assert isinstance(runs, RunBatch)
    assert (written.table.epoch, written.table.slots, runs.following) == (3, 4, 3)


def test_impossible_events() -> None:
    """Events that cannot come say in which phase the manager is and what came before."""
    manager = Manager(new_table(2))
    with pytest.raises(ThalwegError, match=r"is idle and cannot .*\n  batch 0 committed"):
        manager.handle(BatchCommitted(0))
    manager.handle(BatchPlanned(0, 2, None))
    with pytest.raises(ThalwegError, match=r"is running .*\n.*\n  batch 0 planned with 2 slots"):
        manager.handle(BatchCommitted(1))
    with pytest.raises(ThalwegError, match="table of epoch 0 read"):
        manager.handle(TableRead(new_table(2)))
    other = Manager(new_table(2))
    other.handle(BatchPlanned(4, 2, 7))
    with pytest.raises(ThalwegError, match="is reading"):
        other.handle(TableRead(new_table(2)))


# -- when ------------------------------------------------------------------------------------------------------


def counted(together: int, apart: int) -> Statistics:
    """Pairs of keys that hash routing parts: 'together' tuples of (p, p), 'apart' of (p, q)."""
    buckets = {name: {key: new_table(1).unit_of(name, key) for key in KEYS} for name in OPERATORS}
    taken = {
        "a": {"p": together + apart},
        "b": {"p": together, "q": apart},
    }
    loads = {
        name: KeyLoads(
            name,
            sum(mine.values()),
            tuple(KeyCount(key, buckets[name][key], count) for key, count in mine.items()),
            (0,) * OPERATORS[name][1],
        )
        for name, mine in taken.items()
    }
    pairs = (
        PairCount(("a", "p"), ("b", "p"), together),
        PairCount(("a", "p"), ("b", "q"), apart),
    )
    return Statistics(("a", "b"), loads, pairs)


def bring_together(statistics: Statistics, parts: int, now: Assignment) -> Assignment:
    """Puts p and p into one part, q elsewhere."""
    keys = {("a", "p"): 0, ("b", "p"): 0, ("b", "q"): 1}
    report = Report(1.0, {}, 1.03, moved=2)
    return Assignment(parts, keys, now.buckets, report)


def apart() -> RoutingTable:
    """A table that parts p and p, and has q with the first of them."""
    keys = {("a", "p"): 0, ("b", "p"): 1, ("b", "q"): 0}
    table = new_table(2)
    return table.assigned(Assignment(2, keys, table.assignment().buckets, Report(1.0, {}, 1.03)))


def test_in_turn_if_it_is_worth_it() -> None:
    """Every n batches a table is made; it is used if more tuples stay in their slot than moving is worth."""
    online = Online(partition=bring_together, every=3, imbalance=None, move_cost=10)
    early = online(counted(900, 100), apart(), History(batches=2))
    assert early.cause is None
    assert early.assignment is None
    used = online(counted(900, 100), apart(), History(batches=3))
    assert used.cause == "in turn"
    assert used.assignment is not None
    assert (used.gain, used.cost) == (pytest.approx(800), 20)
    assert "locality 0.10 to 0.90" in used.reason
    not_worth = online(counted(505, 495), apart(), History(batches=3))
    assert not_worth.assignment is None
    assert not_worth.reason.endswith("gains 10 tuples, costs 20: not worth it")


def test_by_default_the_key_graph_is_cut() -> None:
    """Without a function of the user's, keys that come together are brought together by the cut of the key graph."""
    decision = Online(every=1, imbalance=None, alpha=2.0)(
        counted(900, 100), apart(), History(batches=1)
    )
    assert decision.assignment is not None
    keys = decision.assignment.keys
    assert keys["a", "p"] == keys["b", "p"]


def test_few_tuples_say_nothing() -> None:
    """Statistics of fewer tuples than asked for lead to no table."""
    found = Online(partition=bring_together, every=1)(counted(90, 10), apart(), History(batches=9))
    assert found.reason == "100 tuples counted, 1000 wanted"


def test_drift_calls_sooner() -> None:
    """Locality that fell below what was promised, or imbalance above the limit, call before their turn."""
    online = Online(partition=bring_together, every=50, imbalance=None, drop=0.2)
    kept = online(counted(900, 100), apart(), History(batches=1, promised=0.25))
    assert kept.cause is None
    fell = online(counted(900, 100), apart(), History(batches=1, promised=0.35))
    assert fell.cause == "locality fell"
    assert fell.assignment is not None
    rose = Online(partition=bring_together, every=None, imbalance=1.5, move_cost=10_000)
    cured = rose(counted(500, 500), one_slot(), History())
    assert cured.cause == "imbalance rose"
    assert cured.assignment is not None
    assert cured.after is not None
    assert cured.gain < cured.cost


def one_slot() -> RoutingTable:
    """A table that has all that is counted in one of two slots."""
    keys = {("a", "p"): 0, ("b", "p"): 0, ("b", "q"): 0}
    table = new_table(2)
    return table.assigned(Assignment(2, keys, table.assignment().buckets, Report(1.0, {}, 1.03)))


def spread_out(statistics: Statistics, parts: int, now: Assignment) -> Assignment:
    """An assignment that changes nothing."""
    return now


def test_a_turn_in_rows() -> None:
    """By rows it counts those that were taken since the last table, however many batches they came in; and again so
    many after a table that was not used."""
    online = Online(partition=bring_together, every="1,000 rows", imbalance=None, move_cost=10)
    early = online(counted(900, 100), apart(), History(batches=50, rows=999))
    assert early.cause is None
    used = online(counted(900, 100), apart(), History(batches=1, rows=1_000))
    assert used.cause == "in turn" and used.assignment is not None
    history = History(batches=3, rows=1_500)
    refused = online(counted(505, 495), apart(), history)
    assert refused.after is not None and refused.assignment is None
    history = history.after(refused, 2, rows=600)
    assert (history.rows, history.refused_rows) == (2_100, 1_500)
    assert online(counted(505, 495), apart(), history).cause is None
    history = history.after(None, 2, rows=400)
    assert online(counted(505, 495), apart(), history).cause == "in turn"
    assert history.after(used, 2, rows=9) == History(promised=used.after.locality, slots=2)


def test_turns_are_said_in_words() -> None:
    """An int is of batches; a text has its unit; nothing else is taken, and less than one is no turn."""
    assert Online().turn == Turn(batches=20)
    assert Online(every=3).turn == Online(every="3 batches").turn == Turn(batches=3)
    assert (
        Online(every="100_000 rows").turn
        == Online(every=" 100,000  rows ").turn
        == Turn(rows=100_000)
    )
    assert Online(every="1 batch").turn == Turn(batches=1) and Online(every="1 row").turn == Turn(
        rows=1
    )
    assert Online(every=None).turn == Turn() and not Turn().has_come(10**9, 10**9)
    for wrong in ("20", "2 hours", "rows", "0 rows", "0 batches", 0, -1, 1.5, True):
        with pytest.raises(BuildError, match="every"):
            Online(every=wrong)


def test_a_refused_table_is_not_made_again_at_once() -> None:
    """After a table that was not worth it, drift and turn call again so many batches later."""
    online = Online(partition=spread_out, every=4, imbalance=1.1)
    history = History(batches=4)
    causes = []
    for _ in range(6):
        decision = online(counted(0, 1_000), apart(), history)
        causes.append(decision.cause)
        history = history.after(decision, 2)
    assert causes == ["imbalance rose", None, None, None, None, "imbalance rose"]
    assert (history.batches, history.refused) == (10, 9)


def test_history_begins_anew() -> None:
    """A table that is used resets the count and says what it promises."""
    online = Online(partition=bring_together, every=1, imbalance=None)
    decision = online(counted(900, 100), apart(), History(batches=7))
    assert History(batches=7, refused=3).after(decision, 2) == History(promised=0.9, slots=2)
    assert History(batches=7, slots=3).after(None, 2) == History(batches=8, slots=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "every ≥ 1, got 0"),
        ({"every": "3"}, "every to be as .20 batches. or .100,000 rows., got '3'"),
        ({"min_tuples": -1}, "min_tuples ≥ 0, got -1"),
        ({"seed": "a"}, "seed to be an int, got 'a'"),
        ({"drop": True}, "drop to be a number or None, got True"),
        ({"partition": 3}, "partition to be a function or None, got 3"),
        ({"first_seen": "yes"}, "first_seen to be True, False or None, got 'yes'"),
        ({"drop": 1.0}, "0 < drop < 1, got 1.0"),
        ({"imbalance": 1.0}, "imbalance > 1, got 1.0"),
        ({"imbalance": math.nan}, "imbalance > 1, got nan"),
        ({"alpha": 0.5}, "alpha ≥ 1 and finite, got 0.5"),
        ({"alpha": math.inf}, "alpha ≥ 1 and finite, got inf"),
        ({"alpha": math.nan}, "alpha ≥ 1 and finite, got nan"),
        ({"move_cost": -1.0}, "move_cost ≥ 0 and finite, got -1.0"),
        ({"move_cost": math.nan}, "move_cost ≥ 0 and finite, got nan"),
        ({"seed": -1}, "seed from 0 to 2147482648, got -1"),
        ({"seed": 2**70}, "seed from 0 to 2147482648, got 1180591620717411303424"),
    ],
)
def test_numbers_out_of_range(arguments: dict[str, float], message: str) -> None:
    """Each number is checked when it is given."""
    with pytest.raises(BuildError, match=message):
        Online(**arguments)  # type: ignore[arg-type]


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("of the user's making")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            fails,
            r"partition=<function fails .*raised ZeroDivisionError\(\"of the user's making\"\)",
        ),
        (lambda *_: None, "is to give a tw.locality.Assignment, not None"),
        (
            lambda statistics, parts, now: bring_together(statistics, parts + 1, now),
            "is to assign to 2 parts, not 3",
        ),
    ],
)
def test_a_partition_function_that_is_none(function: Any, message: str) -> None:
    """What the user's function does wrong is said with its name."""
    online = Online(partition=function, every=1, imbalance=None)
    with pytest.raises(BuildError, match=message):
        online(counted(900, 100), apart(), History(batches=7))


def test_tuples_that_come_by_chance_move_no_keys() -> None:
    """Partners stay together; a new cut would please the others as they were counted, and not those to come."""
    chance = random.Random(7)
    rows = []
    for _ in range(6_000):
        left = chance.randrange(200)
        right = left if chance.random() < 0.8 else chance.randrange(200, 2_000)
        rows.append((f"u{left}", f"t{right}"))
    first, second = (count(part, ("a", "b")) for part in (rows[:3_000], rows[3_000:]))
    assignment = partition(first, parts=2)
    operators = {name: (OPERATORS["a"][0], BUCKETS) for name in ("a", "b")}
    table = RoutingTable.hashed(operators, 2).assigned(assignment)
    decision = Online(every=1, drop=None, imbalance=None)(second, table, History(batches=1))
    assert decision.after is not None
    seen = (decision.after.locality - decision.before.locality) * len(rows[3_000:])
    assert seen > 1.5 * decision.cost and decision.gain < 0.5 * decision.cost
    assert decision.assignment is None and "not worth it" in decision.reason
