"""Keyed operators while they are simulated, with the three queues of Prasaad et al., section 4."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from thalweg.simulate.graph import Operator
from thalweg.simulate.network import Network
from thalweg.simulate.nodes import SimulatedNode, WorkUnit


class KeyedNode(SimulatedNode):
    """A running keyed operator: the hybrid queue of Prasaad et al., Fig. 7.

    A worker that meets a tuple whose bucket another one is in leaves it to that one, and takes the next.

    Attributes:
        held: buckets that are worked on, or will be again, and what waits for them.
        resumed: of these, those that a worker has left.
    """

    __slots__ = ("held", "resumed")

    def __init__(
        self, net: Network, operator: Operator, index: int, seed: int, grain: int = 1
    ) -> None:
        super().__init__(net, operator, index, seed, grain)
        self.held: dict[int, deque[WorkUnit]] = {}
        self.resumed: deque[int] = deque()

    def next_key(self, previous: WorkUnit | None = None) -> int | None:
        if previous is not None and self.held[previous.bucket]:
            return self.held[previous.bucket][0].keys[0]
        keys = [
            key for key in (self._resumed_key(), SimulatedNode.next_key(self)) if key is not None
        ]
        return min(keys, default=None)

    def take(self, tuples: int, previous: WorkUnit | None) -> WorkUnit | None:
        if not self._next_fits(previous):
            return None
        if previous is not None:
            left = self.held[previous.bucket]
            if left:
                return self._begun(left.popleft())
            del self.held[previous.bucket]
        while (key := self.next_key()) is not None and self.has_room(key):
            if key == self._resumed_key():
                return self._begun(self.held[self._take_resumed()].popleft())
            unit = self._pop_unit(tuples)
            if unit.bucket not in self.held:
                self.held[unit.bucket] = deque()
                return self._begun(unit)
            self.held[unit.bucket].append(unit)
        return None

    def _resumed_key(self) -> int | None:
        """The first tuple of those that a worker has left."""
        return min((self.held[bucket][0].keys[0] for bucket in self.resumed), default=None)

    def _take_resumed(self) -> int:
        bucket = min(self.resumed, key=lambda bucket: self.held[bucket][0].keys[0])
        self.resumed.remove(bucket)
        return bucket

    def release(self, previous: WorkUnit | None) -> None:
        if previous is not None and previous.bucket in self.held:
            if self.held[previous.bucket]:
                self.resumed.append(previous.bucket)
            else:
                del self.held[previous.bucket]
        SimulatedNode.release(self, previous)

    def _bucket(self) -> int:
        operator = self.operator
        if operator.sigma is not None:
            return self._range(operator.sigma)
        if self.key_draws.random() < operator.top:
            return 0
        return self.key_draws.randrange(operator.buckets)

    def _range(self, sigma: float) -> int:
        """The range of a value from N(0, sigma) within [-1, 1] (Prasaad et al., 7.2.1)."""
        value = 2.0
        while abs(value) > 1.0:
            value = self.key_draws.gauss(0.0, sigma)
        buckets = self.operator.buckets
        return min(int((value + 1) / 2 * buckets), buckets - 1)


class PartitionedNode(KeyedNode):
    """A keyed operator with a queue for each bucket, in which a worker stays (Prasaad et al., Fig. 6).

    Attributes:
        queues: by bucket.
        taken_buckets: those that have a worker.
    """

    __slots__ = ("_turn", "queues", "taken_buckets")

    def __init__(
        self, net: Network, operator: Operator, index: int, seed: int, grain: int = 1
    ) -> None:
        super().__init__(net, operator, index, seed, grain)
        self.queues: list[deque[WorkUnit]] = [deque() for _ in range(operator.buckets)]
        self.taken_buckets: set[int] = set()
        self._turn = 0

    def next_key(self, previous: WorkUnit | None = None) -> int | None:
        if previous is not None and self.queues[previous.bucket]:
            return self.queues[previous.bucket][0].keys[0]
        keys = [self.queues[bucket][0].keys[0] for bucket in self._free()]
        if (key := SimulatedNode.next_key(self)) is not None:
            keys.append(key)
        return min(keys, default=None)

    def take(self, tuples: int, previous: WorkUnit | None) -> WorkUnit | None:
        while SimulatedNode.next_key(self) is not None:
            unit = self._pop_unit(tuples)
            self.queues[unit.bucket].append(unit)
        if previous is not None:
            if self.queues[previous.bucket]:
                return self._from(previous.bucket)
            self.taken_buckets.discard(previous.bucket)
        bucket = next(self._free(), None)
        return None if bucket is None else self._from(bucket)

    def release(self, previous: WorkUnit | None) -> None:
        if previous is not None:
            self.taken_buckets.discard(previous.bucket)
        SimulatedNode.release(self, previous)

    def _free(self) -> Iterator[int]:
        """Buckets with tuples and no worker, behind the one that was taken last."""
        count = len(self.queues)
        turns = ((self._turn + i) % count for i in range(count))
        return (one for one in turns if self.queues[one] and one not in self.taken_buckets)

    def _from(self, bucket: int) -> WorkUnit | None:
        if not self.has_room(self.queues[bucket][0].keys[0]):
            self.taken_buckets.discard(bucket)
            return None
        self.taken_buckets.add(bucket)
        self._turn = bucket + 1
        return self._begun(self.queues[bucket].popleft())


class SharedNode(KeyedNode):
    """A keyed operator with one queue, whose first tuple all wait for while its bucket has a worker (Fig. 5).

    Attributes:
        first: the first tuple, once its bucket was looked at.
    """

    __slots__ = ("_taken", "first")

    def __init__(
        self, net: Network, operator: Operator, index: int, seed: int, grain: int = 1
    ) -> None:
        super().__init__(net, operator, index, seed, grain)
        self.first: WorkUnit | None = None
        self._taken: set[int] = set()

    def next_key(self, previous: WorkUnit | None = None) -> int | None:
        if self.first is None:
            return SimulatedNode.next_key(self)
        own = previous is not None and previous.bucket == self.first.bucket
        return self.first.keys[0] if own or self.first.bucket not in self._taken else None

    def take(self, tuples: int, previous: WorkUnit | None) -> WorkUnit | None:
        if previous is not None:
            self._taken.discard(previous.bucket)
        if self.first is None and SimulatedNode.next_key(self) is not None:
            self.first = self._pop_unit(tuples)
        unit = self.first
        if unit is None or unit.bucket in self._taken or not self.has_room(unit.keys[0]):
            return None
        self.first = None
        self._taken.add(unit.bucket)
        return self._begun(unit)

    def release(self, previous: WorkUnit | None) -> None:
        # Where taking failed it was let go before, and another worker may have it since: then it is in work.
        if previous is not None and previous.done and not self._in_work(previous.bucket):
            self._taken.discard(previous.bucket)
        SimulatedNode.release(self, previous)

    def _in_work(self, bucket: int) -> bool:
        return any(
            unit.bucket == bucket and not unit.done and unit.taken_ns >= 0 for unit in self.units
        )
