"""Routing by tables on real data: locality and balance over time, and what counting costs (Caneill et al., 4.3).

Everything is held out: a table is judged by the tuples that come after those that it was learnt from. Parallelism is
six slots, as in the paper, unless it is what varies. The times are CPU times.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from thalweg.hashing import hash_words
from thalweg.locality import (
    Assignment,
    FirstSeen,
    KeyCount,
    KeyLoads,
    OperatorKey,
    Outcome,
    RoutingTable,
    SpaceSaving,
    Statistics,
    evaluate,
    partition,
)
from thalweg.testing.sampling import SampledKeys
from thalweg_lab.key_samples import SAMPLES, sketched
from thalweg_lab.measure import LabReport

SLOTS: Final = 6
#: Batches of a period, for placing keys that are seen for the first time.
_BATCHES: Final = 10
_WAYS: Final = ("hashed", "offline", "online", "first seen")


@dataclasses.dataclass(frozen=True, slots=True)
class PeriodRun:
    """A way in one period: what came of it, and how many keys the table moved before it."""

    outcome: Outcome
    moved: int


class Caneill:
    """The experiments that need no cluster.

    Args:
        report: takes the results.
        periods: how many a sample is cut into; each but the first follows a reconfiguration.
        pairs: the numbers of pairs that a slot counts.
    """

    def __init__(self, report: LabReport, *, periods: int, pairs: Sequence[int]) -> None:
        self._report = report
        self._periods = periods
        self._pairs = pairs

    def all(self) -> str:
        """Runs every experiment; the summary."""
        # First what needs no data, which also compiles everything.
        self.hot_key()
        self.counting()
        told = []
        for name, make in SAMPLES.items():
            taken = make()
            self.once(name, taken)
            means = self.over_time(name, taken)
            self.counters(name, taken)
            told.append(f"{name} {means['hashed']:.2f} → {max(means.values()):.2f}")
        return f"caneill: held-out locality, hashed → best, {SLOTS} slots: {', '.join(told)}"

    def once(self, name: str, taken: SampledKeys) -> None:
        """Learnt from the first half, judged by the second."""
        learnt, unseen = taken.statistics(stop=0.5), taken.statistics(start=0.5)
        begun = time.process_time_ns()
        table = partition(learnt, parts=SLOTS)
        cut_ms = (time.process_time_ns() - begun) / 1e6
        rows: list[dict[str, Any]] = [
            _row("hashed", evaluate(_hashed(taken), unseen)),
            _row("table", evaluate(table, unseen)),
        ]
        places = _first_seen(taken, table, learnt)
        parts = itertools.pairwise(np.linspace(0.5, 1.0, _BATCHES + 1).tolist())
        batches = [taken.statistics(start, stop).pairs for start, stop in parts]
        begun = time.process_time_ns()
        keys = sum(len(places.place(batch).keys) for batch in batches)
        us = (time.process_time_ns() - begun) / 1e3 / max(sum(map(len, batches)), 1)
        rows.append(_row("table, first seen", evaluate(places.assignment(), unseen)))
        self._report.add(f"{name}: learnt from the first half, the second half", rows)
        self._report.console.print(
            f"expected locality {table.report.locality:.2f}, imbalance"
            f" {max(table.report.imbalance.values()):.2f}; {len(table.keys):,} keys pinned in {cut_ms:,.0f} ms;"
            f" {keys:,} keys placed, {us:.1f} µs a different pair of a batch"
        )

    def over_time(self, name: str, taken: SampledKeys) -> dict[str, float]:
        """Figure 11: locality and imbalance by period; the mean locality of each way after the first period."""
        runs = {
            "hashed": list(self._fixed(taken, learn=False)),
            "offline": list(self._fixed(taken, learn=True)),
            "online": list(self._online(taken, first_seen=False)),
            "first seen": list(self._online(taken, first_seen=True)),
        }
        for what, digit in (("locality", _locality), ("imbalance", _worst)):
            rows = [
                {"period": str(i + 1), **{way: digit(runs[way][i]) for way in _WAYS}}
                for i in range(self._periods)
            ]
            self._report.add(f"{name}: {what} over time (Figure 11)", rows)
        moved = [f"{way} {np.mean([one.moved for one in runs[way][1:]]):,.0f}" for way in _WAYS[2:]]
        self._report.console.print(f"keys moved a reconfiguration: {', '.join(moved)}")
        return {way: float(np.mean([_locality(one) for one in runs[way][1:]])) for way in _WAYS}

    def _part(self, period: int) -> tuple[float, float]:
        return period / self._periods, (period + 1) / self._periods

    def _fixed(self, taken: SampledKeys, *, learn: bool) -> Iterator[PeriodRun]:
        """No reconfiguration, or the one after the first period."""
        table = _hashed(taken)
        for period in range(self._periods):
            statistics = taken.statistics(*self._part(period))
            yield PeriodRun(evaluate(table, statistics), 0)
            if learn and period == 0:
                table = partition(statistics, parts=SLOTS, current=table)

    def _online(self, taken: SampledKeys, *, first_seen: bool) -> Iterator[PeriodRun]:
        """A reconfiguration after each period, from what was counted in it."""
        table, moved = _hashed(taken), 0
        known: set[OperatorKey] = set()
        for period in range(self._periods):
            start, stop = self._part(period)
            statistics = taken.statistics(start, stop)
            if first_seen:
                places = FirstSeen(table, taken.bucket_of, known=frozenset(known))
                for one in itertools.pairwise(np.linspace(start, stop, _BATCHES + 1).tolist()):
                    places.place(taken.statistics(*one).pairs)
                table = places.assignment()
            yield PeriodRun(evaluate(table, statistics), moved)
            known |= {(name, one.key) for name, has in statistics.loads.items() for one in has.keys}
            table = partition(statistics, parts=SLOTS, current=table)
            moved = table.report.moved + table.report.dropped

    def counters(self, name: str, taken: SampledKeys) -> None:
        """Figure 12: locality by the number of pairs that each slot counts, and what the sketches take."""
        unseen = taken.statistics(start=0.5)
        rows: list[dict[str, Any]] = []
        for slots in (2, 4, SLOTS):
            exact = evaluate(partition(taken.statistics(stop=0.5), parts=slots), unseen)
            for pairs in self._pairs:
                counted = sketched(
                    taken, 0.0, 0.5, slots=slots, pairs=pairs, keys=max(100, pairs // 5)
                )
                found = evaluate(partition(counted.statistics, parts=slots), unseen)
                rows.append(
                    {
                        "slots": str(slots), "pairs": f"{pairs:,}", "locality": found.locality,
                        "of exact": found.locality / exact.locality, "imbalance": found.worst,
                        "kB a slot": counted.nbytes / 1e3, "ns a row": counted.ns,
                    }
                )  # fmt: skip
        self._report.add(f"{name}: locality by counted pairs (Figure 12)", rows)

    def hot_key(self) -> None:
        """79 % of the rows have one key: what it does to the balance, and that the rest is spread."""
        keys = (KeyCount("hot", 0, 79_000), *(KeyCount(i, i % 128, 42) for i in range(500)))
        loads = KeyLoads("count", 100_000, keys, (0,) * 128)
        made = partition(Statistics(("count",), {"count": loads}, ()), parts=SLOTS)
        [heavy] = made.report.heavy
        fill = sorted(evaluate(made, Statistics(("count",), {"count": loads}, ())).loads["count"])
        self._report.console.print(
            f"hot key with {heavy.share:.0%} of the rows: imbalance {made.report.imbalance['count']:.2f},"
            f" at least {heavy.imbalance:.2f} on {SLOTS} slots; tuples of the slots: "
            + ", ".join(f"{one:,}" for one in fill)
        )

    def counting(self) -> None:
        """What a pair costs in the sketch alone, by how skewed they are."""
        rng = np.random.default_rng(0)
        size = 500_000
        rows = []
        for name, values in (
            ("Zipf 1.2", rng.zipf(1.2, size)),
            ("Zipf 1.05", rng.zipf(1.05, size)),
            ("uniform, a million", rng.integers(0, 10**6, size)),
            ("every one new", np.arange(size)),
        ):
            hashes = hash_words(values.astype(np.int64).reshape(-1, 1))
            sketch = SpaceSaving(10_000)
            sketch.offer(hashes[:1], hashes[:1])
            SpaceSaving(1).offer(hashes[:1])
            begun = time.process_time_ns()
            for at in range(0, size, 8_192):
                sketch.offer(hashes[at : at + 8_192], hashes[at : at + 8_192])
            ns = (time.process_time_ns() - begun) / size
            rows.append({"pairs": name, "ns": ns, "kB": sketch.nbytes / 1e3})
        self._report.add("SpaceSaving with 10,000 counters: CPU time a pair", rows)


def _hashed(taken: SampledKeys) -> Assignment:
    return RoutingTable.hashed(taken.operators, SLOTS).assignment()


def _first_seen(taken: SampledKeys, table: Assignment, learnt: Statistics) -> FirstSeen:
    known = {(name, one.key) for name, has in learnt.loads.items() for one in has.keys}
    return FirstSeen(table, taken.bucket_of, known=frozenset(known))


def _locality(period: PeriodRun) -> float:
    return period.outcome.locality


def _worst(period: PeriodRun) -> float:
    return period.outcome.worst


def _row(routing: str, outcome: Outcome) -> dict[str, Any]:
    return {"routing": routing, "locality": outcome.locality, "imbalance": outcome.worst}
