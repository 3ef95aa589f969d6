"""The verbs that join each row with one row of another stream: the latest, the next, or the nearest (docs/joins.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, cast, get_args, overload

from thalweg.checks import known_keywords_of, require_text
from thalweg.flow import added
from thalweg.flow.generics import Other, Out, Row
from thalweg.flow.join_parts import (
    check_order,
    combining_rows,
    event_time,
    flat,
    key_pairs,
    not_negative,
    require_stream,
    tagged_rows,
)
from thalweg.flow.operators import lookups
from thalweg.flow.operators.arguments import Duration, choice
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.join_nodes import BUCKETS, JoinSide
from thalweg.flow.operators.lookups import Direction
from thalweg.flow.operators.nodes import Key, Keyed

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
        if direction == "backward":
            how = _latest(name, lookups.latest(name, tagged.record, tagged.sides, made, out, limit))
        else:
            nearest = direction == "nearest"
            rules = lookups.NextRowRules(tagged.sides, made, out, limit, nearest=nearest)
            how = _next(name, rules, nearest, tagged.sides)
        how["process"] = _told_as(how["process"], user)
        flow = left.flow
        full = flow._stateful_name(name, "operator")
        both = added.tagged(name, (left, right), tagged.record, tagged.sides)
        node = Keyed(
            flow._next(), full, both.ref, Key(tagged.key, None, BUCKETS), record=out, errors="fail",
            compile="never" if flow.compile == "never" else "auto", **how,
        )  # fmt: skip
        return flow._add(node, left.time)


def _latest(name: str, made: lookups.LatestRow) -> dict[str, Any]:
    """What an operator is that gives each row the one before it."""
    return {
        "process": Function.of(made.process, name), "on_timer": None, "state": made.state,
        "many": False, "timer_many": False,
    }  # fmt: skip


def _next(
    name: str, rules: lookups.NextRowRules, nearest: bool, sides: Sequence[JoinSide]
) -> dict[str, Any]:
    """What an operator is whose rows wait for the one behind them."""
    return {
        "process": Function.of(rules.process, name), "on_timer": Function.of(rules.on_timer, name),
        "state": lookups.waiting_state(*(side.record for side in sides)),
        "many": True, "timer_many": True, "keeps": nearest, "again": True,
    }  # fmt: skip


def _told_as(made: Function, user: Function | None) -> Function:
    """The function under the name and place of the user's, which messages name."""
    if user is None:
        return made
    return dataclasses.replace(made, name=user.name, file=user.file, line=user.line)
