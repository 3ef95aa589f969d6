"""Which operator holds up the others: the one behind those that wait for room, not one of these.

An operator that is back-pressured is only the messenger: what it puts out finds no room since somebody behind it is
slow. So the culprit is a reader of a back-pressured operator that is not back-pressured itself, the busiest of them.
Where nobody waits for room, it is the operator that uses most of a thread, if that is much.
"""

from __future__ import annotations

from typing import Final

from thalweg.snapshot.schema import Snapshot
from thalweg.stats import OperatorProgress

#: From this share of looks on an operator counts as back-pressured.
PRESSED: Final = 0.1
#: From this share of one thread on an operator alone is called a bottleneck.
BUSY: Final = 0.5


def bottleneck(snapshot: Snapshot) -> str | None:
    """The name of the operator that holds up the others; None where none does, or the host cannot tell."""
    by_name = {one.name: one for one in snapshot.operators}
    pressed = {one.name for one in snapshot.operators if _pressure(one) >= PRESSED}
    behind = _behind(snapshot, pressed)
    if behind:
        return max(behind, key=lambda name: _rank(by_name[name]))
    busiest = max(snapshot.operators, key=_rank, default=None)
    return busiest.name if busiest is not None and (busiest.busy or 0.0) >= BUSY else None


def _behind(snapshot: Snapshot, pressed: set[str]) -> list[str]:
    """The operators that read a back-pressured one and are not back-pressured, in topological order."""
    fused = {one.name: one.fused_with or one.name for one in snapshot.operators}
    readers = {
        fused[edge.reader]
        for edge in snapshot.edges
        if edge.reader in fused and fused.get(edge.giver, edge.giver) in pressed
    }
    return [one.name for one in snapshot.operators if one.name in readers - pressed]


def _pressure(one: OperatorProgress) -> float:
    return one.back_pressured or 0.0


def _rank(one: OperatorProgress) -> tuple[float, int]:
    return one.busy or 0.0, one.queue_rows or 0
