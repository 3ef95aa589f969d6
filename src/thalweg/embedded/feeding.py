"""The sources of an embedded run: each is read by a thread of its own, all feed one engine.

Rows enter the engine one chunk at a time. Sources with event time are merged by it, so it does not matter which
thread is faster. Sources without event time have the order (source, arrival): those whose rows are there already
are read one after the other, in the order of the flow; live ones enter as they come.

A source that is far ahead of another one of its time domain waits, since its rows could not be released anyway;
:meth:`Feeding.idle` names those that others wait for. A live source without event time waits while an input of an
operator that it feeds is full (:mod:`thalweg.engine.port_room`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from threading import Event as Event
from typing import Final

from thalweg.connectors.contracts import Fed, Feed, RowSource
from thalweg.engine.contract import Engine, Leaving
from thalweg.engine.hold_ups import HoldUps
from thalweg.engine.idle_orders import IdleOrders
from thalweg.engine.port_room import PortRooms
from thalweg.engine.stamps import Stamps
from thalweg.engine.watermarks.idle_clock import IdleClock
from thalweg.flow.operators.nodes import Source

#: Rows of a source that may wait for a slower one.
WAITING_ROWS: Final = 1_000_000
#: How often a waiting thread looks whether the run has failed, seconds.
_LOOK_S: Final = 0.05
#: How long a source's thread is waited for at the end, seconds.
_GRACE_S: Final = 2.0
#: After so long a source that holds back others is named, seconds.
_IDLE_S: Final = 5.0
_LOG: Final = logging.getLogger("thalweg")


class Feeding:
    """Reads the sources of a flow into an engine until all have ended.

    Args:
        engine: any; its :meth:`finish` is the caller's business.
        sources: by name.
        feeds: their rows, by name.
        stop: set when the run is to end early.
        write: takes what leaves the engine.
        waiting_rows: rows of a source that may wait for a slower one.
    """

    def __init__(
        self,
        engine: Engine,
        sources: Mapping[str, RowSource],
        feeds: Mapping[str, Feed],
        stop: threading.Event,
        write: Callable[[Leaving], None],
        *,
        waiting_rows: int = WAITING_ROWS,
    ) -> None:
        self._engine, self._beside = engine, engine.beside
        self._feeds = feeds
        self._sources = sources
        self._live = {name: source.live for name, source in sources.items()}
        self._stop = stop
        self._write = write
        self._waiting_rows = waiting_rows
        self._rooms = PortRooms(engine.coroutines, engine.plan, self._live)
        #: sources that wait since an input is full; those of which that was said
        self._held: set[str] = set()
        self._said: set[str] = set()
        self._nodes = {node.name: node for node in engine.plan.sources}
        self._open = list(feeds)
        #: guards the engine, and tells of rows that were released and of sources that have ended
        self._turn = threading.Condition()
        self._error: BaseException | None = None
        self._ended = {name: threading.Event() for name in feeds}
        #: sources that hold back others now, with since when; those of which that was said
        self._idle: list[str] = []
        self._idle_since: dict[str, float] = {}
        self._told: set[str] = set()
        live = [name for name, one in self._live.items() if one]
        self._clock = IdleClock(engine.plan, live, time.monotonic())
        self._orders = IdleOrders(engine.plan, live, time.monotonic())
        self._hold_ups = HoldUps(engine, has_lanes_only=True)
        self._stamps = Stamps(engine.plan)
        #: sources whose thread waits for rows: nothing of theirs waits to be fed
        self._asking: set[str] = set()

    def run(self) -> None:
        """Reads all sources to their end.

        Raises:
            Exception: what the first source, operator or sink that failed raised.
        """
        for name in self._feeds:
            threading.Thread(
                target=self._read, args=[name], name=f"source {name}", daemon=True
            ).start()
        ticked = self._start_clock()
        try:
            # Not join: in Python 3.11 a thread whose join was interrupted counts as ended.
            for ended in self._ended.values():
                while not ended.wait(_LOOK_S):
                    self._check()
            self._check()
        except BaseException:
            # A source may wait for room in the engine, which then never comes: so this takes no lock, either.
            if self._beside is not None:
                self._beside.halt()
            raise
        finally:
            self._stop.set()
            deadline = time.monotonic() + _GRACE_S
            hanging = [
                name
                for name, ended in {**self._ended, **ticked}.items()
                if not ended.wait(max(0.0, deadline - time.monotonic()))
            ]
            if hanging:
                _LOG.warning("source %s: does not end, left behind", ", ".join(hanging))

    def _start_clock(self) -> dict[str, threading.Event]:
        """What declares sources idle has a thread of its own, as it may wait for room in the engine like a source."""
        if not (self._clock or self._orders):
            return {}
        ended = threading.Event()
        threading.Thread(
            target=self._run_clock, args=[ended], name="idle sources", daemon=True
        ).start()
        return {"clock": ended}

    def _run_clock(self, ended: threading.Event) -> None:
        try:
            while not self._stop.wait(min(self._clock.step_s, self._orders.step_s, _LOOK_S)):
                with self._turn:
                    self._decide()
        except BaseException as error:
            if self._error is None:
                self._error = error
        finally:
            ended.set()

    def _decide(self) -> None:
        """Declares idle what has been silent for long, and takes time on where all are."""
        now = time.monotonic()
        for name in {*self._clock.names, *self._orders.names}:
            if name in self._asking and getattr(self._sources[name], "caught_up", True):
                self._clock.looked(name, now)
                self._orders.looked(name, now)
        decisions = self._clock.decide(self._engine.gates)
        for decision in decisions:
            self._engine.decide(decision)
        inside = self._decided_inside(now)
        if (decisions or inside) and self._open:
            self._advance()

    def _decided_inside(self, now: float) -> bool:
        """Takes time on at order_by operators; only where no row is on its way to them."""
        if not self._orders or not (self._beside is None or self._beside.is_settled):
            return False
        found = self._orders.decide(self._engine.gates, now)
        for decision in found:
            self._engine.decide(decision)
            self._orders.taken(decision, now)
        return bool(found)

    def idle(self) -> list[str]:
        """The sources that hold back others: open, and last by event time in a domain where rows of others wait.

        While a source is being fed, what was true before.
        """
        if self._turn.acquire(blocking=False):
            try:
                self._idle = self._find_idle()
            finally:
                self._turn.release()
        return self._idle

    def _find_idle(self) -> list[str]:
        found = []
        for ingress in self._engine.ingresses.values():
            gates = list(ingress.gates.values()) if ingress.domain else []
            behind = [gate for gate in gates if gate.waiting_rows]
            for gate in gates:
                last = gate.node.name in self._open and gate.watermark == ingress.watermark
                last = last and not gate.is_idle
                if last and any(other is not gate for other in behind):
                    found.append(gate.node.name)
        return found

    def _check(self) -> None:
        """Raises the first error; also an operator's, when no source has had anything to say since."""
        if self._beside is not None:
            self._beside.check()
        if self._error is not None:
            raise self._error
        self._tell_idle()

    def _tell_idle(self) -> None:
        """Says once of each source that it holds back others, when it has for a while."""
        now = time.monotonic()
        if self._turn.acquire(blocking=False):
            try:
                self._hold_ups.look([one for one in self._open if self._live.get(one)], now)
            finally:
                self._turn.release()
        self._idle_since = {name: self._idle_since.get(name, now) for name in self.idle()}
        for name, since in self._idle_since.items():
            if now - since >= _IDLE_S and name not in self._told:
                self._told.add(name)
                _LOG.warning(
                    "source %r gives no rows: rows of other sources wait for its watermark%s",
                    name,
                    ""
                    if self._nodes[name].idle
                    else "; idle= says after how long they go on without it",
                )

    def _read(self, name: str) -> None:
        node = self._nodes[name]
        try:
            self._asking.add(name)
            for fed in self._feeds[name]:
                self._asking.discard(name)
                if not self._enter(node, fed):
                    return
                self._asking.add(name)
            self._end(node)
        except BaseException as error:
            if self._error is None:
                self._error = error
        finally:
            self._ended[name].set()

    def _enter(self, node: Source, fed: Fed) -> bool:
        """Feeds a chunk when it is its turn; False when the run is over."""
        chunk, bad = fed
        with self._turn:
            while not self._may_enter(node):
                self._turn.wait(_LOOK_S)
                if self._stop.is_set():
                    return False
            if node.stamp is not None:
                # With the turn, so that no decision about the source comes in between.
                chunk = self._stamps.fill(node.name, chunk, self._engine.gates)
            self._write(self._engine.feed(node.name, chunk, bad))
            self._advance()
            self._engine.woken.clear()
            self._clock.came(self._engine.gates[node.name], time.monotonic())
        return not self._stop.is_set()

    def _advance(self) -> None:
        for leaving in self._engine.advance():
            self._write(leaving)
        self._turn.notify_all()

    def _may_enter(self, node: Source) -> bool:
        domain = self._engine.plan.domains[node.index - 1]
        if not node.sorts:
            before = [n for n in self._open if not self._nodes[n].sorts and not self._live[n]]
            if self._live[node.name]:
                return not self._is_held(node)
            return before[0] == node.name
        ingress = self._engine.ingresses[domain]
        gate = ingress.gates[node.index]
        return gate.waiting_rows < self._waiting_rows or gate.watermark == ingress.watermark

    def _is_held(self, node: Source) -> bool:
        """Whether a live source must wait, since an input of an operator is full."""
        name, why = node.name, self._rooms.holds_back(node.index)
        (self._held.add if why else self._held.discard)(name)
        if why and name not in self._said:
            self._said.add(name)
            _LOG.info("source %r waits: %s, and another is idle", name, why)
        is_settled = self._beside is None or self._beside.is_settled
        if why and self._held.issuperset(self._open) and is_settled:
            self._rooms.grow_smallest()
        return bool(why)

    def _end(self, node: Source) -> None:
        """A source has ended: it no longer holds the watermark of the others."""
        with self._turn:
            self._open.remove(node.name)
            self._rooms.end(node.index)
            ingress = self._engine.ingresses[self._engine.plan.domains[node.index - 1]]
            ingress.gates[node.index].closed = True
            if any(not gate.closed for gate in ingress.gates.values()):
                self._advance()
            self._turn.notify_all()
