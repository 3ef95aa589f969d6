"""Runs the rows of an interpreted keyed operator one by one; a call that fails leaves its state unchanged.

Rows run in a loop made for the operator (:mod:`thalweg.engine.interpreter.row_loop`). What a list in a state held
before a call is not copied at each row: at its first row of a chunk a key's state is copied once, and its rows are
noted. Only when a row is to be undone, or a list turns out to hold what it must not, is the state made again from
that copy, by calling the function again for the key's rows up to that one (short lists are copied, so that this is
rare).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from thalweg.checkpoint.state_tables.object_table import ObjectTable
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.keys import KeySpec
from thalweg.columns.state_units import StateUnits
from thalweg.engine.interpreter.answers import Answers
from thalweg.engine.interpreter.row_loop import at_once, held_fields, make_loop
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.nodes import Keyed
from thalweg.flow.records import Schema
from thalweg.flow.state_types import needs_revival
from thalweg.times import NEVER

#: A list of more items is not copied before each call that may be rejected.
_SHORT: Final = 256
#: So many rows run before their outputs become columns.
_BLOCK: Final = 256
_PLAIN: Final = (int, float, str, bytes, np.generic, type(None))


class _NotCopied:
    """Stands for what a long list was."""


_NOT_COPIED: Final = _NotCopied()


@dataclasses.dataclass(slots=True)
class _Log:
    """What a state was at some row of the chunk, and the rows since that its function took."""

    states: dict[Any, Any]
    #: None: there was no state
    values: list[Any] | None
    places: list[int] = dataclasses.field(default_factory=list)


class KeyedRows(abc.ABC):
    """The states of an interpreted keyed operator, and what its function makes of rows."""

    def __init__(self, node: Keyed) -> None:
        self._node = node
        self._spec = KeySpec(node.key.fields)
        self._timer = node.state.timer if node.on_timer is not None else None
        self._out = node.record or Schema("Nothing", ())
        self._held = held_fields(node.state)
        self._loop = make_loop(node)
        #: whether a state held what is not plain, and may be changed in place: then each state is copied at each row
        self._careful = False
        self.tables: dict[int, ObjectTable] = {}
        self.units = StateUnits.of_buckets(node.key.buckets)
        #: of the chunk that runs: by key, where its state can be changed in place
        self.logs: dict[Any, _Log] = {}
        self._chunk = Chunk.empty(Schema("Nothing", ()))
        self._answers = Answers(node)
        self._errors: dict[int, Exception] = {}
        self._times: list[int] = []
        self._by_states: dict[int, ObjectTable] = {}
        self._going: list[int] = []
        #: where rows are collected: the last field of each
        self.lasts: list[int] = []

    def expect(self, more: float) -> None:
        """Takes no room ahead: states are objects."""
        del more

    def set_units(self, units: StateUnits) -> None:
        """By what the state is kept; tables that are held already must be those of these units."""
        self.units = units

    def table(self, bucket: int) -> ObjectTable:
        """The table of a bucket, made on first use."""
        if bucket not in self.tables:
            self.tables[bucket] = ObjectTable(self._spec, self._node.state)
        return self.tables[bucket]

    @abc.abstractmethod
    def fire_before(self, states: dict[Any, Any], key: Any, now: int) -> Any | None:
        """Fires a key's timer as long as it is below a time; gives the key's state then."""

    def _forget(self) -> None:
        """Lets go of the chunk that ran."""
        self._chunk, self._answers, self.logs = self._chunk.slice(0, 0), Answers(self._node), {}
        self._times, self._going, self.lasts = [], [], []

    # -- rows ---------------------------------------------------------------------------------------------

    def _rows(self, keys: Sequence[Column], times: Int64s | None) -> None:
        chunk, answers = self._chunk, self._answers.rows
        python_keys = self._spec.python_keys(keys, len(chunk))
        buckets = self.units.of_rows(keys, self._spec.hashes(keys, len(chunk))).tolist()
        parts = {one: self.table(one).parts for one in set(buckets)}
        self._by_states = {id(one.parts[0]): one for one in self.tables.values()}
        self._times = [0] * len(chunk) if times is None else times.tolist()
        # A state that is to be treated with care from here on ends the loop.
        self._going = [] if self._careful else buckets.copy()
        found = map(parts.__getitem__, self._going)
        done = self._run(self._given(), python_keys, found)
        for key in list(self.logs):
            self._close(key)
        if done and len(answers) < len(chunk) and self._node.collects is None:
            start = len(answers)
            left = chunk.slice(start, len(chunk)).each_row()
            found = map(parts.__getitem__, buckets[start:])
            self._each_carefully(left, python_keys[start:], found, self._times[start:])

    def _run(self, rows: Iterable[Any], keys: Iterable[Any], parts: Iterable[Any]) -> bool:
        """Runs the loop, some rows at a time where there are outputs; whether it did not fail."""
        answers, times = self._answers.rows, self._times
        if self._node.collects is not None:
            return self._loop(rows, keys, parts, times, answers, self)
        left, done, before = [iter(one) for one in (rows, keys, parts, times)], True, -1
        while done and before < len(answers) < len(self._chunk):
            before = len(answers)
            some = [itertools.islice(one, _BLOCK) for one in left]
            done = self._loop(some[0], some[1], some[2], some[3], answers, self)
            self._answers.pack()
        return done

    def _given(self) -> Iterator[Any]:
        """The rows as the loop takes them."""
        chunk, collects = self._chunk, self._node.collects
        if collects is None:
            return chunk.each_row()
        self.lasts = chunk.columns[-1].values.tolist()
        return Chunk(collects.item, chunk.columns[:-1], len(chunk)).each_row()

    def log(self, states: dict[Any, Any], state: Any | None) -> _Log:
        """A log from here on of a key that has this state, or none yet."""
        if state is None:
            return _Log(states, None)
        return _Log(states, self._copy(state))

    def _copy(self, state: Any) -> list[Any]:
        """The values of a state, those copied that can be changed in place."""
        values = []
        for place, field in enumerate(self._node.state.schema.fields):
            value = getattr(state, field.name)
            if place in self._held:
                value = self._copied_whole(place, field.type, value)
            values.append(value)
        return values

    def _copied_whole(self, place: int, kind: FieldType, value: Any) -> Any:
        """A copy in the form of :meth:`FieldType.coerce`, of a value that is of its type."""
        if kind.kind is Kind.LIST and place not in self._deep:
            if type(value) is list:
                return value.copy()
            if type(value) is dict and kind.item is not None and not needs_revival(kind.item):
                return list(value.items())
        return kind.coerce(value)

    @functools.cached_property
    def _deep(self) -> set[int]:
        """The places of lists whose items can be changed in place."""
        fields = self._node.state.schema.fields
        return {
            i
            for i in self._held
            if (item := fields[i].type.item) is not None
            and (item.kind is Kind.LIST or (item.record is not None and not item.record.stays))
        }

    def copied(self, place: int, value: Any) -> Any:
        """A copy of a value that the call may change, if it is short."""
        if type(value) is not list or len(value) > _SHORT or place in self._deep:
            return _NOT_COPIED
        return value.copy()

    def unusual(self, place: int, value: Any) -> None:
        """Takes a field's value that is not plainly of its type.

        Raises:
            TypeError: it does not fit.
        """
        field = self._node.state.schema.fields[place]
        if value is None and field.type.kind is Kind.TIMER:
            return
        try:
            field.type.coerce(value)
        except TypeError as error:
            raise TypeError(f"{self._node.state.told(field)}: {error}") from None
        if not _stays(value):
            self._careful = True
            self._going.clear()

    def failed(
        self,
        place: int,
        states: dict[Any, Any],
        key: Any,
        old: Any,
        saved: Sequence[Any],
        answer: Any,
        error: Exception,
    ) -> Any:
        """A row on which the function raised, or left what does not fit: the state is what it was.

        Returns:
            None; where an earlier row of the key had to be undone, what the function gives then.
        """
        self._errors[place] = self._first_error(answer, error)
        spec = self._node.state
        if old is None:
            states.pop(key, None)
        elif not self._held:
            states[key] = spec.restore(spec.values(spec.restore(saved)))
        elif self._node.errors == "reject":
            return self._undo(place, states, key, saved)
        return None

    def _undo(self, place: int, states: dict[Any, Any], key: Any, saved: Sequence[Any]) -> Any:
        """Makes a state that can be changed in place what it was before the row at ``place``."""
        spec = self._node.state
        if any(value is _NOT_COPIED for value in saved):
            self._redo(key, carefully=False)
        else:
            states[key] = spec.restore(saved)
        if key not in states or self._holds(states[key]):
            if key in states:
                states[key] = spec.restore(spec.values(states[key]))
            if any(value is _NOT_COPIED for value in saved):
                self.logs[key] = self.log(states, states.get(key))  # no row is called a third time
            return None
        # An earlier row left something wrong, so this one has seen it, too.
        del self._errors[place]
        self.logs[key].places.append(place)
        self._answers.rows.append(None)
        self._redo(key, carefully=True)
        self.logs[key] = self.log(states, states.get(key))
        return self._answers.rows.pop()

    def _first_error(self, answer: Any, error: Exception) -> Exception:
        """The error that is told: what a function gave is looked at before what it left in its state."""
        if answer is not None and not at_once(self._node):
            try:
                self._fitted(answer)
            except Exception as first:
                return first
        return error

    def _fitted(self, answer: Any) -> Any:
        assert self._node.record is not None
        fit = self._node.record.fit
        if self._node.many:
            return [fit(one) for one in list(answer or ()) if one is not None]
        return None if answer is None else fit(answer)

    def drop(self, states: dict[Any, Any], key: Any) -> None:
        """Drops the state of a key after its row."""
        if self._held:
            self._close(key)
            if key in states and not states[key]._drop:
                return  # a row was undone, and what is left does not drop it
        states.pop(key, None)

    # -- states that can be changed in place ----------------------------------------------------------------

    def _close(self, key: Any) -> None:
        """Checks what the rows of a key left in its lists, and ends its log."""
        log = self.logs.get(key)
        if log is None:
            return
        state = log.states.get(key)
        if state is not None and not self._holds(state):
            self._redo(key, carefully=True)
        del self.logs[key]

    def _holds(self, state: Any) -> bool:
        """Whether the values that can be changed in place are of their types."""
        fields = self._node.state.schema.fields
        for place in self._held:
            kind, value = fields[place].type, getattr(state, fields[place].name)
            if type(value) is list and kind.item is not None and kind.item.holds(value):
                continue
            try:
                kind.coerce(value)
            except TypeError:
                return False
        return True

    def _redo(self, key: Any, *, carefully: bool) -> None:
        """Makes a key's state again by calling the function for its rows since the log began.

        Carefully: looks at the state after each row, to find the one that left something wrong in it.
        """
        log = self.logs[key]
        spec, states = self._node.state, log.states
        state = None if log.values is None else spec.restore(log.values)
        if state is None:
            states.pop(key, None)
        else:
            states[key] = spec.restore(self._copy(state))
        if carefully:
            self._answers.unpack()
        for place in log.places:
            row = self._chunk.slice(place, place + 1).rows()[0]
            if carefully:
                self._answers.rows[place] = self._one(states, key, row, place)
                if place in self._errors and self._node.errors == "fail":
                    return
            else:
                self._again(states, key, row)
            self._keep(states, key, self._times[place])
        self._table_of(states).touch(key)

    def _table_of(self, states: dict[Any, Any]) -> ObjectTable:
        return self._by_states[id(states)]

    def _keep(self, states: dict[Any, Any], key: Any, now: int) -> None:
        """The state after a row: dropped if asked, its timer not before the row."""
        state = states.get(key)
        if state is None:
            return
        if state._drop:
            del states[key]
        elif self._timer is not None:
            setattr(state, self._timer, max(state_timer(state, self._timer), now))

    def _again(self, states: dict[Any, Any], key: Any, row: Any) -> None:
        state = states.get(key)
        if state is None:
            state = states[key] = self._node.state.new()
        answer = self._node.process.call(state, row)
        if self._node.record is not None and self._node.many:
            list(answer or ())

    def _one(self, states: dict[Any, Any], key: Any, row: Any, place: int) -> Any:
        """The answer for a row, with its state looked at and copied before and after."""
        spec = self._node.state
        old = states.get(key)
        before = None if old is None else spec.values(old)
        if old is None:
            states[key] = spec.new()
        try:
            answer = self._node.process.call(states[key], row)
            answer = None if self._node.record is None else self._fitted(answer)
            spec.values(states[key])
        except Exception as error:
            self._errors[place] = error
            if before is None:
                states.pop(key, None)
            else:
                states[key] = spec.restore(before)
            return None
        return answer

    def _each_carefully(self, rows: Any, keys: Any, parts: Any, times: Any) -> None:
        """As the loop, for states of which anything may be changed in place."""
        for row, key, (states, dirty, stirred), now in zip(rows, keys, parts, times, strict=False):
            place = len(self._answers.rows)
            if self._timer is not None:
                state = states.get(key)
                if state is not None and state_timer(state, self._timer) < now:
                    self.fire_before(states, key, now)
                stirred[key] = None
            dirty[key] = None
            self._answers.rows.append(self._one(states, key, row, place))
            if place in self._errors and self._node.errors == "fail":
                return
            if place not in self._errors:
                self._keep(states, key, now)


def _stays(value: Any) -> bool:
    """Whether a value surely cannot be changed in place."""
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_stays, value)))


def state_timer(state: Any, name: str) -> int:
    """The time of a state's timer, NEVER when it is not armed."""
    value = getattr(state, name)
    return NEVER if value is None else int(value)
