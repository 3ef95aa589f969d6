"""What the paper has no figure of: tables on data not seen, a hot key, and what counting costs (Caneill et al., 4.3).

A table is judged by the tuples that come after those that it was learnt from, with six slots. The times are CPU times.
The paper's figures are :mod:`thalweg_lab.figures.caneill`.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, Final

import numpy as np

from thalweg.hashing import hash_words
from thalweg.locality import (
    Assignment,
    FirstSeen,
    KeyCount,
    KeyLoads,
    Outcome,
    RoutingTable,
    SpaceSaving,
    Statistics,
    evaluate,
    partition,
)
from thalweg.testing.sampling import SampledKeys
from thalweg_lab.figures.caneill.samples import SAMPLES
from thalweg_lab.measure import LabReport

SLOTS: Final = 6
#: Batches of a period, for placing keys that are seen for the first time.
_BATCHES: Final = 10


class Caneill:
    """The experiments that need no cluster.

    Args:
        report: takes the results.
    """

    def __init__(self, report: LabReport) -> None:
        self._report = report

    def all(self) -> str:
        """Runs every experiment; the summary."""
        # First what needs no data, which also compiles everything.
        self.hot_key()
        self.counting()
        told = []
        for name, make in SAMPLES.items():
            hashed, best = self.once(name, make())
            told.append(f"{name} {hashed:.2f} → {best:.2f}")
        return f"caneill: held-out locality, hashed → best, {SLOTS} slots: {', '.join(told)}"

    def once(self, name: str, taken: SampledKeys) -> tuple[float, float]:
        """Learnt from the first half, judged by the second: the locality by hash, and the best."""
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
        return rows[0]["locality"], max(row["locality"] for row in rows)

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


def _row(routing: str, outcome: Outcome) -> dict[str, Any]:
    return {"routing": routing, "locality": outcome.locality, "imbalance": outcome.worst}
