"""What the tasks of a batch tell its driver."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import cloudpickle
import orjson

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
        self.reports.append({**content, "slot": blob.slot})
