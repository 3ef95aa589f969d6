"""Spark's progress with true counts, as a listener gets it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from thalweg.spark.query import _names
from thalweg.spark.true_progress import know, progress_of
from thalweg.times import NEVER


class Known:
    id = "q-1"
    recent_progress = (
        {"batch": 3, "rows": 500, "rows_per_s": 50.0, "watermark": {"time": 1_767_225_600_000_000, "other": -NEVER},
         "state": {"sums": {"keys": 7, "bytes": 90}}},
        {"batch": 4, "rows": 0, "rows_per_s": 0.0, "watermark": {"time": NEVER}, "state": {}},
    )  # fmt: skip


def event(batch: int, query: str = "q-1") -> Any:
    said = {
        "id": query,
        "batchId": batch,
        "numInputRows": 1,
        "durationMs": {"triggerExecution": 2000},
    }
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(said)))


def test_progress_of() -> None:
    """Rows instead of files, the least watermark that moves, state by operator; else what Spark says."""
    query: Any = Known()
    know(query)
    found = progress_of(event(3))
    assert found is not None
    assert (
        found["numInputRows"],
        found["inputRowsPerSecond"],
        found["processedRowsPerSecond"],
    ) == (500, 250.0, 50.0)
    assert found["eventTime"] == {"watermark": "2026-01-01T00:00:00.000Z"}
    assert found["stateOperators"] == [
        {"operatorName": "sums", "numRowsTotal": 7, "memoryUsedBytes": 90}
    ]
    assert found["durationMs"] == {"triggerExecution": 2000}
    ended = progress_of(event(4).progress)
    assert (
        ended is not None
        and ended["eventTime"] == {}
        and ended["thalweg"] is query.recent_progress[1]
    )
    assert progress_of(event(9)) is None
    assert progress_of(event(3, "another")) is None


def test_a_query_has_the_name_of_its_flow() -> None:
    names = _names("clicks")
    assert [next(names) for _ in range(3)] == ["clicks", "clicks-2", "clicks-3"]
