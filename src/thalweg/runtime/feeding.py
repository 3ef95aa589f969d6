"""The sources of an embedded run: each is read by a thread of its own, all feed one engine.

Rows enter the engine one chunk at a time. Sources with event time are merged by it, so it does not matter which
thread is faster. Sources without event time have the order (source, arrival): those whose rows are there already
are read one after the other, in the order of the flow; live ones enter as they come.

A source that is far ahead of another one of its time domain waits, since its rows could not be released anyway;
:meth:`Feeding.idle` names those that others wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from threading import Event as Event
from typing import Final

from thalweg.operators.nodes import Source
from thalweg.runtime.engine import Engine, Leaving
from thalweg.runtime.io.contracts import Fed, Feed, RowSource

#: Rows of a source that may wait for a slower one.
WAITING_ROWS: Final = 1_000_000
#: How often a waiting thread looks whether the run has failed, seconds.
_LOOK_S: Final = 0.05


class Feeding:
    """Reads the sources of a flow into an engine until all have ended.

    Args:
        engine: serial or parallel; its :meth:`finish` is the caller's business.
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
        self._engine = engine
        self._feeds = feeds
        self._live = {name: source.live for name, source in sources.items()}
        self._stop = stop
        self._write = write
        self._waiting_rows = waiting_rows
        self._nodes = {node.name: node for node in engine.plan.sources}
        self._open = list(feeds)
        #: guards the engine, and tells of rows that were released and of sources that have ended
        self._turn = threading.Condition()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Reads all sources to their end.

        Raises:
            Exception: what the first source, operator or sink that failed raised.
        """
        threads = [
            threading.Thread(target=self._read, args=[name], name=f"source {name}", daemon=True)
            for name in self._feeds
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive() and self._error is None:
                    thread.join(_LOOK_S)
            if self._error is not None:
                raise self._error
        finally:
            self._stop.set()
            with self._turn:
                self._turn.notify_all()
            for thread in threads:
                thread.join(2.0)

    def idle(self) -> list[str]:
        """The sources that hold back others: open, and last by event time in a domain where rows wait."""
        found = []
        for ingress in self._engine.ingresses.values():
            gates = [g for g in ingress.gates.values() if g.node.name in self._open]
            behind = [g for g in ingress.gates.values() if g.waiting is not None and len(g.waiting)]
            if ingress.domain and behind and len(ingress.gates) > 1:
                found += [g.node.name for g in gates if g.clock == ingress.clock]
        return found

    def _read(self, name: str) -> None:
        node = self._nodes[name]
        try:
            for fed in self._feeds[name]:
                if not self._enter(node, fed):
                    return
            self._end(node)
        except BaseException as error:
            if self._error is None:
                self._error = error

    def _enter(self, node: Source, fed: Fed) -> bool:
        """Feeds a chunk when it is its turn; False when the run is over."""
        chunk, bad = fed
        with self._turn:
            while not self._may_enter(node):
                self._turn.wait(_LOOK_S)
                if self._stop.is_set():
                    return False
            self._write(self._engine.feed(node.name, chunk, bad))
            self._advance()
        return not self._stop.is_set()

    def _advance(self) -> None:
        for leaving in self._engine.advance():
            self._write(leaving)
        self._turn.notify_all()

    def _may_enter(self, node: Source) -> bool:
        domain = self._engine.plan.domains[node.index - 1]
        if not node.sorts:
            before = [n for n in self._open if not self._nodes[n].sorts and not self._live[n]]
            return self._live[node.name] or before[0] == node.name
        ingress = self._engine.ingresses[domain]
        gate = ingress.gates[node.index]
        waiting = 0 if gate.waiting is None else len(gate.waiting)
        return waiting < self._waiting_rows or gate.clock == ingress.clock

    def _end(self, node: Source) -> None:
        """A source has ended: it no longer holds the clock of the others."""
        with self._turn:
            self._open.remove(node.name)
            ingress = self._engine.ingresses[self._engine.plan.domains[node.index - 1]]
            ingress.gates[node.index].closed = True
            if any(not gate.closed for gate in ingress.gates.values()):
                self._advance()
            self._turn.notify_all()
