"""What the serial reference runner gives, and small rules of its operators that need nothing of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from thalweg.connectors.readers import far_out
from thalweg.flow.operators.lanes import not_declared
from thalweg.flow.operators.nodes import Keyed, Source
from thalweg.flow.state_class import StateSpec
from thalweg.testing.reference_keys import canonical
from thalweg.times import EXTREME, NEVER


@dataclasses.dataclass(slots=True)
class Outputs:
    """What a run gave: rows by sink in order, the state left by operator and key, and counts."""

    sinks: dict[str, list[Any]]
    states: dict[str, dict[Any, Any]]
    counts: dict[str, dict[str, int]]


def fits(source: Source, row: Any) -> None:
    """Refuses a row whose event time is too far out, or whose lane is not one that the source declares."""
    time = 0 if source.order_by is None else getattr(row, source.order_by)
    if abs(time) > EXTREME:
        raise TypeError(far_out(str(source.order_by), time))
    if source.lane is not None and isinstance(source.lanes, tuple):
        lane = canonical(getattr(row, source.lane))
        if lane not in source.lanes:
            raise TypeError(not_declared(source.lane, lane, source.lanes))


def timer_of(spec: StateSpec, state: Any) -> int:
    value = getattr(state, spec.timer) if spec.timer else NEVER
    return NEVER if value is None else int(value)


def disarmed_of(node: Keyed, state: Any, before: Mapping[str, int | None], time: int) -> int:
    """Unsets what a timer has set at the end of the stream, and says how many that were.

    A state's only timer has been unset before the call. Of several (``before`` the call) those stay that stood behind
    the ``time`` and are where they were.
    """
    assert node.state.timer is not None
    if not node.timers:
        is_set = timer_of(node.state, state) != NEVER
        setattr(state, node.state.timer, NEVER)
        return int(is_set)
    stood = {name: value for name, value in before.items() if value is not None and value > time}
    left = {name: getattr(state, name) for name in node.timers}
    new = [name for name, value in left.items() if value not in (None, NEVER, stood.get(name))]
    for name in new:
        setattr(state, name, NEVER)
    stay = (getattr(state, name) for name in node.timers)
    setattr(state, node.state.timer, min(NEVER if one is None else one for one in stay))
    return len(new)
