"""A keyed operator that is interpreted: its states are Python objects, in one table a bucket."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.checkpoint.state_tables.object_table import ObjectTable
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult, RejectedRow, no_rows
from thalweg.columns.encoding import try_columns
from thalweg.engine.interpreter.answers import Answers
from thalweg.engine.interpreter.keyed_rows import KeyedRows, state_timer
from thalweg.engine.interpreter.row_loop import at_once
from thalweg.errors import OperatorError
from thalweg.flow.failures import operator_error, reason_of, shorten
from thalweg.flow.fields.user_rows import is_library
from thalweg.flow.operators.nodes import Keyed
from thalweg.flow.operators.timers import disarm, times_of
from thalweg.times import NEVER


@dataclasses.dataclass(slots=True)
class _Fired:
    """What timers gave while a chunk was processed."""

    rows: list[Any] = dataclasses.field(default_factory=list)
    time: list[int] = dataclasses.field(default_factory=list)
    keys: list[Any] = dataclasses.field(default_factory=list)
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)
    disarmed: int = 0


class InterpretedKeyed(KeyedRows):
    """A keyed operator whose functions are called row by row."""

    def __init__(self, node: Keyed) -> None:
        super().__init__(node)
        #: whether the timer's function is the library's own and calls no user's, so that it leaves the state as it was
        self._closes = (
            node.on_timer is not None and node.collects is None and is_library(node.on_timer.call)
        )
        self._fired = _Fired()
        self._ending = False

    def process(
        self,
        chunk: Chunk,
        keys: Sequence[Column],
        times: Int64s | None,
        watermark: int,
        *,
        ending: bool,
    ) -> KeyedResult:
        """See :class:`thalweg.columns.contracts.KeyedOperator`."""
        self._chunk, self._answers, self._errors = chunk, Answers(self._node), {}
        self._fired, self._ending, self.logs = _Fired(), ending, {}
        if len(chunk):
            try:
                self._rows(keys, times)
            except OperatorError:  # of a timer: rows before it may have failed, too
                self._outputs()
                raise
        columns, source, rejected = self._outputs()
        if self._timer is not None:
            for table in self.tables.values():
                self._fire_due(table, watermark)
        result = self._result(columns, source, times, rejected)
        self._forget()
        return result

    # -- outputs ------------------------------------------------------------------------------------------

    def _outputs(self) -> tuple[list[Column], Int64s, list[RejectedRow]]:
        """The outputs of the rows, the places of their rows, and the rows rejected.

        Raises:
            OperatorError: the first row that failed, where rows are not rejected.
        """
        if not self._errors and (packed := self._answers.columns()) is not None:
            return packed.columns, packed.source, []
        made, source = self._answers.records()
        columns = try_columns(self._out, made) if made and self._out.stays else None
        if columns is None and not at_once(self._node):
            made = self._by_row(made, source)
        rejected = self._told()
        return columns or Chunk.from_rows(self._out, made).columns, source, rejected

    def _by_row(self, made: Sequence[Any], source: Int64s) -> list[Any]:
        """The outputs, each coerced; rows are not rejected here."""
        out = []
        for one, place in zip(made, source.tolist(), strict=True):
            try:
                out.append(self._out.fit(one))
            except Exception as error:
                self._errors[place] = error
                return out
        return out

    def _told(self) -> list[RejectedRow]:
        node, out = self._node, []
        for place, error in sorted(self._errors.items()):
            row = self._chunk.slice(place, place + 1).rows()[0]
            if node.errors == "fail":
                raise operator_error(node.name, node.process, row, error) from error
            out.append(RejectedRow(place, node.name, reason_of(error), shorten(row)))
        return out

    def _result(
        self,
        columns: list[Column],
        source: Int64s,
        times: Int64s | None,
        rejected: list[RejectedRow],
    ) -> KeyedResult:
        fired = self._fired
        time = np.zeros(len(source), np.int64) if times is None else times[source]
        if fired.rows:
            made = try_columns(self._out, fired.rows) if self._out.stays else None
            made = made or Chunk.from_rows(self._out, fired.rows).columns
            columns = [Column.concat(pair) for pair in zip(columns, made, strict=True)]
            source = np.concatenate([source, np.full(len(fired.rows), -1)])
            time = np.concatenate([time, np.array(fired.time, np.int64)])
        return KeyedResult(
            columns,
            source if len(source) else no_rows(),
            time,
            self._spec.columns_of(fired.keys),
            fired.disarmed,
            [*rejected, *fired.rejected],
        )

    # -- timers -------------------------------------------------------------------------------------------

    def fire_before(self, states: dict[Any, Any], key: Any, now: int) -> Any | None:
        """Fires a key's timer as long as it is below a time; gives the key's state then."""
        assert self._timer is not None
        self._close(key)
        table, state = self._table_of(states), states.get(key)
        while state is not None and state_timer(state, self._timer) < now:
            self._fire(table, key, state)
            state = states.get(key)
        return state

    def _fire_due(self, table: ObjectTable, watermark: int) -> None:
        due = table.due(watermark)
        while due:
            for key in due:
                state = table.get(key)
                if state is not None:
                    self._fire(table, key, state)
            due = table.due(watermark)

    def _fire_collected(self, table: ObjectTable, key: Any, state: Any) -> None:
        """As :meth:`_fire`, of a window or session of rows: its function sees no state, which ends with it."""
        node, out, time = self._node, self._fired, state.timer
        assert node.on_timer is not None
        table.drop(key)
        try:
            made = self._timer_rows(node.on_timer.call(state, key, time))
        except Exception as error:
            self._reject_timer(f"key {key!r}", key, time, error)
            return
        out.rows += made
        if len(made) == 1:
            out.time.append(time)
            out.keys.append(key)
        else:
            out.time += [time] * len(made)
            out.keys += [key] * len(made)

    def _reject_timer(self, fired: str, key: Any, time: int, error: Exception) -> None:
        node = self._node
        assert node.on_timer is not None
        if node.errors == "fail":
            raise operator_error(node.name, node.on_timer, fired, error) from error
        made = RejectedRow(-1, node.name, reason_of(error), fired, time, key)
        self._fired.rejected.append(made)

    def _fire(self, table: ObjectTable, key: Any, state: Any) -> None:
        if self._node.collects is not None and self._node.key.fields:
            self._fire_collected(table, key, state)
            return
        node, out, ending = self._node, self._fired, self._ending
        assert node.on_timer is not None and self._timer is not None
        time = state_timer(state, self._timer)
        fired = f"key {key!r}"
        setattr(state, self._timer, NEVER)
        arguments = (state, key, time) if node.key.fields else (state, time)
        before = times_of(state, node.timers) if ending and not node.again else []
        try:
            made = self._timer_rows(node.on_timer.call(*arguments))
            if not self._closes:
                node.state.values(state)
        except Exception as error:
            self._reject_timer(fired, key, time, error)
            table.drop(key)
            return
        if before:
            out.disarmed += disarm(state, node.timers, self._timer, before, time)
        again = state_timer(state, self._timer)
        is_last = ending and not (node.again or node.timers)
        out.disarmed += again != NEVER and is_last
        is_over = again == NEVER or is_last
        if state._drop or (is_over and not node.keeps):
            table.drop(key)
        else:
            setattr(state, self._timer, NEVER if is_over else max(again, time + 1))
            table.touch(key)
        out.rows += made
        out.time += [time] * len(made)
        out.keys += [key] * len(made)

    def _timer_rows(self, answer: Any) -> list[Any]:
        if self._node.record is None or answer is None:
            return []
        fit = self._node.record.fit
        if self._node.timer_many:
            return [fit(one) for one in list(answer or ()) if one is not None]
        return [fit(answer)]
