"""The library's join by column: a step's rows find their partners in one call of machine code.

It takes the place of a :class:`~thalweg.engine.coroutines.live.Live`: same state, same outputs, same errors. Rows are
read as they come, so none ever waits at an input. Without a function of the user's no row becomes a Python object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import StatelessOperator
from thalweg.columns.encoding import try_columns
from thalweg.columns.keys import KeySpec
from thalweg.engine.coroutines.held_rows import HeldRows
from thalweg.engine.coroutines.matching import Matcher, Pairs
from thalweg.errors import OperatorError
from thalweg.flow.failures import coroutine_error, refusal
from thalweg.flow.operators import joins
from thalweg.flow.operators.coroutines import Queue
from thalweg.flow.operators.kept import Kept
from thalweg.flow.operators.nodes import Coroutine
from thalweg.flow.records import Schema
from thalweg.times import BEFORE_ALL


class Joined(NamedTuple):
    """The outputs of a step: for each the place of the row behind it, and its number among that row's."""

    rows: Chunk
    places: Int64s
    numbers: Int64s


class _Side:
    """The rows that a side holds, and how their keys are compared."""

    def __init__(self, record: Schema, places: Sequence[int]) -> None:
        self.held = HeldRows(record)
        self._places = tuple(places)
        # Rows with a null in the key are never held.
        fields = (record.fields[i] for i in places)
        self._spec = KeySpec(
            tuple(
                dataclasses.replace(one, type=dataclasses.replace(one.type, optional=False))
                for one in fields
            )
        )
        #: whether a key is a number, so that equal numbers are equal keys
        self.is_exact = not self._spec.has_text and self._spec.width < 2

    def whole_keys(self, rows: Chunk) -> npt.NDArray[np.bool_]:
        """Whether each row has a key without nulls."""
        has = np.ones(len(rows), np.bool_)
        for place in self._places:
            column = rows.columns[place]
            if column.valid is not None:
                has &= column.valid
            elif not column.type.fixed_width and column.values.null_count:
                has &= column.values.is_valid().to_numpy(zero_copy_only=False)
        return has

    def keys(self, rows: Chunk) -> Int64s:
        """A number for each row's key; the hash where no number is the key itself."""
        columns = self._columns(rows.columns[i] for i in self._places)
        if not self.is_exact:
            return self._spec.hashes(columns, len(rows)).view(np.int64)
        words = self._spec.words(columns, len(rows))
        return words[:, 0].copy() if self._places else np.zeros(len(rows), np.int64)

    def compared(self, numbers: Int64s) -> tuple[Int64s, Any]:
        """The whole keys of held rows, as words and as bytes."""
        columns = self._columns(self.held.take(numbers, self._places).columns)
        words = self._spec.words(columns, len(numbers))
        return words, self._spec.ordered_bytes(columns) if self._spec.has_text else None

    def _columns(self, columns: Any) -> list[Column]:
        named = zip(self._spec.fields, columns, strict=True)
        return [Column(field.type, column.values) for field, column in named]


class ColumnJoin:
    """A join between its start and its end; see :class:`~thalweg.engine.coroutines.live.Live` for its interface."""

    def __init__(self, node: Coroutine, kept: Kept, pairs: StatelessOperator | None = None) -> None:
        """``pairs`` is the user's function as machine code, over the rows of ``node.pair``."""
        constants = dict(node.constants)
        self._node, self._own, self._pairs = node, kept.own, pairs
        self._within: int = constants["within"]
        self._record = node.out_ports[0].record
        self._combine: joins.Combiner = constants["combine"]
        named = zip(node.in_ports, constants["keys"], strict=True)
        self._sides = tuple(_Side(port.record, places) for port, places in named)
        self._matcher = Matcher(self._within)
        self._restore((kept.own.left, kept.own.right))
        self.last_time, self.completed = kept.last_time, kept.completed
        self.queues = [Queue[Any](port.name) for port in node.in_ports]
        self.dropped = self.unread = self.runs = 0
        none = np.zeros(0, np.int64)
        self._nothing = Joined(Chunk.empty(self._record), none, none)
        #: rows with a time below find no partner any more
        self._before = BEFORE_ALL

    @staticmethod
    def is_for(node: Coroutine) -> bool:
        """Whether the operator is the library's join."""
        return node.function.call is joins.join

    def _restore(self, held: Sequence[Sequence[Any]]) -> None:
        chunks = [
            Chunk.from_rows(side.held.record, rows)
            for side, rows in zip(self._sides, held, strict=True)
        ]
        self._make_room(np.array([len(one) for one in chunks]), BEFORE_ALL)
        for place, (side, rows) in enumerate(zip(self._sides, chunks, strict=True)):
            if len(rows):
                self._matcher.hold(place, side.keys(rows), rows.columns[-1].values)
                side.held.add(rows)

    def _make_room(self, rows: Int64s, before: int) -> None:
        if not self._matcher.room(rows):
            self._forget(before, rows)

    def _forget(self, before: int, rows: Int64s) -> None:
        gone = self._matcher.gone(before)
        self._matcher.rebuild(gone, rows)
        for side, count in zip(self._sides, gone, strict=True):
            side.held.forget(count)

    def take(self, inputs: Sequence[Chunk], ports: Int64s) -> Joined:
        """What a step's rows make the join put out.

        Args:
            inputs: the rows of either side.
            ports: the side of each row, in the order of the flow.

        Raises:
            OperatorError: the user's function raised, or gave what does not fit.
        """
        if self.completed:
            self.dropped += len(ports)
            return self._nothing
        self.runs += len(ports)
        keys, times, has = np.zeros((3, len(ports)), np.int64)
        counts = np.zeros(2, np.int64)
        fresh = []
        for place, (side, rows) in enumerate(zip(self._sides, inputs, strict=True)):
            whole, at = side.whole_keys(rows), np.flatnonzero(ports == place)
            times[at] = rows.columns[-1].values
            if not whole.all():
                rows, at = rows.take(np.flatnonzero(whole)), at[whole]
            keys[at], has[at], counts[place] = side.keys(rows), 1, len(rows)
            fresh.append(rows)
        self._make_room(counts, self._before)
        if len(times):
            self._before = _below(int(times[-1]), self._within)
        for side, rows in zip(self._sides, fresh, strict=True):
            side.held.add(rows)
        mine = np.flatnonzero(has)
        sides = ports[mine]
        pairs = self._matcher.match(keys[mine], times[mine], sides)
        if not len(pairs.places):
            return self._nothing
        return self._joined(pairs, mine, sides)

    def _joined(self, pairs: Pairs, rows: Int64s, sides: Int64s) -> Joined:
        """The outputs of pairs; ``rows`` are the places of the rows with a key, ``sides`` the sides of these."""
        is_left = sides[pairs.places] == 0
        left = np.where(is_left, pairs.mine, pairs.theirs)
        right = np.where(is_left, pairs.theirs, pairs.mine)
        places = rows[pairs.places]
        if not (self._sides[0].is_exact and self._sides[1].is_exact):
            equal = self._equal_keys(left, right)
            if not equal.all():
                left, right, places = left[equal], right[equal], places[equal]
        if self._combine.function is not None:
            by = self._called if self._pairs is None else self._computed
            out, made = by(left, right)
            places = places[made]
        else:
            out = self._put_together(left, right)
        numbers = np.arange(len(places)) - np.searchsorted(places, places)
        return Joined(out, places, numbers)

    def _equal_keys(self, left: Int64s, right: Int64s) -> npt.NDArray[np.bool_]:
        """Whether pairs have equal keys and not just equal hashes of them."""
        (words, texts), (other, others) = (
            side.compared(numbers) for side, numbers in zip(self._sides, (left, right), strict=True)
        )
        equal: npt.NDArray[np.bool_] = (words == other).all(axis=1)
        if texts is not None:
            equal &= pc.equal(texts, others).to_numpy(zero_copy_only=False)
        return equal

    def _put_together(self, left: Int64s, right: Int64s) -> Chunk:
        """The outputs without a function: fields of both sides."""
        assert self._combine.places is not None
        columns = self._columns(left, right, self._combine.places)
        named = zip(self._record.fields, columns, strict=True)
        kinds = [dataclasses.replace(column, type=field.type) for field, column in named]
        return Chunk(self._record, kinds, len(left))

    def _columns(
        self, left: Int64s, right: Int64s, fields: Iterable[Sequence[int]]
    ) -> list[Column]:
        """Fields of both sides by pair."""
        of_side = zip(self._sides, (left, right), fields, strict=True)
        return [
            column
            for side, numbers, places in of_side
            for column in side.held.take(numbers, tuple(places)).columns
        ]

    def _computed(self, left: Int64s, right: Int64s) -> tuple[Chunk, Int64s]:
        """As :meth:`_called`, in machine code."""
        assert self._pairs is not None and self._node.pair is not None
        columns = self._columns(left, right, [range(len(r.fields)) for r in self._combine.records])
        try:
            made = self._pairs(Chunk(self._node.pair.record, columns, len(left)))
        except OperatorError:
            return self._called(left, right)  # which fails at the same pair, and tells it
        return Chunk(self._record, made.columns, len(made.source)), made.source

    def _called(self, left: Int64s, right: Int64s) -> tuple[Chunk, Int64s]:
        """What the user's function gives, and of which pairs; None leaves a pair out."""
        lefts, rights = (self._rows(place, numbers) for place, numbers in enumerate((left, right)))
        call, node = self._combine.function, self._node
        assert call is not None
        made: list[Any] = []
        try:
            for one, two in zip(lefts, rights, strict=True):
                made.append(call(one, two))
        except Exception as error:
            self._fitted(made)
            raise coroutine_error(node.name, node.told, error) from error
        chosen = np.array([i for i, one in enumerate(made) if one is not None], np.int64)
        if len(chosen) < len(made):
            made = [one for one in made if one is not None]
        return self._fitted(made), chosen

    def _rows(self, side: int, numbers: Int64s) -> Any:
        """The user's records of held rows, each made once."""
        record = self._combine.records[side]
        distinct, back = np.unique(numbers, return_inverse=True)
        found = self._sides[side].held.take(distinct, tuple(range(len(record.fields))))
        rows = Chunk(record, found.columns, len(distinct)).rows()
        return map(rows.__getitem__, back.tolist())

    def _fitted(self, made: Sequence[Any]) -> Chunk:
        """What the function gave as records of the output."""
        record = self._record
        if record.stays and made and (columns := try_columns(record, made)) is not None:
            return Chunk(record, columns, len(made))
        fit = record.fit
        try:
            return Chunk.from_rows(record, [fit(one) for one in made if one is not None])
        except TypeError as error:
            node = self._node
            what = f"a row pushed to {node.out_ports[0].parameter!r} does not fit: {error}"
            raise refusal(node.name, node.told, what) from error

    def feed_back(self, port: int, row: Any) -> None:
        raise NotImplementedError("a join has no control ports")

    def close(self) -> None:
        """No more rows will come."""
        self.completed = True

    def kept(self) -> Kept:
        """What must be kept of it."""
        self._forget(self._before, np.zeros(2, np.int64))
        self._own.left, self._own.right = (side.held.whole().rows() for side in self._sides)
        return Kept(self._own, [[] for _ in self.queues], self.last_time, self.completed)

    def end(self) -> None:
        """Ends it where it stands."""

    @property
    def lengths(self) -> list[int]:
        """By input, how many rows wait there: none."""
        return [0] * len(self.queues)

    @property
    def missing(self) -> list[int]:
        """The inputs for which it waits: it takes what comes first of any."""
        return [] if self.completed else list(range(len(self.queues)))


def _below(time: int, within: int) -> int:
    """The time below which rows are out of reach."""
    return max(time - within, -(2**63))
