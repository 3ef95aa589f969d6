"""A stream by key: the verbs whose operators hold a state for each key."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.checks import refuse
from thalweg.errors import BuildError, SchemaError
from thalweg.flow import added
from thalweg.flow.field_types import FieldType
from thalweg.flow.operators import combining, key_order
from thalweg.flow.operators import windows as library
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.arguments import Duration, label_of, span
from thalweg.flow.operators.built_in import OwnTime
from thalweg.flow.operators.functions import Function, Returns, check_parameters, returns_of
from thalweg.flow.operators.nodes import Compile, Errors, Grouping, Key, Keyed, Ref, Timing
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import state_spec

if TYPE_CHECKING:
    from thalweg.flow.streams import Deduped, Stream


class KeyedStream:
    """A stream by key: the verbs see each key's rows in order, with a state of their own."""

    def __init__(self, stream: Stream, key: Key, grouping: Grouping = "fields") -> None:
        self._stream = stream
        self._key = key
        self._grouping = grouping

    def __repr__(self) -> str:
        by = ", ".join(field.name for field in self._key.fields) or "nothing"
        return f"<KeyedStream by {by} of {self._stream!r}>"

    def process(
        self,
        function: Callable[..., Any],
        *,
        state: Any,
        on_timer: Callable[..., Any] | None = None,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream:
        """A keyed operator: ``function(state, row)`` with the state of the row's key.

        It returns None, R, R | None or yields several R. When the time in the state's ``timer`` field has
        passed, ``on_timer(state, key, time)`` is called, just before the first tuple with a greater time; then
        the state is dropped unless the timer was set again. ``key`` is a tuple if there are several key fields.
        """
        self._need_whole_keys(
            label_of(name, "process"), "a function has state that only it understands"
        )
        return self._process(function, state, on_timer, name, into, errors, compile)

    def window(
        self,
        size: Duration,
        function: Callable[..., Any] | None = None,
        *,
        every: Duration | None = None,
        start: Duration = 0,
        name: str | None = None,
        into: Any = None,
        **aggregates: Aggregate,
    ) -> Stream:
        """Tumbling windows, or hopping ones with ``every``, by event time.

        Windows are ``[a, a + size)`` with ``a = start (mod every)``; one puts out (key fields, start, end,
        results) when no row before its end can come any more.

        Args:
            size: the length of a window.
            function: instead of aggregates, ``function(key, start, end, rows) -> R``.
            every: the distance of two windows' starts; ``size`` without it.
            start: a point where a window starts.
            name: the operator's name.
            into: the function's output record, where it has no annotation.
            aggregates: results by name, from ``tw.agg``.
        """
        label = label_of(name, "window")
        time = self._event_time(label)
        if self._stream.own is not None:
            raise self._stream.own.refuse(label, "windows close by the clock of all rows")
        length = span(time, size, f"operator {label!r}: size")
        hop = length if every is None else span(time, every, f"operator {label!r}: every")
        if length < 1 or hop < 1:
            raise BuildError(
                f"operator {label!r}: size and every must be positive, got {size!r} and {every!r}"
            )
        if hop > length:
            raise BuildError(
                f"operator {label!r}: every is greater than size, rows between windows would vanish"
            )
        origin = span(time, start, f"operator {label!r}: start")
        stamped = added.stamp(self._stream, "window_start", length, hop, origin)
        field = stamped.schema.fields[-1]
        item = self._stream.schema
        if function is None:
            _refuse_into(label, into)
            if self._grouping == "partial":
                partial = combining.split(label, item, (*self._key.fields, field), aggregates)
                stamped = added.combine(stamped, label, partial)
                item, aggregates = partial.record, partial.merging
            made = library.window(label, item, self._key.fields, field, length, aggregates)
            returns = Returns(made.out)
        else:
            _refuse_both(label, aggregates)
            self._need_whole_keys(label, "a function sees all rows of a window")
            returns = self._rows_function(function, label, into)
            made = library.collect(
                label, stamped.schema, item, len(self._key.fields), field, length, function,
                _some(returns), session=False, many=returns.many,
            )  # fmt: skip
        return self._generated(stamped, label, made, returns, extra=field)

    def sessions(
        self,
        gap: Duration,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        into: Any = None,
        **aggregates: Aggregate,
    ) -> Stream:
        """Sessions by event time: rows of a key with no more than ``gap`` between neighbours.

        A session puts out (key fields, start, end, results) once ``gap`` has passed after its last row; ``end``
        is the time of that row, and a row exactly ``gap`` later still joins. Arguments as for :meth:`window`.
        """
        label = label_of(name, "sessions")
        self._need_whole_keys(label, "a session ends by the gap between all rows of its key")
        time = self._event_time(label)
        length = span(time, gap, f"operator {label!r}: gap")
        if length < 0:
            raise BuildError(f"operator {label!r}: gap must not be negative, got {gap!r}")
        stream = self._ordered(label)
        stamped = added.stamp(stream, "event_time")
        field = stamped.schema.fields[-1]
        if function is None:
            _refuse_into(label, into)
            made = library.sessions(
                label, self._stream.schema, self._key.fields, field, length, aggregates
            )
            returns = Returns(made.out)
        else:
            _refuse_both(label, aggregates)
            returns = self._rows_function(function, label, into)
            made = library.collect(
                label, stamped.schema, stream.schema, len(self._key.fields), field, length, function,
                _some(returns), session=True, many=returns.many,
            )  # fmt: skip
        kept = self._key_names() if function is None else ()
        return self._generated(stamped, label, made, returns, kept=kept)

    def dedupe(self, *, within: Duration | None = None, name: str | None = None) -> Deduped:
        """A row is kept iff no kept row of its key lies within ``within`` before it (ever, without it).

        Rows left out whose content differs from the kept row's go to ``.conflicts``. The event time is no content: not
        the field by which the source, or ``order_by``, sorted, nor one of its name and type that functions made since.
        """
        label = label_of(name, "dedupe")
        self._need_whole_keys(label, "dedupe keeps the first of all rows of a key")
        stream = self._ordered(label)
        digested = added.digest(stream)
        payload = digested.schema.names[-1]
        stamped, time, length = digested, None, 0
        if within is not None:
            length = span(self._event_time(label), within, f"operator {label!r}: within")
            if length < 0:
                raise refuse(f"operator {label!r}", "within", "not negative", within)
            stamped = added.stamp(digested, "event_time")
            time = stamped.schema.names[-1]
        made = library.dedupe(label, stamped.schema, stream.schema, time, payload, length)
        marked = self._generated(stamped, label, made, Returns(made.out, maybe=True))
        kept, conflicting, record = library.split_conflicts(label, made.out, stream.schema)
        main = marked.filter(kept, name=f"{label}/kept").map(
            record, name=f"{label}/out", into=stream.schema
        )
        other = marked.filter(conflicting, name=f"{label}/conflicting").map(
            record, name=f"{label}/conflicts", into=stream.schema
        )
        own = stream._own_keeping(*self._key_names())
        return main._deduped(own, dataclasses.replace(other, own=own))

    # -- the common parts ---------------------------------------------------------------------------------

    def _need_whole_keys(self, label: str, reason: str) -> None:
        if self._grouping == "partial":
            raise combining.refusal(label, reason)

    def _event_time(self, label: str) -> FieldType:
        if self._stream.time is None:
            raise BuildError(
                f"operator {label!r} works by event time, but the stream has none;"
                " give its source order_by='<time field>'"
            )
        return self._stream.time

    def _rows_function(self, function: Any, label: str, into: Any) -> Returns:
        made = Function.of(function, label)
        check_parameters(made, label, ["key", "start", "end", "rows"])
        return returns_of(made, label, into, may_be_nothing=False)

    def _generated(
        self,
        stream: Stream,
        label: str,
        made: library.Made,
        returns: Returns,
        extra: Field | None = None,
        *,
        kept: Sequence[str] = (),
        timing: Timing | None = None,
    ) -> Stream:
        flow = stream.flow
        fields = (*self._key.fields, *((extra,) if extra else ()))
        key = Key(fields, self._key.function, self._key.buckets)
        node = Keyed(
            flow._next(),
            flow._stateful_name(label, "operator"),
            stream.ref,
            key,
            Function.of(made.process, label),
            Function.of(made.on_timer, label) if made.on_timer else None,
            made.state,
            returns.schema,
            timing == "end" and returns.many,
            returns.many,
            flow.errors,
            "auto" if flow.compile == "require" else flow.compile,
            timing or _timing(stream),
        )
        return flow._add(node, stream.time, stream._own_keeping(*kept))

    def _ordered(self, label: str) -> Stream:
        """The stream as the operator ``label`` reads it: where time is each key's own, with its rows in order."""
        stream, own, flow = self._stream, self._stream.own, self._stream.flow
        if own is None:
            return stream
        own.check_key(label, self._key)
        if own.ordered:
            return stream
        call = id(self._key.function.call) if self._key.function else 0
        place = (stream.ref, self._key, call)
        if place not in flow._by_key:
            flow._by_key[place] = self._put_in_order(label, own)
        return flow._by_key[place]

    def _put_in_order(self, label: str, own: key_order.Own) -> Stream:
        stream, flow = self._stream, self._stream.flow
        stamped = added.stamp(stream, "event_time")
        made = key_order.order(label, stamped.schema, own.lateness)
        returns = Returns(made.out, many=made.on_timer is not None, maybe=True)
        marked = self._generated(stamped, f"{label}/order", made, returns, timing="end")
        name = flow._stateless_name(f"{label}/late")
        node = OwnTime(flow._next(), name, marked.ref, stream.schema, own.name)
        ordered = dataclasses.replace(
            own, ordered=node.index, late=stream.schema, kept=self._key_names()
        )
        return flow._add(node, stream.time, ordered)

    def _key_names(self) -> tuple[str, ...]:
        """The fields that hold the key; none where a function makes it."""
        return () if self._key.function else tuple(field.name for field in self._key.fields)

    def _process(
        self,
        function: Any,
        state: Any,
        on_timer: Any,
        name: str | None,
        into: Any,
        errors: Errors | None,
        compile: Compile | bool | None,
    ) -> Stream:
        flow = self._stream.flow
        made, label = self._stream._function(function, name, "process")
        if made.is_lambda and name is None:
            raise BuildError(
                f"operator 'process': {made.where} holds state under its name; give it name='...'"
            )
        try:
            spec = state_spec(state)
        except SchemaError as error:
            raise SchemaError(f"operator {label!r}: {error}") from None
        check_parameters(made, label, ["state", "row"])
        returns = returns_of(made, label, into, may_be_nothing=True)
        timer = None
        if on_timer is not None:
            timer = Function.of(on_timer, label, argument="on_timer")
            self._check_timer(timer, label, spec.timer)
            returns = _both(
                returns, returns_of(timer, label, into, may_be_nothing=True), label, timer
            )
        elif spec.timer is not None:
            raise BuildError(
                f"operator {label!r}: state {spec.name} has a timer, but there is no on_timer= to call"
            )
        stream = self._ordered(label)
        node = Keyed(
            flow._next(),
            flow._stateful_name(label, "operator"),
            stream.ref,
            self._key,
            made,
            timer,
            spec,
            returns.schema,
            returns.many,
            timer is not None and returns.maybe,
            flow._errors(errors),
            flow._compile(compile),
            _timing(stream),
        )
        own = stream._own_keeping()
        if returns.schema is None:
            flow._nodes.append(node)
            nothing = Schema("Nothing", ())
            return dataclasses.replace(stream, ref=Ref(node.index), schema=nothing, own=own)
        return flow._add(node, stream.time, own)

    def _check_timer(self, timer: Function, label: str, field: str | None) -> None:
        several = bool(self._key.fields)
        check_parameters(timer, label, ["state", "key", "time"] if several else ["state", "time"])
        if field is None:
            raise BuildError(
                f"operator {label!r}: {timer.where} is given as on_timer, but the state has no timer;"
                " add a field timer: tw.Timer"
            )
        self._event_time(label)


def _timing(stream: Stream) -> Timing:
    return "clock" if stream.own is None else "own"


def _both(process: Returns, timer: Returns, label: str, function: Function) -> Returns:
    """One output for process and on_timer; ``maybe`` of the answer says whether on_timer may give several."""
    if process.schema is not None and timer.schema is not None and process.schema != timer.schema:
        raise BuildError(
            f"operator {label!r}: process gives {process.schema}, {function.where} gives {timer.schema};"
            " an operator has one output record"
        )
    return Returns(process.schema or timer.schema, many=process.many, maybe=timer.many)


def _some(returns: Returns) -> Schema:
    assert returns.schema is not None
    return returns.schema


def _refuse_into(label: str, into: Any) -> None:
    if into is not None:
        raise BuildError(
            f"operator {label!r}: into is the record of a function; aggregates have a field each"
        )


def _refuse_both(label: str, aggregates: Any) -> None:
    if aggregates:
        raise BuildError(f"operator {label!r}: give a function or aggregates, not both")
