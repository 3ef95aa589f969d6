"""Windows and sessions of a stream by key, by aggregates or by a function of their rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from thalweg.checks import known_keywords_of, refuse, require_rows
from thalweg.errors import BuildError
from thalweg.flow import added
from thalweg.flow.by_key.keyed_parts import KeyedParts
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.fields.user_rows import Adapter
from thalweg.flow.generics import KeyValue, Out, Row, Several
from thalweg.flow.operators import combining
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates.own import inside
from thalweg.flow.operators.arguments import Duration, label_of, span
from thalweg.flow.operators.functions import Function, Returns
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.operators.windowing import counted, windows
from thalweg.flow.records import Schema

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


@known_keywords_of
class WindowVerbs(KeyedParts[Row, KeyValue]):
    """The verbs of windows."""

    @overload
    def window(
        self,
        size: Duration,
        function: None = None,
        *,
        every: Duration | None = None,
        start: Duration = 0,
        early: Duration | None = None,
        early_rows: int | None = None,
        name: str | None = None,
        into: None = None,
        **aggregates: Aggregate,
    ) -> Stream[Any]: ...

    @overload
    def window(
        self,
        size: Duration,
        function: Callable[[KeyValue, int, int, list[Row]], Several[Out]],
        *,
        every: Duration | None = None,
        start: Duration = 0,
        name: str | None = None,
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def window(
        self,
        size: Duration,
        function: Callable[[KeyValue, int, int, list[Row]], Out | None],
        *,
        every: Duration | None = None,
        start: Duration = 0,
        name: str | None = None,
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def window(
        self,
        size: Duration,
        function: Callable[[KeyValue, int, int, list[Row]], Any],
        *,
        every: Duration | None = None,
        start: Duration = 0,
        name: str | None = None,
        into: type[Out],
    ) -> Stream[Out]: ...

    def window(
        self,
        size: Duration,
        function: Callable[..., Any] | None = None,
        *,
        every: Duration | None = None,
        start: Duration = 0,
        early: Duration | None = None,
        early_rows: int | None = None,
        name: str | None = None,
        into: Any = None,
        **aggregates: Aggregate,
    ) -> Stream[Any]:
        """Groups rows into event-time windows: tumbling, or with ``every`` hopping.

        Windows are ``[a, a + size)`` with ``a = start (mod every)``; one puts out (key fields, start, end,
        results) when no row before its end can come any more.

        Args:
            size: the length of a window.
            function: instead of aggregates, ``function(key, start, end, rows) -> R``.
            every: the distance of two windows' starts; ``size`` without it.
            start: a point where a window starts.
            early: also give what there is, with the first row of each stretch of this length behind a window's first;
                results have a field ``early`` then.
            early_rows: the same with every so many-th row of a window.
            name: the operator's name.
            into: the function's output record, where it has no annotation.
            aggregates: results by name, from ``tw.agg``.
        """
        return self._window(
            size, function, aggregates, every=every, start=start, early=early, early_rows=early_rows,
            name=name, into=into,
        )  # fmt: skip

    def _window(
        self,
        size: Duration,
        function: Any,
        aggregates: dict[str, Aggregate],
        *,
        every: Duration | None,
        start: Duration,
        early: Duration | None,
        early_rows: int | None,
        name: str | None,
        into: Any,
    ) -> Stream[Any]:
        label = label_of(name, "window")
        time = self._event_time(label)
        if self._stream.own is not None:
            raise self._stream.own.refuse(label, "windows close by the watermark of all rows")
        length = span(time, size, f"operator {label!r}: size")
        hop = length if every is None else span(time, every, f"operator {label!r}: every")
        if length < 1 or hop < 1:
            raise BuildError(
                f"operator {label!r}: size and every must be positive, got {size!r} and {every!r}"
            )
        if hop > length:
            raise BuildError(
                f"operator {label!r}: every is greater than size, so rows between two windows would be lost"
            )
        origin = span(time, start, f"operator {label!r}: start")
        asked = self._early(label, time, early, early_rows)
        read = self._stream if asked is None else added.stamp(self._stream, "event_time")
        stamped = added.stamp(read, "window_start", length, hop, origin)
        field = stamped.schema.fields[-1]
        item = self._stream.schema
        if function is None:
            _refuse_into(label, into)
            if asked is not None:
                self._need_whole_keys(label, "an early result is of all rows before it")
                asked = dataclasses.replace(asked, time=read.schema.names[-1])
            if self._grouping == "partial":
                partial = combining.split(label, item, (*self._key.fields, field), aggregates)
                stamped = added.combine(stamped, label, partial)
                item, aggregates = partial.record, partial.merging
            made = windows.window(label, item, self._key.fields, field, length, aggregates, asked)
            returns = Returns(made.out, maybe=asked is not None)
        else:
            if asked is not None:
                raise BuildError(
                    f"operator {label!r}: early results are of aggregates; a function sees whole windows"
                )
            _refuse_both(label, aggregates)
            self._need_whole_keys(label, "a function sees all rows of a window")
            returns, function = self._rows_function(function, label, into)
            made = windows.collect(
                label, stamped.schema, item, len(self._key.fields), field, length, function,
                _some(returns), session=False, many=returns.many,
            )  # fmt: skip
        return self._generated(stamped, label, made, returns, extra=field)

    def _early(
        self, label: str, time: FieldType, every: Duration | None, rows: int | None
    ) -> windows.Early | None:
        """When there are early results; None: never."""
        if every is None and rows is None:
            return None
        if every is not None and rows is not None:
            raise BuildError(f"operator {label!r}: give early= or early_rows=, not both")
        length = 0
        if rows is not None:
            require_rows(f"operator {label!r}", early_rows=rows)
        else:
            assert every is not None
            length = span(time, every, f"operator {label!r}: early")
            if length < 1:
                raise refuse(f"operator {label!r}", "early", "above 0", every)
        keys, scope = counted.keys_in_row(self._key, self._stream.schema)
        return windows.Early(rows or 0, length, "", keys, scope)

    @overload
    def sessions(
        self,
        gap: Duration | Callable[[Row], int],
        function: None = None,
        *,
        name: str | None = None,
        into: None = None,
        **aggregates: Aggregate,
    ) -> Stream[Any]: ...

    @overload
    def sessions(
        self,
        gap: Duration | Callable[[Row], int],
        function: Callable[[KeyValue, int, int, list[Row]], Several[Out]],
        *,
        name: str | None = None,
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def sessions(
        self,
        gap: Duration | Callable[[Row], int],
        function: Callable[[KeyValue, int, int, list[Row]], Out | None],
        *,
        name: str | None = None,
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def sessions(
        self,
        gap: Duration | Callable[[Row], int],
        function: Callable[[KeyValue, int, int, list[Row]], Any],
        *,
        name: str | None = None,
        into: type[Out],
    ) -> Stream[Out]: ...

    def sessions(
        self,
        gap: Duration | Callable[[Row], int],
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        into: Any = None,
        **aggregates: Aggregate,
    ) -> Stream[Any]:
        """Groups a key's rows into event-time sessions, which end after a pause longer than ``gap``.

        A session puts out (key fields, start, end, results) once ``gap`` has passed after its last row; ``end``
        is the time of that row, and a row exactly ``gap`` later still joins. A gap may be a function of the row, in
        the unit of the event time (``tw.minutes(5)``): a session then lasts as long as one of its rows says. Without
        aggregates a session is (key fields, start, end). Arguments as for :meth:`window`.
        """
        return self._sessions(gap, function, aggregates, name=name, into=into)

    def _sessions(
        self,
        gap: Any,
        function: Any,
        aggregates: dict[str, Aggregate],
        *,
        name: str | None,
        into: Any,
    ) -> Stream[Any]:
        label = label_of(name, "sessions")
        self._need_whole_keys(label, "a session ends by the gap between all rows of its key")
        time = self._event_time(label)
        length: Any = (
            self._gap(label, gap) if callable(gap) else span(time, gap, f"operator {label!r}: gap")
        )
        if not callable(length) and length < 0:
            raise BuildError(f"operator {label!r}: gap must not be negative, got {gap!r}")
        stream = self._ordered(label)
        stamped = added.stamp(stream, "event_time")
        field = stamped.schema.fields[-1]
        if function is None:
            _refuse_into(label, into)
            made = windows.sessions(
                label, self._stream.schema, self._key.fields, field, length, aggregates
            )
            returns = Returns(made.out)
        else:
            if callable(length):
                raise BuildError(
                    f"operator {label!r}: a gap that is a function of the row goes with aggregates; collect the rows"
                    " by rows=tw.agg.collect(last=1000)"
                )
            _refuse_both(label, aggregates)
            returns, function = self._rows_function(function, label, into)
            made = windows.collect(
                label, stamped.schema, stream.schema, len(self._key.fields), field, length, function,
                _some(returns), session=True, many=returns.many,
            )  # fmt: skip
        kept = self._key_names() if function is None else ()
        return self._generated(stamped, label, made, returns, kept=kept)

    def _gap(self, label: str, gap: Callable[..., Any]) -> Callable[..., Any]:
        """A gap that is a function, of rows as they are inside."""
        check_takes(Function.of(gap, label, argument="gap"), label, {"row": self._stream.schema})
        adapted: Callable[..., Any] = inside(Adapter((self._stream.schema.whole,))(gap))
        return adapted


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
