"""Driver loops that start anew at each row, as the operators that they are: one by key, and one without state.

A loop by key reads the rows of all its inputs as one stream, each with the place of its input; a state for each key
holds what it has not read. One without state makes rows of a row, as a flat_map does. So many threads and many slots
run them as they run such operators, and put what leaves in order (Sahin & Gedik, section 4.2: a split deals tuples to
replicas, a merge restores the order).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

from thalweg.brief import counted
from thalweg.errors import OperatorError
from thalweg.flow.failures import refusal, shorten
from thalweg.flow.loops.row_loop import RowLoop, Tagged
from thalweg.flow.operators.built_in import BuiltIn
from thalweg.flow.operators.nodes import Coroutine, Keyed, Ref, Stateless
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec

#: The place of a row's input in a row of all inputs; the key stands behind it.
PORT: Final = 0


@dataclasses.dataclass(frozen=True)
class LoopByKey(Keyed):
    """``flow.operator`` over streams by key: a loop for each key, all of it in the key's state."""

    _: dataclasses.KW_ONLY
    loop: Coroutine
    #: by input, the field of the state that has what was not read
    unread: tuple[str, ...]

    def unread_of(self, states: Iterable[Any]) -> int:
        """How many rows wait in the states of some keys."""
        return sum(len(getattr(state, name)) for state in states for name in self.unread)


@dataclasses.dataclass(frozen=True)
class StatelessLoop(Stateless):
    """``flow.operator(..., stateless=True)``: a loop that remembers nothing from one row to the next."""

    _: dataclasses.KW_ONLY
    loop: Coroutine


@dataclasses.dataclass(frozen=True)
class ToPort(BuiltIn):
    """Makes rows of one input of a loop rows of all: the input's place, the key, the fields of each input's rows.

    The fields of the other inputs are null.
    """

    input: Ref
    record: Schema
    place: int
    #: the input's name
    port: str
    #: the places of the key's fields in the row
    keys: tuple[int, ...]
    #: where the fields of the row begin in the record
    first: int

    def described(self) -> str:
        return f"brings rows to input {self.port}"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """An input of a loop by key: its rows, where their fields begin in a row of all inputs, and the list for them."""

    record: Schema
    first: int
    unread: str
    control: bool


class KeyRules:
    """What a loop by key does with a row.

    Args:
        loop: the operator as its function sees it.
        state: of a key: the fields of the user's state class, then by input the rows that were not read.
        sides: the inputs; one alone has rows as they came.
        tagged: makes one record of the rows of several outputs.
    """

    def __init__(
        self, loop: Coroutine, state: StateSpec, sides: tuple[Side, ...], tagged: Tagged | None
    ) -> None:
        self._loop = loop
        self._sides = sides
        self._run = RowLoop(loop, tagged).run
        self._own = () if loop.own is None else loop.own.schema.names

    def process(self, state: Any, row: Any) -> list[Any]:
        """The rows that a row of some input makes the loop of its key push."""
        place = row[PORT] if len(self._sides) > 1 else 0
        side = self._sides[place]
        unread = [getattr(state, one.unread) for one in self._sides]
        mine = row if len(self._sides) == 1 else side.record.make(self._fields(side, row))
        unread[place].append(mine)
        try:
            return self._go_on(state, unread, place)
        except OperatorError as error:
            error.row = shorten(mine)
            raise

    def _go_on(self, state: Any, unread: list[list[Any]], place: int) -> list[Any]:
        if self._sides[place].control:
            self._check_room(place, unread[place])
            return []
        own = self._own_of(state)
        took = self._run(own, unread)
        self._keep(state, own)
        left = any(unread)
        if took.returned or getattr(own, "_drop", False):
            if left:
                raise self._ended(unread)
            state._drop = True
        elif own is None and not left:
            state._drop = True  # nothing is known of the key
        self._check_room(place, unread[place])
        return took.pushed

    @staticmethod
    def _fields(side: Side, row: Any) -> Any:
        return row[side.first : side.first + len(side.record.fields)]

    def _own_of(self, state: Any) -> Any:
        """The state that the function asks for, made of the fields of the key's."""
        if self._loop.own is None:
            return None
        own: Any = object.__new__(self._loop.own.cls)
        for name in self._own:
            setattr(own, name, getattr(state, name))
        own._drop = False
        return own

    def _keep(self, state: Any, own: Any) -> None:
        for name in self._own:
            setattr(state, name, getattr(own, name))

    def _ended(self, unread: list[list[Any]]) -> OperatorError:
        ports = zip(self._loop.in_ports, unread, strict=True)
        left = ", ".join(f"{port.name} {len(rows)}" for port, rows in ports if rows)
        return refusal(
            self._loop.name, self._loop.told,
            f"it has ended for a key whose rows it has not read ({left}); by key a return, or tw.drop, forgets the key,"
            " so read or pop its rows before",
        )  # fmt: skip

    def _check_room(self, place: int, rows: list[Any]) -> None:
        limit = self._loop.max_waiting
        if limit is not None and len(rows) > limit:
            raise refusal(
                self._loop.name, self._loop.told,
                f"{counted(len(rows), 'row')} of one key wait at input {self._loop.in_ports[place].name!r}, more than"
                f" max_waiting={limit}; let the other inputs deliver, or raise max_waiting",
            )  # fmt: skip


class StatelessRules:
    """What a loop without state does with a row."""

    def __init__(self, loop: Coroutine, tagged: Tagged | None) -> None:
        self._loop = loop
        self._run = RowLoop(loop, tagged).run

    def each(self, row: Any) -> list[Any]:
        """The rows that a row makes it push."""
        unread = [row]
        took = self._run(None, [unread])
        if unread:
            raise refusal(
                self._loop.name, self._loop.told,
                f"it is stateless=True, but goes on without having read its row: {shorten(row)}; pop each row, or leave"
                " stateless= out, so that one loop reads all rows",
            )  # fmt: skip
        return took.pushed
