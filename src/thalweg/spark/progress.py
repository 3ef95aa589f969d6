"""What a query says of a batch: rows, times, state, clocks."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from thalweg.checkpoint.record import CommitRecord
from thalweg.plan.plan import Plan
from thalweg.stats import weighted_quantile

#: How many batches' progress a query keeps.
RECENT: Final = 100


def batch_progress(
    plan: Plan,
    record: CommitRecord,
    reports: Sequence[Mapping[str, Any]],
    recent: Iterable[Mapping[str, Any]],
    *,
    wall_s: float,
    admission_wait_s: float,
    locality: Mapping[str, Any],
) -> dict[str, Any]:
    """The progress of a batch.

    Args:
        plan: the flow's.
        record: the batch's commit record.
        reports: what its tasks reported.
        recent: the progress of the batches before it, for the latency.
        wall_s: from the batch's start to its commit record.
        admission_wait_s: how long it waited for other queries.
        locality: what :func:`thalweg.spark.keys.locality_progress.locality_progress` says.
    """
    added = sum_counts(said["counts"] for said in reports)
    rows = sum(added.get(source.name, {}).get("in", 0) for source in plan.sources)
    keys: collections.Counter[str] = collections.Counter()
    for said in reports:
        keys.update(said["keys"])
    return {
        "batch": record.batch,
        "rows": rows,
        "rows_per_s": rows / wall_s if wall_s else 0.0,
        "batch_s": wall_s,
        "admission_wait_s": admission_wait_s,
        "latency_s": _latency([(p["batch_s"], p["rows"]) for p in recent] + [(wall_s, rows)]),
        "task_s": sum(said.get("task_s", 0.0) for said in reports),
        "task_cpu_s": sum(said.get("task_cpu_s", 0.0) for said in reports),
        "slots": record.slots,
        "operators": added,
        "totals": {name: dict(counts) for name, counts in record.counters.items()},
        "watermark": dict(record.clock),
        "clock": dict(record.clock),  # its name in 0.1
        "waiting": {
            **{n: g["waiting"] for s in reports for n, g in s["gates"].items()},
            **{name: rows for said in reports for name, rows in said["waiting"].items()},
        },
        "slowest_lane": {n: lane for s in reports for n, lane in s.get("slowest", {}).items()},
        "state": {
            name: {
                "keys": keys.get(name, 0),
                "bytes": sum(unit.bytes for chain in chains.values() for unit in chain),
            }
            for name, chains in record.chains.items()
        },
        "locality": dict(locality),
        "finished": record.finished,
    }


def parts_of(at: Mapping[str, float], ended: float) -> dict[str, float]:
    """How long each part of a batch took, seconds, from when each ended."""
    ends = [*at.values(), ended]
    names = ("plan", "run", "write", "commit")
    return {
        name: max(then - before, 0.0)
        for name, before, then in zip(names, ends[:-1], ends[1:], strict=True)
    }


def sum_counts(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Counts by operator and name, added up."""
    out: dict[str, dict[str, int]] = {}
    for counts in parts:
        for name, mine in counts.items():
            sums = out.setdefault(name, {})
            for what, number in mine.items():
                sums[what] = sums.get(what, 0) + number
    return out


def _latency(batches: Sequence[tuple[float, int]]) -> dict[str, float]:
    """How long rows of the recent batches took from the start of their batch to its commit record."""
    times = np.array([round(seconds * 1e9) for seconds, _ in batches], np.int64)
    weights = np.array([count for _, count in batches], np.int64)
    if not weights.any():
        return {}
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: weighted_quantile(times, weights, q) * 1e-9 for name, q in shares.items()}
