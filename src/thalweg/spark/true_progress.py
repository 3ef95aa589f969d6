"""Spark's progress of a query with what Spark cannot see: it counts files and spans where Thalweg reads rows."""

from __future__ import annotations

import datetime
import json
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from thalweg.checks import known_keywords, refuse
from thalweg.times import NEVER


class Progressing(Protocol):
    """What is to be known of a query."""

    @property
    def id(self) -> str | None: ...

    @property
    def recent_progress(self) -> list[dict[str, Any]]: ...


_QUERIES: weakref.WeakValueDictionary[str, Progressing] = weakref.WeakValueDictionary()


def know(query: Progressing) -> None:
    """From now on :func:`progress_of` finds the query by Spark's id for it."""
    if query.id is not None:
        _QUERIES[query.id] = query


@known_keywords
def progress_of(event: Any) -> dict[str, Any] | None:
    """Spark's progress in its own form with true rows, watermarks and state, for a StreamingQueryListener.

    ``numInputRows``, the rates, ``eventTime.watermark`` and ``stateOperators`` are Thalweg's, the rest is Spark's;
    ``thalweg`` is the whole progress as :attr:`Query.last_progress` has it.

    Args:
        event: a ``QueryProgressEvent``, or its ``progress``.

    Returns:
        None where the query is none of Thalweg's in this process, or has forgotten the batch.

    Raises:
        BuildError: that is no such event.
    """
    told = getattr(event, "progress", event)
    if not hasattr(told, "json"):
        raise refuse("progress_of", "event", "a QueryProgressEvent of Spark's", event)
    spark = json.loads(told.json)
    query = _QUERIES.get(spark["id"])
    recent = [] if query is None else query.recent_progress
    mine = next((one for one in recent if one["batch"] == spark["batchId"]), None)
    if mine is None:
        return None
    return {
        **spark,
        "numInputRows": mine["rows"],
        "inputRowsPerSecond": _rate(mine["rows"], spark, "triggerExecution"),
        "processedRowsPerSecond": mine["rows_per_s"],
        "eventTime": _event_time(mine["watermark"]),
        "stateOperators": [
            {"operatorName": name, "numRowsTotal": one["keys"], "memoryUsedBytes": one["bytes"]}
            for name, one in mine["state"].items()
        ],
        "thalweg": mine,
    }


def _rate(rows: int, spark: Mapping[str, Any], what: str) -> float:
    spent_ms = spark.get("durationMs", {}).get(what, 0)
    return rows * 1000 / spent_ms if spent_ms else 0.0


def _event_time(watermarks: Mapping[str, int]) -> dict[str, str]:
    """The least watermark as Spark writes it; nothing where there is none yet, or the input has ended."""
    known = [at for at in watermarks.values() if -NEVER < at < NEVER]
    if not known:
        return {}
    at = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
        microseconds=min(known)
    )
    return {"watermark": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
