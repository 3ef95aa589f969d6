"""Who holds the watermark back, who is idle, and what is said of both: nothing waits in silence."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from thalweg.engine.contract import Engine
from thalweg.engine.watermarks.ingress import Gate

_LOG: Final = logging.getLogger("thalweg")
#: After so long a source or lane that holds back rows is named, seconds.
TELL_S: Final = 5.0


class HoldUp(NamedTuple):
    """Rows wait for a source, or for a lane of it, at a watermark."""

    source: str
    lane: Any
    watermark: int


class HoldUps:
    """Says once of each source or lane that rows wait for it, when they have for a while.

    Args:
        engine: with the gates of the sources.
        has_lanes_only: whether somebody else says it of sources.
    """

    def __init__(self, engine: Engine, *, has_lanes_only: bool = False) -> None:
        self._engine = engine
        self._lanes_only = has_lanes_only
        self._since_s: dict[HoldUp, float] = {}
        self._told: set[tuple[str, Any]] = set()

    def look(self, open_sources: Collection[str], now_s: float) -> None:
        """Looks who holds back whom now; errors nothing, and waits for nothing."""
        found = {one for one in self._found() if one.source in open_sources}
        self._since_s = {one: self._since_s.get(one, now_s) for one in found}
        for one, since_s in self._since_s.items():
            if now_s - since_s >= TELL_S and (one.source, one.lane) not in self._told:
                self._told.add((one.source, one.lane))
                self._tell(one)

    def _found(self) -> Iterator[HoldUp]:
        for domain, ingress in self._engine.ingresses.items():
            gates = list(ingress.gates.values()) if domain else []
            behind = [gate for gate in gates if gate.waiting_rows]
            for gate in gates:
                if gate.closed or gate.is_idle or gate.watermark != ingress.watermark:
                    continue
                if _has_lanes(gate) and behind:
                    yield HoldUp(gate.node.name, gate.slowest, gate.watermark)
                elif not self._lanes_only and any(other is not gate for other in behind):
                    yield HoldUp(gate.node.name, None, gate.watermark)

    def _tell(self, one: HoldUp) -> None:
        gate = self._engine.gates[one.source]
        lane = f", lane {one.lane!r}," if _has_lanes(gate) else ""
        advice = "" if gate.may_be_idle else "; idle= says after how long they go on without it"
        _LOG.warning(
            "source %r%s gives no rows: other rows wait for its watermark%s",
            one.source, lane, advice,
        )  # fmt: skip


def _has_lanes(gate: Gate) -> bool:
    return getattr(gate.node, "lane", None) is not None
