"""Idle sources of a query: what the driver decides of them between its batches, and how a batch comes of it.

Spark starts no batch while no row comes. So the driver looks: where a source or lane has been silent for long enough,
a command wakes the query, and the batch that follows begins with the decision. What was decided for a batch is on the
disk before any of its tasks runs, and a repeat reads that: the same rows with the same decisions (docs/idle.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.hosts.planned import Planned
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import CommitRecord
from thalweg.engine.stamps import Stamps, wall_us
from thalweg.engine.watermarks.gate_state import set_gate_facts
from thalweg.engine.watermarks.idle_clock import IdleClock
from thalweg.engine.watermarks.lanes import gate_of
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import Plan
from thalweg.spark.reading.inputs import LiveInput

#: A batch costs too much to take time on more often than so, seconds.
_STEP_S: Final = 1.0
#: How often it is asked at most whether something is to be decided, seconds.
_ASK_S: Final = 0.25


#: Where a plan has the rows a step, and the stamps.
_CHUNK_ROWS: Final = "chunk_rows"
_STAMPS: Final = "stamps"


class Beginning(NamedTuple):
    """What is fixed of a batch before it runs.

    Attributes:
        decisions: of sources and lanes that are idle.
        chunk_rows: rows a step. A lane that was idle counts again from what had been given out before the step with its
            row, so a repeat has the same steps.
        stamps: by source with ``stamp=``, when the batch's rows came.
    """

    decisions: Sequence[IdleDecision]
    chunk_rows: int
    stamps: Mapping[str, int] = MappingProxyType({})


class IdleSources:
    """The silence of a query's sources; the thread that runs batches and one that looks use it.

    Args:
        plan: the flow's.
        live: the inputs, all of which give rows as they come.
        fs, root: where the state is.
        wake: makes the query start a batch though no row has come.
        now_s: the clock; it only goes on.
        now_us: the clock on the wall, for stamps.
    """

    def __init__(
        self,
        plan: Plan,
        live: Mapping[str, LiveInput],
        fs: FileSystem,
        root: str,
        wake: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
        now_us: Callable[[], int] = wall_us,
    ) -> None:
        self._fs, self._root, self._wake, self._now_s = fs, root, wake, now_s
        self._live = live
        self._clock = IdleClock(plan, live.keys(), now_s(), least_step_s=_STEP_S)
        self._stamps = Stamps(plan, now_us)
        self._gates = {source.name: gate_of(source) for source in plan.sources}
        self._lock = threading.Lock()
        #: what the next batch begins with, where that has woken the query
        self._found: Sequence[IdleDecision] = ()
        self._began_s = self._asked_s = now_s()
        self._runs = False

    def __bool__(self) -> bool:
        """Whether a source may be idle."""
        return bool(self._clock)

    # -- the thread that looks ----------------------------------------------------------------------------

    def asks_now(self) -> bool:
        """Whether it is worth asking Spark if it waits for rows; then not again for a while."""
        now_s = self._now_s()
        if now_s - self._asked_s < _ASK_S:
            return False
        self._asked_s = now_s
        return bool(self)

    def look(self, looked_s: float) -> None:
        """At a time of its clock Spark found no rows, and runs no batch since; wakes it where something is decided."""
        with self._lock:
            if self._found or self._runs:
                return
            for name in self._clock.names:
                self._clock.looked(name, looked_s)
            self._found = self._clock.decide(self._gates)
            if self._found:
                self._wake()

    # -- the thread that runs batches ---------------------------------------------------------------------

    def resume(self, record: CommitRecord | None) -> None:
        """The next batch starts from a record."""
        facts = record.extra.get("gates", {}) if record else {}
        for name, gate in self._gates.items():
            set_gate_facts(gate, facts.get(name))

    def begin(self, batch: int, record: CommitRecord | None, chunk_rows: int) -> Beginning:
        """What a batch begins with: what was decided for it before a crash, else what is decided now.

        Args:
            batch: its number.
            record: of the batch before it.
            chunk_rows: rows a step.
        """
        with self._lock:
            self._began_s, self._runs = self._now_s(), True
            self.resume(record)
            before = planned.read(self._fs, self._root, batch)
            if before is None:
                found = self._found or self._clock.decide(self._gates)
                stamps = self._stamped_now(found)
                said = [(0, list(one)) for one in found]
                start = {_CHUNK_ROWS: chunk_rows, _STAMPS: stamps}
                planned.write(self._fs, self._root, Planned(batch, start, [], decisions=said))
            else:
                found = [IdleDecision(*values) for _, values in before.decisions]
                chunk_rows, stamps = before.start[_CHUNK_ROWS], before.start.get(_STAMPS, {})
            self._found = ()
            return Beginning(found, chunk_rows, stamps)

    def _stamped_now(self, found: Sequence[IdleDecision]) -> dict[str, int]:
        """When the rows of the batch that begins now came: not before what is decided at its beginning."""
        for one in found:
            self._gates[one.source].decide(one)
        return {name: self._stamps.next(name, self._gates) for name in self._stamps.names}

    def committed(self, record: CommitRecord, reports: Sequence[Mapping[str, Any]]) -> None:
        """A batch has ended well.

        Args:
            record: its record.
            reports: what its tasks said: to which lanes rows came, and how much was read.
        """
        with self._lock:
            self._runs = False
            self.resume(record)
            for said in reports:
                for name, lanes in said.get("came", {}).items():
                    self._gates[name].came.update(lanes)
                    self._clock.came(
                        self._gates[name], self._now_s()
                    )  # time that the batch took is no silence
            for name in self._read_to_their_ends(reports):
                self._clock.looked(name, self._began_s)
            planned.clean(self._fs, self._root, record.batch + 1)

    def _read_to_their_ends(self, reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The sources of which the batch had all that there was when it began."""
        for name, given in self._live.items():
            if given.is_files:
                taken = sum(said.get("arrived", {}).get(name, 0) for said in reports)
            else:
                taken = sum(said["counts"].get(name, {}).get("in", 0) for said in reports)
            if taken < given.most:
                yield name

    @property
    def said(self) -> dict[str, dict[str, Any]]:
        """For the progress: by source that is idle, or has lanes that are, which."""
        return {
            name: {
                "is_idle": gate.is_idle,
                "lanes": [str(one) for one in gate.idle if one is not None],
            }
            for name, gate in self._gates.items()
            if gate.idle
        }
