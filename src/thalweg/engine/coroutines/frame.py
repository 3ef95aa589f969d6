"""Stepping ``async def`` operators: C-Stream's base scheduler (Sahin & Gedik, section 3.2), without asyncio.

A :class:`PortNetwork` holds operators and the bounded queues between them. One thread steps it: whoever asks says
which ready operator comes next, and with the same order of operators everything is the same again. Wake-ups may
be spurious: what an operator waits for is looked at again when it is stepped.

Three rules go beyond the paper. An operator that completes *abandons* its inputs: pushes there are dropped and
counted, where C-Stream's writers stay blocked for ever. When nobody is ready though a push waits for room, while
that queue's reader waits for another input, the smallest such queue doubles (Parks, "Bounded scheduling of
process networks", 1995): bounded queues alone cannot make a network stand still. And an operator that asks over
and over for what can never come is an error, not a loop.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.brief import counted
from thalweg.errors import OperatorError
from thalweg.flow.loops.body import Body
from thalweg.flow.operators.coroutines import Output, Push, Queue, Wait


class State(enum.Enum):
    """The states of an operator (section 3.2.5)."""

    READY = "ready"
    RUNNING = "running"
    READ_BLOCKED = "read-blocked"
    WRITE_BLOCKED = "write-blocked"
    COMPLETED = "completed"


_NEXT: Final = {
    State.READY: {State.RUNNING},
    State.RUNNING: set(State) - {State.RUNNING},
    State.READ_BLOCKED: {State.READY},
    State.WRITE_BLOCKED: {State.READY},
    State.COMPLETED: set[State](),
}


@dataclasses.dataclass(eq=False, slots=True)
class NetworkOperator:
    """An operator of a network. ``blocked_on`` are the queues whose change may let it go on."""

    name: str
    body: Body
    inputs: Sequence[Queue[Any]]
    outputs: Sequence[Output[Any]]
    state: State = State.READY
    blocked_on: tuple[Queue[Any], ...] = ()

    def __repr__(self) -> str:
        return f"{self.name} ({self.state.value})"


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """A queue that was enlarged because the network would have stood still, with its new capacity."""

    queue: str
    capacity: int


Pick = Callable[[Sequence[NetworkOperator]], NetworkOperator]


class PortNetwork:
    """Operators and the queues between them, stepped by one thread.

    Args:
        quantum: after so many waits and pushes an operator is preempted, so that others come to their turn. One
            that neither waits nor pushes cannot be: it keeps the thread.
        max_rows: a queue that would have to grow beyond it stops the network with an error; None: no limit.
        leave: is given what operators push to outputs that have no readers.
    """

    def __init__(
        self,
        *,
        quantum: int = 1000,
        max_rows: int | None = None,
        leave: Callable[[Push[Any]], None] | None = None,
    ) -> None:
        self._quantum = quantum
        self._max_rows = max_rows
        self._leave = leave
        self._operators: list[NetworkOperator] = []
        #: all and only operators in state READY, the one that has waited longest first
        self._ready: dict[NetworkOperator, None] = {}
        #: by queue, the READ_BLOCKED operators whose wait names it
        self._read_blocked: dict[Queue[Any], dict[NetworkOperator, None]] = {}
        #: by queue, the WRITE_BLOCKED operators that wait for its room
        self._write_blocked: dict[Queue[Any], dict[NetworkOperator, None]] = {}
        #: by queue, how many outputs write to it and are not complete; an outside writer counts as one
        self._writers: dict[Queue[Any], int] = {}
        self._stopping = False
        self._draining = False
        self.growths: list[Growth] = []

    # -- making -------------------------------------------------------------------------------------------

    def add(
        self, body: Body, inputs: Sequence[Queue[Any]], outputs: Sequence[Output[Any]]
    ) -> NetworkOperator:
        """Adds an operator; it is ready, and starts when it is first stepped.

        A queue that no output of an earlier operator writes to is written to from outside, by :meth:`put`.
        """
        operator = NetworkOperator(body.name, body, inputs, outputs)
        for output in outputs:
            for queue in output.readers:
                self._writers[queue] = self._writers.get(queue, 0) + 1
        self._operators.append(operator)
        self._ready[operator] = None
        return operator

    # -- the world outside --------------------------------------------------------------------------------

    def put(self, queue: Queue[Any], row: Any) -> None:
        """A row from outside; it may exceed the queue's capacity."""
        queue.put(row)
        self._written(queue)

    def close(self, queue: Queue[Any]) -> None:
        """No more rows will come into a queue from outside."""
        queue.closed = True
        self._written(queue)

    def stop(self, *, drain: bool) -> None:
        """Ends the network, in the steps to come.

        Args:
            drain: operators without inputs learn of it by their pushes; the others go on until their inputs
                are closed and read. Without it every wait answers that it can never be satisfied, and a push
                that waits for room goes through, so that each driver loop comes to its end.
        """
        self._draining = True
        self._stopping = self._stopping or not drain
        if self._stopping:
            for operator in self._operators:
                if operator.state in (State.READ_BLOCKED, State.WRITE_BLOCKED):
                    self._move(operator, State.READY)

    def abort(self) -> None:
        """Closes all coroutines where they stand."""
        for operator in self._operators:
            operator.body.close()

    @property
    def ready(self) -> tuple[NetworkOperator, ...]:
        """The operators that can be stepped, the one that has waited longest first."""
        return tuple(self._ready)

    @property
    def completed(self) -> bool:
        """Whether all operators have come to their end."""
        return all(operator.state is State.COMPLETED for operator in self._operators)

    def waiting(self) -> dict[str, tuple[str, ...]]:
        """By operator that waits for rows, the inputs that lack them: those that are idle."""
        return {
            operator.name: tuple(port.name for port in operator.body.request.missing)
            for operator in self._operators
            if operator.state is State.READ_BLOCKED and isinstance(operator.body.request, Wait)
        }

    # -- stepping -----------------------------------------------------------------------------------------

    def run(self, pick: Pick = lambda ready: ready[0]) -> None:
        """Steps operators, in the order that ``pick`` says, until all wait for rows from outside, or are done.

        Raises:
            OperatorError: an operator raised, or did what it must not.
        """
        while True:
            while self._ready:
                self.step(pick(self.ready))
            if not self._grow():
                return

    def step(self, operator: NetworkOperator) -> None:
        """Runs a ready operator until it blocks, completes or has used up its quantum."""
        self._move(operator, State.RUNNING)
        taken = [queue.taken for queue in operator.inputs]
        body = operator.body
        if not body.started:
            body.resume(None)
        for _ in range(self._quantum):
            if body.done or not self._serve(operator, body.request):
                break
        if body.done:
            self._complete(operator)
        elif operator.state is State.RUNNING:
            self._move(operator, State.READY)
        for queue, before in zip(operator.inputs, taken, strict=True):
            if queue.taken > before and queue.has_room:
                self._wake_writers(queue)

    def _serve(self, operator: NetworkOperator, request: Wait[Any] | Push[Any] | None) -> bool:
        """Does what an operator awaits, and lets it go on; False: it is blocked now."""
        if isinstance(request, Push):
            full = tuple(queue for queue in request.output.readers if not queue.has_room)
            if full and not self._stopping:
                self._move(operator, State.WRITE_BLOCKED, full)
                return False
            self._push(request)
            operator.body.resume(bool(operator.inputs) or not self._draining)
            return True
        assert request is not None
        answer = request.never if self._stopping else request.answer()
        if answer is None:
            queues = tuple(port.queue for port in request.missing)
            self._move(operator, State.READ_BLOCKED, queues)
            return False
        operator.body.resume(answer)
        return True

    def _push(self, push: Push[Any]) -> None:
        if not push.output.readers and self._leave is not None:
            self._leave(push)
        for queue in push.output.readers:
            queue.put(push.row)
            self._written(queue)

    def _complete(self, operator: NetworkOperator) -> None:
        """Closes the outputs, and abandons the inputs."""
        self._move(operator, State.COMPLETED)
        for output in operator.outputs:
            for queue in output.readers:
                self._writers[queue] -= 1
                if not self._writers[queue]:
                    self.close(queue)
        for queue in operator.inputs:
            queue.abandoned = True
            self._wake_writers(queue)

    # -- states -------------------------------------------------------------------------------------------

    def _move(self, operator: NetworkOperator, to: State, on: tuple[Queue[Any], ...] = ()) -> None:
        """The only place where an operator changes its state; keeps all indices."""
        if to not in _NEXT[operator.state]:
            raise RuntimeError(f"{operator!r} cannot become {to.value}")
        index = self._index(operator.state)
        for queue in operator.blocked_on:
            index[queue].pop(operator)
        self._ready.pop(operator, None)
        operator.state, operator.blocked_on = to, on
        index = self._index(to)
        for queue in on:
            index.setdefault(queue, {})[operator] = None
        if to is State.READY:
            self._ready[operator] = None

    def _index(self, state: State) -> dict[Queue[Any], dict[NetworkOperator, None]]:
        return self._write_blocked if state is State.WRITE_BLOCKED else self._read_blocked

    def _written(self, queue: Queue[Any]) -> None:
        """Wakes the reader of a queue that got a row or was closed, if it can go on now."""
        for operator in tuple(self._read_blocked.get(queue, ())):
            request = operator.body.request
            if isinstance(request, Wait) and request.answer() is not None:
                self._move(operator, State.READY)

    def _wake_writers(self, queue: Queue[Any]) -> None:
        for operator in tuple(self._write_blocked.get(queue, ())):
            self._move(operator, State.READY)

    def _grow(self) -> bool:
        """Parks' rule; whether a queue grew, so that somebody can go on."""
        full = {queue for queue, who in self._write_blocked.items() if who}
        growing = [
            queue
            for operator in self._operators
            if full and operator.state is State.READ_BLOCKED
            for queue in operator.inputs
            if queue in full
        ]
        if not growing:
            return False
        smallest = min(growing, key=lambda queue: queue.capacity or 0)
        capacity = 2 * (smallest.capacity or 1)
        if self._max_rows is not None and capacity > self._max_rows:
            raise self._too_large(smallest)
        smallest.capacity = capacity
        self.growths.append(Growth(smallest.name, capacity))
        self._wake_writers(smallest)
        return True

    def _too_large(self, queue: Queue[Any]) -> OperatorError:
        reader = next(one for one in self._operators if queue in one.inputs)
        idle = ", ".join(self.waiting()[reader.name])
        return OperatorError(
            f"operator {reader.name!r}: input {queue.name!r} holds {counted(len(queue.rows), 'row')} and may not hold"
            f" more than {self._max_rows}, while the operator waits for its idle input {idle}\n"
            "  to go on, let that input deliver or end, or raise the limit",
            operator=reader.name,
        )

    def validate(self) -> None:
        """Checks that states and indices say the same; for tests.

        Raises:
            AssertionError: they do not.
        """
        for operator in self._operators:
            assert (operator in self._ready) == (operator.state is State.READY), operator
            blocked = operator.state in (State.READ_BLOCKED, State.WRITE_BLOCKED)
            assert bool(operator.blocked_on) <= blocked, operator
            for index, state in (
                (self._read_blocked, State.READ_BLOCKED),
                (self._write_blocked, State.WRITE_BLOCKED),
            ):
                found = {queue for queue, who in index.items() if operator in who}
                assert found == (set(operator.blocked_on) if operator.state is state else set())
