"""The verbs whose operators have driver loops of their own: of a stream, and of several (docs/coroutines.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, get_args, overload

from thalweg.checks import known_keywords_of, refuse, require_flag, require_text
from thalweg.errors import BuildError
from thalweg.flow import added
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import Other, Out, Row
from thalweg.flow.joining.join_parts import (
    check_order,
    combining_rows,
    event_time,
    flat,
    key_pairs,
    nested,
    not_negative,
    of_pair,
    reach_of,
    require_stream,
    tagged_rows,
)
from thalweg.flow.joining.outputs import Branches, Gated, Throttled, Zipped
from thalweg.flow.operators.arguments import Duration, choice
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.joining import joins as driver_loops
from thalweg.flow.operators.joining.join_nodes import BUCKETS, How, Join
from thalweg.flow.operators.nodes import Key
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Schema

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream


@known_keywords_of
class JoinVerbs(Generic[Row]):
    """The verbs of a stream."""

    flow: Flow
    schema: Schema

    @overload
    def join(
        self,
        other: Stream[Other],
        combine: None = None,
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: How = "inner",
        name: str = "join",
        into: None = None,
    ) -> Stream[Any]: ...

    @overload
    def join(
        self,
        other: Stream[Other],
        combine: Callable[[Row, Other], Out | None],
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: Literal["inner"] = "inner",
        name: str = "join",
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def join(
        self,
        other: Stream[Other],
        combine: Callable[[Row, Other | None], Out | None],
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: Literal["left"],
        name: str = "join",
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def join(
        self,
        other: Stream[Other],
        combine: Callable[[Row | None, Other], Out | None],
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: Literal["right"],
        name: str = "join",
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def join(
        self,
        other: Stream[Other],
        combine: Callable[[Row | None, Other | None], Out | None],
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: Literal["outer"],
        name: str = "join",
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def join(
        self,
        other: Stream[Other],
        combine: Callable[..., Any],
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: How = "inner",
        name: str = "join",
        into: type[Out],
    ) -> Stream[Out]: ...

    def join(
        self,
        other: Stream[Any],
        combine: Callable[..., Any] | None = None,
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        how: How = "inner",
        name: str = "join",
        into: Any = None,
    ) -> Stream[Any]:
        """Joins rows of equal keys whose event times are at most ``within`` apart, or ``before`` and ``after``.

        A pair is put out at the place of its later row; the pairs of one row stand in the order of the other
        rows. The same pairs come whichever stream is joined with which. A null key matches nothing.

        Args:
            other: the stream on the right.
            combine: ``combine(left, right) -> R``, or ``R | None`` to leave pairs out. Without it the output has
                the fields of the left, then those of the right without its key; a name that is there gets
                ``_right`` behind it.
            on: the key's field, several, or a mapping of the left's fields to the right's. With ``on=[]`` all
                rows have one key: only their times decide.
            within: how far apart the two may be.
            before: in place of ``within``, how much earlier than the left's row the right's may be; 0 by default.
            after: how much later.
            how: "left" also puts out the rows of the left that met none, when the time in which they could is
                past, which is their event time from then on; "right" those of the right, "outer" both. Without
                ``combine`` the missing side's fields are None, and its key is the other side's; ``combine`` gets
                None for it.
            name: the operator's name.
            into: the output record of a function without annotation.
        """
        require_text("join", name=name)
        label, flow = f"operator {name!r}", self.flow
        left, right = self._me, require_stream(label, other=other)
        time = event_time(label, left, right)
        check_order(name, left, right)
        pairs = key_pairs(label, on)
        how = choice("how", how, get_args(How), name)
        reach = reach_of(label, time, within, before, after)
        tagged = tagged_rows(label, left.schema, right.schema, time, pairs, reach, how)
        kept, instead, record = flat(left.schema, right.schema, pairs, how)
        made, out, user = combining_rows(name, (left, right), combine, into, record, kept, instead)
        rules = driver_loops.JoinRules(tagged.sides, made, out)
        full = flow._stateful_name(name, "operator")
        both = added.tagged(name, (left, right), tagged.record, tagged.sides)
        compiles = flow.compile != "never"
        node = Join(
            flow._next(), full, both.ref, Key(tagged.key, None, BUCKETS),
            Function.of(rules.process, name), Function.of(rules.on_timer, name),
            driver_loops.join_state(*(side.record for side in tagged.sides)), out,
            many=True, timer_many=True, errors="fail", compile="auto" if compiles else "never",
            sides=tagged.sides, combine=made, user=user,
            pair=of_pair(name, made) if compiles else None,
        )  # fmt: skip
        return flow._add(node, left.time)

    @overload
    def zip(
        self,
        other: Stream[Other],
        combine: None = None,
        /,
        *,
        timeout: Duration,
        name: str = "zip",
        into: None = None,
    ) -> Zipped[Any, Row, Other]: ...

    @overload
    def zip(
        self,
        other: Stream[Other],
        combine: Callable[[Row, Other], Out | None],
        /,
        *,
        timeout: Duration,
        name: str = "zip",
        into: None = None,
    ) -> Zipped[Out, Row, Other]: ...

    @overload
    def zip(
        self,
        other: Stream[Other],
        combine: Callable[[Row, Other], Any],
        /,
        *,
        timeout: Duration,
        name: str = "zip",
        into: type[Out],
    ) -> Zipped[Out, Row, Other]: ...

    def zip(
        self,
        other: Stream[Any],
        combine: Callable[..., Any] | None = None,
        /,
        *,
        timeout: Duration,
        name: str = "zip",
        into: Any = None,
    ) -> Zipped[Any, Any, Any]:
        """Pairs the n-th row of this stream with the n-th of another: (pairs, left_over, right_over).

        A row that would wait longer than ``timeout`` of event time for its partner leaves by ``left_over`` or
        ``right_over``, at the first row that is later than that, or at the end. Without ``combine`` a pair has
        the fields ``left`` and ``right``.
        """
        require_text("zip", name=name)
        label = f"operator {name!r}"
        left, right = self._me, require_stream(label, other=other)
        time = event_time(label, left, right)
        record = nested({"left": left, "right": right})
        made, out, user = combining_rows(name, (left, right), combine, into, record)
        given = {
            "left": added.stamp(left, "event_time"), "right": added.stamp(right, "event_time"),
            "timeout": not_negative(time, timeout, f"{label}: timeout"), "combine": made,
        }  # fmt: skip
        outputs = {"pairs": out, "left_over": left.schema, "right_over": right.schema}
        return Zipped(
            *self.flow._operator(name, driver_loops.zip_within, given, into=outputs, user=user)
        )

    def gate(
        self,
        switch: Stream[Other],
        is_open: Callable[[Other], Any],
        /,
        *,
        opened: bool = False,
        name: str = "gate",
    ) -> Gated[Row]:
        """Passes rows while the latest row of ``switch`` is open: (passed, stopped).

        Args:
            switch: the stream that opens and closes.
            is_open: whether a row of it opens.
            opened: how it is before the first.
            name: the operator's name.
        """
        require_text("gate", name=name)
        require_flag(f"operator {name!r}", opened=opened)
        user = Function.of(is_open, name, argument="is_open")
        require_stream(f"operator {name!r}", switch=switch)
        check_takes(user, name, {"row": switch.schema})
        given = {
            "rows": self._me, "switch": require_stream(f"operator {name!r}", switch=switch),
            "is_open": Adapter((switch.schema.whole,))(is_open),
            "kept": driver_loops.gate_state(opened),
        }  # fmt: skip
        outputs = {"passed": self.schema, "stopped": self.schema}
        return Gated(*self.flow._operator(name, driver_loops.gate, given, into=outputs, user=user))

    def throttle(self, rows: int, per: Duration, *, name: str = "throttle") -> Throttled[Row]:
        """Passes at most ``rows`` rows in any span ``per`` of event time: (passed, excess)."""
        require_text("throttle", name=name)
        label = f"operator {name!r}"
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise BuildError(f"{label}: rows is a number from 1, got {rows!r}")
        length = not_negative(event_time(label, self._me), per, f"{label}: per")
        if not length:
            raise BuildError(
                f"{label}: per must be longer than 0, got {per!r}: a span of no length bounds no rows"
            )
        streams = self.flow.operator(
            name, driver_loops.throttle, rows=added.stamp(self._me, "event_time"), most=rows, per=length,
            kept=driver_loops.throttle_state(), into={"passed": self.schema, "excess": self.schema},
        )  # fmt: skip
        return Throttled(*streams)

    def delay(self, by: Duration, *, name: str = "delay") -> Stream[Row]:
        """Delays each row until the first row of this stream that is ``by`` later, or until the end.

        The rows are as they were; their place in the order, and so their event time, is the later one.
        """
        require_text("delay", name=name)
        label = f"operator {name!r}"
        length = not_negative(event_time(label, self._me), by, f"{label}: by")
        later: Stream[Row] = self.flow.operator(
            name,
            driver_loops.delay,
            rows=added.stamp(self._me, "event_time"),
            by=length,
            into=self.schema,
        )
        return later

    def split(
        self, choose: Callable[[Row], Any], outputs: Sequence[str], *, name: str = "split"
    ) -> Branches[Row]:
        """Splits the stream: ``choose(row)`` returns the name of an output, several names, or None.

        Returns:
            The streams by name.
        """
        require_text("split", name=name)
        if isinstance(outputs, str) or not isinstance(outputs, Sequence):
            raise refuse(f"operator {name!r}", "outputs", "two names or more in a list", outputs)
        for one in outputs:
            require_text(f"operator {name!r}", **{"each of the outputs": one})
        if len(outputs) < 2 or len(set(outputs)) < len(outputs):
            raise BuildError(
                f"operator {name!r}: outputs are two names or more, all different, got {outputs!r}"
            )
        user = Function.of(choose, name, argument="choose")
        check_takes(user, name, {"row": self._me.schema})
        branches: Branches[Row] = self.flow._operator(
            name, driver_loops.split(name, outputs),
            {"rows": self._me, "choose": Adapter((self.schema.whole,))(choose)},
            into=dict.fromkeys(outputs, self.schema), user=user,
        )  # fmt: skip
        return branches

    @property
    def _me(self) -> Stream[Row]:
        return cast("Stream[Row]", self)
