"""What the page may do with a query: another number of slots, its end, savepoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from thalweg.brief import counted
from thalweg.embedded.showing import asked_by, savepoint_action
from thalweg.page import Action
from thalweg.spark.batches import BatchRunner


class Controlled(Protocol):
    """A query."""

    @property
    def is_active(self) -> bool: ...

    def rescale(self, *, slots: int, reason: str) -> None: ...

    def stop(self) -> None: ...


def query_actions(query: Controlled, batches: BatchRunner) -> Iterator[Action]:
    """What can be done with a query now; a single batch takes no orders."""
    if batches.store is None or not query.is_active:
        return
    flow, slots = batches.plan.flow, batches.numbers.slots

    def rescale(slots: int, who: str) -> str:
        query.rescale(slots=slots, reason=asked_by(who))
        return f"{counted(slots, 'slot')} from the next batch on"

    def stop(_: None, who: str) -> str:
        query.stop()
        return "stopped"

    yield Action(
        name="rescale", flow=flow, label="Slots", least=1, most=batches.most_slots, now=str(slots), does=rescale,
        explains="From the next batch on keys and their state are in so many slots.",
    )  # fmt: skip
    yield Action(
        name="stop", flow=flow, label="Stop", does=stop, is_final=True,
        explains="The running batch is abandoned; the next start repeats it.",
    )  # fmt: skip
    yield savepoint_action(flow, batches.store.location)
