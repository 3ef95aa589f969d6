"""Learned routing on the driver: what tasks counted goes in, tables come out, between batches (Caneill et al., 3.4).

What is decided, and when, says :class:`thalweg.locality.Manager`; here are its eyes and hands: sketches that come back
by an accumulator, and table files on the checkpoint. The commit record names the epoch that holds next, so that a crash
anywhere leaves the table before or the next one, with the state that belongs to it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
from pyspark import SparkContext

from thalweg.checkpoint.paths import FileSystem, delete, join
from thalweg.checkpoint.record import CommitRecord
from thalweg.checkpoint.routing_files import (
    asked_path,
    epochs,
    load_table,
    read_table,
    table_path,
    write_table,
)
from thalweg.columns.keys import KeySpec
from thalweg.errors import BuildError
from thalweg.hashing import Int64s
from thalweg.locality import (
    KeyLoads,
    KeySummary,
    Manager,
    Online,
    RoutingTable,
    Statistics,
    evaluate,
    keyed_operators,
)
from thalweg.locality.counting.recent import joined
from thalweg.locality.counting.summary import bucket_loads
from thalweg.locality.first_seen_trial import FirstSeenTrial, PrepassLook
from thalweg.locality.reconfiguration import (
    Action,
    BatchCommitted,
    BatchPlanned,
    PruneTables,
    ReadTable,
    ResetStatistics,
    RunBatch,
    StatisticsArrived,
    TableRead,
    WriteTable,
)
from thalweg.locality.triggers import Decision, History, Propose
from thalweg.plan.plan import Plan
from thalweg.spark.keys.counting import ToldParam, top_keys
from thalweg.spark.keys.drift import DriftSigns
from thalweg.spark.keys.new_keys import NewKeysOfBatches, Placing
from thalweg.spark.keys.pairs import ReadPairs

log = logging.getLogger("thalweg")

#: What ``start(locality=…)`` takes: "off", "online", the path of a table, or who proposes tables.
Asked: TypeAlias = Literal["off", "online"] | str | os.PathLike[str] | Propose
#: The entry of a commit record that names the epoch of the next batch.
FOLLOWS: Final = "routing"
#: Keys of each operator that progress shows.
TOP: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """Proposes one table, made offline, until it holds; for a checkpoint that has state already."""

    table: RoutingTable

    def __call__(self, statistics: Statistics, table: RoutingTable, history: History) -> Decision:
        """See :class:`thalweg.locality.triggers.Propose`."""
        wanted, now = self.table.assignment(), table.assignment()
        before = evaluate(now, statistics)
        if wanted.parts != now.parts or (wanted.keys, wanted.buckets) == (now.keys, now.buckets):
            return Decision(None, "the table that was given holds", before)
        return Decision(None, "a table was given", before, evaluate(wanted, statistics), wanted)


@dataclasses.dataclass(frozen=True, slots=True)
class TopKeys:
    """Of the tuples that each keyed operator took in a batch.

    Attributes:
        keys: the most frequent keys with their shares, 0 to 1, the greatest first.
        buckets: tuples by bucket.
    """

    keys: Mapping[str, Sequence[tuple[Any, float]]]
    buckets: Mapping[str, Int64s]


@dataclasses.dataclass(frozen=True, slots=True)
class Routed:
    """By which tables a batch is routed: its own, and that of the next one if it is another; 0 for none.

    Attributes:
        run: what the manager said; None where there are no tables.
        placing: what was decided for new keys, None where nobody asked.
        pre_pass_s: what that took.
    """

    epoch: int = 0
    next_epoch: int = 0
    run: RunBatch | None = None
    placing: Placing | None = None
    pre_pass_s: float = 0.0


def _look(routed: Routed, progress: Mapping[str, Any]) -> PrepassLook | None:
    """What was measured of a batch that was looked at before it ran; None of others."""
    placing, task_s = routed.placing, progress["task_s"]
    if placing is None or placing.share is None or not task_s:
        return None
    waits = max(1 - progress["task_cpu_s"] / task_s, 0.0)
    batch_s = progress["batch_s"] - routed.pre_pass_s
    return PrepassLook(routed.pre_pass_s, placing.share, progress["slots"], batch_s, waits)


def _is_one_process(context: SparkContext) -> bool:
    master = str(context.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def followed(epoch: int) -> dict[str, int]:
    """What a commit record says of the table that holds from the next batch on; nothing where there is none."""
    return {FOLLOWS: epoch} if epoch else {}


class KeyRouting:
    """Tables and statistics of one query.

    Args:
        context: Spark's.
        plan: the flow's.
        fs, root: the checkpoint.
        asked: what ``start`` was given.
        latest: the newest commit record, None in a new checkpoint.
        slots: at the start.

    Raises:
        BuildError: the flow has no keyed operator, the table is for another flow or number of slots, or there are more
            slots than buckets.
        CheckpointError: a table cannot be read.
        EnvironmentProblem: METIS is needed and cannot be loaded.
    """

    def __init__(
        self,
        context: SparkContext,
        plan: Plan,
        fs: FileSystem,
        root: str,
        asked: Asked,
        latest: CommitRecord | None,
        slots: int,
    ) -> None:
        self._fs, self._root = fs, root
        self._operators = keyed_operators(plan)
        self._specs = {node.name: KeySpec(node.key.fields) for node in plan.keyed}
        self._manager: Manager | None = None
        propose: Propose | None = None
        if asked != "off" or (latest is not None and FOLLOWS in latest.extra):
            propose, first = self._propose(asked, plan, latest, slots)
            newest = max(epochs(fs, root), default=0)
            self._manager = Manager(first, propose, newest=newest)
        self._trial: FirstSeenTrial | None = None
        self._new_keys = self._placer(propose, plan, context)
        #: takes what tasks count; None where nobody wants to know
        learns = propose is not None and not isinstance(propose, Fixed)
        self.told: Any = context.accumulator([], ToldParam()) if learns else None
        self._signs = DriftSigns(propose) if isinstance(propose, Online) else None
        self._recent = (propose if isinstance(propose, Online) else Online()).recent_counts()
        #: what the manager was told last, and what the table of now was made from
        self._shown: KeySummary | None = None
        self._learnt: KeySummary | None = None
        #: since the last new table, batches and rows
        self._batches = self._rows = 0
        self._taken = 0
        #: what each task of the last batch counted
        self._counted: list[KeySummary] = []

    def _propose(
        self, asked: Asked, plan: Plan, latest: CommitRecord | None, slots: int
    ) -> tuple[Propose | None, RoutingTable]:
        hashed = RoutingTable.hashed(self._operators, slots)
        if asked == "off":
            return None, hashed
        if not self._operators:
            raise BuildError(
                f"locality: flow {plan.flow!r} has no operator by key, so there is nothing to route"
            )
        if asked == "online":
            asked = Online()
        if isinstance(asked, Online):
            asked.get_ready()
        if callable(asked) and not isinstance(asked, type):
            return asked, hashed
        path = asked_path(asked)
        if path is None:
            raise BuildError(
                f'locality is "off", "online", the path of a table or tw.locality.Online(…), got {asked!r}'
            )
        table = load_table(path)
        table.require(self._operators, slots)
        return (None, table) if latest is None else (Fixed(table), hashed)

    def _placer(
        self, propose: Propose | None, plan: Plan, context: SparkContext
    ) -> NewKeysOfBatches | None:
        """What places new keys; where it is to show that it pays, with a trial."""
        if not isinstance(propose, Online) or propose.first_seen is False:
            return None
        if propose.first_seen:
            return NewKeysOfBatches(plan, self._fs, self._root)
        if _is_one_process(context):
            return None
        try:
            made = NewKeysOfBatches(plan, self._fs, self._root)
        except BuildError as error:
            log.info("new keys go by hash: %s", str(error).splitlines()[0])
            return None
        self._trial = FirstSeenTrial()
        return made

    @property
    def most_slots(self) -> int | None:
        """For more slots there can be no table; None where there are none."""
        if self._manager is None:
            return None
        return max((buckets for _, buckets in self._operators.values()), default=None)

    def require_slots(self, slots: int) -> None:
        """Refuses a number of slots for which there can be no table.

        Raises:
            BuildError: there are fewer buckets.
        """
        if self._manager is not None:
            RoutingTable.hashed(self._operators, slots)

    # -- a batch ---------------------------------------------------------------------------------------------

    def plan(
        self, batch: int, slots: int, previous: CommitRecord | None, read_pairs: ReadPairs
    ) -> Routed:
        """The tables of a batch; what is new is on stable storage when it returns.

        Args:
            read_pairs: runs the pre-pass over the batch, if new keys are to be placed.
        """
        if self._manager is None:
            return Routed()
        follows = None if previous is None else previous.extra.get(FOLLOWS)
        if self._is_due() or self._is_rescaled(slots, follows):
            self._shown = self._counts(slots, follows)
            self._manager.handle(StatisticsArrived(self._statistics(self._shown)))
        began = time.perf_counter()
        placing = self._placing(slots, previous, follows, read_pairs)
        pre_pass_s = time.perf_counter() - began
        new, freed = (placing.keys, placing.freed) if placing else ({}, frozenset())
        run = self._done(self._manager.handle(BatchPlanned(batch, slots, follows, new, freed)))
        assert run is not None
        epoch = run.table.epoch
        then = run.following if run.following != epoch else 0
        return Routed(epoch, then, run, placing, pre_pass_s if placing else 0.0)

    def _placing(
        self, slots: int, previous: CommitRecord | None, follows: int | None, read_pairs: ReadPairs
    ) -> Placing | None:
        """What of the batch's keys is placed; with one slot there is only one place."""
        if self._new_keys is None or self._manager is None or slots == 1:
            return None
        if self._trial is not None and not self._trial.is_due():
            return None
        if not self._new_keys.is_due():
            return Placing()
        table = self._manager.holds(follows)
        if table is None:
            assert follows is not None
            table = read_table(self._fs, self._root, follows)
        if table.slots != slots:
            table = table.rescaled(slots)
        return self._new_keys.place(read_pairs(self._new_keys.reads), table, previous)

    def measured(self, routed: Routed, progress: Mapping[str, Any]) -> str:
        """Takes what a batch reports; what is done with new keys, and why, where that is tried out."""
        if self._signs is not None:
            self._signs.batch_done(progress["rows"], progress["locality"])
        if self._trial is None:
            return ""
        self._trial.batch_done(_look(routed, progress))
        return self._trial.reason

    def committed(self, batch: int) -> None:
        """The batch's commit record is written."""
        if self._manager is not None:
            self._batches += 1
            if self._new_keys is not None:
                self._new_keys.committed(new_table=self._manager.is_moving)
            rows, self._taken = self._recent.taken - self._taken, self._recent.taken
            self._rows += rows
            self._done(self._manager.handle(BatchCommitted(batch, rows)))

    def _done(self, actions: Iterable[Action]) -> RunBatch | None:
        """Does what the manager wants; gives the batch to run, if there is one."""
        run = None
        for action in actions:
            match action:
                case ReadTable():
                    table = read_table(self._fs, self._root, action.epoch)
                    assert self._manager is not None
                    run = self._done(self._manager.handle(TableRead(table)))
                case WriteTable():
                    write_table(self._fs, self._root, action.table)
                case RunBatch():
                    run = action
                case ResetStatistics():
                    self._learnt, self._batches, self._rows = self._shown, 0, 0
                    self._recent.clear()
                    if self._signs is not None:
                        self._signs.new_table()
                case PruneTables():
                    for epoch in set(epochs(self._fs, self._root)) - action.keep:
                        delete(self._fs, join(self._root, table_path(epoch)))
        return run

    # -- statistics ------------------------------------------------------------------------------------------

    def collect(self, attempt: str) -> None:
        """Takes what the tasks of a try have counted."""
        if self.told is None:
            return
        # A task that ran again tells again.
        parts = {(stage, slot): data for of, stage, slot, data in self.told.value if of == attempt}
        self.told.value = []
        self._counted = [KeySummary.from_bytes(data) for _, data in sorted(parts.items())]
        self._recent.add(self._counted)

    def top_keys(self) -> TopKeys | None:
        """The keys that most tuples of the last batch had; None where nothing was counted."""
        if not self._counted:
            return None
        loads, found = bucket_loads(self._counted), {}
        for name, buckets in loads.items():
            names, counts = top_keys(self._counted, name, TOP)
            shares = counts / max(int(buckets.sum()), 1)
            found[name] = list(zip(self._decode(name, names), shares.tolist(), strict=True))
        return TopKeys(found, loads)

    def _is_due(self) -> bool:
        if self.told is None:
            return True
        if self._signs is None or not self._recent:
            return bool(self._recent)
        assert self._manager is not None
        return self._signs.is_due(self._batches, self._rows, self._manager.history)

    def _is_rescaled(self, slots: int, follows: int | None) -> bool:
        """Whether a batch has other slots than its table, and it is known how keys lead to each other."""
        assert self._manager is not None
        table = self._manager.holds(follows)
        known = bool(self._recent) or self._learnt is not None
        return known and table is not None and table.slots != slots

    def _counts(self, slots: int, follows: int | None) -> KeySummary | None:
        """What was counted since the last table; for another number of slots also what that was made from.

        The keys that it brought together are to stay so, also those that have not come since.
        """
        counted = self._recent.summary()
        if self._is_rescaled(slots, follows) and self._learnt is not None:
            return self._learnt if counted is None else joined([self._learnt, counted])
        return counted

    def _statistics(self, counts: KeySummary | None) -> Statistics:
        if counts is not None:
            return counts.statistics(self._decode)
        none = {
            name: KeyLoads(name, 0, (), (0,) * buckets)
            for name, (_, buckets) in self._operators.items()
        }
        return Statistics(tuple(none), none, ())

    def _decode(self, operator: str, names: pa.BinaryArray) -> list[Any]:
        spec = self._specs[operator]
        return spec.python_keys(spec.decode_ordered(names), len(names))
