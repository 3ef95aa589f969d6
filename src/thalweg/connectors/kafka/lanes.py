"""Partitions side by side: what has come of each, and the one order in which their messages leave.

A span of several partitions is merged by the greatest time that the partition had so far, ties by topic, partition and
offset. That follows from the span alone: not from which broker was faster, nor from how much was read at once.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

#: A message of confluent_kafka.
Message = Any


class Lane:
    """A partition: its messages that have come and not left yet, from ``at`` on.

    Args:
        topic: its topic.
        partition: its number.
    """

    __slots__ = (
        "_top", "at", "clock", "messages", "next", "offsets", "partition", "size", "stop", "times", "topic",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        #: all before has left
        self.at = 0
        #: all before has come
        self.next = 0
        #: where the span ends that is being read
        self.stop = 0
        self.messages: list[Message] = []
        self.offsets: list[int] = []
        self.times: list[int] = []
        #: the greatest time so far in the span, by message in the span
        self.clock: list[int] = []
        #: the greatest time of the span so far
        self._top = -1
        #: bytes of the messages here
        self.size = 0

    def __repr__(self) -> str:
        return f"topic {self.topic!r} partition {self.partition}"

    @property
    def key(self) -> str:
        """Names it in positions."""
        return lane_key(self.topic, self.partition)

    @property
    def order(self) -> tuple[str, int]:
        """Its place among lanes of one time."""
        return self.topic, self.partition

    @property
    def is_open(self) -> bool:
        """Whether more of the span is to come."""
        return self.next < self.stop

    @property
    def is_hungry(self) -> bool:
        """Whether nothing can leave before more of it comes."""
        return not self.clock and self.next < self.stop

    def move(self, at: int) -> None:
        """Forgets what is here, and goes on at another offset."""
        self.at = self.next = at
        self.messages, self.offsets, self.times, self.clock, self.size = [], [], [], [], 0

    def begin(self, stop: int) -> None:
        """Begins a span at ``at``; what has come already of it counts."""
        self.stop = stop
        self.clock, self._top = [], -1
        self._climb(self.times[: bisect.bisect_left(self.offsets, stop)])

    def add(self, messages: Sequence[Message], offsets: list[int], times: list[int]) -> None:
        """The next messages; those that have come before are left out."""
        if offsets[0] < self.next:
            fresh = bisect.bisect_left(offsets, self.next)
            messages, offsets, times = messages[fresh:], offsets[fresh:], times[fresh:]
            if not offsets:
                return
        self.messages += messages
        self.offsets += offsets
        self.times += times
        self.size += sum(map(len, messages))
        if self.next < self.stop:
            self._climb(times[: bisect.bisect_left(offsets, self.stop)])
        self.next = offsets[-1] + 1

    def _climb(self, times: Sequence[int]) -> None:
        """Adds to the clock the next messages of the span."""
        self.clock += itertools.islice(itertools.accumulate(times, max, initial=self._top), 1, None)
        self._top = self.clock[-1] if self.clock else self._top

    def take(self, count: int) -> Sequence[Message]:
        """The first so many messages, which leave."""
        if not count:
            return ()
        taken = self.messages[:count]
        self.at = self.offsets[count - 1] + 1
        self.size -= sum(map(len, taken))
        for column in (self.messages, self.offsets, self.times, self.clock):
            del column[:count]
        return taken


def lane_key(topic: str, partition: int) -> str:
    """Names a partition in positions."""
    return f"{topic}/{partition}"


def lane_of(key: str) -> tuple[str, int]:
    """The topic and the partition that a position is of."""
    topic, _, partition = key.rpartition("/")
    return topic, int(partition)


def leaving(lanes: Sequence[Lane]) -> list[Message]:
    """The messages that leave now, in order: those before which nothing more can come.

    Args:
        lanes: by their order; none is hungry.
    """
    open_at = [(lane.clock[-1], place) for place, lane in enumerate(lanes) if lane.is_open]
    counts = [len(lane.clock) for lane in lanes]
    if open_at:
        time, last = min(open_at)
        for place, lane in enumerate(lanes):
            cut = bisect.bisect_right if place <= last else bisect.bisect_left
            counts[place] = cut(lane.clock, time)
    times = [lane.clock[:count] for lane, count in zip(lanes, counts, strict=True) if count]
    taken = [lane.take(count) for lane, count in zip(lanes, counts, strict=True) if count]
    if len(taken) <= 1:
        return list(taken[0]) if taken else []
    order = np.argsort(np.array([*itertools.chain(*times)], np.int64), kind="stable")
    messages = [*itertools.chain(*taken)]
    return [messages[place] for place in order.tolist()]
