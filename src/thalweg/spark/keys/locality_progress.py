"""What a query says of the locality of a batch: tuples that stay in their slot, balance, moves, bytes, hot keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from thalweg.brief import counted
from thalweg.flow.operators.built_in import Combine
from thalweg.locality.routing import keyed_operators
from thalweg.locality.triggers import Decision
from thalweg.plan.plan import Plan
from thalweg.spark.cluster.exchanges import Exchange, co_located
from thalweg.spark.elastic import BatchChange
from thalweg.spark.keys.locality import Routed, TopKeys

#: A key with more than this share of a slot's fair load is hot.
HOT: Final = 1.0


def locality_progress(
    plan: Plan,
    slots: int,
    routed: Routed,
    reports: Sequence[Mapping[str, Any]],
    exchanges: Sequence[Exchange],
    top: TopKeys | None,
) -> dict[str, Any]:
    """The entry ``locality`` of a batch's progress.

    Args:
        plan: the flow's.
        slots: of the batch.
        routed: its tables.
        reports: what its tasks reported.
        exchanges: between its stages, as Spark measured them.
        top: its most frequent keys, where they were counted.
    """
    stayed, sent = _sums(one for said in reports for one in said.get("routed", {}).values())
    hashed, pairs = _sums(said["pairs"] for said in reports if "pairs" in said)
    loads = _loads(plan, slots, reports)
    return {
        "stay": stayed / sent if sent else None,
        "stay_hashed": hashed / pairs if pairs else None,
        "imbalance": {name: _imbalance(load) for name, load in loads.items()},
        "slot_rows": {name: tuple(load) for name, load in loads.items()},
        "imbalance_hashed": {
            name: _imbalance(_hashed(buckets, slots)) for name, buckets in top.buckets.items()
        }
        if top
        else {},
        "executors": len({executor for one in exchanges for executor in one.executors}),
        "co_located": co_located(exchanges),
        "local_bytes": [one.local_bytes for one in exchanges],
        "remote_bytes": [one.remote_bytes for one in exchanges],
        **_moves(routed, reports),
        **_placed(routed),
        "top_keys": {name: list(keys) for name, keys in top.keys.items()} if top else {},
        "notes": list(_notes(plan, slots, top)) if top else [],
    }


def table_changes(batch: int, routed: Routed) -> list[BatchChange]:
    """The table that holds behind a batch, where it is another one."""
    run = routed.run
    if run is None or run.decision is None or not routed.next_epoch:
        return []
    reason = f"{run.decision.reason}; moves {counted(run.moves.between_slots, 'key')}"
    return [BatchChange(batch, "table", routed.epoch, routed.next_epoch, reason)]


def _sums(pairs: Any) -> tuple[int, int]:
    both = [(int(one), int(other)) for one, other in pairs]
    return sum(one for one, _ in both), sum(other for _, other in both)


def _loads(plan: Plan, slots: int, reports: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """By operator that is routed by key, the tuples that each slot took."""
    loads = {name: [0] * slots for name in keyed_operators(plan)}
    for said in reports:
        for name, counts in said["counts"].items():
            if name in loads:
                loads[name][said["slot"]] += counts.get("in", 0)
    return loads


def _imbalance(load: Sequence[int]) -> float:
    """The fullest slot by the mean; 1 without tuples."""
    total = sum(load)
    return max(load) * len(load) / total if total else 1.0


def _hashed(buckets: Any, slots: int) -> list[int]:
    """The tuples of each slot if all keys went by hash."""
    owners = np.arange(len(buckets)) * slots // len(buckets)
    found: list[int] = np.bincount(owners, buckets, minlength=slots).astype(int).tolist()
    return found


def _moves(routed: Routed, reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The table that holds, and what of the state was moved for the next one."""
    moved = [
        unit
        for said in reports
        for _, _, units in said["segments"]
        for unit in units
        if unit[1] == "moved"
    ]
    run = routed.run
    return {
        "epoch": routed.epoch,
        "keys_pinned": sum(len(one.pins) for one in run.table.operators.values()) if run else 0,
        "keys_moved": run.moves.between_slots if run else 0,
        "states_moved": sum(unit[3] for unit in moved),
        "bytes_moved": sum(unit[4] for unit in moved),
        **_considered(run.decision if run else None),
    }


def _considered(decision: Decision | None) -> dict[str, Any]:
    """Why there is a new table or none, and what the one that was made would gain."""
    if decision is None:
        return {"decision": ""}
    said = {"decision": decision.reason, "known_stay": decision.before.locality}
    if decision.after is None:
        return said
    return {
        **said,
        "table_stay": decision.after.locality,
        "table_gain": decision.gain,
        "table_cost": decision.cost,
    }


def _placed(routed: Routed) -> dict[str, Any]:
    """What came of new keys, where they are placed."""
    placing = routed.placing
    if placing is None:
        return {}
    return {
        "keys_placed": len(placing.keys),
        "keys_not_placed": placing.left,
        "pre_pass_s": routed.pre_pass_s,
    }


def _notes(plan: Plan, slots: int, top: TopKeys) -> Any:
    """Says of keys that fill a slot by themselves that their order has a price, and what has none."""
    whole = {
        node.name for node in plan.keyed if not isinstance(plan.node(node.input.node), Combine)
    }
    for name, keys in top.keys.items():
        reason = (
            "they are kept in order, so they stay on one slot; a window of counts, int sums, min or max can"
            " have them in parts, by key_by(..., grouping='partial')"
            if name in whole
            else "they are parts already, so larger batches or chunks make them fewer"
        )
        for key, share in keys:
            if share * slots > HOT:
                yield (
                    f"key {key!r} of {name} has {share:.0%} of its tuples, more than a slot's fair share of"
                    f" {1 / slots:.0%}: {reason}"
                )
