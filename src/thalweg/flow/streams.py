"""Streams: the verbs that a user calls to append operators to a flow.

Each verb checks its arguments at once and appends a frozen node (:mod:`thalweg.flow.operators.nodes`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, overload

from thalweg.checks import (
    Guessable,
    known_keywords_of,
    refuse,
    require_flag,
    require_function,
    require_text,
)
from thalweg.errors import BuildError
from thalweg.flow.asynchronous import AsyncVerbs
from thalweg.flow.by_key.keyed import KeyedStream
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import KeyValue, Out, Row, Several, State
from thalweg.flow.joining.joins import JoinVerbs
from thalweg.flow.joining.lookups import LookupVerbs
from thalweg.flow.operators import key_order
from thalweg.flow.operators.arguments import (
    Duration,
    choice,
    key_field,
    label_of,
    lateness_span,
    time_field,
)
from thalweg.flow.operators.built_in import Pack
from thalweg.flow.operators.combining import refusal
from thalweg.flow.operators.functions import Function, check_arguments
from thalweg.flow.operators.idle import GivenIdle, idle_of_order
from thalweg.flow.operators.nodes import (
    Compile,
    Errors,
    Grouping,
    Key,
    OrderBy,
    Ref,
    Sink,
    Union,
)
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.operators.rejected import REJECTED, Rejected
from thalweg.flow.records import Schema
from thalweg.flow.stateless import StatelessVerbs
from thalweg.flow.whole import WholeVerbs

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow


@known_keywords_of
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Stream(
    WholeVerbs[Row],
    JoinVerbs[Row],
    LookupVerbs[Row],
    AsyncVerbs[Row],
    StatelessVerbs[Row],
    Guessable,
):
    """An ordered stream of records; the verbs append operators to its flow.

    ``time`` is the type of the event time, None in a stream without one; ``own`` says so where time is each
    key's own (a source with ``order="key"``).
    """

    flow: Flow
    ref: Ref
    schema: Schema
    time: FieldType | None
    own: key_order.Own | None = None

    if not TYPE_CHECKING:

        def __getitem__(self, key: object) -> NoReturn:
            """Columns, and rows in a loop, as frames have them."""
            raise TypeError(
                "a Stream has no rows or columns to take: fields are read in functions of a row, such as"
                ' .filter(lambda row: row.n > 0), or named: .key_by("user"); rows are in the result of tw.run'
            )

    def _meant_by(self, name: str) -> str:
        schema = self.__dict__.get("schema")
        if schema is None or name not in schema.names:
            return ""
        return f'a function of the row, row.{name} in it, or the name where fields are asked for: .key_by("{name}")'

    @property
    def late(self) -> Stream[Row]:
        """The rows too late for this source or ``order_by``, in arrival order; other operators have none.

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
    def rejected(self) -> Stream[Rejected]:
        """The rows that did not fit, or on which the function raised (``errors="reject"``)."""
        made_by = self.flow._nodes[self.ref.node - 1]
        node = made_by.input.node if isinstance(made_by, Pack) else self.ref.node
        return Stream(self.flow, Ref(node, "rejected"), REJECTED, None)

    @overload
    def process(
        self,
        function: Callable[[State, Row], Several[Out]],
        *,
        state: type[State],
        on_timer: Callable[[State, int], Any] | None = None,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Out | None],
        *,
        state: type[State],
        on_timer: Callable[[State, int], Several[Out]],
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Out | None],
        *,
        state: type[State],
        on_timer: Callable[[State, int], Out | None] | None = None,
        name: str | None = None,
        into: None = None,
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

    @overload
    def process(
        self,
        function: Callable[[State, Row], Any],
        *,
        state: type[State],
        on_timer: Callable[[State, int], Any] | None = None,
        name: str | None = None,
        into: type[Out],
        errors: Errors | None = None,
        compile: Compile | bool | None = None,
    ) -> Stream[Out]: ...

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
    ) -> Stream[Any]:
        """Calls ``function(state, row)`` for each row in order, with one state for the whole stream.

        It returns None, R, R | None or yields several R. ``on_timer(state, time)`` is called when the state's
        ``timer`` has come.
        """
        whole: KeyedStream[Row, Any] = KeyedStream(self, Key((), None, 1))
        return whole._process(function, state, on_timer, name, into, errors, compile)

    @overload
    def key_by(
        self, *keys: str, buckets: int = 128, grouping: Grouping = "fields"
    ) -> KeyedStream[Row, Any]: ...

    @overload
    def key_by(
        self, function: Callable[[Row], KeyValue], /, *, buckets: int = 128, into: None = None
    ) -> KeyedStream[Row, KeyValue]: ...

    @overload
    def key_by(
        self, function: Callable[[Row], Any], /, *, buckets: int = 128, into: Any
    ) -> KeyedStream[Row, Any]: ...

    def key_by(
        self,
        *keys: str | Callable[..., Any],
        buckets: int = 128,
        into: Any = None,
        grouping: Grouping = "fields",
    ) -> KeyedStream[Row, Any]:
        """Groups the stream by fields, or by a function ``row -> key`` with an annotated return type.

        Args:
            keys: field names, or one function.
            buckets: into how many shares the key space is cut: the unit of parallelism, of state files and of
                migration; it stays the same for the life of a checkpoint.
            into: the key's type for a function without annotation (int, str, tw.Category, ...).
            grouping: ``"fields"``: all rows of a key go to one slot, in order. ``"partial"``, for windows of
                aggregates that merge exactly (count, min, max, sum of an int): rows of a key become parts of its
                aggregates where they are, which are merged in the key's slot, so that a hot key is no hot slot.
        """
        grouping = choice("grouping", grouping, ("fields", "partial"), "key_by")
        if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= 65_536:
            raise BuildError(f"key_by: buckets is a number from 1 to 65536, got {buckets!r}")
        if not keys:
            raise BuildError("key_by needs a field name, several, or a function")
        if any(callable(key) for key in keys):
            if grouping == "partial":
                raise refusal("key_by", "a function makes the key; put the key into a field by map")
            return KeyedStream(self, self._key_function(keys, buckets, into))
        for key in keys:
            _require_name(key)
        if into is not None:
            raise BuildError("key_by: into is the type of a function's key; a field has its own")
        fields = tuple(self.schema.field(str(key)) for key in keys)
        for field in fields:
            if field.type.kind in (Kind.LIST, Kind.RECORD):
                raise BuildError(
                    f"key_by: {self.schema.name}.{field.name} is {field.type}; a key is a plain value"
                )
        if len({field.name for field in fields}) < len(fields):
            raise BuildError(f"key_by: a field is named twice in {keys}")
        return KeyedStream(self, Key(fields, None, buckets), grouping)

    def dedupe(
        self,
        *by: str | Callable[[Row], Any],
        within: Duration | None = None,
        name: str | None = None,
        buckets: int = 128,
    ) -> Deduped[Row]:
        """Drops rows that repeat a key within ``within``; see :meth:`KeyedStream.dedupe`."""
        for one in by:
            if not callable(one):
                require_text("dedupe", by=one)
        keyed: KeyedStream[Row, Any] = self.key_by(*by, buckets=buckets)  # type: ignore[arg-type]
        return keyed.dedupe(within=within, name=name)

    def union(self, *others: Stream[Row], name: str | None = None) -> Stream[Row]:
        """Merges this stream with others of the same record type, in the order of the flow."""
        streams = (self, *others)
        for other in others:
            if not isinstance(other, Stream):
                raise refuse("union", "each of the streams", "a stream", other)
            if other.flow is not self.flow:
                raise BuildError(f"union: the streams belong to {self.flow!r} and {other.flow!r}")
            if other.schema != self.schema:
                raise BuildError(f"union: the records differ: {self.schema} and {other.schema}")
            if other.own != self.own or (self.own and self.own.ordered):
                own = self.own or other.own
                assert own is not None
                raise own.refuse(name or "union", "streams are merged by one watermark")
            if other.time != self.time:
                raise BuildError(
                    "union: one stream has event time"
                    f" ({self.time or 'none'}, {other.time or 'none'}); give both sources order_by"
                )
        label = self.flow._stateless_name(label_of(name, "union"))
        node = Union(self.flow._next(), label, tuple(one.ref for one in streams), self.schema)
        return self.flow._add(node, self.time, self.own)

    def order_by(
        self,
        field: str,
        *,
        lateness: Duration = 0,
        idle: GivenIdle = None,
        name: str | None = None,
    ) -> Stream[Row]:
        """Sorts the stream by another field; rows are held back for ``lateness``.

        Args:
            field: a Timestamp or an int.
            lateness: how far a row may lie behind the greatest time before it.
            idle: after so long without a row, by the clock on the wall, time runs on with that clock, so that windows
                and timers close without further input, as for a source (docs/idle.md). The field is a Timestamp then.
            name: of the operator.
        """
        require_text("order_by", field=field)
        label = self.flow._stateful_name(label_of(name, f"order_by_{field}"), "order_by")
        time = time_field(self.schema, field, label)
        node = OrderBy(
            self.flow._next(),
            label,
            self.ref,
            self.schema,
            field,
            lateness_span(time, lateness, f"operator {label!r}: lateness"),
            idle_of_order(f"operator {label!r}", idle, is_clocked=time.kind is Kind.TIMESTAMP),
        )
        return self.flow._add(node, time)

    def apply(
        self, composite: Callable[..., Out], *, name: str | None = None, **arguments: Any
    ) -> Out:
        """Calls ``composite(self, **arguments)``; operators made inside are called ``name/...``."""
        require_function("apply", composite=composite)
        label = label_of(name, getattr(composite, "__name__", "composite"))
        check_arguments(composite, label, arguments)
        before = self.flow._prefix
        self.flow._prefix = f"{before}{label}/"
        try:
            return composite(self, **arguments)
        finally:
            self.flow._prefix = before

    def sink(self, name: str, *, ordered: bool = True) -> None:
        """Adds a sink, at which the stream leaves the flow.

        Args:
            name: the sink's name; outputs are given by it.
            ordered: whether the whole output has the order of the stream (one task writes it); without it each
                slot writes its own part, in order.
        """
        require_text("sink", name=name)
        require_flag(f"sink {name!r}", ordered=ordered)
        label = self.flow._stateful_name(name, "sink")
        self.flow._nodes.append(Sink(self.flow._next(), label, self.ref, self.schema, ordered))

    def __repr__(self) -> str:
        """``<Stream of Sale, 'out' of 'pairs' in Flow('shop', 3 operators)>``."""
        made_by = self.flow._nodes[self.ref.node - 1].name
        return f"<Stream of {self.schema.name}, {self.ref.port!r} of {made_by!r} in {self.flow!r}>"

    # -- the common parts of the verbs ------------------------------------------------------------------

    def _deduped(self, own: key_order.Own | None, conflicts: Stream[Row], by: Ref) -> Deduped[Row]:
        out: Deduped[Row] = Deduped(self.flow, self.ref, self.schema, self.time, own)
        object.__setattr__(out, "conflicts", conflicts)
        object.__setattr__(out, "by", by)
        return out

    def _key_function(self, keys: Sequence[Any], buckets: int, into: Any) -> Key:
        if len(keys) > 1:
            raise BuildError("key_by takes field names, or one function alone")
        made = Function.of(keys[0], "key_by")
        check_takes(made, "key_by", {"row": self.schema})
        field = key_field(made, into)
        return Key((field,), made.adapted(Adapter((self.schema.whole,), field.type)), buckets)


def _require_name(key: Any) -> None:
    """Refuses what names no field; of a list of names it says how they are written."""
    if isinstance(key, list | tuple) and key and all(isinstance(one, str) for one in key):
        names = ", ".join(f'"{one}"' for one in key)
        raise BuildError(
            f"key_by: field names are given one by one, got {key!r}; write key_by({names})"
        )
    require_text("key_by", **{"each of the keys": key})


class Deduped(Stream[Row]):
    """The kept rows; ``conflicts`` has the rows whose key was kept with another payload."""

    conflicts: Stream[Row]
    #: what the operator by key puts out
    by: Ref

    @property
    def rejected(self) -> Stream[Rejected]:
        """The rows whose key's function raised (``errors="reject"``)."""
        return Stream(self.flow, Ref(self.by.node, "rejected"), REJECTED, None)
