"""An engine that runs its steps alone, or in threads, as a trial says: the same units on the same state, either way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from thalweg.columns.chunks import Chunk
from thalweg.elasticity.trial import STEP_NS, ThreadTrial
from thalweg.engine.asynchronous.unit import AsyncUnit
from thalweg.engine.base import UnitsEngine
from thalweg.engine.build import Prepared
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.serial import SerialEngine
from thalweg.engine.units import Given
from thalweg.flow.operators.nodes import Keyed
from thalweg.plan.plan import Edge
from thalweg.stats import OperatorProgress
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.occupancy import RunDelay, times_slept
from thalweg.workers.step_size import STEP_ROWS
from thalweg.workers.threads import Workers
from thalweg.workers.warm import is_warm, warm_beside
from thalweg.workers.wiring import is_interpreted, wire

#: Where a row may take long the first step has one, and each at most so many times the rows of the one before.
MORE_ROWS: Final = 64


class AdaptiveEngine(ParallelEngine, SerialEngine):
    """A :class:`~thalweg.workers.engine.ParallelEngine` whose threads must pay.

    Until its trial is due for the first time it is a serial engine: nothing of threads has been made. Where Python runs
    an operator it stays one unless functions wait.

    Args:
        rows: about how many come in all, for the trial.
        only_waiting: threads pay only where functions wait, whatever runs them.
        given: as for a parallel engine.
    """

    def __init__(
        self, prepared: Prepared, *, rows: float, only_waiting: bool = False, **given: Any
    ) -> None:
        self._trial = ThreadTrial(rows)
        self._trial.only_waiting = only_waiting
        #: rows of the next step that runs alone, where a row may take long
        self._rows_alone = 1
        self._delay = RunDelay()
        #: how long steps in which nothing waits have stood still, since other programs had the processor, ns
        self._lost_ns = 0
        #: whether there is what threads need
        self._is_set_up = False
        #: rows in and out by operator, of the steps that ran alone; all that had been counted when the last began
        self._alone: dict[str, tuple[int, int]] = {}
        self._before: dict[str, tuple[int, int]] = {}
        super().__init__(prepared, **given)
        # Calls of coroutine functions wait beside each other in any case.
        self._may_wait = any(
            is_interpreted(unit) and not isinstance(unit, AsyncUnit) for _, unit in self.units
        )
        self._stays_alone = only_waiting and not self._may_wait
        if not (self._may_wait or given.get("needs_token")):
            # What waits there waits for a processor or for the interpreter, and more threads would make more of it.
            self.options = dataclasses.replace(self.options, waiting_threads=None)
        self._keyed_units = [unit for _, unit in self.units if isinstance(unit, KeyedUnit)]

    def _set_up(self, needs_token: frozenset[Edge], workers: Workers | None) -> None:
        assert workers is None, "it shares no workers"
        self._needs_token = needs_token
        self.tasks = []

    def _keyed(self, node: Keyed) -> KeyedUnit:
        return UnitsEngine._keyed(self, node)

    def _get_ready(self) -> bool:
        """Makes what threads need, once; whether they can be tried."""
        if self._is_set_up:
            return True
        if not is_warm():
            warm_beside()
            self._trial.postpone(self._now())
            return False
        self.tasks = wire(self, self._needs_token)
        if self.is_held_up and not self._trial.waits:
            self._trial.only_waiting = True
            return False
        for _, unit in self.units:
            if isinstance(unit, KeyedUnit):
                unit.set_operators(ParallelEngine._keyed(self, unit.node).operators)
        super()._set_up(self._needs_token, None)
        self._is_set_up = True
        return True

    @property
    def beside(self) -> ParallelEngine | None:  # type: ignore[override]  # of a serial engine there is none
        """Itself, but where it will never have threads."""
        return None if self._stays_alone else self

    @property
    def threads(self) -> int:
        """How many threads may run an operator now."""
        return self.workers.threads if self._trial.in_threads else 1

    # -- what hosts call ------------------------------------------------------------------------------------

    def step_rows(self) -> int:
        """In threads as there, else as many as a serial engine takes."""
        if self._trial.in_threads or not self._adapts:
            return super().step_rows()
        rows = self._trial.step_rows(STEP_ROWS, CHUNK_ROWS)
        return min(rows, self._rows_alone) if self._may_wait else rows

    def step(
        self,
        given: Given,
        watermarks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """Runs a step, or submits it."""
        leaving: Leaving = {}
        if not ending and self._trial.is_due(self._now()) and self._get_ready():
            leaving = self._look()
        rows = sum(map(len, given.values()))
        how: dict[str, Any] = {"ending": ending, "round": round, "arriving": arriving}
        if self._trial.in_threads:
            _add(leaving, super().step(given, watermarks, **how))
            self._trial.count(rows)
        elif self._may_wait:
            _add(leaving, self._step_timed(given, watermarks, rows, how))
        else:
            _add(leaving, self._step_alone(given, watermarks, **how))
            self._trial.count(rows)
        return leaving

    def _step_timed(
        self, given: Given, watermarks: Mapping[int, int], rows: int, how: Mapping[str, Any]
    ) -> Leaving:
        """Runs a step alone, and says how much of it functions waited."""
        slept, delayed = times_slept(), self._delay.ns()
        began, cpu = time.monotonic_ns(), time.process_time_ns()
        leaving = self._step_alone(given, watermarks, **how)
        took = time.monotonic_ns() - began
        # What other threads of the process have used may be why this one did not go on, and so may other programs.
        kept = time.process_time_ns() - cpu + self._delay.ns() - delayed
        waited = max(took - kept, 0)
        if slept >= 0 and times_slept() == slept:
            waited = 0
        self._trial.count(rows, took_ns=took, waited_ns=waited)
        if rows:
            fitting = rows * STEP_NS // max(took, 1)
            self._rows_alone = min(max(fitting, 1), rows * MORE_ROWS)
        return leaving

    def _step_alone(self, given: Given, watermarks: Mapping[int, int], **how: Any) -> Leaving:
        self.check()
        more = self._trial.to_come(sum(map(len, given.values())))
        for unit in self._keyed_units:
            unit.expect(more)
        entered, used = time.monotonic_ns(), time.thread_time_ns()
        made = SerialEngine.step(self, given, watermarks, **how)
        if not self._may_wait:
            lost = time.monotonic_ns() - entered - (time.thread_time_ns() - used)
            self._lost_ns += max(lost, 0)
        # At once, as threads do it: a caller may gather what leaves by several steps, some of them in threads.
        for edge, chunks in made.items():
            for chunk in chunks:
                self._leave(edge, chunk, entered)
        return self._take_left()

    def _now(self) -> int:
        """The trial's clock: on a machine that is busy rows look dear, and more threads would get no more of it."""
        return time.monotonic_ns() - self._lost_ns

    def _look(self) -> Leaving:
        """Lets the trial decide, with no step on its way."""
        leaving: Leaving = {}
        was = self._trial.in_threads
        for more in self.settle():
            _add(leaving, more)
        if self._trial.look(self._now()) != was:
            self._change()
        return leaving

    def _change(self) -> None:
        if self._trial.in_threads:
            self._alone = self._counted_alone()
            self._sync_tables()
        else:
            self._before = self._counts_now()

    def settle(self) -> Iterator[Leaving]:
        """As in threads, if there are any."""
        if self._is_set_up:
            yield from super().settle()

    @property
    def is_settled(self) -> bool:
        """Whether no step is on its way."""
        return not self._is_set_up or super().is_settled

    def halt(self) -> None:
        """As in threads, if there are any; who runs alone ends with its step."""
        if self._is_set_up:
            super().halt()

    def stop(self) -> None:
        """Ends the threads, if there are any."""
        if self._is_set_up:
            super().stop()
        else:
            UnitsEngine.stop(self)

    def pass_by(self, seconds: float) -> None:
        """There was nothing to do for so long before now: that is no cost of steps."""
        if self.is_settled:
            self._trial.pass_by(round(seconds * 1e9))

    def resume(self) -> None:
        """Goes on with state that a host has put into tables and gates; what was done alone is still known."""
        if not self._trial.in_threads:
            self._alone = self._counted_alone()
        self._before = {}
        if self._is_set_up:
            super().resume()
        else:
            UnitsEngine.resume(self)

    # -- what was done --------------------------------------------------------------------------------------

    def operators(self) -> list[OperatorProgress]:
        """What each has done, both ways; their cost is that of steps in threads."""
        if not self._is_set_up:
            return SerialEngine.operators(self)
        alone = self._alone if self._trial.in_threads else self._counted_alone()
        return [
            _with(one, *alone.get(one.name, (0, 0)), self._busy_alone(one.name))
            for one in super().operators()
        ]

    def pressed(self) -> Sequence[str] | None:
        """As in threads, while there are any."""
        return super().pressed() if self._is_set_up and self._trial.in_threads else None

    def _busy_alone(self, name: str) -> int:
        """What steps that ran alone took in a unit, which goes by the name of its last node, ns."""
        units = (unit for unit, _ in self.units if self.plan.node(unit.nodes[-1]).name == name)
        return sum(self.busy.get(unit.nodes[0], (0, 0))[0] for unit in units)

    def _counts_now(self) -> dict[str, tuple[int, int]]:
        return {name: (its.get("in", 0), its.get("out", 0)) for name, its in self.counts.items()}

    def _counted_alone(self) -> dict[str, tuple[int, int]]:
        """What steps that ran alone have counted, the last ones included."""
        found = dict(self._alone)
        for name, (rows_in, rows_out) in self._counts_now().items():
            before, more = self._before.get(name, (0, 0)), self._alone.get(name, (0, 0))
            found[name] = rows_in - before[0] + more[0], rows_out - before[1] + more[1]
        return found


def _with(one: OperatorProgress, rows_in: int, rows_out: int, ns: int) -> OperatorProgress:
    more_in, more_out = one.rows_in + rows_in, one.rows_out + rows_out
    selectivity = more_out / more_in if more_in else 1.0
    busy_ns = (one.busy_ns or 0) + ns
    return dataclasses.replace(
        one, rows_in=more_in, rows_out=more_out, selectivity=selectivity, busy_ns=busy_ns
    )


def _add(leaving: Leaving, more: Leaving) -> None:
    for edge, chunks in more.items():
        leaving.setdefault(edge, []).extend(chunks)
