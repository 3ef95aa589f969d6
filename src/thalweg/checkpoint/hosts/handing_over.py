"""A checkpoint between hosts: state and commit records are the same, and places in logs go from one form to the other.

Spark keeps the places behind batch n as lines of ``offsets/<n>``, one a source in the flow's order and one for the
control folder; a run in one process keeps them in the commit record. Only logs have places that both know. Between
two batches nothing else is left: where one host has planned a batch, it has to finish it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import INPUTS, QUERY
from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.hosts.spark_log import log_lines, read_log
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import join, list_files, write_new
from thalweg.checkpoint.record import CommitRecord
from thalweg.errors import CheckpointError

_LOG: Final = "log"
#: What Spark logs of a source of which it has read nothing: the control folder.
_NONE_READ: Final = "-"
_NOTHING: Final[Mapping[str, str]] = {}


def is_of_process(record: CommitRecord | None) -> bool:
    """Whether a run in one process wrote a record."""
    return record is not None and INPUTS in record.extra


def to_process(spark: Folder, record: CommitRecord | None, sources: Sequence[str]) -> CommitRecord:
    """Spark's newest record with the places of its inputs, for a run in one process.

    Args:
        spark: Spark's part.
        record: the newest.
        sources: of the flow, in its order.

    Raises:
        CheckpointError: Spark has begun a batch, or an input is no log, or keys are in units by a routing table.
    """
    log = read_log(spark)
    if record is None or log.next_batch != record.batch + 1 or _entries(spark, log.next_batch):
        raise CheckpointError(
            f"{spark.location}: Spark has planned batch {log.next_batch} and not finished it, and only Spark knows its"
            " rows.\nStart the query on Spark once more, with trigger='available_now', and then the run here."
        )
    if record.epoch:
        raise CheckpointError(
            f"{spark.location}: the query on Spark routes keys by a table (locality=), which a run in one process does"
            " not have. Go on on Spark, or begin a new checkpoint folder."
        )
    lines = log_lines(spark, f"offsets/{record.batch}")[2:]
    places = {name: _place(spark, name, line) for name, line in zip(sources, lines, strict=False)}
    if len(places) != len(sources):
        raise CheckpointError(
            f"{spark.location}/offsets/{record.batch} does not have a place for each of {', '.join(sources)}"
        )
    said = {"places": places, "over": []}
    return dataclasses.replace(record, extra={**record.extra, INPUTS: said})


def _place(spark: Folder, name: str, line: str) -> dict[str, Any]:
    try:
        at = orjson.loads(line)
    except ValueError:
        at = None
    if not isinstance(at, Mapping) or "logOffset" in at:
        raise CheckpointError(
            f"{spark.location}: source {name!r} was no log on Spark (but files, say), so only Spark knows its place.\n"
            "Go on on Spark, or begin a new checkpoint folder."
        )
    return {"kind": _LOG, "at": dict(at)}


def to_spark(
    part: Folder,
    spark: Folder,
    record: CommitRecord,
    sources: Sequence[str],
    logs: Sequence[str],
    was: Mapping[str, str] = _NOTHING,
) -> None:
    """Writes the places of a process into Spark's log, so that Spark goes on behind its newest batch.

    Args:
        part: the folder of the state.
        spark: Spark's part.
        record: the newest, of a process.
        sources: of the flow, in its order.
        logs: those that are given a log now.
        was: the names that sources had before, by those that they have.

    Raises:
        CheckpointError: an input is no log, or the process has planned a batch.
    """
    known = record.extra[INPUTS]["places"]
    logs = [name if name in known else was.get(name, name) for name in logs]
    sources = [name if name in known else was.get(name, name) for name in sources]
    _require_logs(part, record, sources, logs)
    plan = planned.read(part.fs, part.root, record.batch + 1)
    if plan is not None and plan.does_something:
        raise CheckpointError(
            f"{part.location}: a run in one process has planned batch {plan.batch} and not finished it.\n"
            "Start it there once more, with end='keep', and then the query on Spark."
        )
    _require_count(spark, sources)
    query = str(record.extra[QUERY])
    _write(spark, "metadata", orjson.dumps({"id": query}))
    control = _control(spark)
    before = records.read(part.fs, part.root, record.batch - 1)
    # Spark looks at the entry before its newest one, too.
    for one in (before, record):
        if one is not None and is_of_process(one):
            places = one.extra[INPUTS]["places"]
            lines = [orjson.dumps(places[name]["at"]).decode() for name in sources]
            head = {
                "batchWatermarkMs": 0,
                "batchTimestampMs": time.time_ns() // 1_000_000,
                "conf": {},
            }
            text = "\n".join(["v1", orjson.dumps(head).decode(), *lines, control])
            _write(spark, f"offsets/{one.batch}", text.encode())
            _write(spark, f"commits/{one.batch}", b'v1\n{"nextBatchWatermarkMs":0}')


def _require_logs(
    part: Folder, record: CommitRecord, sources: Sequence[str], logs: Sequence[str]
) -> None:
    said = record.extra[INPUTS]
    for name in sources:
        if name not in logs or said["places"].get(name, {}).get("kind") != _LOG or said["over"]:
            raise CheckpointError(
                f"{part.location} has the state after batch {record.batch} of a run in one process, and source {name!r}"
                " was no log there, or is none now, or has ended: Spark does not know its place.\n"
                "Go on with tw.run(..., checkpoint=), or begin a new checkpoint folder here."
            )


def _require_count(spark: Folder, sources: Sequence[str]) -> None:
    """Spark knows inputs by their place, also the folder of commands, which is the last one."""
    batches = _batches(spark, "offsets")
    lines = log_lines(spark, f"offsets/{max(batches)}")[2:] if batches else []
    if lines and len(lines) != len(sources) + 1:
        raise CheckpointError(
            f"{spark.location}: the query was on Spark with {len(lines) - 1} sources, and now has {len(sources)}; Spark"
            " knows inputs by their place.\nGo on with tw.run(..., checkpoint=), or begin a new checkpoint folder here."
        )


def _control(spark: Folder) -> str:
    """Where Spark stands in the control folder."""
    batches = _batches(spark, "offsets")
    lines = log_lines(spark, f"offsets/{max(batches)}")[2:] if batches else []
    return lines[-1] if lines else _NONE_READ


def _entries(spark: Folder, batch: int) -> bool:
    return batch in _batches(spark, "offsets")


def _batches(spark: Folder, log: str) -> list[int]:
    names = list_files(spark.fs, join(spark.root, log))
    return [int(name) for name in names if name.isdecimal()]


def _write(spark: Folder, name: str, content: bytes) -> None:
    """Writes what is not there yet: what Spark wrote stands."""
    write_new(spark.fs, join(spark.root, name), content)
