"""Library operators over several streams: barrier, merge, zip, gate, throttle, delay, split, with driver loops of their
own, and what a join does with a row.

Each holds in its state, or leaves unread, what must outlive a wait, so it may be started anew at any of them. Where
an operator needs the event time of a row, its inputs carry it as their last field (``stamped``).
"""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.coroutines import Control, Input, Output, wait_for_all, wait_for_any
from thalweg.flow.operators.generated import make_functions
from thalweg.flow.operators.joining.join_nodes import JoinSide
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec, drop, make_state
from thalweg.times import NEVER


@dataclasses.dataclass(frozen=True, slots=True)
class Combiner:
    """Makes one output row of a row of each input; None stands for a row that is missing.

    Attributes:
        records: of the inputs, without what their rows may carry behind it.
        function: the user's; None: see ``places``.
        places: by input, the fields that the output takes; None: it takes whole rows, each as one field.
        instead: of outputs without a row of the first input, the fields of the second that take the place of some.
    """

    records: tuple[Schema, ...]
    function: Callable[..., Any] | None
    places: tuple[tuple[int, ...], ...] | None = None
    instead: tuple[tuple[int, int], ...] = ()

    def __call__(self, *rows: Any) -> Any:
        made = [
            None if row is None else record.make(row[: len(record.fields)])
            for record, row in zip(self.records, rows, strict=True)
        ]
        if self.function is not None:
            return self.function(*made)
        if self.places is None:
            return tuple(made)
        sides = zip(made, self.places, strict=True)
        values = [None if row is None else row[i] for row, mine in sides for i in mine]
        if made[0] is None and (other := made[-1]) is not None:
            for place, theirs in self.instead:
                values[place] = other[theirs]
        return tuple(values)


async def _put(out: Output[Any], row: Any | None) -> None:
    """Pushes what a user's function made; None leaves the row out."""
    if row is not None:
        await out.push(row)


async def barrier(*rows: Input[Any], out: Output[Any], combine: Combiner) -> None:
    """The n-th row of each input together (Sahin & Gedik, Listing 2)."""
    while await wait_for_all(*rows):
        await _put(out, combine(*(port.pop() for port in rows)))


async def barrier_by_time(
    *rows: Input[Any],
    matched: Output[Any],
    unmatched: Output[Any],
    combine: Combiner,
) -> None:
    """The rows of one time from all inputs together; a time that an input lacks is told for those that have it."""
    while await wait_for_all(*rows):
        time = min(port.peek()[-1] for port in rows)
        here = [place for place, port in enumerate(rows) if port.peek()[-1] == time]
        taken = [rows[place].pop() for place in here]
        if len(here) == len(rows):
            await _put(matched, combine(*taken))
            continue
        for place in here:
            await unmatched.push((rows[place].name, time))


async def merge(*rows: Input[Any], out: Output[Any], place: int) -> None:
    """Sorted streams as one: the row with the least field at ``place`` of those that can come next; ties in order."""
    while waiting := [port for port in rows if len(port) or not port.is_closed]:
        if await wait_for_all(*waiting):
            await out.push(min(waiting, key=lambda port: port.peek()[place]).pop())
        elif all(len(port) or not port.is_closed for port in waiting):
            return  # none has ended, so a stop was asked for


class JoinRules:
    """What a join does with a tagged row, a key at a time; a state holds the rows that may still find a partner.

    A pair is put out when its later row comes; the pairs of one row stand in the order of the other rows. Of sides that
    keep such rows, one that has met none is put out when it can meet none any more. A timer stands where the first row
    of a key cannot.
    """

    def __init__(self, sides: Sequence[JoinSide], combine: Combiner, out: Schema) -> None:
        self._sides = sides
        self._combine = combine
        self._out = out

    def process(self, state: Any, row: Any) -> list[Any]:
        """The rows that a row's pairs make. A key with a null matches nothing."""
        right, time, *rest = row
        held, side = (state.left, state.right), self._sides[right]
        has_null = any(value is None for value in rest[: len(side.keys)])
        if has_null and not side.keeps:
            if not (state.left or state.right):
                drop(state)
            return []
        theirs = held[not right]
        others = [] if has_null else list(theirs)
        values = row[side.first : side.first + side.time]
        mine = side.record.make((*values, time, *([bool(others)] if side.keeps else [])))
        held[right].append(mine)
        if others and (other := self._sides[not right]).keeps:
            theirs[:] = [other.record.make((*one[:-1], True)) for one in theirs]
        state.timer = self._timer(held)
        return self._made((one, mine) if right else (mine, one) for one in others)

    def _made(self, pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
        made = [self._combine(*pair) for pair in pairs]
        return [fitted(self._out, one) for one in made if one is not None]

    def _end(self, place: int, row: Any) -> int:
        """The last time of a row that it can meet."""
        side = self._sides[place]
        end: int = row[side.time] + side.within
        return min(end, NEVER - 1)

    def _timer(self, held: Sequence[Sequence[Any]]) -> int:
        ends = (self._end(place, row) for place, one in enumerate(held) for row in one)
        return min(ends, default=NEVER)

    def on_timer(self, state: Any, *at: Any) -> list[Any]:
        """The rows that have met none until now; without rows that may meet one, the state goes."""
        held, now, made = (state.left, state.right), at[-1], []
        for place, one in enumerate(held):
            past = [row for row in one if self._end(place, row) <= now]
            one[:] = [row for row in one if self._end(place, row) > now]
            alone = [row for row in past if self._sides[place].keeps and not row[-1]]
            made += self._made((None, row) if place else (row, None) for row in alone)
        state.timer = self._timer(held)
        return made


def fitted(record: Schema, made: Any) -> Any:
    """What a join's function gave, as a record.

    Raises:
        TypeError: it does not fit.
    """
    try:
        return record.fit(made)
    except TypeError as error:
        raise TypeError(f"what combine gave does not fit: {error}") from None


def join_state(left: Schema, right: Schema) -> StateSpec:
    """The rows of both sides that may still find a partner, and when the first of them no longer can."""
    timer = Field("timer", FieldType(Kind.TIMER), NEVER)
    return make_state("Within", [_rows("left", left), _rows("right", right), timer])


def _rows(name: str, record: Schema) -> Field:
    held = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=record))
    return Field(name, held, [])


async def zip_within(
    left: Input[Any],
    right: Input[Any],
    pairs: Output[Any],
    left_over: Output[Any],
    right_over: Output[Any],
    *,
    timeout: int,
    combine: Combiner,
) -> None:
    """The next row of one with the next of the other; a row that waits longer than ``timeout`` goes apart.

    It does so at the first row that is later by more than the timeout, or at the end.
    """
    alone = ((left, left_over, combine.records[0]), (right, right_over, combine.records[1]))
    while grown := await wait_for_any({left: len(left) + 1, right: len(right) + 1}):
        now = max(port.peek(len(port) - 1)[-1] for port in grown)
        for port, apart, record in alone:
            while len(port) and port.peek()[-1] < now - timeout:
                await apart.push(port.pop()[: len(record.fields)])
        while len(left) and len(right):
            await _put(pairs, combine(left.pop(), right.pop()))
    for port, apart, record in alone:
        while len(port):
            await apart.push(port.pop()[: len(record.fields)])


async def gate(
    rows: Input[Any],
    switch: Control[Any],
    passed: Output[Any],
    stopped: Output[Any],
    kept: Any,
    *,
    is_open: Callable[[Any], Any],
) -> None:
    """Rows pass while the last row of the switch says so."""
    while await wait_for_all(rows):
        while len(switch):
            kept.is_open = bool(is_open(switch.pop()))
        await (passed if kept.is_open else stopped).push(rows.pop())


def gate_state(is_open: bool) -> StateSpec:
    """Whether rows pass, as the last row of the switch said."""
    return make_state("Gate", [Field("is_open", FieldType(Kind.BOOL), is_open)])


async def throttle(
    rows: Input[Any], passed: Output[Any], excess: Output[Any], kept: Any, *, most: int, per: int
) -> None:
    """A row passes when fewer than ``most`` have passed in the time ``per`` before it."""
    while await wait_for_all(rows):
        *row, now = rows.pop()
        kept.times = [time for time in kept.times if time > now - per]
        if len(kept.times) < most:
            kept.times.append(now)
            await passed.push(tuple(row))
        else:
            await excess.push(tuple(row))


def throttle_state() -> StateSpec:
    """The times of the rows that passed, as far as they still count."""
    times = FieldType(Kind.LIST, item=FieldType(Kind.INT))
    return make_state("Passed", [Field("times", times, [])])


async def delay(rows: Input[Any], out: Output[Any], *, by: int) -> None:
    """Each row when the first row comes that is later by ``by`` or more, or at the end."""
    while await wait_for_all({rows: len(rows) + 1}):
        now = rows.peek(len(rows) - 1)[-1]
        while len(rows) and rows.peek()[-1] <= now - by:
            await out.push(rows.pop()[:-1])
    while len(rows):
        await out.push(rows.pop()[:-1])


def split(operator: str, outputs: Sequence[str]) -> Callable[..., Any]:
    """A coroutine function with these outputs: each row goes to those that ``choose(row)`` names: one, several, none.

    Raises:
        BuildError: a name cannot be that of a parameter.
    """
    for name in outputs:
        if not name.isidentifier() or keyword.iskeyword(name) or name in ("rows", "choose"):
            raise BuildError(f"operator {operator!r}: an output cannot be called {name!r}")
    ports = ", ".join(f"{name}: Output" for name in outputs)
    by_name = ", ".join(f"{name!r}: {name}" for name in outputs)
    text = (
        f"async def split(rows: Input, {ports}, *, choose):\n"
        f"    ports = {{{by_name}}}\n"
        "    while await wait_for_all(rows):\n"
        "        row = rows.pop()\n"
        "        for name in names_of(choose(row), ports):\n"
        "            await ports[name].push(row)\n"
    )
    scope = {
        "Input": Input,
        "Output": Output,
        "wait_for_all": wait_for_all,
        "names_of": names_of,
    }
    made: Callable[..., Any] = make_functions(operator, text, scope)["split"]
    return made


def names_of(chosen: Any, known: Sequence[str]) -> Sequence[str]:
    """The outputs that a split function named.

    Raises:
        ValueError: one of them is not an output, or there are no names at all.
    """
    if chosen is None:
        return ()
    if not isinstance(chosen, Iterable):
        raise ValueError(
            f"choose gave {chosen!r}; expected the name of an output, several of them, or None;"
            f" there are {', '.join(known)}"
        )
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    for name in names:
        if name not in known:
            raise ValueError(f"there is no output {name!r}; there are {', '.join(known)}")
    return names
