"""``flow.union``, ``flow.barrier`` and ``flow.merge``: several streams as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from thalweg.checks import known_keywords_of, meant, require_flag, require_text
from thalweg.errors import BuildError
from thalweg.flow import added
from thalweg.flow.generics import Out, Row
from thalweg.flow.joining.join_parts import combining_rows, event_time, nested, require_stream
from thalweg.flow.joining.outputs import Matched, Unmatched
from thalweg.flow.operators.arguments import time_field
from thalweg.flow.operators.joining import joins

if TYPE_CHECKING:
    from thalweg.flow.flow import Flow
    from thalweg.flow.streams import Stream


#: Arguments of a barrier that the name of a stream may misspell.
_ARGUMENTS = ("by_time", "name", "into", "max_waiting")


@known_keywords_of
class SeveralVerbs:
    """The verbs of a flow over several streams."""

    def union(self, *streams: Stream[Row], name: str | None = None) -> Stream[Row]:
        """Merges streams of the same record type, in the order of the flow."""
        if not streams:
            raise BuildError("union needs at least one stream")
        for one in streams:
            require_stream("union", **{"each of the streams": one})
        return streams[0].union(*streams[1:], name=name)

    @overload
    def barrier(
        self,
        combine: None = None,
        /,
        *,
        by_time: Literal[False] = False,
        name: str = "barrier",
        into: Any = None,
        max_waiting: int | None = None,
        **streams: Stream[Any],
    ) -> Stream[Any]: ...

    @overload
    def barrier(
        self,
        combine: None = None,
        /,
        *,
        by_time: Literal[True],
        name: str = "barrier",
        into: Any = None,
        max_waiting: int | None = None,
        **streams: Stream[Any],
    ) -> Matched[Any]: ...

    @overload
    def barrier(
        self,
        combine: Callable[..., Out | None],
        /,
        *,
        by_time: Literal[False] = False,
        name: str = "barrier",
        into: Any = None,
        max_waiting: int | None = None,
        **streams: Stream[Any],
    ) -> Stream[Out]: ...

    @overload
    def barrier(
        self,
        combine: Callable[..., Out | None],
        /,
        *,
        by_time: Literal[True],
        name: str = "barrier",
        into: Any = None,
        max_waiting: int | None = None,
        **streams: Stream[Any],
    ) -> Matched[Out]: ...

    def barrier(
        self,
        combine: Callable[..., Any] | None = None,
        /,
        *,
        by_time: bool = False,
        name: str = "barrier",
        into: Any = None,
        max_waiting: int | None = None,
        **streams: Stream[Any],
    ) -> Any:
        """Matches the n-th rows of all streams, or with ``by_time`` the rows of equal event time.

        Args:
            combine: ``combine(*rows) -> R``, a row of each stream in the order in which they are given; without
                it the output has a field for each stream, called as it is given here.
            by_time: rows of equal event time; a time that one of the streams lacks goes to ``unmatched``.
            name: the operator's name.
            into: the output record of a function without annotation.
            max_waiting: see :meth:`operator`.
            streams: two streams or more.

        Returns:
            The stream; with ``by_time`` the streams (matched, unmatched). What waits at the end stays unread.
        """
        require_text("barrier", name=name)
        require_flag(f"operator {name!r}", by_time=by_time)
        return barrier(
            self._flow,
            combine,
            streams,
            by_time=by_time,
            name=name,
            into=into,
            max_waiting=max_waiting,
        )

    def merge(self, *streams: Stream[Row], by: str, name: str = "merge") -> Stream[Row]:
        """Merges streams without event time that are each sorted by a field; the result is sorted by it.

        Ties are in the order of the streams. A row is put out when no stream can bring an earlier one: all that
        have not ended hold their next row.
        """
        require_text("merge", name=name, by=by)
        return merge(self._flow, streams, by=by, name=name)

    @property
    def _flow(self) -> Flow:
        return cast("Flow", self)


def barrier(
    flow: Flow,
    combine: Callable[..., Any] | None,
    streams: Mapping[str, Stream[Any]],
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
        if hint := meant(one, _ARGUMENTS) if not isinstance(stream, SeveralVerbs) else "":
            raise BuildError(f"{label}: there is no argument {one!r}{hint}")
        require_stream(label, **{one: stream})
    made, out, user = combining_rows(name, list(streams.values()), combine, into, nested(streams))
    if not by_time:
        return flow._operator(
            name, joins.barrier, {"rows": streams, "combine": made},
            into=out, max_waiting=max_waiting, user=user,
        )  # fmt: skip
    event_time(label, *streams.values())
    stamped = {one: added.stamp(stream, "event_time") for one, stream in streams.items()}
    streams_out = flow._operator(
        name, joins.barrier_by_time, {"rows": stamped, "combine": made},
        into={"matched": out, "unmatched": Unmatched}, max_waiting=max_waiting, user=user,
    )  # fmt: skip
    return Matched(*streams_out)


def merge(flow: Flow, streams: Sequence[Stream[Row]], *, by: str, name: str) -> Stream[Row]:
    """See :meth:`thalweg.flow.flow.Flow.merge`."""
    if not streams:
        raise BuildError(f"operator {name!r}: merge needs at least one stream")
    for one in streams:
        require_stream(f"operator {name!r}", **{"each argument": one})
    first = streams[0].schema
    for one in streams:
        if one.schema != first:
            raise BuildError(f"operator {name!r}: the records differ: {first} and {one.schema}")
        if one.time is not None:
            raise BuildError(
                f"operator {name!r}: these streams have event time, by which union merges them"
            )
    time_field(first, by, name)
    merged: Stream[Row] = flow.operator(
        name, joins.merge, rows=list(streams), place=first.index(by), into=first
    )
    return merged
