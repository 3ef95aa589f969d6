"""The verbs that join each row with one row of another stream: the latest, the next, or the nearest (docs/joins.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast, get_args, overload

from thalweg.checks import known_keywords_of, require_text
from thalweg.flow import added
from thalweg.flow.generics import Other, Out, Row
from thalweg.flow.joining.join_parts import (
    TaggedRows,
    check_order,
    combining_rows,
    event_time,
    flat,
    key_pairs,
    not_negative,
    of_pair,
    require_stream,
    tagged_rows,
)
from thalweg.flow.operators.arguments import Duration, choice
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.joining import lookups
from thalweg.flow.operators.joining.join_nodes import BUCKETS, NextRow
from thalweg.flow.operators.joining.joins import Combiner
from thalweg.flow.operators.joining.lookups import Direction
from thalweg.flow.operators.nodes import Compile, Key, Keyed, Ref
from thalweg.flow.records import Schema

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream

On = str | Sequence[str] | Mapping[str, str]


@known_keywords_of
class LookupVerbs(Generic[Row]):
    """The verbs of a stream whose rows are each joined with one row, or none."""

    @overload
    def lookup(
        self,
        table: Stream[Other],
        combine: None = None,
        /,
        *,
        on: On,
        name: str = "lookup",
        into: None = None,
    ) -> Stream[Any]: ...

    @overload
    def lookup(
        self,
        table: Stream[Other],
        combine: Callable[[Row, Other | None], Out | None],
        /,
        *,
        on: On,
        name: str = "lookup",
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def lookup(
        self,
        table: Stream[Other],
        combine: Callable[..., Any],
        /,
        *,
        on: On,
        name: str = "lookup",
        into: type[Out],
    ) -> Stream[Out]: ...

    def lookup(
        self,
        table: Stream[Any],
        combine: Callable[..., Any] | None = None,
        /,
        *,
        on: On,
        name: str = "lookup",
        into: Any = None,
    ) -> Stream[Any]:
        """Joins each row with the latest row of its key in a table that changes: a stream of its rows as they become.

        Every row comes out once, at its own place, with the table's row as of its time; the state is one row a key.
        It is :meth:`join_asof` backward without a limit.

        Args:
            table: the stream of the table's rows; a later row of a key takes the place of the one before.
            combine: ``combine(row, latest) -> R``, or ``R | None`` to leave rows out; ``latest`` is None where the
                table has no row of the key yet. Without it the output has the fields of both, as that of
                ``join(how="left")``.
            on: the key, as for ``join``.
            name: the operator's name.
            into: the output record of a function without annotation.
        """
        require_text("lookup", name=name)
        require_stream(f"operator {name!r}", table=table)
        return self._asof(table, combine, on, "backward", None, name, into)

    @overload
    def join_asof(
        self,
        other: Stream[Other],
        combine: None = None,
        /,
        *,
        on: On,
        direction: Direction = "backward",
        within: Duration | None = None,
        name: str = "join_asof",
        into: None = None,
    ) -> Stream[Any]: ...

    @overload
    def join_asof(
        self,
        other: Stream[Other],
        combine: Callable[[Row, Other | None], Out | None],
        /,
        *,
        on: On,
        direction: Direction = "backward",
        within: Duration | None = None,
        name: str = "join_asof",
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def join_asof(
        self,
        other: Stream[Other],
        combine: Callable[..., Any],
        /,
        *,
        on: On,
        direction: Direction = "backward",
        within: Duration | None = None,
        name: str = "join_asof",
        into: type[Out],
    ) -> Stream[Out]: ...

    def join_asof(
        self,
        other: Stream[Any],
        combine: Callable[..., Any] | None = None,
        /,
        *,
        on: On,
        direction: Direction = "backward",
        within: Duration | None = None,
        name: str = "join_asof",
        into: Any = None,
    ) -> Stream[Any]:
        """Joins each row with one row of another stream: the last before it, the next behind it, or the nearer of both.

        Every row of this stream comes out once, without a match with None. Before and behind are meant in the order of
        the flow: of rows at one time, those of the source that was defined first come first.

        Args:
            other: the stream of which each row gets one row, or none.
            combine: ``combine(row, match) -> R``, or ``R | None`` to leave rows out; ``match`` is None where there is
                none. Without it the output has the fields of both, as that of ``join(how="left")``.
            on: the key, as for ``join``.
            direction: ``"backward"``: the last row before it; rows leave at once, at their own place. ``"forward"``:
                the next one; a row leaves at the place of that one, or when ``within`` is past. ``"nearest"``: the one
                whose time is nearer, of two that are equally near the one before; a row leaves when that is certain.
            within: how far apart the two may be at most; None: as far as may be.
            name: the operator's name.
            into: the output record of a function without annotation.
        """
        return self._asof(other, combine, on, direction, within, name, into)

    def _asof(
        self,
        other: Any,
        combine: Any,
        on: On,
        direction: Direction,
        within: Duration | None,
        name: str,
        into: Any,
    ) -> Stream[Any]:
        require_text("join_asof", name=name)
        label = f"operator {name!r}"
        left = cast("Stream[Row]", self)
        right = require_stream(label, other=other)
        time = event_time(label, left, right)
        check_order(name, left, right)
        pairs = key_pairs(label, on)
        choice("direction", direction, get_args(Direction), name)
        limit = None if within is None else not_negative(time, within, f"{label}: within")
        tagged = tagged_rows(label, left.schema, right.schema, time, pairs, (0, 0), "inner")
        kept, instead, record = flat(left.schema, right.schema, pairs, "left")
        made, out, user = combining_rows(name, (left, right), combine, into, record, kept, instead)
        flow = left.flow
        full = flow._stateful_name(name, "operator")
        both = added.tagged(name, (left, right), tagged.record, tagged.sides)
        of_both = (flow._next(), full, both.ref, Key(tagged.key, None, BUCKETS))
        how = _How(made, out, user, limit, "never" if flow.compile == "never" else "auto")
        if direction == "backward":
            node = _latest(of_both, tagged, how)
        else:
            node = _next(of_both, tagged, how, nearest=direction == "nearest")
        return flow._add(node, left.time)


class _How(NamedTuple):
    """How rows are combined, and how near they must be."""

    combine: Combiner
    out: Schema
    user: Function | None
    within: int | None
    compile: Compile


#: Its index, its name, its input, and its key.
_Begin = tuple[int, str, Ref, Key]


def _latest(of_both: _Begin, tagged: TaggedRows, how: _How) -> Keyed:
    """The operator that gives each row the one before it."""
    name = of_both[1]
    made = lookups.latest(name, tagged.record, tagged.sides, how.combine, how.out, how.within)
    process = _told_as(Function.of(made.process, name), how.user)
    return Keyed(
        *of_both, process, None, made.state, how.out,
        many=False, timer_many=False, errors="fail", compile=how.compile,
    )  # fmt: skip


def _next(of_both: _Begin, tagged: TaggedRows, how: _How, *, nearest: bool) -> NextRow:
    """The operator whose rows wait for the one behind them."""
    name, sides = of_both[1], tagged.sides
    rules = lookups.NextRowRules(sides, how.combine, how.out, how.within, nearest=nearest)
    pair = None if how.compile == "never" else of_pair(name, how.combine, may_lack=True)
    return NextRow(
        *of_both, Function.of(rules.process, name), Function.of(rules.on_timer, name),
        lookups.waiting_state(*(side.record for side in sides)), how.out,
        many=True, timer_many=True, errors="fail", compile=how.compile, keeps=nearest, again=True,
        sides=sides, combine=how.combine, user=how.user, pair=pair,
        within=rules.within, nearest=nearest,
    )  # fmt: skip


def _told_as(made: Function, user: Function | None) -> Function:
    """The function under the name and place of the user's, which messages name."""
    if user is None:
        return made
    return dataclasses.replace(made, name=user.name, file=user.file, line=user.line)
