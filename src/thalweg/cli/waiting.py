"""What a run that keeps its end has not given out yet: rows that wait for later ones, windows and timers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from thalweg.brief import counted
from thalweg.checkpoint.inspect import OperatorInfo, describe, read_state
from thalweg.errors import CheckpointError
from thalweg.flow.operators.nodes import OrderBy, Source
from thalweg.plan.plan import Plan
from thalweg.printing import say
from thalweg.times import NEVER

#: Keys of an operator of which it is looked whether one has a timer.
_KEYS: Final = 10_000


def tell_waiting(
    plan: Plan, counts: Mapping[str, Mapping[str, int]], checkpoint: str, *, is_kept: bool
) -> None:
    """Says what still waits at the end of a run, and what ends it.

    Args:
        plan: the flow's.
        counts: by operator, as of the checkpoint's newest batch.
        checkpoint: its folder.
        is_kept: whether the next start goes on with it.
    """
    with contextlib.suppress(CheckpointError):  # of a store that only Spark can open
        parts = [*_rows(plan, counts), *_timers(checkpoint)]
        if parts:
            then = "the next start goes on with that" if is_kept else "that is given up"
            say(
                f"not in the output: {'; '.join(parts)}. Without --drain {then}; --drain ends the input, and it comes"
            )


def _rows(plan: Plan, counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for node in plan.nodes:
        its = counts.get(node.label, {})
        if isinstance(node, (Source, OrderBy)):
            gone = sum(its.get(what, 0) for what in ("out", "late", "rejected"))
            if (waiting := its.get("in", 0) - gone) > 0:
                yield f"{counted(waiting, 'row')} of {node.name!r}, waiting for later ones"


def _timers(checkpoint: str) -> Iterator[str]:
    for one in describe(checkpoint).operators:
        if one.used and _timer_fields(one) and _is_set(checkpoint, one):
            yield f"open windows or timers of {one.name!r}"


def _timer_fields(one: OperatorInfo) -> list[str]:
    parts = [field.partition(": ") for field in one.fields]
    return [name for name, _, kind in parts if kind.startswith("Timer")]


def _is_set(checkpoint: str, one: OperatorInfo) -> bool:
    table = read_state(checkpoint, one.name, limit=_KEYS)
    return any(
        value is not None and value != NEVER
        for field in _timer_fields(one)
        for value in table.column(field).to_pylist()
    )
