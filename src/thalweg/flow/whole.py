"""Windows, sessions and aggregates of a whole stream: those of a stream by key, with one key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from thalweg.checks import known_keywords_of
from thalweg.flow.by_key.keyed import KeyedStream
from thalweg.flow.generics import Out, Row, Several
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.arguments import Duration
from thalweg.flow.operators.nodes import Key

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


@known_keywords_of
class WholeVerbs(Generic[Row]):
    """The verbs that see all rows of a stream as those of one key."""

    def _whole(self) -> KeyedStream[Row, Any]:
        stream: Any = self
        return KeyedStream(stream, Key((), None, 1))

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
        function: Callable[[tuple[()], int, int, list[Row]], Several[Out]],
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
        function: Callable[[tuple[()], int, int, list[Row]], Out | None],
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
        function: Callable[[tuple[()], int, int, list[Row]], Any],
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
        """Groups the whole stream into windows; see :meth:`KeyedStream.window`."""
        return self._whole()._window(
            size, function, aggregates, every=every, start=start, early=early, early_rows=early_rows,
            name=name, into=into,
        )  # fmt: skip

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
        gap: Duration,
        function: Callable[[tuple[()], int, int, list[Row]], Several[Out]],
        *,
        name: str | None = None,
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def sessions(
        self,
        gap: Duration,
        function: Callable[[tuple[()], int, int, list[Row]], Out | None],
        *,
        name: str | None = None,
        into: None = None,
    ) -> Stream[Out]: ...

    @overload
    def sessions(
        self,
        gap: Duration,
        function: Callable[[tuple[()], int, int, list[Row]], Any],
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
        """Groups the whole stream into sessions; see :meth:`KeyedStream.sessions`."""
        return self._whole()._sessions(gap, function, aggregates, name=name, into=into)

    def aggregate(self, *, name: str | None = None, **aggregates: Aggregate) -> Stream[Any]:
        """Aggregates over all rows, once, when the input has ended; see :meth:`KeyedStream.aggregate`."""
        return self._whole().aggregate(name=name, **aggregates)

    def count_window(
        self, size: int, /, *, name: str | None = None, **aggregates: Aggregate
    ) -> Stream[Any]:
        """Groups each ``size`` rows; see :meth:`KeyedStream.count_window`."""
        return self._whole().count_window(size, name=name, **aggregates)

    def rolling(
        self,
        *,
        rows: int | None = None,
        within: Duration | None = None,
        name: str | None = None,
        **aggregates: Aggregate,
    ) -> Stream[Any]:
        """Gives each row with aggregates over the last rows; see :meth:`KeyedStream.rolling`."""
        return self._whole().rolling(rows=rows, within=within, name=name, **aggregates)
