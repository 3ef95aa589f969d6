"""A stream by key: the verbs whose operators hold a state for each key."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from thalweg.checks import Guessable, known_keywords_of, refuse
from thalweg.errors import BuildError, SchemaError
from thalweg.flow import added
from thalweg.flow.by_key.aggregated import AggregateVerbs
from thalweg.flow.by_key.keyed_parts import timing_of
from thalweg.flow.by_key.timer_parts import AtEnd, BeyondOneTimer, several, timer_functions
from thalweg.flow.by_key.windowed import WindowVerbs
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import KeyValue, Out, Row, Several, State
from thalweg.flow.operators.arguments import Duration, label_of, span
from thalweg.flow.operators.functions import Function, Returns, check_parameters, returns_of
from thalweg.flow.operators.nodes import Compile, Errors, Keyed, Ref
from thalweg.flow.operators.parameter_types import Given, check_annotations
from thalweg.flow.operators.windowing import windows
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec, state_spec

if TYPE_CHECKING:
    from thalweg.flow.streams import Deduped, Stream


@known_keywords_of
class KeyedStream(AggregateVerbs[Row, KeyValue], WindowVerbs[Row, KeyValue], Guessable):
    """A stream grouped by key: its verbs see each key's rows in order, with a state for each key."""

    @overload
    def process(
        self,
        function: Callable[[State, Row], Several[Out]],
        *,
        state: type[State],
        on_timer: Callable[[State, KeyValue, int], Any] | None = None,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
        keep: bool = False,
        at_end: AtEnd = "disarm",
    ) -> Stream[Out]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Out | None],
        *,
        state: type[State],
        on_timer: Callable[[State, KeyValue, int], Several[Out]],
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
        keep: bool = False,
        at_end: AtEnd = "disarm",
    ) -> Stream[Out]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Out | None],
        *,
        state: type[State],
        on_timer: Callable[[State, KeyValue, int], Out | None] | None = None,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
        keep: bool = False,
        at_end: AtEnd = "disarm",
    ) -> Stream[Out]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Any],
        *,
        state: type[State],
        on_timer: Mapping[str, Callable[..., Any]],
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
        keep: bool = False,
        at_end: AtEnd = "disarm",
    ) -> Stream[Any]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Any],
        *,
        state: type[State],
        on_timer: Callable[[State, KeyValue, int], Any]
        | Mapping[str, Callable[..., Any]]
        | None = None,
        name: str | None = None,
        into: type[Out],
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
        keep: bool = False,
        at_end: AtEnd = "disarm",
    ) -> Stream[Out]: ...

    def process(
        self,
        function: Callable[..., Any],
        *,
        state: Any,
        on_timer: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
        keep: bool = False,
        at_end: AtEnd = "disarm",
    ) -> Stream[Any]:
        """Calls ``function(state, row)`` for each row with the state of its key.

        It returns None, R, R | None or yields several R. When the time in the state's ``timer`` field has
        passed, ``on_timer(state, key, time)`` is called, just before the first tuple with a greater time; then
        the state is dropped unless the timer was set again. ``key`` is a tuple if there are several key fields.

        Args:
            function: for each row.
            state: the class of the state, declared by ``tw.state``.
            on_timer: for the timer; where the state has several fields of type ``tw.Timer``, a dict of them to a
                function each (docs/timers.md).
            name: the operator's name.
            into: the output record of functions without annotation.
            errors: what becomes of a row on which the function raised.
            compile: see :meth:`Stream.map`.
            keep: the state outlives its timers: it stays when none is set, until ``tw.drop(state)``.
            at_end: what becomes of a timer that a timer sets when the stream ends: it is counted as disarmed, or
                (``"fire"``) it fires, too, until none is set.
        """
        self._need_whole_keys(
            label_of(name, "process"), "a function has state that only it understands"
        )
        beyond = BeyondOneTimer(keep, at_end)
        return self._process(function, state, on_timer, name, into, errors, compile, beyond)

    def dedupe(self, *, within: Duration | None = None, name: str | None = None) -> Deduped[Row]:
        """Drops a row if a kept row of its key came at most ``within`` before it (without ``within``: ever).

        A row exactly ``within`` later is dropped. It counts from the kept row: rows that are dropped do not prolong it.

        Rows left out whose content differs from the kept row's go to ``.conflicts``. The event time is no content: not
        the field by which the source, or ``order_by``, sorted, nor one of its name and type that functions made since.
        """
        label = label_of(name, "dedupe")
        self._need_whole_keys(label, "dedupe keeps the first of all rows of a key")
        stream = self._ordered(label)
        digested = added.digest(stream, self._key_names())
        payload = digested.schema.names[-1]
        stamped, time, length = digested, None, 0
        if within is not None:
            length = span(self._event_time(label), within, f"operator {label!r}: within")
            if length < 0:
                raise refuse(f"operator {label!r}", "within", "not negative", within)
            stamped = added.stamp(digested, "event_time")
            time = stamped.schema.names[-1]
        made = windows.dedupe(label, stamped.schema, stream.schema, time, payload, length)
        marked = self._generated(stamped, label, made, Returns(made.out, maybe=True))
        same: Any = stream.schema
        kept, conflicting, record = windows.split_conflicts(label, made.out, stream.schema)
        main = marked.filter(kept, name=f"{label}/kept").map(record, name=f"{label}/out", into=same)
        other = marked.filter(conflicting, name=f"{label}/conflicting").map(
            record, name=f"{label}/conflicts", into=same
        )
        own = stream._own_keeping(*self._key_names())
        return main._deduped(own, dataclasses.replace(other, own=own), marked.ref)

    # -- the common parts ---------------------------------------------------------------------------------

    def _process(
        self,
        function: Any,
        state: Any,
        on_timer: Any,
        name: str | None,
        into: Any,
        errors: Errors | None,
        compile: Compile | bool | None,
        beyond: BeyondOneTimer | None = None,
    ) -> Stream[Any]:
        flow, beyond = self._stream.flow, beyond or BeyondOneTimer()
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
        beyond.check(label, spec)
        timers, several_of = timer_functions(label, spec, on_timer), set[str]()
        for field, timer in timers.items():
            self._check_timer(timer, label, spec)
            given = returns_of(timer, label, into, may_be_nothing=True)
            several_of |= {field} if given.many else set()
            returns = _both(returns, given, label, timer)
        if not timers and spec.timer is not None:
            raise BuildError(
                f"operator {label!r}: state {spec.name} has a timer, but there is no on_timer= to call"
            )
        stream = self._ordered(label)
        check_annotations(made, label, {"state": spec, "row": stream.schema})
        for timer in timers.values():
            check_annotations(timer, label, self._timer_takes(spec))
        gives = None if returns.schema is None else returns.schema.whole
        made = made.adapted(Adapter((None, stream.schema.whole), gives, returns.many))
        takes = (None, self._key_type, None) if self._key.fields else (None, None)
        fires = next(iter(timers.values()), None)
        if spec.timers:
            made, fires = several(
                spec, made, timers, takes, gives, returns.many, frozenset(several_of)
            )
        elif fires is not None:
            fires = fires.adapted(Adapter(takes, gives, bool(several_of)))
        node = Keyed(
            flow._next(),
            flow._stateful_name(label, "operator"),
            stream.ref,
            self._key,
            made,
            fires,
            spec,
            returns.schema,
            returns.many,
            bool(several_of or spec.timers),
            flow._errors(errors),
            flow._compile(compile),
            timing_of(stream),
            **beyond.node_fields(spec),
        )
        own = stream._own_keeping()
        if returns.schema is None:
            flow._nodes.append(node)
            nothing = Schema("Nothing", ())
            return dataclasses.replace(stream, ref=Ref(node.index), schema=nothing, own=own)
        return flow._add(node, stream.time, own)

    def _timer_takes(self, spec: StateSpec) -> dict[str, Given]:
        return {"state": spec, **({"key": None} if self._key.fields else {}), "time": None}

    def _check_timer(self, timer: Function, label: str, spec: StateSpec) -> None:
        check_parameters(timer, label, list(self._timer_takes(spec)))
        if spec.timer is None:
            raise BuildError(
                f"operator {label!r}: {timer.where} is given as on_timer, but the state has no timer;"
                " add a field timer: tw.Timer"
            )
        self._event_time(label)


def _both(process: Returns, timer: Returns, label: str, function: Function) -> Returns:
    """One output for process and on_timer."""
    if process.schema is not None and timer.schema is not None and process.schema != timer.schema:
        raise BuildError(
            f"operator {label!r}: process gives {process.schema}, {function.where} gives {timer.schema};"
            " an operator has one output record"
        )
    return Returns(process.schema or timer.schema, many=process.many)
