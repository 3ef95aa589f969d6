"""Rounds: of each source a piece, in the order of the flow, so that one is never far ahead of those it waits with."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from thalweg.connectors.contracts import Feed
from thalweg.embedded.durable.inputs import Repeatable
from thalweg.embedded.feeding import WAITING_ROWS
from thalweg.engine.contract import CHUNK_ROWS, Engine, Leaving
from thalweg.engine.hold_ups import HoldUps
from thalweg.engine.idle_orders import IdleOrders
from thalweg.engine.watermarks.idle_clock import IdleClock
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import Source

#: About how many rows of a source a round reads at most: between rounds a batch may end.
ROUND_ROWS: Final = CHUNK_ROWS
#: And at first: a row may take long.
_FIRST_ROWS: Final = 64
#: A round has at most so many times the rows of the one before.
_MORE_ROWS: Final = 4
#: So long a round may take in any case, and at most, seconds: a stop waits for its end.
_ROUND_S: Final = (0.05, 0.25)


class RoundRows:
    """How many rows of a source the next round reads, so that it takes about so many seconds at most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = min(max(seconds, _ROUND_S[0]), _ROUND_S[1])
        #: of the next round
        self.rows = min(_FIRST_ROWS, ROUND_ROWS)

    def took(self, seconds: float) -> None:
        """A round of so many rows a source took so long."""
        fitting = self.rows * min(self._seconds / max(seconds, 1e-9), _MORE_ROWS)
        self.rows = max(1, min(round(fitting), ROUND_ROWS))


class InputReading:
    """Feeds the inputs of a flow to an engine, and remembers what it read.

    Args:
        engine: of the whole flow.
        inputs: by source name.
        round_s: how long a round is to take at most, seconds.
    """

    def __init__(
        self, engine: Engine, inputs: Mapping[str, Repeatable], round_s: float = _ROUND_S[1]
    ) -> None:
        self._engine = engine
        self._inputs = inputs
        self._round = RoundRows(round_s)
        self._nodes = {node.name: node for node in engine.plan.sources}
        #: of this batch, what each round read by source
        self.rounds: list[dict[str, Any]] = []
        #: of this batch, what was decided of idle sources, each with the number of the round that it stands before
        self.decisions: list[tuple[int, Sequence[Any]]] = []
        live = [name for name, one in inputs.items() if one.live]
        self._clock = IdleClock(engine.plan, live, time.monotonic())
        self._orders = IdleOrders(engine.plan, live, time.monotonic())
        self._hold_ups = HoldUps(engine)

    def begin_batch(self) -> None:
        """Nothing was read and decided yet."""
        self.rounds.clear()
        self.decisions.clear()

    @property
    def is_live(self) -> bool:
        """Whether rows of some source come as they come."""
        return any(one.live for one in self._inputs.values())

    @property
    def over(self) -> list[str]:
        """The sources of which no row will come any more."""
        return [name for name, one in self._inputs.items() if one.is_over]

    @property
    def is_over(self) -> bool:
        """Whether all sources are."""
        return len(self.over) == len(self._inputs)

    @property
    def places(self) -> dict[str, Any]:
        """Where each input stands."""
        return {name: one.place for name, one in self._inputs.items()}

    def has_more(self) -> bool:
        """Whether an input has a row more, or may have one later; nothing can be read behind that look."""
        return any(
            one.live or next(iter(one.next(1)), None) is not None for one in self._inputs.values()
        )

    def round(self) -> Iterator[Leaving]:
        """Reads some rows of each source whose turn it is; gives what leaves."""
        read: dict[str, Any] = {}
        began = time.monotonic()
        for name, given in self._inputs.items():
            if given.is_over or not self._has_turn(self._nodes[name]):
                continue
            looked = time.monotonic()
            yield from self._feed(name, given.next(self._round.rows))
            if given.caught_up:
                self._clock.looked(name, looked)
                self._orders.looked(name, looked)
            if (span := given.span()) is not None:
                read[name] = span
        if read:
            self._round.took(time.monotonic() - began)
        self._note(read)

    def decide(self) -> Iterator[Leaving]:
        """Declares idle what has been silent for long, and takes time on where all are; gives what leaves."""
        for decision in self._clock.decide(self._engine.gates) if self._clock else ():
            self._engine.decide(decision)
            self._note_decision(decision)
            yield from self._engine.advance()
        yield from self._decide_inside()
        live = [name for name, one in self._inputs.items() if one.live and not one.is_over]
        self._hold_ups.look(live, time.monotonic())

    def _decide_inside(self) -> Iterator[Leaving]:
        """Takes time on at order_by operators; no row is on its way to them then."""
        gates, now = self._engine.gates, time.monotonic
        if not self._orders or not self._orders.decide(gates, now()):
            return
        yield from self._engine.settle()
        for decision in self._orders.decide(gates, now()):  # rows may have come to them meanwhile
            self._orders.taken(decision, now())
            self._note_decision(decision)
            yield from self._take(decision)

    def _take(self, decision: IdleDecision) -> Iterator[Leaving]:
        """Takes a decision behind all rows that have come; gives what leaves."""
        yield from self._engine.settle()
        self._engine.decide(decision)
        yield from self._engine.advance()

    def again(
        self, rounds: Sequence[Mapping[str, Any]], decisions: Sequence[tuple[int, Sequence[Any]]]
    ) -> Iterator[Leaving]:
        """A batch that was planned before: its rounds, and what was decided between them."""
        ahead = collections.deque(decisions)
        for number in range(len(rounds) + 1):
            while ahead and ahead[0][0] == number:
                decision = IdleDecision(*ahead.popleft()[1])
                self._note_decision(decision)
                yield from self._take(decision)
            if number < len(rounds):
                yield from self._round_again(rounds[number])

    def _round_again(self, read: Mapping[str, Any]) -> Iterator[Leaving]:
        for name, span in read.items():
            yield from self._feed(name, self._inputs[name].again(span))
            self._inputs[name].span()
        self.rounds.append(dict(read))

    def end(self, names: list[str]) -> Iterator[Leaving]:
        """Sources that are over hold back no other source any more."""
        for name in names:
            self._inputs[name].is_over = True
            node = self._nodes[name]
            domain = self._engine.plan.domains[node.index - 1]
            self._engine.ingresses[domain].gates[node.index].closed = True
        yield from self._engine.advance()

    def confirm(self) -> None:
        """What was read is committed."""
        for one in self._inputs.values():
            one.confirm()

    def close(self) -> None:
        """Closes the inputs."""
        for one in self._inputs.values():
            one.close()

    def _feed(self, name: str, feed: Feed) -> Iterator[Leaving]:
        for chunk, bad in feed:
            yield self._engine.feed(name, chunk, bad)
            yield from self._engine.advance()
        # What follows from rows of idle lanes holds from before their round.
        for decision in self._engine.woken:
            self._note_decision(decision)
        self._engine.woken.clear()
        self._clock.came(self._engine.gates[name], time.monotonic())

    def _note_decision(self, decision: IdleDecision) -> None:
        self.decisions.append((len(self.rounds), list(decision)))

    def _note(self, read: dict[str, Any]) -> None:
        """Of one and the same log or table a span goes on where the one before ended."""
        last = self.rounds[-1] if self.rounds else None
        if self.decisions and self.decisions[-1][0] == len(self.rounds):
            last = None
        if last is not None and read and last.keys() == read.keys() and len(read) == 1:
            (name,) = read
            last[name] = self._inputs[name].joined(last[name], read[name])
        elif read:
            self.rounds.append(read)

    def _has_turn(self, node: Source) -> bool:
        """Whether rows of a source may come now; as :class:`thalweg.embedded.feeding.Feeding` has it."""
        if not node.sorts:
            return self._inputs[node.name].live or not any(
                other.index < node.index and self._goes_before(other)
                for other in self._nodes.values()
            )
        ingress = self._engine.ingresses[self._engine.plan.domains[node.index - 1]]
        gate = ingress.gates[node.index]
        return gate.waiting_rows < WAITING_ROWS or gate.watermark == ingress.watermark

    def _goes_before(self, node: Source) -> bool:
        given = self._inputs[node.name]
        return not (node.sorts or given.live or given.is_over)
