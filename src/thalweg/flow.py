"""What the user writes: a flow of operators, put together by verbs on streams.

Nothing runs here. Each verb checks its arguments at once and appends a frozen node
(:mod:`thalweg.operators.nodes`); :mod:`thalweg.plan` turns the nodes into a plan.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.errors import BuildError, SchemaError
from thalweg.operators import key_order, library
from thalweg.operators.agg import Aggregate
from thalweg.operators.functions import Function, Returns, check_parameters, returns_of
from thalweg.operators.nodes import (
    REJECTED,
    Batches,
    Compile,
    Digest,
    Errors,
    Key,
    Keyed,
    Node,
    Order,
    OrderBy,
    OwnTime,
    Ref,
    Sink,
    Source,
    Stamp,
    Stateless,
    Timing,
    Union,
)
from thalweg.records import Field, FieldType, Kind, Schema, state_spec
from thalweg.times import duration

Duration = str | int | dt.timedelta


class Flow:
    """A named graph of operators.

    Args:
        name: the flow's name; checkpoints carry it.
        errors: what a row that does not fit, or on which a function raises, does: ``"fail"`` stops the query
            with an error that names it, ``"reject"`` sends it to the ``rejected`` stream and counts it.
        compile: ``"auto"`` compiles what can be compiled, ``"require"`` makes a fallback an error,
            ``"never"`` interprets everything. Operators can override both.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Word(NamedTuple):
        ...     text: str
        >>> flow = tw.Flow("words")
        >>> flow.source("lines", Word).filter(lambda w: w.text != "").sink("words")
    """

    def __init__(self, name: str, *, errors: Errors = "fail", compile: Compile = "auto") -> None:
        if not isinstance(name, str) or not name or "/" in name:
            raise BuildError(f"a flow's name is a non-empty text without '/', got {name!r}")
        self.name = name
        self.errors: Errors = _choice("errors", errors, ("fail", "reject"), name)
        self.compile: Compile = _choice("compile", compile, ("auto", "require", "never"), name)
        self._nodes: list[Node] = []
        #: by stream and key, the stream with each key's rows in order
        self._by_key: dict[tuple[Ref, Key, int], Stream] = {}
        self._prefix = ""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The operators in order of definition."""
        return tuple(self._nodes)

    def source(
        self,
        name: str,
        record: Any,
        *,
        order_by: str | None = None,
        lateness: Duration = 0,
        lane: str | None = None,
        arrival: Sequence[str] = (),
        order: Order = "total",
        errors: Errors | None = None,
    ) -> Stream:
        """A source of records.

        Args:
            name: the source's name; inputs are given by it.
            record: a NamedTuple class or a pyarrow schema.
            order_by: the field whose order the stream has from here on, a Timestamp or an int; ties stay in
                arrival order. Without it the stream has arrival order and no event time.
            lateness: how far a row may lie behind the greatest time that arrived before it in its lane; rows
                further behind go to ``late``. A duration, or a number in the unit of an int ``order_by``.
            lane: the field that names a row's lane, a sequence that the source itself orders (say a Kafka
                partition); one lane without it.
            arrival: fields that give the order of arrival where the source does not say (see the docs on order).
            order: ``"total"``: all rows in one order, and one clock. ``"key"``: no point sorts all rows. Rows pass
                as they arrive until the first operator by key; it takes each key's rows by (time, arrival), judges
                lateness against that key's own earlier rows, and fires a key's timers before its next row with a
                greater time, or at the end of the stream. The order of the output is promised by key only, and a
                key that stays idle closes at the end only. Windows, unions with other sources, a state for all
                rows and a second key need ``"total"``.
            errors: overrides the flow's policy for rows that do not fit the record.
        """
        schema = Schema.of(record)
        for field in (*arrival, *((lane,) if lane else ())):
            schema.index(field)
        time = _time_field(schema, order_by, name) if order_by else None
        if order_by is None and lateness:
            raise BuildError(f"source {name!r}: lateness needs order_by")
        chosen: Order = _choice("order", order, ("total", "key"), name)
        if chosen == "key" and (order_by is None or lane is not None):
            raise BuildError(
                f"source {name!r}: order='key' needs order_by, and no lane, since lateness is judged by key"
            )
        node = Source(
            self._next(),
            self._stateful_name(name, "source"),
            schema,
            order_by,
            _span(time, lateness, f"source {name!r}: lateness") if time else 0,
            lane,
            tuple(arrival),
            self._errors(errors),
            chosen,
        )
        own = key_order.Own(node.index, node.name, node.lateness) if chosen == "key" else None
        return self._add(node, time, own)

    def union(self, *streams: Stream, name: str | None = None) -> Stream:
        """The tuples of several streams of one record type, in the order of the flow."""
        if not streams:
            raise BuildError("union needs at least one stream")
        return streams[0].union(*streams[1:], name=name)

    def explain(self, *, compile: bool = True) -> str:
        """The plan as text: operators, kinds, stages, buckets, compiled or interpreted and why.

        Args:
            compile: whether to try the compiler on each function, which takes seconds the first time.
        """
        from thalweg.explain import (
            explain,
        )  # the one upward import: a host renders what the flow only names

        return explain(self, compile=compile)

    # -- for the verbs -----------------------------------------------------------------------------------

    def _next(self) -> int:
        return len(self._nodes) + 1

    def _add(self, node: Node, time: FieldType | None, own: key_order.Own | None = None) -> Stream:
        self._nodes.append(node)
        assert node.out is not None
        return Stream(self, Ref(node.index), node.out, time, own)

    def _errors(self, errors: Errors | None) -> Errors:
        if errors is None:
            return self.errors
        chosen: Errors = _choice("errors", errors, ("fail", "reject"), self.name)
        return chosen

    def _compile(self, compile: Compile | bool | None) -> Compile:
        if compile is None:
            return self.compile
        if isinstance(compile, bool):
            return "auto" if compile else "never"
        chosen: Compile = _choice("compile", compile, ("auto", "require", "never"), self.name)
        return chosen

    def _stateful_name(self, name: str, what: str) -> str:
        """A name that state hangs on: it must be unique and stay the same."""
        full = self._prefix + name
        others = [n for n in self._nodes if isinstance(n, Sink) == (what == "sink")]
        taken = next((n for n in others if n.name == full), None)
        if taken is not None and what == "sink":
            raise BuildError(f"two sinks are called {full!r}; outputs are given by name, so rename one")
        if taken is not None:
            raise BuildError(
                f"two operators are called {full!r} (the other is a {taken.kind.value} operator);"
                f" this {what} keeps state or has an address under its name, so give it name="
            )
        return full

    def _stateless_name(self, name: str) -> str:
        full, count = self._prefix + name, 1
        taken = {node.name for node in self._nodes if not isinstance(node, Sink)}
        while full in taken:
            count += 1
            full = f"{self._prefix}{name}_{count}"
        return full

    def __repr__(self) -> str:
        return f"Flow({self.name!r}, {len(self._nodes)} operators)"


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """An ordered stream of records; the verbs append operators to its flow.

    ``time`` is the type of the event time, None in a stream without one; ``own`` says so where time is each
    key's own (a source with ``order="key"``).
    """

    flow: Flow
    ref: Ref
    schema: Schema
    time: FieldType | None
    own: key_order.Own | None = None

    @property
    def late(self) -> Stream:
        """The rows that came too late for this source or order_by, in arrival order; others have none.

        Behind a source with ``order="key"``: the rows that came too late for their key, where an operator by key
        judged them; of the source itself those of its only operator by key.
        """
        own = self.own
        if own is not None:
            record = own.late or self.flow._nodes[own.source - 1].out
            assert record is not None
            return Stream(self.flow, Ref(own.ordered or own.source, "late"), record, None)
        return Stream(self.flow, Ref(self.ref.node, "late"), self.schema, None)

    @property
    def rejected(self) -> Stream:
        """The rows that did not fit, or on which the function raised (``errors="reject"``)."""
        return Stream(self.flow, Ref(self.ref.node, "rejected"), REJECTED, None)

    def map(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream:
        """One record for each: ``function(row) -> R``, or ``R | None`` to leave some out."""
        return self._stateless("map", function, name, into, errors, compile)

    def filter(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream:
        """The rows for which ``function(row)`` is true."""
        return self._stateless("filter", function, name, None, errors, compile)

    def flat_map(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream:
        """Any number of records for each: ``function(row) -> Iterator[R]`` (or a list)."""
        return self._stateless("flat_map", function, name, into, errors, compile)

    def map_batches(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        into: Any = None,
        errors: Errors | None = None,
    ) -> Stream:
        """Arrow batches: ``function(pyarrow.RecordBatch) -> pyarrow.RecordBatch``.

        The result has as many rows as the batch, row for row, or the function returns (batch, source rows):
        for each output row the place of its input row, not decreasing. It must not depend on how the stream is
        cut into batches. ``into`` names the output record; without it the input's record is kept.
        """
        flow = self.flow
        made, label = self._function(function, name, "map_batches")
        check_parameters(made, label, ["batch"])
        record = Schema.of(into) if into is not None else self.schema
        node = Batches(
            flow._next(), flow._stateless_name(label), self.ref, made, record, flow._errors(errors)
        )
        return flow._add(node, self.time, self._own_keeping())

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
        """A stateful operator: one state, every row in order: ``function(state, row)``.

        It returns None, R, R | None or yields several R. ``on_timer(state, time)`` is called when the state's
        ``timer`` has come.
        """
        return KeyedStream(self, Key((), None, 1))._process(
            function, state, on_timer, name, into, errors, compile
        )

    def key_by(
        self, *keys: str | Callable[..., Any], buckets: int = 128, into: Any = None
    ) -> KeyedStream:
        """The stream by key: names of fields, or one function ``row -> key`` with an annotated return type.

        Args:
            keys: field names, or one function.
            buckets: into how many shares the key space is cut: the unit of parallelism, of state files and of
                migration; it stays the same for the life of a checkpoint.
            into: the key's type for a function without annotation (int, str, tw.Category, ...).
        """
        if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= 65_536:
            raise BuildError(f"key_by: buckets is a number from 1 to 65536, got {buckets!r}")
        if not keys:
            raise BuildError("key_by needs a field name, several, or a function")
        if any(callable(key) for key in keys):
            return KeyedStream(self, self._key_function(keys, buckets, into))
        fields = tuple(self.schema.field(str(key)) for key in keys)
        for field in fields:
            if field.type.kind in (Kind.LIST, Kind.RECORD):
                raise BuildError(
                    f"key_by: {self.schema.name}.{field.name} is {field.type}; a key is a plain value"
                )
        if len({field.name for field in fields}) < len(fields):
            raise BuildError(f"key_by: a field is named twice in {keys}")
        return KeyedStream(self, Key(fields, None, buckets))

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
        """Windows over the whole stream; see :meth:`KeyedStream.window`."""
        keyed = KeyedStream(self, Key((), None, 1))
        return keyed.window(
            size, function, every=every, start=start, name=name, into=into, **aggregates
        )

    def dedupe(
        self,
        *by: str | Callable[..., Any],
        within: Duration | None = None,
        name: str | None = None,
        buckets: int = 128,
    ) -> Deduped:
        """The rows whose key was not kept within ``within`` before; see :meth:`KeyedStream.dedupe`."""
        return self.key_by(*by, buckets=buckets).dedupe(within=within, name=name)

    def union(self, *others: Stream, name: str | None = None) -> Stream:
        """The tuples of this stream and others of the same record, merged in the order of the flow."""
        streams = (self, *others)
        for other in others:
            if other.flow is not self.flow:
                raise BuildError(f"union: the streams belong to {self.flow!r} and {other.flow!r}")
            if other.schema != self.schema:
                raise BuildError(f"union: the records differ: {self.schema} and {other.schema}")
            if other.own != self.own or (self.own and self.own.ordered):
                own = self.own or other.own
                assert own is not None
                raise own.refuse(name or "union", "streams are merged by one clock")
            if other.time != self.time:
                raise BuildError(
                    "union: one stream has event time"
                    f" ({self.time or 'none'}, {other.time or 'none'}); give both sources order_by"
                )
        label = self.flow._stateless_name(name or "union")
        node = Union(self.flow._next(), label, tuple(one.ref for one in streams), self.schema)
        return self.flow._add(node, self.time, self.own)

    def order_by(self, field: str, *, lateness: Duration = 0, name: str | None = None) -> Stream:
        """The stream sorted by another field: a stateful operator that holds rows back by ``lateness``."""
        label = self.flow._stateful_name(name or f"order_by_{field}", "order_by")
        time = _time_field(self.schema, field, label)
        node = OrderBy(
            self.flow._next(),
            label,
            self.ref,
            self.schema,
            field,
            _span(time, lateness, f"operator {label!r}: lateness"),
        )
        return self.flow._add(node, time)

    def apply(
        self, composite: Callable[..., Any], *, name: str | None = None, **arguments: Any
    ) -> Any:
        """Calls ``composite(self, **arguments)``; operators made inside are called ``name/...``."""
        label = name or getattr(composite, "__name__", "composite")
        before = self.flow._prefix
        self.flow._prefix = f"{before}{label}/"
        try:
            return composite(self, **arguments)
        finally:
            self.flow._prefix = before

    def sink(self, name: str, *, ordered: bool = True) -> None:
        """Where the stream leaves the flow.

        Args:
            name: the sink's name; outputs are given by it.
            ordered: whether the whole output has the order of the stream (one task writes it); without it each
                slot writes its own part, in order.
        """
        label = self.flow._stateful_name(name, "sink")
        self.flow._nodes.append(Sink(self.flow._next(), label, self.ref, self.schema, ordered))

    # -- the common parts of the verbs ------------------------------------------------------------------

    def _function(self, function: Any, name: str | None, verb: str) -> tuple[Function, str]:
        made = Function.of(function, name or verb)
        return made, name or (verb if made.is_lambda else made.name)

    def _stateless(
        self,
        verb: Any,
        function: Any,
        name: str | None,
        into: Any,
        errors: Errors | None,
        compile: Compile | bool | None,
    ) -> Stream:
        made, label = self._function(function, name, verb)
        check_parameters(made, label, ["row"])
        if verb == "filter":
            returns = Returns(self.schema)
        else:
            returns = returns_of(made, label, into, may_be_nothing=False)
        if verb == "map" and returns.many:
            raise BuildError(
                f"operator {label!r}: {made.where} gives several records a row; use flat_map for that"
            )
        if verb == "flat_map" and not returns.many and into is None:
            raise BuildError(
                f"operator {label!r}: {made.where} gives one record a row; annotate -> Iterator[R], or use map"
            )
        assert returns.schema is not None
        flow = self.flow
        node = Stateless(
            flow._next(),
            flow._stateless_name(label),
            verb,
            self.ref,
            made,
            returns.schema,
            verb == "flat_map",
            flow._errors(errors),
            flow._compile(compile),
        )
        kept = self.own.kept if self.own and verb == "filter" else ()
        return flow._add(node, self.time, self._own_keeping(*kept))

    def _own_keeping(self, *names: str) -> key_order.Own | None:
        """``own`` for a stream made of this one whose rows have the key in these fields."""
        return self.own and self.own.keeping(names)

    def _key_function(self, keys: Sequence[Any], buckets: int, into: Any) -> Key:
        if len(keys) > 1:
            raise BuildError("key_by takes field names, or one function alone")
        made = Function.of(keys[0], "key_by")
        check_parameters(made, "key_by", ["row"])
        return Key((key_field(made, into),), made, buckets)

    def _stamp(self, what: str, size: int = 0, every: int | None = None, origin: int = 0) -> Stream:
        assert self.time is not None
        field = Field(library.spare_name(what, self.schema.names), self.time)
        record = Schema.make_record("Stamped", [*self.schema.fields, field])
        flow = self.flow
        node = Stamp(
            flow._next(), flow._stateless_name(what), self.ref, record, size, every, origin
        )
        return flow._add(node, self.time, self.own)

    def _digest(self) -> Stream:
        field = Field(library.spare_name("payload", self.schema.names), FieldType(Kind.INT))
        record = Schema.make_record("Digested", [*self.schema.fields, field])
        flow = self.flow
        node = Digest(flow._next(), flow._stateless_name("digest"), self.ref, record)
        return flow._add(node, self.time, self.own)


class Deduped(Stream):
    """The kept rows; ``conflicts`` has the rows whose key was kept with another payload."""

    conflicts: Stream


class KeyedStream:
    """A stream by key: the verbs see each key's rows in order, with a state of their own."""

    def __init__(self, stream: Stream, key: Key) -> None:
        self._stream = stream
        self._key = key

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
        label = name or "window"
        time = self._event_time(label)
        if self._stream.own is not None:
            raise self._stream.own.refuse(label, "windows close by the clock of all rows")
        length = _span(time, size, f"operator {label!r}: size")
        hop = length if every is None else _span(time, every, f"operator {label!r}: every")
        if length < 1 or hop < 1:
            raise BuildError(
                f"operator {label!r}: size and every must be positive, got {size!r} and {every!r}"
            )
        if hop > length:
            raise BuildError(
                f"operator {label!r}: every is greater than size, rows between windows would vanish"
            )
        origin = _span(time, start, f"operator {label!r}: start")
        stamped = self._stream._stamp("window_start", length, hop, origin)
        field = stamped.schema.fields[-1]
        item = self._stream.schema
        if function is None:
            made = library.window(label, item, self._key.fields, field, length, aggregates)
            returns = Returns(made.out)
        else:
            _refuse_both(label, aggregates)
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
        label = name or "sessions"
        time = self._event_time(label)
        length = _span(time, gap, f"operator {label!r}: gap")
        if length < 0:
            raise BuildError(f"operator {label!r}: gap must not be negative, got {gap!r}")
        stream = self._ordered(label)
        stamped = stream._stamp("event_time")
        field = stamped.schema.fields[-1]
        if function is None:
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

        Rows left out whose payload differs from the kept row's go to ``.conflicts``.
        """
        label = name or "dedupe"
        stream = self._ordered(label)
        digested = stream._digest()
        payload = digested.schema.names[-1]
        stamped, time, span = digested, None, 0
        if within is not None:
            span = _span(self._event_time(label), within, f"operator {label!r}: within")
            stamped = digested._stamp("event_time")
            time = stamped.schema.names[-1]
        made = library.dedupe(label, stamped.schema, stream.schema, time, payload, span)
        marked = self._generated(stamped, label, made, Returns(made.out, maybe=True))
        kept, conflicting, record = library.split_conflicts(label, made.out, stream.schema)
        main = marked.filter(kept, name=f"{label}/kept").map(
            record, name=f"{label}/out", into=stream.schema
        )
        other = marked.filter(conflicting, name=f"{label}/conflicting").map(
            record, name=f"{label}/conflicts", into=stream.schema
        )
        own = stream._own_keeping(*self._key_names())
        out = Deduped(main.flow, main.ref, main.schema, main.time, own)
        object.__setattr__(out, "conflicts", dataclasses.replace(other, own=own))
        return out

    # -- the common parts ---------------------------------------------------------------------------------

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
        stamped = stream._stamp("event_time")
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
            timer = Function.of(on_timer, label)
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
            return Stream(flow, Ref(node.index), Schema("Nothing", ()), stream.time, own)
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


def _refuse_both(label: str, aggregates: Any) -> None:
    if aggregates:
        raise BuildError(f"operator {label!r}: give a function or aggregates, not both")


def key_field(function: Function, into: Any) -> Field:
    """The key field of a key function: called after it, typed by annotation or ``into``."""
    from typing import NamedTuple

    hint = into
    if hint is None:
        hint = getattr(function.call, "__annotations__", {}).get("return")
        if isinstance(hint, str):
            import typing

            hint = typing.get_type_hints(function.call, include_extras=True)["return"]
    if hint is None:
        raise BuildError(
            f"key_by: {function.where} does not say of which type the key is; annotate it or pass into=int (say)"
        )
    name = "key" if function.is_lambda else function.name
    try:
        schema = Schema.of(NamedTuple(name, [(name, hint)]))
    except (SchemaError, ValueError) as error:
        raise BuildError(
            f"key_by: the key of {function.where} cannot be {hint!r}: {error}"
        ) from None
    return schema.fields[0]


def _time_field(schema: Schema, name: str, where: str) -> FieldType:
    kind = schema.field(name).type
    if kind.kind not in (Kind.TIMESTAMP, Kind.INT):
        raise BuildError(
            f"{where!r}: order_by={name!r} is {kind}; a stream is ordered by a Timestamp or an int field"
        )
    return FieldType(kind.kind)


def _span(time: FieldType, value: Duration, where: str) -> int:
    if time.kind is Kind.INT:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise BuildError(
            f"{where}: the stream is ordered by an int, so give a number in its unit, not {value!r}"
        )
    try:
        return duration(value)
    except (ValueError, TypeError) as error:
        raise BuildError(f"{where}: {error}") from None


def _choice(what: str, value: Any, allowed: tuple[str, ...], where: str) -> Any:
    if value not in allowed:
        raise BuildError(
            f"{where!r}: {what} is one of {', '.join(map(repr, allowed))}, got {value!r}"
        )
    return value
