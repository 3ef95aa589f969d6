"""Which buckets a batch writes as a delta, which as a snapshot, and which deltas it merges; pure.

A delta costs what changed, but chains of deltas must not grow for ever. Rewriting is paid from a budget
that is a multiple of what the batch changed, so that a batch writes in proportion to what it changed,
never to the state. Two ways of rewriting, chosen by cost:

- *Merge*: the last ``fan`` or more deltas of a chain become one (size-tiered, as in a log-structured
  merge tree: each byte is rewritten about once a power of ``fan``). Without it, many small changes to a
  large state would force snapshots that cost many times what changed.
- *Snapshot*: when the deltas of a chain have become as large as the snapshot below them.

Where buckets are due together the budget makes them take turns, longest chain first. A bucket whose
snapshot alone exceeds the budget (one key range with half of the state) is written once every so many batches
that its share stays within the budget on average.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from thalweg.checkpoint.record import Chain


@dataclasses.dataclass(frozen=True, slots=True)
class WriteLimits:
    """What a slot may write of an operator in a batch.

    Attributes:
        small_bytes: a state below this is written as snapshots, whatever changed.
        small_files: a small state is written anew when it lies in more files than this.
        rewrite_ratio: bytes rewritten for each byte changed; with 3.5, a change of 1 % writes 4.5 %.
        idle_bytes, idle_share: a budget that also a tiny change has, the smaller of the two holds.
        fan: so many deltas are worth merging.
        growth: a snapshot is due when the deltas have this many times its size.
        fresh_share: a delta of at least this share of its bucket is written as a snapshot.
    """

    small_bytes: int = 256 * 1024
    small_files: int = 8
    rewrite_ratio: float = 3.5
    idle_bytes: int = 1024 * 1024
    idle_share: float = 0.03
    fan: int = 8
    growth: float = 1.0
    fresh_share: float = 0.5


DEFAULT_LIMITS = WriteLimits()


class BucketView(NamedTuple):
    """A bucket that the slot owns: its chain so far, the keys it has now and what changed in this batch.

    ``delta_rows`` is 0 for a bucket that is not dirty.
    """

    chain: Chain
    rows: int
    delta_rows: int = 0
    delta_bytes: int = 0

    @property
    def snapshot_bytes(self) -> int:
        """What a snapshot would have, from the bytes a row so far."""
        rows = sum(unit.rows for unit in self.chain) + self.delta_rows
        size = sum(unit.bytes for unit in self.chain) + self.delta_bytes
        return size * self.rows // rows if rows else 0

    @property
    def deltas_bytes(self) -> int:
        """What lies above the snapshot, this batch's delta included."""
        return sum(unit.bytes for unit in self.chain[1:]) + self.delta_bytes


class Choice(NamedTuple):
    """Buckets to write as snapshot, and buckets whose old units from a place on are merged into one.

    A dirty bucket that is not in ``snapshots`` is written as a delta, after its merge if it has one.
    """

    snapshots: frozenset[int]
    merges: Mapping[int, int]


class _Rewrite(NamedTuple):
    """A way to shorten a chain: its cost in bytes and the place where a merge starts, 0 for a snapshot."""

    cost: int
    start: int


def choose_snapshots(
    buckets: Mapping[int, BucketView],
    batch: int,
    limits: WriteLimits = DEFAULT_LIMITS,
    *,
    merging: bool = True,
) -> Choice:
    """Decides for all buckets that a slot owns of an operator, dirty or not.

    Args:
        batch: the batch's number; only decides whose turn it is among buckets larger than the budget.
        merging: whether deltas can be merged (the operator's rows have keys).
    """
    dirty = {number: view for number, view in buckets.items() if view.delta_rows}
    if not dirty:
        return Choice(frozenset(), {})
    state_bytes = sum(view.snapshot_bytes for view in buckets.values())
    if state_bytes < limits.small_bytes:
        files = {unit.file for view in buckets.values() for unit in view.chain}
        anew = buckets if len(files) > limits.small_files else dirty
        return Choice(frozenset(n for n in anew if n in dirty or anew[n].chain), {})
    snapshots = {
        number
        for number, view in dirty.items()
        if not view.chain or view.delta_bytes >= limits.fresh_share * view.snapshot_bytes
    }
    changed = sum(view.delta_bytes for view in dirty.values())
    idle = min(limits.idle_bytes, limits.idle_share * state_bytes)
    budget = max(limits.rewrite_ratio * changed, idle)
    rest = {number: view for number, view in buckets.items() if number not in snapshots}
    chosen = _spend(rest, budget, batch, limits, merging)
    merges = {number: way.start for number, way in chosen.items() if way.start}
    return Choice(frozenset(snapshots | (chosen.keys() - merges.keys())), merges)


def _spend(
    buckets: Mapping[int, BucketView], budget: float, batch: int, limits: WriteLimits, merging: bool
) -> dict[int, _Rewrite]:
    """Rewrites within the budget, most urgent first, ties by bucket; at most one that exceeds it."""
    ways = {number: _way(view, limits, merging) for number, view in buckets.items()}
    due = sorted(
        (-_urgency(buckets[number], limits), number, way) for number, way in ways.items() if way
    )
    chosen: dict[int, _Rewrite] = {}
    left = budget
    for _, number, way in due:
        if way.cost <= left:
            chosen[number] = way
            left -= way.cost
        elif way.cost > budget and left == budget:
            turns = -(-way.cost // max(1, int(budget)))
            if (batch + number) % turns == 0:
                chosen[number] = way
                break
    return chosen


def _urgency(view: BucketView, limits: WriteLimits) -> float:
    return max(len(view.chain) / limits.fan, view.deltas_bytes / max(1, view.snapshot_bytes))


def _way(view: BucketView, limits: WriteLimits, merging: bool) -> _Rewrite | None:
    """How to shorten a chain, if it is time to."""
    if len(view.chain) < 2 and not view.delta_rows:
        return None
    whole = view.snapshot_bytes
    # The delta that a snapshot makes unnecessary is paid for already.
    snapshot = _Rewrite(max(0, whole - view.delta_bytes), 0)
    if view.deltas_bytes >= limits.growth * whole:
        return snapshot
    merge = _cheapest_merge(view.chain, limits.fan) if merging else None
    if merge is None:
        long = not merging and len(view.chain) > limits.fan
        return snapshot if long else None
    return snapshot if merge.cost * 2 > whole else merge


def _cheapest_merge(chain: Chain, fan: int) -> _Rewrite | None:
    """The run of at least ``fan`` last deltas that costs least for each unit it removes."""
    best, best_price, cost = None, 0.0, 0
    for start in range(len(chain) - 1, 0, -1):
        cost += chain[start].bytes
        count = len(chain) - start
        price = cost / max(1, count - 1)
        if count >= fan and (best is None or price < best_price):
            best, best_price = _Rewrite(cost, start), price
    return best
