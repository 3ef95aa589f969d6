"""Streams that a verb gives several of, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol

from thalweg.flow.generics import Other, Out, Row

if TYPE_CHECKING:
    from thalweg.flow.streams import Stream


class Zipped(NamedTuple, Generic[Out, Row, Other]):
    """What ``zip`` gives."""

    pairs: Stream[Out]
    left_over: Stream[Row]
    right_over: Stream[Other]


class Gated(NamedTuple, Generic[Row]):
    """What ``gate`` gives."""

    passed: Stream[Row]
    stopped: Stream[Row]


class Throttled(NamedTuple, Generic[Row]):
    """What ``throttle`` gives."""

    passed: Stream[Row]
    excess: Stream[Row]


class Unmatched(NamedTuple):
    """A time at which a barrier by time had a row of this input, and none of another."""

    input: str
    time: int


class Matched(NamedTuple, Generic[Out]):
    """What ``flow.barrier`` gives by time."""

    matched: Stream[Out]
    unmatched: Stream[Unmatched]


class Branches(Protocol[Row]):
    """What ``split`` gives: a named tuple of the outputs that were named."""

    def __getattr__(self, name: str, /) -> Stream[Row]: ...
    def __getitem__(self, place: int, /) -> Stream[Row]: ...
    def __iter__(self) -> Iterator[Stream[Row]]: ...
    def __len__(self) -> int: ...
