"""Runs the library's join without its driver loop: a row costs a dict lookup, not a coroutine step.

It takes the place of a :class:`~thalweg.engine.coroutines.live.Live`: same state, same outputs, same errors. Rows are
read as they come, so none ever waits at an input.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from thalweg.flow.failures import coroutine_error, refusal
from thalweg.flow.field_types import Kind
from thalweg.flow.operators import joins
from thalweg.flow.operators.coroutines import Queue
from thalweg.flow.operators.kept import Kept
from thalweg.flow.operators.nodes import Coroutine
from thalweg.flow.records import Schema
from thalweg.times import BEFORE_ALL

#: After so many rows those out of reach are forgotten.
_GONE: Final = 256


class _Side:
    """The rows of one side: ``rows`` of the state, and by key; some may be out of reach until :meth:`expire`."""

    def __init__(self, rows: list[Any], record: Schema, places: Sequence[int]) -> None:
        self.rows = rows
        self.key = _key(record, places)
        #: oldest first
        self._by_key: dict[Any, collections.deque[Any]] = {}
        for row in rows:
            self._by_key.setdefault(self.key(row), collections.deque()).append(row)
        self.find = self._by_key.get

    def add(self, key: Any, row: Any) -> None:
        self.rows.append(row)
        held = self._by_key.get(key)
        if held is None:
            self._by_key[key] = collections.deque((row,))
        else:
            held.append(row)

    def expire(self, before: int) -> None:
        """Forgets rows with a time below; those of a key that was looked up since may be out of its queue already."""
        rows, gone = self.rows, 0
        while gone < len(rows) and rows[gone][-1] < before:
            key = self.key(rows[gone])
            held = self._by_key.get(key)
            while held and held[0][-1] < before:
                held.popleft()
            if held is not None and not held:
                del self._by_key[key]
            gone += 1
        del rows[:gone]


def _key(record: Schema, places: Sequence[int]) -> Callable[[Any], Any]:
    """What a row is found by; None where a field is null."""
    floats = any(record.fields[i].type.kind is Kind.FLOAT for i in places)
    if floats or not places:
        return joins.Side([], places).key
    if len(places) == 1:
        (only,) = places
        return lambda row: row[only]

    def several(row: Any) -> tuple[Any, ...] | None:
        values = tuple(row[i] for i in places)
        return None if None in values else values

    return several


def _combined(combine: joins.Combiner, out: Schema) -> Callable[[Any, Any], Any]:
    """Makes an output row of a left and a right row: as ``combine`` does, and of ``out``."""
    left, right = (len(record.fields) for record in combine.records)
    scope: dict[str, Any] = {"MAKE": tuple.__new__, "OUT": out.cls, "CALL": combine.function}
    scope |= {"LEFT": combine.records[0].cls, "RIGHT": combine.records[1].cls}
    if combine.function is not None:
        body = f"CALL(MAKE(LEFT, a[:{left}]), MAKE(RIGHT, b[:{right}]))"
    elif combine.places is not None:
        named = zip("ab", combine.places, strict=True)
        values = "".join(f"{name}[{i}], " for name, mine in named for i in mine)
        body = f"MAKE(OUT, ({values}))"
    else:
        body = f"MAKE(OUT, (MAKE(LEFT, a[:{left}]), MAKE(RIGHT, b[:{right}])))"
    exec(compile(f"def combined(a, b):\n    return {body}\n", f"{__file__}<made>", "exec"), scope)
    made: Callable[[Any, Any], Any] = scope["combined"]
    return made


class DirectJoin:
    """A join between its start and its end; see :class:`~thalweg.engine.coroutines.live.Live` for its interface."""

    def __init__(self, node: Coroutine, kept: Kept) -> None:
        constants = dict(node.constants)
        self._node, self._own = node, kept.own
        self._within: int = constants["within"]
        self._port = node.out_ports[0]
        combine: joins.Combiner = constants["combine"]
        self._fits = combine.function is None
        self._combined = _combined(combine, self._port.record)
        ports = node.in_ports
        self._sides = tuple(
            _Side(rows, port.record, places)
            for rows, port, places in zip(
                (kept.own.left, kept.own.right), ports, constants["keys"], strict=True
            )
        )
        self.last_time, self.completed = kept.last_time, kept.completed
        self.queues = [Queue[Any](port.name) for port in ports]
        self.dropped = self.unread = self.runs = 0
        #: rows with a time below find no partner any more
        self._before = BEFORE_ALL

    @staticmethod
    def is_for(node: Coroutine) -> bool:
        """Whether the operator is the library's join."""
        return node.function.call is joins.join

    def take(self, arrived: Iterable[tuple[int, Any]]) -> tuple[list[Any], list[int], list[int]]:
        """What rows make the join put out: outputs, the place of the row behind each, its number among that row's.

        Raises:
            OperatorError: the user's function raised, or gave what does not fit.
        """
        if self.completed:
            self.dropped += sum(1 for _ in arrived)
            return [], [], []
        out: list[Any] = []
        places: list[int] = []
        numbers: list[int] = []
        fit, within = self._combined if self._fits else self._fitted, self._within
        sides = self._sides
        for place, (mine, row) in enumerate(arrived):
            self._before = before = row[-1] - within
            self.runs += 1
            if not self.runs % _GONE:
                self._expire()
            side = sides[mine]
            key = side.key(row)
            if key is None:
                continue
            side.add(key, row)
            found = sides[1 - mine].find(key)
            if not found:
                continue
            while found and found[0][-1] < before:
                found.popleft()
            number = 0
            for other in found:
                made = fit(other, row) if mine else fit(row, other)
                if made is not None:
                    out.append(made)
                    places.append(place)
                    numbers.append(number)
                    number += 1
        return out, places, numbers

    def _expire(self) -> None:
        for side in self._sides:
            side.expire(self._before)

    def _fitted(self, left: Any, right: Any) -> Any:
        """What the user's function gives for a pair, as a record of the output; None leaves it out."""
        node = self._node
        try:
            made = self._combined(left, right)
        except Exception as error:
            raise coroutine_error(node.name, node.told, error) from error
        try:
            return None if made is None else self._port.record.fit(made)
        except TypeError as error:
            what = f"a row pushed to {self._port.parameter!r} does not fit: {error}"
            raise refusal(node.name, node.told, what) from error

    def feed_back(self, port: int, row: Any) -> None:
        raise NotImplementedError("a join has no control ports")

    def close(self) -> None:
        """No more rows will come."""
        self.completed = True

    def kept(self) -> Kept:
        """What must be kept of it."""
        self._expire()
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
