"""Messages from the brokers into their lanes, no more than will leave soon."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from thalweg.connectors.contracts import POLL_S, Stop
from thalweg.connectors.kafka.client import Brokers, BrokerWait, Trouble, connected, library
from thalweg.connectors.kafka.lanes import Lane, Message
from thalweg.connectors.kafka.topics import EARLIEST, GONE, LATEST, Topics
from thalweg.errors import DataError

_LOG: Final = logging.getLogger("thalweg")
#: Messages that are taken at once.
TAKE: Final = 8_192
#: A lane with more than its share of that waits until others have caught up: messages, and bytes.
MANY: Final = 400_000
MUCH: Final = 256 << 20
#: The least share.
FEW: Final = 2_000
_LITTLE: Final = 4 << 20
#: After so long without a message it is asked whether there can be any, seconds.
_QUIET_S: Final = 2.0
#: What fetches differently from librdkafka's defaults: fast on again after a pause, and large messages.
_FETCH: Final = {
    "fetch.error.backoff.ms": 100,
    "fetch.queue.backoff.ms": 10,
    # A fetch that is under way when a topic is deleted can end the process (librdkafka's issue 5093 and others).
    "fetch.wait.max.ms": 100,
    "receive.message.max.bytes": 1_000_000_000,
}


class Fetcher:
    """A consumer that is told its offsets; without a group.

    Args:
        brokers: where they are.
        topics: answers whether what does not come is there.
        skips: whether messages that are lost are skipped; else they end the run.
    """

    def __init__(self, brokers: Brokers, topics: Topics, *, skips: bool) -> None:
        self._brokers, self._topics, self._skips = brokers, topics, skips
        self._trouble = Trouble()
        self._client: Any = None
        #: The lanes that the client fetches.
        self._active: dict[tuple[str, int], Lane] = {}
        self._wait: BrokerWait | None = None
        self._quiet_since = 0.0

    def close(self) -> None:
        """Ends the connection; may be called again, and it can be used again."""
        client, self._client, self._active = self._client, None, {}
        if client is not None:
            client.close()

    def forget(self) -> None:
        """Begins anew with a client that knows no topic: librdkafka can crash where one was made again."""
        self.close()

    def begin(self, lanes: Collection[Lane], stop: Stop) -> None:
        """Begins to fetch what is open of a span."""
        self._wait = BrokerWait(self._brokers, self._trouble, stop)
        self._quiet_since = time.monotonic()
        self._fetch([lane for lane in lanes if lane.is_open and lane.order not in self._active])

    def end(self, lanes: Collection[Lane]) -> None:
        """Lets go of lanes of which nothing is here: a topic may be deleted while nobody reads it."""
        self._leave([lane for lane in lanes if not lane.messages])

    def move(self, lane: Lane, at: int) -> None:
        """Goes on with a lane at another offset."""
        self._leave([lane])
        lane.move(at)

    def fill(self, lanes: Sequence[Lane], stop: Stop) -> None:
        """Takes what has come; waits a moment where nothing has.

        Raises:
            DataError: messages are lost, and that is not to be skipped.
            EnvironmentProblem: no broker answers.
            Stopped: ``stop`` is set.
        """
        self._choose(lanes)
        client = self._connected()
        messages = client.consume(1, POLL_S)
        if messages:
            messages += client.consume(TAKE, 0)
        if any(map(library().Message.error, messages)):
            told = [one for one in messages if one.error() is not None]
            messages = [one for one in messages if one.error() is None]
        else:
            told = []
        if self._deal(messages) + self._hear(told):
            self._quiet_since = time.monotonic()
            if self._wait is not None:
                self._wait.worked()
        elif time.monotonic() - self._quiet_since >= _QUIET_S:
            self._ask([lane for lane in lanes if lane.is_hungry], stop)

    def _choose(self, lanes: Sequence[Lane]) -> None:
        """Fetches the lanes that the others wait for, and rests those that are far ahead."""
        hungry = [lane for lane in lanes if lane.is_hungry]
        self._fetch([lane for lane in hungry if lane.order not in self._active])
        many, much = max(FEW, MANY // len(lanes)), max(_LITTLE, MUCH // len(lanes))
        self._leave([lane for lane in lanes if len(lane.messages) > many or lane.size > much])

    def _fetch(self, lanes: Collection[Lane]) -> None:
        if lanes:
            make = library().TopicPartition
            self._connected().incremental_assign(
                [make(lane.topic, lane.partition, lane.next) for lane in lanes]
            )
            self._active |= {lane.order: lane for lane in lanes}

    def _leave(self, lanes: Collection[Lane]) -> None:
        active = [lane for lane in lanes if self._active.pop(lane.order, None) is not None]
        if active:
            make = library().TopicPartition
            self._connected().incremental_unassign(
                [make(lane.topic, lane.partition) for lane in active]
            )

    # -- what came ---------------------------------------------------------------------------------------

    def _deal(self, messages: Sequence[Message]) -> int:
        """Messages to their lanes; how many lanes got some."""
        got = 0
        for lane, run in self._runs(messages):
            offsets = [one.offset() for one in run]
            lane.add(run, offsets, [one.timestamp()[1] for one in run])
            got += 1
        return got

    def _runs(self, messages: Sequence[Message]) -> Iterator[tuple[Lane, list[Message]]]:
        """Messages that come behind each other from one lane; those of lanes that nobody fetches are left out."""
        kind = library().Message
        for partition, some in groupby(messages, kind.partition):
            for topic, run in groupby(some, kind.topic):
                lane = self._active.get((topic, partition))
                if lane is not None:
                    yield lane, list(run)

    def _hear(self, told: Sequence[Message]) -> int:
        """What is no message; how much of it brings a lane on."""
        brought = 0
        for one in told:
            error, lane = one.error(), self._active.get((one.topic(), one.partition()))
            name = error.name()
            if name == "_PARTITION_EOF":
                if lane is not None and one.offset() > lane.next:
                    lane.next = one.offset()  # behind it are marks of transactions, or nothing
                    brought += 1
            elif lane is not None and name in ("_AUTO_OFFSET_RESET", *GONE):
                brought += self._look_at([lane], None)
            else:
                self._trouble(error)
        return brought

    # -- what does not come ------------------------------------------------------------------------------

    def _ask(self, hungry: Sequence[Lane], stop: Stop) -> None:
        """Whether messages can come: finds out what is lost, and waits for brokers that are gone."""
        asked_s = time.monotonic()
        found = self._look_at(hungry, stop)
        now_s = time.monotonic()
        self._quiet_since = now_s if found else now_s - _QUIET_S / 2
        if self._wait is None or found:
            return
        if now_s - asked_s > _QUIET_S:
            self._wait.worked()  # the broker was gone and is there again
        else:
            self._wait.failed(None, pauses=False)

    def _look_at(self, lanes: Sequence[Lane], stop: Stop | None) -> int:
        """Finds lanes that lost messages, of which each is an error or goes on behind; how many they are."""
        keys = [lane.key for lane in lanes]
        first, last = (self._topics.offsets(keys, at, stop) for at in (EARLIEST, LATEST))
        lost = 0
        for lane in lanes:
            low, high = first[lane.key], last[lane.key]
            if low is None or high is None:
                lost += self._lose(
                    lane, lane.stop, f"the topic {lane.topic!r} is not there any more"
                )
            elif high < lane.stop:
                why = f"the partition ends at {high}: it was cut, or the topic was deleted and made again"
                lost += self._lose(lane, lane.stop, why)
            elif low > lane.next:
                lost += self._lose(lane, low, f"retention has removed all before {low}")
        return lost

    def _lose(self, lane: Lane, upto: int, why: str) -> int:
        """Skips what is lost, or ends the run."""
        lost(lane, lane.next, min(upto, lane.stop), why, skips=self._skips)
        self._leave([lane])
        lane.next = max(lane.next, upto)
        return 1

    def _connected(self) -> Any:
        if self._client is None:
            settings = self._brokers.settings(
                group__id="thalweg",
                enable__auto__commit=False,
                enable__auto__offset__store=False,
                auto__offset__reset="error",
                enable__partition__eof=True,
                error_cb=self._trouble,
            )
            self._client = connected(library().Consumer, {**_FETCH, **settings})
        return self._client


def lost(lane: object, first: int, stop: int, why: str, *, skips: bool) -> None:
    """Tells of messages that are not there any more.

    Raises:
        DataError: they are not to be skipped.
    """
    what = f"offsets {first} to {stop - 1}" if stop > first else f"offset {first}"
    if not skips:
        raise DataError(
            f"{lane}: {what} cannot be read any more: {why}\n"
            "  on_loss='skip' goes on with what is there and says how many are missing"
        )
    _LOG.warning("%s: %s: skipped %d messages; %s", lane, what, max(0, stop - first), why)
