"""A broker in memory that does what those of the tests cannot: gaps, retention, ids, times, new partitions, chance."""

from __future__ import annotations

import concurrent.futures
import random
import types
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from thalweg.connectors.kafka import fetching, topics


class Part:
    """A partition: its messages by offset, and where it begins and ends."""

    def __init__(self, first: int = 0) -> None:
        self.first = self.end = first
        self.messages: list[Message] = []

    def add(
        self, topic: str, partition: int, value: bytes | None, time_ms: int, **more: Any
    ) -> None:
        self.messages.append(
            Message(
                topic=topic, partition=partition, offset=self.end, value=value, timestamp=(1, time_ms), **more
            )
        )  # fmt: skip
        self.end += 1


class FakeBroker:
    """Topics in memory; its clients deliver in runs whose size and order are drawn from the seed."""

    def __init__(self, seed: int = 0) -> None:
        self.draw = random.Random(seed)
        self.parts: dict[tuple[str, int], Part] = {}
        self.ids: dict[str, str] = {}
        #: from where clients were told to fetch
        self.assigned: list[tuple[str, int, int]] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """All clients that are made from now on are of this broker."""
        made = lambda make, settings: FakeClient(self)  # noqa: E731
        patch.setattr(topics, "connected", made)
        patch.setattr(fetching, "connected", made)
        patch.setattr(topics, "REFRESH_S", 0.0)

    def create(self, topic: str, partitions: int = 1, first: int = 0) -> None:
        self.parts |= {(topic, number): Part(first) for number in range(partitions)}

    def delete(self, topic: str) -> None:
        self.parts = {key: part for key, part in self.parts.items() if key[0] != topic}

    def send(
        self, topic: str, partition: int, value: bytes | None, time_ms: int = 0, **more: Any
    ) -> None:
        self.parts[topic, partition].add(topic, partition, value, time_ms, **more)

    def skip(self, topic: str, partition: int, offsets: int) -> None:
        """Offsets without messages: marks of transactions, or what compaction left."""
        self.parts[topic, partition].end += offsets

    def cut(self, topic: str, partition: int, first: int) -> None:
        """Retention removes all before an offset."""
        part = self.parts[topic, partition]
        part.first = first
        part.messages = [one for one in part.messages if one.offset() >= first]


class FakeClient:
    """What Thalweg uses of a consumer and of an admin client."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._at: dict[tuple[str, int], int] = {}
        self._told: set[tuple[str, int]] = set()

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        found: dict[str, dict[int, None]] = {}
        for name, number in self._broker.parts:
            found.setdefault(name, {})[number] = None
        made = {
            name: types.SimpleNamespace(error=None, partitions=parts)
            for name, parts in found.items()
        }
        if topic is not None and topic not in made:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            made[topic] = types.SimpleNamespace(error=error, partitions={})
        return types.SimpleNamespace(topics=made)

    def offsets_for_times(
        self, asked: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        return [TopicPartition(one.topic, one.partition, self._offset(one)) for one in asked]

    def _offset(self, one: TopicPartition) -> int:
        part = self._broker.parts.get((one.topic, one.partition))
        if part is None:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        if one.offset == topics.LATEST:
            return part.end
        if one.offset == topics.EARLIEST:
            return part.first
        later = (m.offset() for m in part.messages if m.timestamp()[1] >= one.offset)
        return next(later, topics.LATEST)

    def describe_topics(self, asked: Any, request_timeout: float) -> Any:
        found = {}
        for name, one in self._broker.ids.items():
            found[name] = concurrent.futures.Future[Any]()
            found[name].set_result(types.SimpleNamespace(topic_id=one))
        return found

    def incremental_assign(self, given: list[TopicPartition]) -> None:
        self._broker.assigned += [(one.topic, one.partition, one.offset) for one in given]
        for one in given:
            assert (one.topic, one.partition) not in self._at
            self._at[one.topic, one.partition] = one.offset
            self._told.discard((one.topic, one.partition))

    def incremental_unassign(self, given: list[TopicPartition]) -> None:
        for one in given:
            del self._at[one.topic, one.partition]

    def consume(self, most: int, timeout: float) -> list[Message]:
        out: list[Message] = []
        for key in self._broker.draw.sample(sorted(self._at), len(self._at)):
            if len(out) >= most:
                break
            part = self._broker.parts.get(key)
            if part is None or not part.first <= self._at[key] <= part.end:
                out.append(_told(key, self._at[key], KafkaError._AUTO_OFFSET_RESET))
                continue
            rest = [one for one in part.messages if one.offset() >= self._at[key]]
            run = rest[: min(self._broker.draw.randrange(5), most - len(out))]
            out += run
            if run:
                self._at[key] = run[-1].offset() + 1
            elif not rest and key not in self._told:
                self._told.add(key)
                self._at[key] = part.end
                out.append(_told(key, part.end, KafkaError._PARTITION_EOF))
        return out

    def poll(self, timeout: float) -> None:
        pass

    def close(self) -> None:
        pass


def _told(key: tuple[str, int], offset: int, code: int) -> Message:
    return Message(topic=key[0], partition=key[1], offset=offset, error=KafkaError(code))
