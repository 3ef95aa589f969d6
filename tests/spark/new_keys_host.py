"""A flow with two links, and the driver's part in placing its new keys, without a Spark session."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any, NamedTuple

import kill_driver as driver
from slots_host import SlotsHost

import thalweg as tw
from thalweg.checkpoint.paths import delete, join
from thalweg.checkpoint.routing_files import epochs, read_table, table_path, write_table
from thalweg.locality import (
    Decision,
    History,
    KeyLoads,
    Manager,
    RoutingTable,
    Statistics,
    evaluate,
    keyed_operators,
)
from thalweg.locality.reconfiguration import (
    BatchCommitted,
    BatchPlanned,
    PruneTables,
    ReadTable,
    RunBatch,
    StatisticsArrived,
    TableRead,
    WriteTable,
)
from thalweg.spark.keys.new_keys import NewKeysOfBatches, Placing


class Seen(NamedTuple):
    item: str
    user: int
    n: int


class Share(NamedTuple):
    user: int
    clicks: int


@tw.state
class Sum:
    clicks: int = 0


def see(seen: driver.Count, row: driver.Numbered) -> Seen:
    """A running number an item: it tells lost state, and rows of several users out of order."""
    seen.n += 1
    return Seen(row.item, row.user, seen.n)


def add(total: Sum, window: Any) -> Share:
    total.clicks += window.clicks
    return Share(window.user, total.clicks)


def make_flow() -> tw.Flow:
    """Two links, one of which begins with keys that come once and lose their state: a user's window."""
    flow = tw.Flow("pairs")
    clicks = flow.source("clicks", driver.Click, order_by="ts", lateness="15 seconds")
    numbered = clicks.key_by("user").process(driver.number, state=driver.Count)
    numbered.key_by("item").process(see, state=driver.Count).sink("seen")
    clicks.late.sink("late")
    windows = clicks.key_by("user").window("30 seconds", name="windows", clicks=tw.agg.count())
    windows.key_by("user").process(add, state=Sum).sink("shares")
    return flow


FLOW = make_flow()


def shuffled(statistics: Statistics, table: RoutingTable, history: History) -> Decision:
    """Another table: some pins elsewhere, some gone, buckets anywhere."""
    rng, now = random.Random(table.epoch), table.assignment()
    keys = {end: rng.randrange(table.slots) for end in now.keys if rng.random() < 0.6}
    buckets = {
        name: tuple(rng.randrange(table.slots) for _ in one) for name, one in now.buckets.items()
    }
    made = dataclasses.replace(now, keys=keys, buckets=buckets)
    before, after = evaluate(now, statistics), evaluate(made, statistics)
    return Decision("in turn", "shuffled", before, after, made)


class Driver:
    """The driver's part: the pre-pass, the manager and its files; a new one after a kill knows the files only."""

    def __init__(self, folder: Path, pins: int, threads: int = 1) -> None:
        self.host = SlotsHost(FLOW, str(folder), threads)
        self.folder = folder
        self.pins = pins
        #: the epoch that the newest record names
        self.follows: int | None = None
        self.placings: list[Placing] = []
        self.begin()

    def begin(self) -> None:
        """As at a start."""
        store = self.host.store
        self.keys = NewKeysOfBatches(self.host.plan, store.fs, store.root, pins=self.pins)
        first = RoutingTable.hashed(keyed_operators(self.host.plan), 2)
        newest = max(epochs(store.fs, store.root), default=0)
        self.manager = Manager(first, shuffled, newest=newest)

    def run(
        self, rows: list[driver.Click], slots: int, *, moves: bool, commit: bool = True,
        ends: bool = False,
    ) -> None:  # fmt: skip
        """A batch, or a try of it that is lost."""
        run = self._planned(rows, slots, moves=moves)
        batch = run.batch
        self.host.batch(
            rows, slots=slots, epoch=run.table.epoch, ends=ends, commit=commit,
            next_epoch=run.following if run.following != run.table.epoch else 0,
        )  # fmt: skip
        if commit:
            self.keys.committed(new_table=self.manager.is_moving)
            self._do(self.manager.handle(BatchCommitted(batch)))
            self.follows = run.following

    def _planned(self, rows: list[driver.Click], slots: int, *, moves: bool) -> RunBatch:
        store, record = self.host.store, self.host.record
        table = self.manager.holds(self.follows)
        if table is None:
            assert self.follows is not None
            table = read_table(store.fs, store.root, self.follows)
        if table.slots != slots:
            table = table.rescaled(slots)
        placing = self.keys.place(self.host.pairs(rows, self.keys.reads), table, record)
        self.placings.append(placing)
        if moves:
            self.manager.handle(StatisticsArrived(_nothing(table)))
        else:
            self.manager.statistics = None
        number = 0 if record is None else record.batch + 1
        event = BatchPlanned(number, slots, self.follows, placing.keys, placing.freed)
        run = self._do(self.manager.handle(event))
        assert run is not None
        return run

    def _do(self, actions: list[Any]) -> RunBatch | None:
        store, run = self.host.store, None
        for action in actions:
            if isinstance(action, WriteTable):
                assert action.table.epoch not in epochs(store.fs, store.root)
                write_table(store.fs, store.root, action.table)
            elif isinstance(action, ReadTable):
                table = read_table(store.fs, store.root, action.epoch)
                run = self._do(self.manager.handle(TableRead(table)))
            elif isinstance(action, PruneTables):
                for epoch in set(epochs(store.fs, store.root)) - action.keep:
                    delete(store.fs, join(store.root, table_path(epoch)))
            elif isinstance(action, RunBatch):
                run = action
        return run


def _nothing(table: RoutingTable) -> Statistics:
    """Statistics of no tuples."""
    loads = {
        name: KeyLoads(name, 0, (), (0,) * len(routes.buckets))
        for name, routes in table.operators.items()
    }
    return Statistics(tuple(loads), loads, ())
