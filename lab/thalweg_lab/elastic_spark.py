"""Slots that change between batches on a cluster while input waits: what it does to how long a batch takes.

All input is there from the begin on, so a batch follows the other at once; after every second batch the number of slots
changes, and state moves.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

import thalweg
from thalweg.datagen import parametric
from thalweg.elasticity import Controller, Sample, Suggestion
from thalweg_lab.measure import LabReport, in_a_process

#: Two executors with a core each.
MASTER: Final = "local-cluster[2,1,1024]"
#: Slots behind the first batches, which have one.
TURNS: Final = (3, 2, 4, 1, 4, 2, 3, 1)
#: No batch should take longer than so many times the median.
BOUND: Final = 3.0
#: Batches at the begin that are left out: Spark starts processes, and they compile.
_WARM_UP: Final = 3
#: Of a batch, of a hundred thousand keys with a state each; what a row costs, µs.
_ROWS: Final = 100_000
_COST_US: Final = 5.0


class InTurn(Controller):
    """Another level after each period that counts."""

    def __init__(self, levels: Sequence[int]) -> None:
        super().__init__()
        self._levels = list(levels)

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole or not self._levels:
            return ()
        return (Suggestion("threads", None, sample.threads, self._levels.pop(0), "its turn"),)


def elastic_spark(report: LabReport, *, batches: int) -> str:
    """Batches of a query whose slots change; the summary.

    Args:
        batches: that count.
    """
    found = in_a_process(__name__, batches + _WARM_UP)["batches"][_WARM_UP:]
    median = statistics.median(one["batch_s"] for one in found)
    rows = [
        {
            "batch": str(one["batch"]), "slots": str(one["slots"]), "before": str(one["before"]),
            "s": one["batch_s"], "of the median": one["batch_s"] / median,
        }
        for one in found
    ]  # fmt: skip
    report.add(f"slots change while input waits, {MASTER}", rows)
    longest = max(row["of the median"] for row in rows)
    changes = sum(row["slots"] != row["before"] for row in rows)
    return (
        f"{MASTER}: of {len(rows)} batches, {changes} with other slots than the one before, the longest took "
        f"{longest:.1f} times the median (at most {BOUND:.0f} wanted)"
    )


def run(batches: int, folder: Path) -> list[dict[str, Any]]:
    """So many batches, in this process: how many slots each had, and the one before, and how long it took, s."""
    from thalweg import spark as ts

    source = folder / "in"
    source.mkdir()
    for number in range(batches):
        table = parametric.table(_ROWS, seed=number, start=number * _ROWS)
        path = source / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    home = str(Path(thalweg.__file__).resolve().parents[1])
    session = ts.session(MASTER, threads_per_slot=1, conf={"spark.executorEnv.PYTHONPATH": home})
    slots = ts.Elastic(maximum=max(TURNS), controller=InTurn(TURNS * batches), least_rows=1)
    query = ts.start(
        parametric.one_operator("keyed", _COST_US),
        {"tuples": ts.files(str(source), format="parquet", max_files_per_trigger=1)},
        {"out": ts.parquet(str(folder / "out"))},
        checkpoint=str(folder / "checkpoint"), trigger="available_now", slots=slots,
    )  # fmt: skip
    query.await_termination()
    progress = query.recent_progress
    session.stop()
    before = [1, *(one["slots"] for one in progress)]
    return [
        {"batch": one["batch"], "slots": one["slots"], "before": last, "batch_s": one["batch_s"]}
        for one, last in zip(progress, before, strict=False)
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps({"batches": run(int(sys.argv[1]), Path(temporary))}))
