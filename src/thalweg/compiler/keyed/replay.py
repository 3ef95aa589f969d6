"""A keyed call that raised in machine code, run again in Python, whose word counts.

Either Python raises, too: then its error stops the query or the row is rejected. Or an int left 64 bits on the way to a
result that fits, as Python's ints may: then what Python made of the state and put out goes where the compiled call
would have put it. What the compiler accepts has no side effects, so running it again is safe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.checkpoint.state_tables.table_form import ALIVE, DIRTY, set_value, state_values
from thalweg.checkpoint.state_tables.tables import BucketTable
from thalweg.columns.contracts import RejectedRow
from thalweg.compiler.code.columns import Buffers
from thalweg.compiler.code.source import FunctionSource
from thalweg.compiler.keyed import layout
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.compiler.kinds import NO_VALUE, field_type
from thalweg.compiler.replay import operator_error, results
from thalweg.errors import OperatorError
from thalweg.flow.failures import reason_of, shorten
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Field
from thalweg.times import NEVER


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayPlace:
    """A key's entry in a table, the outputs and control words of the run, and a copy of the state before the call."""

    table: BucketTable
    bucket: int
    entry: int
    buffers: Buffers
    ctl: Any
    before: Any


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """What a call made: its outputs as values of the buffers' columns, the state's values, whether it was dropped."""

    outputs: list[list[Any]]
    state: tuple[Any, ...]
    dropped: bool


class Replay:
    """Runs single calls of a keyed operator in Python.

    Args:
        reject: a call that raises is told as a :class:`RejectedRow`; else OperatorError.
    """

    def __init__(
        self, spec: KeyedSpec, *, reject: bool, made: Collection[int] = frozenset()
    ) -> None:
        """``made``: the output fields whose texts are made by the kernel; others pass through."""
        self.spec = spec
        self.reject = reject
        self._of_rows, self._of_keys = _labels(spec.source.fields), _labels(spec.key.fields)
        outputs = _labels(spec.out.fields if spec.out else ())
        self._passed = {i: label for i, label in outputs.items() if i not in made}

    def row(self, place: ReplayPlace, row: int, value: Any, time: int | None) -> RejectedRow | None:
        """The call of ``process`` with a row's value; ``time`` is None where no timers fire."""
        given = _handles(self._of_rows, value, lambda i: i)
        try:
            made = self._call(place, self.spec.process, (value,), given)
        except Exception as error:
            self._stop(self.spec.told or self.spec.sources[0], value, error)
            return RejectedRow(row, self.spec.name, reason_of(error), shorten(value))
        self._put_out(place, (row, 0), made.outputs)
        if made.dropped:
            self.die(place)
            return None
        self._write(place, made.state)
        timer = self.spec.timer
        if timer is not None and time is not None:
            self._arm(place, timer, max(int(place.table.records[timer][place.entry]), time))
        return None

    def timer(self, place: ReplayPlace, key: Any, time: int) -> RejectedRow | None:
        """The call of ``on_timer`` at ``time``; a call that raises ends its key's state, its timer is used up."""
        assert self.spec.on_timer is not None and self.spec.timer is not None
        fields = self.spec.key.fields
        arguments = (key, time) if fields else (time,)
        values = (key,) if len(fields) == 1 else key
        given = _handles(self._of_keys, values, lambda i: -i - 1)
        place.before[self.spec.timer] = NEVER
        try:
            made = self._call(place, self.spec.on_timer, arguments, given)
        except Exception as error:
            text = f"key {key!r}"
            self._stop(self.spec.sources[1], text, error)
            self.die(place)
            return RejectedRow(-1, self.spec.name, reason_of(error), text, time, key)
        self._put_out(place, (-1, time), made.outputs)
        self._write(place, made.state)
        again = int(place.table.records[self.spec.timer][place.entry])
        ending = bool(place.ctl[layout.ENDING]) and again != NEVER
        place.ctl[layout.DISARMED] += ending
        if again == NEVER or ending or made.dropped:
            self.die(place)
        else:
            self._arm(place, self.spec.timer, max(again, time + 1))
        return None

    def die(self, place: ReplayPlace) -> None:
        """Drops the key's state."""
        place.table.empty(np.array([place.entry]))
        place.table.flags[place.entry] = (int(place.table.flags[place.entry]) | DIRTY) & ~ALIVE

    def _stop(self, source: FunctionSource | Function, value: Any, error: Exception) -> None:
        if not self.reject:
            made: OperatorError = operator_error(self.spec.name, source, value, error)
            raise made from error

    def _call(
        self,
        place: ReplayPlace,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        handles: Sequence[tuple[str, Any, int]],
    ) -> _Call:
        before = np.array([place.before], place.table.records.dtype)
        state = self.spec.state.restore(state_values(self.spec.state, before))
        out = self.spec.out
        outputs = []
        for raw in results(function(state, *arguments)):
            made = raw if out is None else out.coerce(raw)
            outputs.append([] if out is None else _passed_on(self._passed, made, raw, handles))
        values = self.spec.state.values(state)
        return _Call(outputs, values, bool(getattr(state, "_drop", False)))

    def _write(self, place: ReplayPlace, values: Sequence[Any]) -> None:
        for field, value in zip(self.spec.state.schema.fields, values, strict=True):
            set_value(place.table.records, field, place.entry, value)
        place.table.flags[place.entry] |= ALIVE | DIRTY

    def _arm(self, place: ReplayPlace, timer: str, time: int) -> None:
        place.table.records[timer][place.entry] = time
        place.table.note_timer(time)

    def _put_out(
        self, place: ReplayPlace, source_and_time: tuple[int, int], outputs: Sequence[Sequence[Any]]
    ) -> None:
        words = place.table.words[place.entry].tolist()[: self.spec.words]
        extra = [*source_and_time, place.bucket, place.entry, *words]
        for values in outputs:
            place.buffers.append(int(place.ctl[layout.OUT]), extra, values)
            place.ctl[layout.OUT] += 1


def _labels(fields: Sequence[Field]) -> dict[int, str]:
    """The fields that never enter a kernel, by place, and the type of each."""
    kinds = [field_type(field.type) for field in fields]
    return {i: kind.label for i, kind in enumerate(kinds) if kind.tag == "handle"}


def _handles(
    labels: Mapping[int, str], values: Sequence[Any], handle: Callable[[int], int]
) -> list[tuple[str, Any, int]]:
    """What a call may pass on: type, value and handle of each of these fields."""
    return [(label, values[i], handle(i)) for i, label in labels.items() if values[i] is not None]


def _passed_on(
    labels: Mapping[int, str],
    made: Sequence[Any],
    raw: Sequence[Any],
    handles: Sequence[tuple[str, Any, int]],
) -> list[Any]:
    """An output's values, those of these fields as handles: a compiled function only passes such objects on."""
    values = list(made)
    for i, label in labels.items():
        found = (number for known, one, number in handles if one is raw[i] and label == known)
        values[i] = NO_VALUE if raw[i] is None else next(found)
    return values
