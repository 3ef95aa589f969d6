"""What there is to read: topics, their partitions, and where these begin and end."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from thalweg.connectors.contracts import Stop
from thalweg.connectors.kafka.client import (
    CALL_S,
    Brokers,
    BrokerWait,
    Trouble,
    code_of,
    connected,
    library,
)
from thalweg.connectors.kafka.lanes import lane_key, lane_of

Result = TypeVar("Result")

#: Times of Kafka that mean the ends of a partition.
LATEST: Final = -1
EARLIEST: Final = -2
#: How often it is asked which topics and partitions there are, seconds.
REFRESH_S: Final = 1.0
#: How long the ids of topics are waited for, seconds: brokers without ids may answer nothing at all.
_IDS_S: Final = 0.5
#: Errors of a topic or a partition that is not there.
GONE: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


class Stopped(Exception):
    """The run ends, so nobody waits for an answer any more."""


class Topics:
    """Asks the brokers about topics.

    Args:
        brokers: where the brokers are.
        names: of the topics; those that begin with ``^`` are patterns.
    """

    def __init__(self, brokers: Brokers, names: tuple[str, ...]) -> None:
        self._brokers, self._names = brokers, names
        self._trouble = Trouble()
        self._client: Any = None
        self._admin: Any = None
        self._lanes: dict[str, int] = {}
        self._asked_s = float("-inf")
        self._ids: dict[str, str] = {}
        self._ids_to_come: dict[str, Any] | None = None
        #: when was last asked for ids, by the time of the question before it
        self._ids_at_s = float("-inf")
        self._ids_wanted = True

    def close(self) -> None:
        """Ends the connections; may be called again."""
        client, self._client, self._admin = self._client, None, None
        if client is not None:
            client.close()

    # -- what there is -----------------------------------------------------------------------------------

    def lanes(self, *, fresh: bool = False) -> list[str]:
        """The partitions there are, by their names in positions; of topics that are there.

        Args:
            fresh: as it is now, and not some moments ago.

        Raises:
            EnvironmentProblem: no broker answers.
        """
        if fresh or time.monotonic() - self._asked_s >= REFRESH_S:
            self._lanes = self.patiently(self._find_lanes)
            self._asked_s = time.monotonic()
        return list(self._lanes)

    def missing(self) -> list[str]:
        """The topics that are named and not there, as was last found."""
        found = {lane_of(key)[0] for key in self._lanes}
        return [name for name in self._names if not name.startswith("^") and name not in found]

    def _find_lanes(self, timeout_s: float) -> dict[str, int]:
        client = self._connected()
        names = [name for name in self._names if not name.startswith("^")]
        patterns = [re.compile(name) for name in self._names if name.startswith("^")]
        if patterns:
            known = sorted(client.list_topics(timeout=timeout_s).topics)
            names += [name for name in known if any(one.search(name) for one in patterns)]
        return {
            lane_key(name, partition): partition
            for name in dict.fromkeys(names)
            for partition in self._partitions(name, timeout_s)
        }

    def _partitions(self, name: str, timeout_s: float) -> list[int]:
        topic = self._connected().list_topics(name, timeout=timeout_s).topics[name]
        if topic.error is not None:
            if topic.error.name() in GONE:
                return []
            raise library().KafkaException(topic.error)
        return sorted(topic.partitions)

    # -- ids of topics -----------------------------------------------------------------------------------

    def ids(self) -> dict[str, str]:
        """The ids of the topics, as far as the brokers say them: another id is another topic of the same name."""
        names = {lane_of(key)[0] for key in self._lanes}
        if self._ids_wanted and self._ids_at_s != self._asked_s and self._ids_to_come is None:
            self._ask_ids(names)
        if self._ids_to_come is not None:
            self._take_ids(self._ids_to_come)
        return {name: self._ids[name] for name in sorted(names & self._ids.keys())}

    def _ask_ids(self, names: Collection[str]) -> None:
        from confluent_kafka.admin import AdminClient

        self._ids_at_s = self._asked_s
        if not names:
            return
        if self._admin is None:
            self._admin = connected(AdminClient, self._brokers.settings())
        asked = library().TopicCollection(sorted(names))
        found = self._admin.describe_topics(asked, request_timeout=CALL_S)
        self._ids_to_come = dict(found)
        until_s = time.monotonic() + _IDS_S
        for one in found.values():
            with contextlib.suppress(TimeoutError):
                one.exception(timeout=max(0.0, until_s - time.monotonic()))

    def _take_ids(self, coming: Mapping[str, Any]) -> None:
        if not all(one.done() for one in coming.values()):
            return
        self._ids_to_come = None
        for name, future in coming.items():
            self._ids.pop(name, None)
            error = future.exception()
            if error is None:
                self._ids[name] = str(future.result().topic_id)
            elif code_of(error) not in GONE:
                self._ids_wanted = False  # a broker that has none; asking may take its whole time

    # -- offsets -----------------------------------------------------------------------------------------

    def offsets(
        self, keys: Iterable[str], at: int, stop: Stop | None = None
    ) -> dict[str, int | None]:
        """Where partitions begin or end, or the first offset from a time on.

        Args:
            keys: the partitions.
            at: :data:`EARLIEST`, :data:`LATEST`, or milliseconds.
            stop: ends it soon.

        Returns:
            None for partitions that are not there; LATEST where there is no message from that time on.

        Raises:
            EnvironmentProblem: no broker answers.
        """
        wanted = list(keys)
        return self.patiently(lambda timeout_s: self._offsets(wanted, at, timeout_s), stop)

    def _offsets(self, keys: list[str], at: int, timeout_s: float) -> dict[str, int | None]:
        if not keys:
            return {}
        package = library()
        asked = [package.TopicPartition(*lane_of(key), at) for key in keys]
        try:
            answers = self._connected().offsets_for_times(asked, timeout=timeout_s)
        except package.KafkaException as error:
            if code_of(error) not in GONE:
                raise
            if len(keys) == 1:
                return {keys[0]: None}
            # It fails as a whole where one of the partitions is not there.
            parts = [self._offsets([key], at, timeout_s) for key in keys]
            return {key: offset for part in parts for key, offset in part.items()}
        found: dict[str, int | None] = {}
        for key, answer in zip(keys, answers, strict=True):
            if answer.error is not None and answer.error.name() not in GONE:
                raise package.KafkaException(answer.error)
            found[key] = None if answer.error is not None else answer.offset
        return found

    # -- asking ------------------------------------------------------------------------------------------

    def patiently(self, ask: Callable[[float], Result], stop: Stop | None = None) -> Result:
        """The answer of the brokers to a question that is given a time limit in seconds.

        Raises:
            EnvironmentProblem: there is none, after tries with growing pauses.
            Stopped: ``stop`` is set.
        """
        wait = BrokerWait(self._brokers, self._trouble, stop)
        while True:
            try:
                answer = ask(min(CALL_S, wait.left_s))
            except library().KafkaException as error:
                client = self._connected()
                client.poll(0)  # so that it says what is the matter; it reads nothing
                if stop is not None and stop.is_set():
                    raise Stopped from None
                wait.failed(error.args[0])
            else:
                wait.worked()
                return answer

    def _connected(self) -> Any:
        if self._client is None:
            settings = self._brokers.settings(
                group__id="thalweg", enable__auto__commit=False, error_cb=self._trouble
            )
            self._client = connected(library().Consumer, settings)
        return self._client
