"""An input whose rows get the time at which they came: what was stamped is part of the span, and a repeat reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from thalweg.connectors.contracts import Feed
from thalweg.embedded.durable.inputs import Repeatable
from thalweg.engine.stamps import stamped
from thalweg.errors import CheckpointMismatch
from thalweg.flow.operators.nodes import Source


class StampedInput:
    """The rows of an input with stamps; what is read at once has one stamp.

    A span is a list of (stamp, the input's own span). A place is the input's own: stamps that were given out are in the
    state of the source.

    Args:
        source: whose rows they are.
        given: reads them without the field.
        now: the stamp of rows that come now.
    """

    def __init__(self, source: Source, given: Repeatable, now: Callable[[], int]) -> None:
        self._source, self._given, self._now = source, given, now
        self._spans: list[list[Any]] = []

    @property
    def live(self) -> bool:
        return self._given.live

    @property
    def is_over(self) -> bool:
        return self._given.is_over

    @is_over.setter
    def is_over(self, is_over: bool) -> None:
        self._given.is_over = is_over

    @property
    def caught_up(self) -> bool:
        return self._given.caught_up

    @property
    def place(self) -> Any:
        return self._given.place

    def next(self, rows: int) -> Feed:
        stamp = self._now()
        yield from self._stamped(self._given.next(rows), stamp)
        self._note(stamp)

    def again(self, span: Any) -> Feed:
        if not _has_stamps(span):
            raise CheckpointMismatch(
                f"source {self._source.name!r}: the batch that a crash left was read without"
                f" stamp={self._source.stamp!r}; start the flow once as it was, which repeats that batch"
            )
        for stamp, part in span:
            yield from self._stamped(self._given.again(part), stamp)
            self._note(stamp)

    def span(self) -> Any:
        found, self._spans = self._spans, []
        return found or None

    def joined(self, first: Any, then: Any) -> Any:
        return [*first, *then]

    def confirm(self) -> None:
        self._given.confirm()

    def close(self) -> None:
        self._given.close()

    def _note(self, stamp: int) -> None:
        part = self._given.span()
        if part is not None:
            self._spans.append([stamp, part])

    def _stamped(self, feed: Feed, stamp: int) -> Iterator[Any]:
        for chunk, bad in feed:
            yield stamped(self._source, chunk, stamp), bad


def _has_stamps(span: Any) -> bool:
    """Whether a span is one of this kind: of files it is a list, too, but of paths."""
    return isinstance(span, list) and all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], int) for one in span
    )
