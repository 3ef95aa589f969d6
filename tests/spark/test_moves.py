"""Keys that are pinned, moved and set free while a flow runs, with other numbers of slots and lost batches between."""

from __future__ import annotations

import dataclasses
import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kill_driver as driver
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slots_host import SlotsHost, check
from tests.sizes import sized

from thalweg.checkpoint.routing_files import epochs, write_table
from thalweg.engine.build import Prepared
from thalweg.engine.contract import Engine, Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.locality import RoutingTable, keyed_operators
from thalweg.spark.tasks import worker
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.native.keyed_layout import ROWS_IN

FLOW = driver.make_flow()
WINDOWS = [1_699_999_980_000_000 + 30_000_000 * n for n in range(8)]
KEYS: dict[str, list[Any]] = {
    "number": list(range(60)),
    "track": list(range(60)),
    "per_item": [(f"i{n}", start) for n in range(9) for start in WINDOWS],
    "total": list(range(6)),
}


def random_pins(table: RoutingTable, epoch: int, seed: object) -> RoutingTable:
    """A next table: about half of the keys pinned, some of them elsewhere than before, and owners at random."""
    rng = random.Random(f"{table.epoch} {seed}")
    operators = {}
    for name, routes in table.operators.items():
        keys = rng.sample(KEYS[name], len(KEYS[name]) // 2)
        pins = {
            key: rng.choice((routes.pins.get(key, 0), rng.randrange(len(table.groups))))
            for key in keys
        }
        buckets = tuple(rng.randrange(table.slots) for _ in routes.buckets)
        operators[name] = dataclasses.replace(routes, pins=pins, buckets=buckets)
    groups = tuple(rng.randrange(table.slots) for _ in table.groups)
    return RoutingTable(epoch, table.slots, groups, operators)


STEPS = st.lists(
    st.tuples(
        st.integers(1, 4),  # slots
        st.booleans(),  # whether there is a new table
        st.booleans(),  # whether the batch is lost first, with another table
        st.booleans(),  # whether the processes are new
    ),
    min_size=3,
    max_size=7,
)
Step = tuple[int, bool, bool, bool]


class Driver:
    """The driver's part in tables: written before they hold; the record of a batch alone says which holds next."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self.host = SlotsHost(FLOW, str(folder), threads)
        self.table: RoutingTable | None = None

    def run(self, rows: list[driver.Click], step: Step, seed: object, *, ends: bool) -> None:
        """A batch, after a try of it that is lost if the step says so."""
        slots, new_table, lost, new_processes = step
        table = self.table
        if table is not None and table.slots != slots:
            table = table.rescaled(slots, epoch=self._next_epoch())
            self._write(table)
        if lost:
            self._batch(rows, table, slots, f"lost {seed}", ends=ends, commit=False)
        if new_processes:
            self.host.forget()
        then = self._batch(rows, table, slots, seed if new_table else None, ends=ends, commit=True)
        self.table = then

    def _batch(
        self,
        rows: list[driver.Click],
        table: RoutingTable | None,
        slots: int,
        seed: object,
        *,
        ends: bool,
        commit: bool,
    ) -> RoutingTable | None:  # fmt: skip
        then = table
        if seed is not None:
            before = table or RoutingTable.hashed(keyed_operators(self.host.plan), slots)
            then = random_pins(before, self._next_epoch(), seed)
            self._write(then)
        self.host.batch(
            rows, slots=slots, epoch=table.epoch if table else 0, ends=ends, commit=commit,
            next_epoch=then.epoch if then and then is not table else 0,
        )  # fmt: skip
        return then

    def _write(self, table: RoutingTable) -> None:
        write_table(self.host.store.fs, self.host.store.root, table)

    def _next_epoch(self) -> int:
        """One that no try has used: worker processes remember tables by it."""
        return max(epochs(self.host.store.fs, self.host.store.root), default=0) + 1


@pytest.mark.merge
@settings(max_examples=sized(12, 4), deadline=None)
@given(st.integers(0, 10_000), STEPS, st.integers(1, 3), st.sampled_from([1, 7, 65_536]))
def test_random_moves(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    steps: list[Step],
    threads: int,
    chunk_rows: int,
) -> None:
    """Any tables at any batches, rescales, lost batches: outputs, and every key's state once, as in a serial run."""
    folder = tmp_path_factory.mktemp("moves")
    rows = driver.make_rows(seed, 60 * len(steps))
    made = Driver(folder, threads)
    made.host.chunk_rows = chunk_rows
    for place, step in enumerate(steps):
        part = rows[60 * place : 60 * (place + 1)]
        made.run(part, step, (seed, place), ends=place == len(steps) - 1)
    check(FLOW, made.host, folder, rows)


@pytest.mark.parametrize("threads", [1, 2])
def test_move_and_rescale(tmp_path: Path, threads: int) -> None:
    """Keys are pinned, pinned elsewhere, moved to more slots than there are groups, and to a single one."""
    steps = [
        (2, True, False, False),
        (2, True, True, False),
        (12, True, False, True),
        (1, False, False, False),
    ]
    rows = driver.make_rows(5, 240)
    made = Driver(tmp_path, threads)
    for place, step in enumerate(steps):
        made.run(rows[60 * place : 60 * place + 60], step, place, ends=place == 3)
        record = made.host.record
        assert record is not None
        units = record.chains["number"]
        assert sum(unit >= 128 for unit in units) > 3 or not place
    check(FLOW, made.host, tmp_path, rows)


def rows_in_machine_code(name: str) -> int:
    """How many rows machine code has taken for an operator, in the engines that this process keeps."""
    return sum(
        int(task.keyed.counts[ROWS_IN])
        for hot in worker._ENGINES.values()
        if isinstance(hot.engine, ParallelEngine)
        for task in hot.engine.tasks
        if task.keyed is not None and task.spec.name == name
    )


@pytest.mark.short
def test_machine_code_with_a_table(tmp_path: Path) -> None:
    """Pins, learnt over several slots, hold in one slot of two threads as well; its operators run as without them."""
    rows = driver.make_rows(5, 240)
    made = Driver(tmp_path, 2)
    made.host.forget()
    try:
        made.run(rows[:60], (3, True, False, False), 1, ends=False)
        assert rows_in_machine_code("number") == 0
        made.run(rows[60:120], (1, True, False, False), 2, ends=False)
        made.run(rows[120:], (1, False, False, False), 3, ends=True)
        assert rows_in_machine_code("number") > 150
        check(FLOW, made.host, tmp_path, rows)
    finally:
        made.host.forget()


class StepsBehind(SerialEngine):
    """Gives what leaves a step many steps later, as an engine of several threads may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._behind: deque[Leaving] = deque()

    def step(self, *args: Any, **kwargs: Any) -> Leaving:
        self._behind.append(super().step(*args, **kwargs))
        return self._behind.popleft() if len(self._behind) > 25 else {}

    def settle(self) -> Iterator[Leaving]:
        while self._behind:
            yield self._behind.popleft()


@pytest.mark.short
def test_steps_wait_for_rows_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot behind is told of a time only when all rows up to it have left the first stage."""

    def make(
        prepared: Prepared, stage: int | None, *, chunk_rows: int, threads: int, policy: Any = None
    ) -> Engine:
        kind = SerialEngine if stage else StepsBehind
        return kind(prepared, stage=stage, chunk_rows=chunk_rows)

    monkeypatch.setattr(worker, "make_engine", make)
    rows = driver.make_rows(0, 360)
    made = Driver(tmp_path)
    made.host.chunk_rows = 1
    for place in range(6):
        part = rows[60 * place : 60 * place + 60]
        made.run(part, (3, False, False, False), place, ends=place == 5)
    check(FLOW, made.host, tmp_path, rows)
