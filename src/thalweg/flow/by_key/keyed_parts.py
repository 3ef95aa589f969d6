"""What the verbs of a stream by key have in common: its rows in order, and operators with generated functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

from thalweg.checks import known_keywords_of
from thalweg.errors import BuildError
from thalweg.flow import added
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import KeyValue, Row
from thalweg.flow.operators import combining, key_order
from thalweg.flow.operators.built_in import OwnTime
from thalweg.flow.operators.functions import Function, Returns, returns_of
from thalweg.flow.operators.generated import MadeFunctions
from thalweg.flow.operators.nodes import Grouping, Key, Keyed, Timing
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Field

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


@known_keywords_of
class KeyedParts(Generic[Row, KeyValue]):
    """A stream and the key of its rows."""

    def __init__(self, stream: Stream[Row], key: Key, grouping: Grouping = "fields") -> None:
        self._stream = stream
        self._key = key
        self._grouping = grouping

    def __repr__(self) -> str:
        by = ", ".join(field.name for field in self._key.fields) or "nothing"
        return f"<KeyedStream by {by} of {self._stream!r}>"

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

    @property
    def _key_type(self) -> FieldType | tuple[FieldType, ...] | None:
        """What functions are given as the key."""
        kinds = tuple(field.type for field in self._key.fields)
        return kinds[0] if len(kinds) == 1 else kinds or None

    def _rows_function(self, function: Any, label: str, into: Any) -> tuple[Returns, Any]:
        """What a function of a window's rows gives, and the function of rows as they are inside."""
        made = Function.of(function, label)
        check_takes(
            made, label, {"key": None, "start": None, "end": None, "rows": "a list of rows"}
        )
        returns = returns_of(made, label, into, may_be_nothing=False)
        assert returns.schema is not None
        rows = FieldType(Kind.LIST, item=self._stream.schema.whole)
        takes = (self._key_type, None, None, rows)
        return returns, Adapter(takes, returns.schema.whole, returns.many)(function)

    def _generated(
        self,
        stream: Stream[Any],
        label: str,
        made: MadeFunctions,
        returns: Returns,
        extra: Field | None = None,
        *,
        kept: Sequence[str] = (),
        timing: Timing | None = None,
    ) -> Stream[Any]:
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
            timing or timing_of(stream),
            made.collects,
            made.asked,
        )
        given = flow._add(node, stream.time, stream._own_keeping(*kept))
        return given if made.packs is None else added.pack(given, label, made.packs)

    def _ordered(self, label: str) -> Stream[Any]:
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

    def _put_in_order(self, label: str, own: key_order.Own) -> Stream[Any]:
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


def timing_of(stream: Stream[Any]) -> Timing:
    return "watermark" if stream.own is None else "own"
