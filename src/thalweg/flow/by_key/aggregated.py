"""Aggregates of a stream by key without windows of time: over all rows, over so many, over the last ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.checks import known_keywords_of, refuse, require_rows
from thalweg.errors import BuildError
from thalweg.flow import added
from thalweg.flow.by_key.keyed_parts import KeyedParts
from thalweg.flow.generics import KeyValue, Row
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.arguments import Duration, label_of, span
from thalweg.flow.operators.functions import Returns
from thalweg.flow.operators.windowing import counted, rolling, windows
from thalweg.times import EXTREME

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


@known_keywords_of
class AggregateVerbs(KeyedParts[Row, KeyValue]):
    """The verbs of aggregates without windows of time."""

    def aggregate(self, *, name: str | None = None, **aggregates: Aggregate) -> Stream[Any]:
        """Aggregates over all rows of a key: (key fields, results), once, when the input has ended.

        An input that never ends gives nothing; :meth:`rolling` gives a result with each row. It needs event time.
        """
        label = label_of(name, "aggregate")
        self._need_whole_keys(label, "it has all rows of a key in one state")
        self._event_time(label)
        stream = self._ordered(label)
        made = windows.whole(label, stream.schema, self._key.fields, EXTREME, aggregates)
        return self._generated(stream, label, made, Returns(made.out), kept=self._key_names())

    def count_window(
        self, size: int, /, *, name: str | None = None, **aggregates: Aggregate
    ) -> Stream[Any]:
        """Groups each ``size`` rows of a key, one group behind the other: (key fields, start, end, results).

        It is put out with its last row. Groups that are not full when the input ends stay in the state. Start and end
        are the times of the first and the last row; without event time there are none.
        """
        label = label_of(name, "count_window")
        require_rows(f"operator {label!r}", size=size)
        self._need_whole_keys(label, "it counts all rows of a key")
        stream = self._ordered(label)
        read = stream if stream.time is None else added.stamp(stream, "event_time")
        time = None if stream.time is None else read.schema.fields[-1]
        made = counted.count_window(label, stream.schema, self._key, time, size, aggregates)
        returns = Returns(made.out, maybe=True)
        return self._generated(read, label, made, returns, kept=self._key_names())

    def rolling(
        self,
        *,
        rows: int | None = None,
        within: Duration | None = None,
        name: str | None = None,
        **aggregates: Aggregate,
    ) -> Stream[Any]:
        """Gives each row with aggregates behind, over the last rows of its key, itself among them.

        Args:
            rows: over the last so many rows.
            within: over the rows at most so long before it. Without both: over all rows so far.
            name: the operator's name.
            aggregates: results by name, from ``tw.agg``.
        """
        label = label_of(name, "rolling")
        self._need_whole_keys(label, "each row has all rows of its key before it")
        if rows is not None and within is not None:
            raise BuildError(f"operator {label!r}: give rows= or within=, not both")
        if rows is not None:
            require_rows(f"operator {label!r}", rows=rows)
        stream = self._ordered(label)
        read, time, length = stream, None, None
        if within is not None:
            length = span(self._event_time(label), within, f"operator {label!r}: within")
            if length < 0:
                raise refuse(f"operator {label!r}", "within", "not negative", within)
            read = added.stamp(stream, "event_time")
            time = read.schema.fields[-1]
        reach = rolling.Reach(rows, length)
        made = rolling.rolling(
            label, stream.schema, time, reach, aggregates, keyed=bool(self._key.fields)
        )
        return self._generated(read, label, made, Returns(made.out), kept=self._key_names())
