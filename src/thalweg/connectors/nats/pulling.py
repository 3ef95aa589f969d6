"""Messages of a stream from a sequence on, by a consumer without acknowledgements that lives as long as it is used."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple

from thalweg.connectors.nats.client import CALL_S, library

#: Messages of one request.
BATCH: Final = 1_000
#: A consumer that nobody asks is forgotten by the server, seconds.
_FORGOTTEN_S: Final = 60.0
#: Tokens of a message's reply subject in the older form; in the newer one two stand before the stream.
_OLD_TOKENS: Final = 9


class NatsMessage(NamedTuple):
    """A message with its place in the stream."""

    sequence: int
    #: its place among those that the consumer sent
    serial: int
    time_ns: int
    subject: str
    value: bytes


class Pull:
    """A consumer, which gives the messages behind each other; made and used in the loop's thread."""

    def __init__(self, client: Any, jetstream: Any, stream: str, subject: str | None) -> None:
        self._client, self._jetstream = client, jetstream
        self._stream, self._subject = stream, subject
        self._name = ""
        self._inbox = ""
        self._subscription: Any = None
        self._arrived: asyncio.Queue[Any] = asyncio.Queue()
        self._serial = 0

    async def begin(self, **start: Any) -> None:
        """Makes the consumer: ``opt_start_seq=``, or ``opt_start_time=``."""
        api = library().js.api
        by_time = "opt_start_time" in start
        policies = api.DeliverPolicy
        made = await self._jetstream.add_consumer(
            self._stream,
            api.ConsumerConfig(
                deliver_policy=policies.BY_START_TIME if by_time else policies.BY_START_SEQUENCE,
                ack_policy=api.AckPolicy.NONE,
                filter_subject=self._subject,
                inactive_threshold=_FORGOTTEN_S,
                mem_storage=True,
                num_replicas=1,
                **start,
            ),
        )
        self._name, self._inbox = made.name, self._client.new_inbox()
        self._subscription = await self._client.subscribe(
            self._inbox, cb=self._arrived.put, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def next(self, count: int) -> list[NatsMessage]:
        """The next messages; none: there are no more now.

        Raises:
            ConnectionError: some were sent and did not come; begin again.
            TimeoutError: no answer came.
        """
        asked = json.dumps({"batch": count, "no_wait": True}).encode()
        address = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        await self._client.publish(address, asked, reply=self._inbox)
        found: list[NatsMessage] = []
        async with asyncio.timeout(CALL_S):
            while len(found) < count:
                message = await self._arrived.get()
                status = message.headers.get("Status") if message.headers else None
                if status is not None and not message.data:
                    if status in ("404", "408"):
                        break
                    raise ConnectionError(f"the consumer is gone (status {status})")
                found.append(self._taken(message))
        return found

    async def end(self) -> None:
        """Takes the consumer away; the server does so itself after a while."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()
        if self._name:
            await self._jetstream.delete_consumer(self._stream, self._name)

    def _taken(self, message: Any) -> NatsMessage:
        tokens = message.reply.split(".")
        at = 5 if len(tokens) == _OLD_TOKENS else 7
        sequence, serial, time_ns = map(int, tokens[at : at + 3])
        self._serial += 1
        if serial != self._serial:
            raise ConnectionError("messages were lost on their way")
        return NatsMessage(sequence, serial, time_ns, message.subject, message.data)
