"""What the tasks of a batch tell its driver."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cloudpickle
import orjson
from pyspark.sql import DataFrame

from thalweg.errors import CheckpointError
from thalweg.spark.tasks.transport import Blob


@dataclasses.dataclass(slots=True)
class Told:
    """What the tasks of a batch told the driver: reports, rows by sink, and the blobs of sinks kept here."""

    reports: list[dict[str, Any]]
    rows: collections.Counter[int]
    data: dict[int, list[Any]]

    def add(self, blob: Blob) -> None:
        """Takes one row of the frame; a reported failure is raised."""
        if blob.kind == "sink":
            self.rows[blob.node] += blob.port
            if len(memoryview(blob.data)):
                self.data.setdefault(blob.node, []).append(blob.data)
            return
        content = orjson.loads(memoryview(blob.data))
        if "error" in content:
            raise cloudpickle.loads(bytes.fromhex(content["error"]))
        self.reports.append({**content, "stage": blob.node, "slot": blob.slot})


def require_all(depth: int, slots: int, reports: Sequence[Mapping[str, Any]]) -> None:
    """Refuses a batch of which a part is missing, or was run twice.

    Args:
        depth: the stages of the flow.
        slots: of the batch.
        reports: of its tasks.

    Raises:
        CheckpointError: nothing of it is committed, so that a restart repeats it.
    """
    stages = range(1, depth) if slots > 1 else ()
    wanted = [(0, 0), *((stage, slot) for stage in stages for slot in range(slots))]
    found = collections.Counter((said["stage"], said["slot"]) for said in reports)
    if found != collections.Counter(wanted):
        raise CheckpointError(
            f"Spark's tasks reported {sorted(found.elements())} (stage, slot) of a batch, not each of {wanted} once:"
            " parts of it ran again and others did not. Nothing of it is committed; start the query again."
        )


@contextlib.contextmanager
def persisted(frame: DataFrame) -> Iterator[None]:
    """Keeps a batch's frame where it is used more than once: by sinks that get a DataFrame."""
    frame.persist()
    try:
        yield
    finally:
        frame.unpersist()
