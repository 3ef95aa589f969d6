"""A join as a frozen record: an operator by key over the rows of two streams."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal

from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.nodes import Keyed
from thalweg.flow.records import Schema

#: Of which sides of a join rows without a partner come out, too.
How = Literal["inner", "left", "right", "outer"]
#: Into how many shares the keys of a join are cut, as those of ``key_by`` are by default.
BUCKETS: Final = 128


@dataclasses.dataclass(frozen=True, slots=True)
class OfPair:
    """A join's function as one of a single row that has the fields of both: what the compiler takes.

    Where there may be no row of the right, its fields may be null, and a field between those of both says if there is.
    """

    record: Schema
    function: Function


@dataclasses.dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of a join.

    Attributes:
        record: its rows as they are held: their fields, their event time and, of a side that ``keeps``, whether they
            have met one of the other.
        first: where these fields begin in the tagged row.
        keys: the places of the key's fields among them.
        within: how much later one of the other side may be.
        keeps: whether rows that have met none come out, too.
    """

    record: Schema
    first: int
    keys: tuple[int, ...]
    within: int
    keeps: bool

    @property
    def time(self) -> int:
        """The place of the event time in ``record``, behind the fields of the row."""
        return len(self.record.fields) - (2 if self.keeps else 1)


@dataclasses.dataclass(frozen=True)
class Join(Keyed):
    """join: an operator by key whose rows are those of two streams, each tagged with its side, in one order.

    ``process`` and ``on_timer`` say what it does with a row; an engine may do it without calling them
    (:mod:`thalweg.engine.joins`). A timer puts out the rows that have met none, where a side keeps them, and drops the
    state of a key whose rows find no partner any more; one that is set again at the end of the stream fires, too.
    """

    _: dataclasses.KW_ONLY
    sides: tuple[JoinSide, JoinSide]
    #: what makes a row of a pair (``thalweg.flow.operators.joining.joins.Combiner``)
    combine: Any = dataclasses.field(compare=False)
    #: the user's function, None where fields are put together
    user: Function | None = dataclasses.field(compare=False)
    #: that function in the form that may be compiled
    pair: OfPair | None = dataclasses.field(default=None, compare=False)

    @property
    def timers_give(self) -> bool:
        return any(side.keeps for side in self.sides)

    @property
    def told(self) -> Function:
        """The function that messages name: the user's where there is one."""
        return self.user or self.process


@dataclasses.dataclass(frozen=True)
class NextRow(Join):
    """join_asof forward or nearest: as a join, but each row of the left leaves once, with one row of the right or none.

    See :class:`thalweg.flow.operators.joining.lookups.NextRowRules`.
    """

    _: dataclasses.KW_ONLY
    #: how far apart the two may be; the last time where that does not matter
    within: int
    #: whether the row before it may be its match, too
    nearest: bool

    @property
    def timers_give(self) -> bool:
        return True
