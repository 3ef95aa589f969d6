"""The verbs whose operators have driver loops of their own: of a stream, and of several (docs/coroutines.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from thalweg.checks import refuse, require_flag, require_text
from thalweg.errors import BuildError
from thalweg.flow import added
from thalweg.flow.field_types import FieldType, Kind
from thalweg.flow.operators import joins as driver_loops
from thalweg.flow.operators.arguments import Duration, span, time_field
from thalweg.flow.operators.functions import Function, check_parameters, returns_of
from thalweg.flow.operators.joins import Combine
from thalweg.flow.operators.windows import spare_name
from thalweg.flow.records import Field, Schema

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream


class Unmatched(NamedTuple):
    """A time at which a barrier by time had a row of this input, and none of another."""

    input: str
    time: int


class LoopVerbs:
    """The verbs of a stream."""

    flow: Flow
    schema: Schema

    def join(
        self,
        other: Stream,
        combine: Callable[..., Any] | None = None,
        /,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        within: Duration,
        name: str = "join",
        into: Any = None,
    ) -> Stream:
        """Pairs of a row of each stream with equal keys whose event times are at most ``within`` apart.

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
            name: the operator's name.
            into: the output record of a function without annotation.
        """
        require_text("join", name=name)
        label = f"operator {name!r}"
        left, right = self._me, _stream(label, other=other)
        time = _event_time(label, left, right)
        pairs = _key_pairs(label, on)
        for mine, theirs in pairs:
            _check_key(label, left.schema.field(mine), right.schema.field(theirs))
        kept, record = _flat(left.schema, right.schema, [theirs for _, theirs in pairs])
        made, out, user = _combine(name, (left, right), combine, into, record, kept)
        one, two = added.stamp(left, "event_time"), added.stamp(right, "event_time")
        keys = (
            tuple(left.schema.index(mine) for mine, _ in pairs),
            tuple(right.schema.index(theirs) for _, theirs in pairs),
        )
        given = {
            "left": one, "right": two, "keys": keys, "combine": made,
            "within": _positive(time, within, f"{label}: within"),
            "held": driver_loops.join_state(one.schema, two.schema),
        }  # fmt: skip
        joined: Stream = self.flow._operator(name, driver_loops.join, given, into=out, user=user)
        return joined

    def zip(
        self,
        other: Stream,
        combine: Callable[..., Any] | None = None,
        /,
        *,
        timeout: Duration,
        name: str = "zip",
        into: Any = None,
    ) -> Any:
        """The next row of this stream with the next of the other: (pairs, left_over, right_over).

        A row that would wait longer than ``timeout`` of event time for its partner leaves by ``left_over`` or
        ``right_over``, at the first row that is later than that, or at the end. Without ``combine`` a pair has
        the fields ``left`` and ``right``.
        """
        require_text("zip", name=name)
        label = f"operator {name!r}"
        left, right = self._me, _stream(label, other=other)
        time = _event_time(label, left, right)
        record = _nested({"left": left, "right": right})
        made, out, user = _combine(name, (left, right), combine, into, record)
        given = {
            "left": added.stamp(left, "event_time"), "right": added.stamp(right, "event_time"),
            "timeout": _positive(time, timeout, f"{label}: timeout"), "combine": made,
        }  # fmt: skip
        outputs = {"pairs": out, "left_over": left.schema, "right_over": right.schema}
        return self.flow._operator(name, driver_loops.zip_within, given, into=outputs, user=user)

    def gate(
        self,
        switch: Stream,
        is_open: Callable[[Any], Any],
        /,
        *,
        opened: bool = False,
        name: str = "gate",
    ) -> Any:
        """Rows while the last row of ``switch`` before them was open: (passed, stopped).

        Args:
            switch: the stream that opens and closes.
            is_open: whether a row of it opens.
            opened: how it is before the first.
            name: the operator's name.
        """
        require_text("gate", name=name)
        require_flag(f"operator {name!r}", opened=opened)
        user = Function.of(is_open, name, argument="is_open")
        check_parameters(user, name, ["row"])
        given = {
            "rows": self._me, "switch": switch, "is_open": is_open, "kept": driver_loops.gate_state(opened),
        }  # fmt: skip
        outputs = {"passed": self.schema, "stopped": self.schema}
        return self.flow._operator(name, driver_loops.gate, given, into=outputs, user=user)

    def throttle(self, rows: int, per: Duration, *, name: str = "throttle") -> Any:
        """At most ``rows`` rows in any span ``per`` of event time: (passed, excess)."""
        require_text("throttle", name=name)
        label = f"operator {name!r}"
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise BuildError(f"{label}: rows is a number from 1, got {rows!r}")
        length = _positive(_event_time(label, self._me), per, f"{label}: per")
        if not length:
            raise BuildError(
                f"{label}: per must be longer than 0, got {per!r}: a span of no length bounds no rows"
            )
        return self.flow.operator(
            name, driver_loops.throttle, rows=added.stamp(self._me, "event_time"), most=rows, per=length,
            kept=driver_loops.throttle_state(), into={"passed": self.schema, "excess": self.schema},
        )  # fmt: skip

    def delay(self, by: Duration, *, name: str = "delay") -> Stream:
        """Each row later: at the place of the first row of this stream that is ``by`` after it, or at the end.

        The rows are as they were; their place in the order, and so their event time, is the later one.
        """
        require_text("delay", name=name)
        label = f"operator {name!r}"
        length = _positive(_event_time(label, self._me), by, f"{label}: by")
        later: Stream = self.flow.operator(
            name,
            driver_loops.delay,
            rows=added.stamp(self._me, "event_time"),
            by=length,
            into=self.schema,
        )
        return later

    def split(
        self, choose: Callable[[Any], Any], outputs: Sequence[str], *, name: str = "split"
    ) -> Any:
        """To each row its outputs: ``choose(row)`` gives the name of one, or several, or None.

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
        check_parameters(user, name, ["row"])
        return self.flow._operator(
            name, driver_loops.split(name, outputs), {"rows": self._me, "choose": choose},
            into=dict.fromkeys(outputs, self.schema), user=user,
        )  # fmt: skip

    @property
    def _me(self) -> Stream:
        return cast("Stream", self)


def barrier(
    flow: Flow,
    combine: Callable[..., Any] | None,
    streams: Mapping[str, Stream],
    *,
    by_time: bool,
    name: str,
    into: Any,
    max_waiting: int | None,
) -> Any:
    """See :meth:`thalweg.flow.flow.Flow.barrier`."""
    label = f"operator {name!r}"
    if len(streams) < 2:
        raise BuildError(
            f"{label}: a barrier has two inputs or more: barrier(views=..., sales=...)"
        )
    for one, stream in streams.items():
        _stream(label, **{one: stream})
    made, out, user = _combine(name, list(streams.values()), combine, into, _nested(streams))
    if not by_time:
        return flow._operator(
            name, driver_loops.barrier, {"rows": streams, "combine": made},
            into=out, max_waiting=max_waiting, user=user,
        )  # fmt: skip
    _event_time(label, *streams.values())
    stamped = {one: added.stamp(stream, "event_time") for one, stream in streams.items()}
    return flow._operator(
        name, driver_loops.barrier_by_time, {"rows": stamped, "combine": made},
        into={"matched": out, "unmatched": Unmatched}, max_waiting=max_waiting, user=user,
    )  # fmt: skip


def merge(flow: Flow, streams: Sequence[Stream], *, by: str, name: str) -> Stream:
    """See :meth:`thalweg.flow.flow.Flow.merge`."""
    if not streams:
        raise BuildError(f"operator {name!r}: merge needs at least one stream")
    for one in streams:
        _stream(f"operator {name!r}", **{"each argument": one})
    first = streams[0].schema
    for one in streams:
        if one.schema != first:
            raise BuildError(f"operator {name!r}: the records differ: {first} and {one.schema}")
        if one.time is not None:
            raise BuildError(
                f"operator {name!r}: these streams have event time, by which union merges them"
            )
    time_field(first, by, name)
    merged: Stream = flow.operator(
        name, driver_loops.merge, rows=list(streams), place=first.index(by), into=first
    )
    return merged


def _stream(label: str, **given: Any) -> Any:
    """The argument, which is a stream.

    Raises:
        BuildError: it is none.
    """
    for name, one in given.items():
        if not isinstance(one, LoopVerbs):
            raise refuse(label, name, "a stream", one)
    return next(iter(given.values()))


# -- the common parts ------------------------------------------------------------------------------------


def _event_time(label: str, *streams: Stream) -> FieldType:
    for one in streams:
        if one.time is None:
            raise BuildError(
                f"{label} works by event time, but a stream has none; give its source order_by"
            )
    time = streams[0].time
    assert time is not None
    return time


def _positive(time: FieldType, value: Duration, where: str) -> int:
    length = span(time, value, where)
    if length < 0:
        raise BuildError(f"{where} must not be negative, got {value!r}")
    return length


def _combine(
    name: str,
    streams: Sequence[Stream],
    function: Any,
    into: Any,
    record: Schema,
    places: tuple[tuple[int, ...], ...] | None = None,
) -> tuple[Combine, Schema, Function | None]:
    """How rows are combined, the record that it gives (``record`` without a function), and the user's function."""
    records = tuple(one.schema for one in streams)
    if function is None:
        if into is not None:
            raise BuildError(
                f"operator {name!r}: into is the record of a function, and combine is none"
            )
        return Combine(records, None, places), record, None
    made = Function.of(function, name, argument="combine")
    check_parameters(made, name, [f"row{i}" for i in range(len(records))])
    returns = returns_of(made, name, into, may_be_nothing=False)
    if returns.many:
        raise BuildError(
            f"operator {name!r}: {made.where} gives several records; it makes one of the rows, or None"
        )
    assert returns.schema is not None
    return Combine(records, function), returns.schema, made


def _nested(streams: Mapping[str, Stream]) -> Schema:
    fields = [
        Field(name, FieldType(Kind.RECORD, record=one.schema)) for name, one in streams.items()
    ]
    return Schema.make_record("Rows", fields)


def _flat(
    left: Schema, right: Schema, key: Sequence[str]
) -> tuple[tuple[tuple[int, ...], ...], Schema]:
    """The fields of both sides that a join without a function puts out, and their record."""
    fields = list(left.fields)
    places = [place for place, field in enumerate(right.fields) if field.name not in key]
    for place in places:
        field, taken = right.fields[place], [one.name for one in fields]
        name = spare_name(f"{field.name}_right", taken) if field.name in taken else field.name
        fields.append(Field(name, field.type))
    kept = (tuple(range(len(left.fields))), tuple(places))
    return kept, Schema.make_record("Joined", fields)


def _key_pairs(label: str, on: str | Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, str | Sequence):
        pairs = [(name, name) for name in ([on] if isinstance(on, str) else on)]
    else:
        raise refuse(
            label, "on", "a field, a list of fields, or a dict of one's to the other's", on
        )
    for pair in pairs:
        for name in pair:
            require_text(label, on=name)
    return pairs


def _check_key(label: str, left: Field, right: Field) -> None:
    if left.type.kind in (Kind.LIST, Kind.RECORD) or left.type.kind is not right.type.kind:
        raise BuildError(
            f"{label}: on: {left.name} is {left.type} and {right.name} is {right.type};"
            " a key is a plain value, of one type on both sides"
        )
