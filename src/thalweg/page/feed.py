"""What viewers are sent: once a second a snapshot of each flow, made once for all of them, and the minutes before."""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from thalweg.page.actions import Performer
from thalweg.snapshot import Snapshot, bottleneck

_LOG: Final = logging.getLogger("thalweg")
#: How often snapshots are taken, seconds, and of how many the charts show numbers.
EVERY_S: Final = 1.0
_KEPT: Final = 600
#: Characters of a place of an input.
_LONGEST: Final = 200
#: How long its thread is waited for at the end, seconds.
_GRACE_S: Final = 2.0


class Shown(NamedTuple):
    """A flow as its host or its file says it.

    Attributes:
        snapshot: what it does.
        seen: of a query elsewhere ``age_s``, ``pid``, ``machine`` and ``is_alive``.
    """

    snapshot: Snapshot
    seen: Mapping[str, Any] | None = None


class Message(NamedTuple):
    """What all viewers are sent, and its number."""

    number: int
    text: bytes
    is_last: bool


class Feed:
    """Takes snapshots in a thread of its own until it is closed.

    Args:
        flows: gives those that there are.
        performer: what may be done; None where nothing may.
        every_s: how often.
    """

    def __init__(
        self,
        flows: Callable[[], Iterable[Shown]],
        performer: Performer | None,
        every_s: float = EVERY_S,
    ) -> None:
        self._flows, self._performer, self._every_s = flows, performer, every_s
        self._changed = threading.Condition()
        self._message = Message(0, b"{}", False)
        #: by flow, points of the charts
        self._points: dict[str, collections.deque[list[Any]]] = {}
        self._stop = threading.Event()
        self._told = False
        self._thread = threading.Thread(target=self._run, name="thalweg-page-feed", daemon=True)

    def start(self) -> None:
        """Begins; once."""
        self.refresh()
        self._thread.start()

    def close(self) -> None:
        """Ends it, with a last message; harmless twice."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join(_GRACE_S)
            self.refresh()

    def refresh(self) -> None:
        """Makes the next message now."""
        with self._changed:
            try:
                text = self._made()
            except Exception:
                # Looking must not harm what is looked at, nor end because of it.
                if not self._told:
                    _LOG.exception("page: a snapshot could not be made")
                self._told, text = True, orjson.dumps({"trouble": "a snapshot could not be made"})
            self._message = Message(self._message.number + 1, text, self._stop.is_set())
            self._changed.notify_all()

    def next(self, seen: int, timeout_s: float) -> Message:
        """The newest message, once there is one behind ``seen``, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._message.number > seen, timeout_s)
            return self._message

    def history(self) -> bytes:
        """By flow the points of the charts so far: time, rows a second, threads, slots, share that stayed."""
        with self._changed:
            return orjson.dumps({name: list(points) for name, points in self._points.items()})

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.refresh()

    def _made(self) -> bytes:
        flows = list(self._flows())
        for one in flows:
            self._keep(one.snapshot)
        told: dict[str, Any] = {"at_s": time.time(), "flows": [_told(one) for one in flows]}
        if self._performer is not None:
            told |= {"actions": self._performer.described(), "log": self._performer.log()}
        return orjson.dumps(told)

    def _keep(self, now: Snapshot) -> None:
        points = self._points.setdefault(now.flow, collections.deque(maxlen=_KEPT))
        at_s = time.time() if now.at_s is None else now.at_s
        if not points or at_s > points[-1][0]:
            stay = None if now.keys is None else now.keys.stay
            points.append([at_s, rate_of(now), now.threads, now.slots, stay])


def rate_of(snapshot: Snapshot) -> float | None:
    """Rows that all sources read a second, lately; None where nobody knows."""
    rates = [one.rows_per_s for one in snapshot.sources if one.rows_per_s is not None]
    return sum(rates) if rates else None


def _told(one: Shown) -> dict[str, Any]:
    """A flow as the page takes it: JavaScript's numbers have 53 bits, so times and places are text, too."""
    snapshot = one.snapshot
    return {
        "snapshot": orjson.Fragment(snapshot.to_json()),
        "culprit": bottleneck(snapshot),
        "rate": rate_of(snapshot),
        "watermarks": {
            source.name: f"{source.watermark:,}"
            for source in snapshot.sources
            if source.watermark is not None
        },
        "positions": {
            source.name: orjson.dumps(source.position, default=str).decode()[:_LONGEST]
            for source in snapshot.sources
            if source.position is not None
        },
        "seen": one.seen,
    }
