"""What a host adds to the measures of its engine: where inputs stand, and what the policy decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.connectors.contracts import RowSource
from thalweg.engine.contract import Engine
from thalweg.snapshot import PolicyRound
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.threads import Workers


def places_of(sources: Mapping[str, RowSource]) -> dict[str, tuple[Any, int | None]]:
    """By source that reads a log, where that goes on, and how many rows are there behind that."""
    found = {}
    for name, source in sources.items():
        read = getattr(source, "read_upto", None)
        if read is not None:
            found[name] = dict(read), rows_between(read, getattr(source, "seen_end", None))
    return found


def rows_between(start: Mapping[str, Any], end: Mapping[str, Any] | None) -> int | None:
    """Rows between two places of a log; None where positions are no numbers."""
    if end is None or not all(isinstance(at, int) for at in (*start.values(), *end.values())):
        return None
    return sum(max(0, int(at) - int(start.get(lane, 0))) for lane, at in end.items())


def policy_of(engine: Engine) -> PolicyRound | None:
    """What the policy of an engine's threads decided last; None without a policy."""
    if not isinstance(engine, ParallelEngine) or (workers := engine.shared_workers) is None:
        return None
    return None if workers.policy is None else _round(workers)


def _round(workers: Workers) -> PolicyRound:
    policy, rounds = workers.policy, workers.rounds
    name = str(getattr(policy, "name", "") or type(policy).__name__)
    if rounds is None:
        return PolicyRound(policy=name)
    costs = rounds.costs
    spent = costs.refresh_ns + costs.assign_ns + costs.order_ns + costs.write_ns
    return PolicyRound(
        policy=name, rounds=costs.rounds, assigned=rounds.last_lists(), cost_s=spent * 1e-9
    )
