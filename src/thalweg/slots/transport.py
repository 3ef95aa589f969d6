"""Delivers messages: through the threads of slots, or one by one in an order that a test picks."""

from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from thalweg.slots.messages import Envelope, Failed, Instance

#: What a place of a slot answers to a message.
Handle: TypeAlias = Callable[[Envelope], list[Envelope]]
#: Who sends, and who receives.
Channel: TypeAlias = tuple[Instance, Instance]


class Transport(Protocol):
    """Carries messages; between any two places they keep their order."""

    def send(self, envelopes: Iterable[Envelope]) -> None:
        """Sends messages of the host's places."""

    def receive(self, *, wait: bool) -> Envelope | None:
        """The next message to a place of the host's; None where there is none.

        Args:
            wait: until there is one; where nothing is on its way any more, there will be none.
        """

    def stop(self) -> None:
        """Ends what runs on its own."""


#: Makes a transport of a handler and of what says whether a place is the host's.
MakeTransport: TypeAlias = Callable[[Handle, Callable[[Instance], bool]], Transport]


class Threads:
    """A thread for each slot, which answers the messages to all stages in it.

    Args:
        handle: called in the receiving slot's thread.
        is_host: whether a place is the host's.
    """

    def __init__(self, handle: Handle, is_host: Callable[[Instance], bool]) -> None:
        self._handle = handle
        self._is_host = is_host
        self._host: queue.SimpleQueue[Envelope] = queue.SimpleQueue()
        self._slots: dict[int, queue.SimpleQueue[Envelope | None]] = {}
        self._threads: list[threading.Thread] = []
        self._lock: Final = threading.Lock()

    def send(self, envelopes: Iterable[Envelope]) -> None:
        """Into the queues of the slots, whose threads start with their first message."""
        for envelope in envelopes:
            if self._is_host(envelope.receiver):
                self._host.put(envelope)
            else:
                self._queue(envelope.receiver.slot).put(envelope)

    def _queue(self, slot: int) -> queue.SimpleQueue[Envelope | None]:
        with self._lock:
            if slot not in self._slots:
                self._slots[slot] = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._run, args=(slot,), name=f"thalweg-slot-{slot}", daemon=True
                )
                self._threads.append(thread)
                thread.start()
            return self._slots[slot]

    def _run(self, slot: int) -> None:
        inbox = self._slots[slot]
        while (envelope := inbox.get()) is not None:
            try:
                self.send(self._handle(envelope))
            except BaseException as error:
                host = Instance(0, 0)
                self._host.put(Envelope(envelope.receiver, host, Failed(error)))
                return

    def receive(self, *, wait: bool) -> Envelope | None:
        """The next message to the host."""
        try:
            return self._host.get(block=wait)
        except queue.Empty:
            return None

    def stop(self) -> None:
        """Ends the threads, each after the message that it is at."""
        with self._lock:
            slots, threads = list(self._slots.values()), list(self._threads)
        for inbox in slots:
            inbox.put(None)
        for thread in threads:
            thread.join()


class Stepped:
    """No threads: each time the host asks, messages are delivered one by one, from channels that someone picks.

    So every order in which messages can arrive can be tried.

    Args:
        handle: answers.
        is_host: whether a place is the host's.
        pick: of the channels with messages, sender and receiver, the place of the one that delivers next.
        turns: how many messages are delivered when the host asks without waiting.
    """

    def __init__(
        self,
        handle: Handle,
        is_host: Callable[[Instance], bool],
        pick: Callable[[Sequence[Channel]], int],
        turns: Callable[[], int],
    ) -> None:
        self._handle = handle
        self._is_host = is_host
        self._pick = pick
        self._turns = turns
        self._channels: dict[Channel, collections.deque[Envelope]] = {}
        self._host: collections.deque[Envelope] = collections.deque()

    def send(self, envelopes: Iterable[Envelope]) -> None:
        """Into the channel from the sender to the receiver."""
        for envelope in envelopes:
            channel = (envelope.sender, envelope.receiver)
            self._channels.setdefault(channel, collections.deque()).append(envelope)

    def receive(self, *, wait: bool) -> Envelope | None:
        """The next message to the host; delivers others until there is one."""
        turns = -1 if wait else self._turns()
        while not self._host and turns and self._channels:
            self._deliver()
            turns -= 1
        return self._host.popleft() if self._host else None

    def _deliver(self) -> None:
        channels = sorted(self._channels)
        channel = channels[self._pick(channels)]
        envelope = self._channels[channel].popleft()
        if not self._channels[channel]:
            del self._channels[channel]
        if self._is_host(envelope.receiver):
            self._host.append(envelope)
        else:
            self.send(self._handle(envelope))

    def stop(self) -> None:
        """Forgets what is on its way."""
        self._channels.clear()
