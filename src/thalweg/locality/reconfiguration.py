"""The manager of online reconfiguration: which table holds in which batch, and when a better one is made.

Caneill et al. (3.4, Algorithm 1) reconfigure a stream that flows without pause. A batch has an end that all slots
reach, which makes three of their six steps one:

====================================  ======================================================================
the paper's step                      here
====================================  ======================================================================
1, 2 get and send statistics          they come with the reports of each batch, :class:`StatisticsArrived`
3 send the reconfiguration            :class:`WriteTable` in front of batch n; its tasks are told what leaves
4 acknowledge                         the file is there, and the tasks of batch n have ended
5 propagate                           the commit record of n names the new epoch: it holds from batch n + 1
6 exchange the state of keys          tasks of n write what leaves; in n + 1 whoever owns a unit reads it
====================================  ======================================================================

The commit record is the only truth. What a batch wrote that was not committed is named by no record: the batch runs
again from the record before it, under the table which that one names, and may decide anew. So a crash at any
step leaves a configuration that is whole: the one before, or the next.

The manager is a state machine without threads, files or clock: events in, actions out. A manager that is made anew
after a crash knows nothing but the newest epoch that has a file, and goes on from what the record says.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from thalweg.brief import brief_repr, counted
from thalweg.errors import ThalwegError
from thalweg.locality.moves import Moves, moves_between
from thalweg.locality.routing import RoutingTable
from thalweg.locality.statistics import OperatorKey, Statistics
from thalweg.locality.triggers import Decision, History, Propose

# -- events ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class StatisticsArrived:
    """What was counted since the last :class:`ResetStatistics`; replaces what came before."""

    statistics: Statistics


@dataclasses.dataclass(frozen=True, slots=True)
class BatchPlanned:
    """A batch is to run, for the first time or again.

    Attributes:
        batch: its id.
        slots: how many it is to have.
        follows: the epoch that holds from this batch on, by the commit record before it; None: there is none.
        new_keys: the slots of keys that come for the first time in this batch and have no state.
        freed_keys: pinned keys that have no state, and need their pins no more.
    """

    batch: int
    slots: int
    follows: int | None
    new_keys: Mapping[OperatorKey, int] = dataclasses.field(default_factory=dict)
    freed_keys: frozenset[OperatorKey] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class TableRead:
    """The answer to :class:`ReadTable`."""

    table: RoutingTable


@dataclasses.dataclass(frozen=True, slots=True)
class BatchCommitted:
    """The commit record of the batch that was planned last is on stable storage.

    Attributes:
        batch: its number.
        rows: that were counted in it, of the operator that took most.
    """

    batch: int
    rows: int = 0


Event: TypeAlias = StatisticsArrived | BatchPlanned | TableRead | BatchCommitted

# -- actions ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class ReadTable:
    """Read the table of an epoch and tell it, :class:`TableRead`, before anything else."""

    epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class WriteTable:
    """Put a table on stable storage; its epoch has no file yet."""

    table: RoutingTable


@dataclasses.dataclass(frozen=True, slots=True)
class RunBatch:
    """Run the batch.

    Attributes:
        batch: its id.
        table: by which its tuples are routed and its state units owned.
        moves: the keys whose state the owners hand over at its end, and to which unit.
        following: the epoch that its commit record must name: it holds from the next batch on.
        decision: why there is a new table, or was none; None where nothing was considered.
    """

    batch: int
    table: RoutingTable
    moves: Moves
    following: int
    decision: Decision | None


@dataclasses.dataclass(frozen=True, slots=True)
class ResetStatistics:
    """Begin to count anew: keys are about to be elsewhere (3.2)."""


@dataclasses.dataclass(frozen=True, slots=True)
class PruneTables:
    """Delete the files of all epochs but these."""

    keep: frozenset[int]


Action: TypeAlias = ReadTable | WriteTable | RunBatch | ResetStatistics | PruneTables

# -- the machine -----------------------------------------------------------------------------------------------

#: Events that an error tells.
_STORY: Final = 8


class ManagerPhase(enum.Enum):
    """Where the manager is."""

    IDLE = "idle"
    #: a table was asked for
    READING = "reading"
    #: a batch was given out and is not committed
    RUNNING = "running"


@brief_repr
@dataclasses.dataclass(slots=True)
class Manager:
    """Decides which routing table each batch uses.

    Args:
        first: the table of a checkpoint that has no record yet.
        propose: says whether there is a better table, and which; see :class:`thalweg.locality.Online`. None:
            tables change with the number of slots only.
        newest: the newest epoch that has a file, 0 where there is none: they count from 1.
    """

    first: RoutingTable
    propose: Propose | None = None
    newest: int = 0
    phase: ManagerPhase = ManagerPhase.IDLE
    #: the table that holds in the batch that comes next; None while only the record knows
    table: RoutingTable | None = None
    statistics: Statistics | None = None
    history: History = dataclasses.field(default_factory=History)
    #: of the batch in phase READING or RUNNING
    _planned: BatchPlanned | None = None
    #: in phase RUNNING, the table that holds when the batch is committed
    _next: RoutingTable | None = None
    _running: RoutingTable | None = None
    _decision: Decision | None = None
    _story: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=_STORY))

    def holds(self, follows: int | None) -> RoutingTable | None:
        """The table of the epoch that a record names; None while only its file has it."""
        if follows is None:
            return self.first
        return self.table if self.table is not None and self.table.epoch == follows else None

    @property
    def is_moving(self) -> bool:
        """Whether another table, made from statistics, takes effect after the running batch."""
        return self._next is not self._running

    def handle(self, event: Event) -> list[Action]:
        """The actions that follow from an event, in order.

        Raises:
            ThalwegError: the event cannot come now.
        """
        self._story.append(_short(event))
        match event:
            case StatisticsArrived():
                self.statistics = event.statistics
                return []
            case BatchPlanned():
                return list(self._plan(event))
            case TableRead():
                return list(self._read(event))
            case BatchCommitted():
                return list(self._commit(event))

    def _plan(self, event: BatchPlanned) -> Iterator[Action]:
        # A batch that failed is planned again; whatever was decided for it is void.
        self._planned, self._next, self._running, self._decision = event, None, None, None
        if event.follows is None:
            # Under an epoch of its own: an earlier start may have left a table for other slots.
            self.table = dataclasses.replace(self.first, epoch=self._unused())
            yield self._write(self.table)
        elif self.table is None or self.table.epoch != event.follows:
            self.phase, self.table = ManagerPhase.READING, None
            yield ReadTable(event.follows)
            return
        yield from self._run(event)

    def _read(self, event: TableRead) -> Iterator[Action]:
        planned = self._planned
        if self.phase is not ManagerPhase.READING or planned is None:
            raise self._impossible()
        if event.table.epoch != planned.follows:
            raise self._impossible()
        self.table = event.table
        yield from self._run(planned)

    def _run(self, event: BatchPlanned) -> Iterator[Action]:
        assert self.table is not None
        running = self.table
        if event.slots != running.slots:
            running = running.rescaled(event.slots, epoch=self._unused())
        if event.new_keys or event.freed_keys:
            running = running.placed(event.new_keys, freed=event.freed_keys, epoch=self._unused())
        if running is not self.table:
            yield self._write(running)
        decision, following, moves = None, running, Moves()
        if self.propose is not None and self.statistics is not None:
            decision = self.propose(self.statistics, running, self.history)
            if decision.assignment is not None:
                following = running.assigned(decision.assignment, epoch=self._unused())
                moves = moves_between(running, following)
                yield self._write(following)
        self._running, self._next, self._decision = running, following, decision
        self.phase = ManagerPhase.RUNNING
        yield RunBatch(event.batch, running, moves, following.epoch, decision)

    def _commit(self, event: BatchCommitted) -> Iterator[Action]:
        planned, running, following = self._planned, self._running, self._next
        if self.phase is not ManagerPhase.RUNNING or planned is None or running is None:
            raise self._impossible()
        if following is None or event.batch != planned.batch:
            raise self._impossible()
        self.phase, self.table = ManagerPhase.IDLE, following
        self.history = self.history.after(self._decision, following.slots, event.rows)
        self._planned = self._running = self._next = self._decision = None
        if following is not running:
            self.statistics = None
            yield ResetStatistics()
        # The batch may run again: Spark's own log comes after the record.
        base = set() if planned.follows is None else {planned.follows}
        yield PruneTables(frozenset({running.epoch, following.epoch, *base}))

    def _unused(self) -> int:
        """An epoch that no file has, not even one of a batch that was not committed."""
        return self.newest + 1

    def _write(self, table: RoutingTable) -> WriteTable:
        self.newest = max(self.newest, table.epoch)
        return WriteTable(table)

    def _impossible(self) -> ThalwegError:
        return ThalwegError(
            f"the manager of reconfigurations is {self.phase.value} and cannot take that event; its last ones:\n  "
            + "\n  ".join(self._story)
        )


def _short(event: Event) -> str:
    match event:
        case BatchPlanned():
            return f"batch {event.batch} planned with {counted(event.slots, 'slot')}, following epoch {event.follows}"
        case TableRead():
            return f"table of epoch {event.table.epoch} read"
        case BatchCommitted():
            return f"batch {event.batch} committed"
        case StatisticsArrived():
            return f"statistics of {counted(len(event.statistics.pairs), 'pair')}"
