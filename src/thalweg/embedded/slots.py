"""A run in several slots of this process, and how its tuples are routed between them."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from typing import Final, TypeAlias

from thalweg.brief import counted
from thalweg.checkpoint.routing_files import asked_path, load_table
from thalweg.checks import require_count
from thalweg.engine.build import Prepared
from thalweg.errors import BuildError
from thalweg.locality import History, Online, RoutingTable, Statistics, moves_between
from thalweg.locality.counting.recent import RecentCounts
from thalweg.slots import Decide, SlottedEngine
from thalweg.slots.new_keys import NewKeysOfSteps
from thalweg.stats import Change

log = logging.getLogger("thalweg")

#: Rows of a step, unless the caller says otherwise.
SLOT_ROWS: Final = 8_192


#: How tuples go between slots, as users say it.
Routing: TypeAlias = RoutingTable | Online | str | os.PathLike[str] | None


def routing_of(given: Routing) -> RoutingTable | Online | None:
    """What is meant: "online" is ``Online()``, None and "off" are hashing, another text is the path of a table.

    Raises:
        BuildError: it is none of these.
        CheckpointError: there is no table at the path, or it is torn.
    """
    if given is None or given == "off":
        return None
    if isinstance(given, str) and given == "online":
        return Online()
    path = asked_path(given)
    if path is not None:
        return load_table(path)
    if not isinstance(given, RoutingTable | Online):
        raise BuildError(
            "routing: expected a tw.locality.RoutingTable, the path of one, tw.locality.Online() or None, got"
            f" {type(given).__name__}"
        )
    return given


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    """How many slots there are, and which keys go where.

    Args:
        count: the slots.
        routing: None routes by hash, a table by that table, and ``Online`` makes tables while the flow runs; its batch
            is a look at the table, every 16 steps.

    Raises:
        BuildError: the count is not 1 or more.
    """

    count: int
    routing: RoutingTable | Online | None = None
    #: the new tables, in order
    changes: list[Change] = dataclasses.field(default_factory=list, init=False, compare=False)

    def __post_init__(self) -> None:
        require_count("slots", self.count)

    def engine(self, prepared: Prepared, chunk_rows: int) -> SlottedEngine:
        """The engine of a flow.

        Raises:
            BuildError: the routing does not fit the flow.
            EnvironmentProblem: METIS is needed and cannot be loaded.
        """
        online = self.routing if isinstance(self.routing, Online) else None
        recent = None if online is None else online.recent_counts()
        if online is not None:
            online.get_ready()
        return SlottedEngine(
            prepared,
            slots=self.count,
            table=self.routing if isinstance(self.routing, RoutingTable) else None,
            chunk_rows=chunk_rows,
            recent=recent,
            decide=None if online is None else deciding(online, self.changes, recent),
            placer=NewKeysOfSteps(prepared) if online is not None and online.first_seen else None,
        )


def deciding(online: Online, changes: list[Change], recent: RecentCounts | None = None) -> Decide:
    """Decides as an online reconfiguration does, and remembers what came of it.

    Args:
        online: says whether there is a better table.
        changes: takes an entry for each new table; its seconds are counted from this call.
        recent: knows how many rows were counted; None: none.
    """
    history, began_ns, taken = History(), time.monotonic_ns(), 0

    def decide(statistics: Statistics | None, table: RoutingTable) -> RoutingTable | None:
        nonlocal history, taken
        if statistics is None:
            return None
        now = 0 if recent is None else recent.taken
        history = dataclasses.replace(history, rows=history.rows + now - taken)
        taken = now
        decision = online(statistics, table, history)
        history = history.after(decision, table.slots)
        if decision.assignment is None:
            return None
        made = table.assigned(decision.assignment)
        moved = moves_between(table, made).between_slots
        reason = f"{decision.reason}; moves {counted(moved, 'key')}"
        seconds = (time.monotonic_ns() - began_ns) * 1e-9
        changes.append(
            Change(
                seconds=seconds, what="table", operator="", before=table.epoch, after=made.epoch, reason=reason,
            )
        )  # fmt: skip
        log.info("routing table %d: %s", made.epoch, reason)
        return made

    return decide
