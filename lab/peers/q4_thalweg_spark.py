"""Query 4 on Thalweg on Spark local[2]: files in eight batches, state and output committed batch by batch."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from pathlib import Path

from common import Answer, parquet_files, run
from q4_flow import make_flow

import thalweg as tw

#: Micro-batches of a run.
BATCHES = 8


def query(folder: Path, slots: int = 1) -> Answer:
    """Runs the flow as a streaming query until all files are processed and drained."""
    tw.spark.session("local[2]", light_jvm=True, threads_per_slot=2 // slots)
    checkpoint = tempfile.mkdtemp(prefix="q4-")
    average = tw.spark.memory()
    files = math.ceil(len(parquet_files(folder)) / BATCHES)
    try:
        query = tw.spark.start(
            make_flow(),
            {"clicks": tw.spark.files(str(folder), format="parquet", max_files_per_trigger=files)},
            {"average": average},
            checkpoint=checkpoint,
            trigger="available_now",
            end="drain",
            slots=slots,
        )
        query.await_termination()
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    if "--progress" in sys.argv:
        for one in query.recent_progress:
            print(
                one["batch"],
                one["rows"],
                one["batch_s"],
                one["task_s"],
                one["task_cpu_s"],
                file=sys.stderr,
            )
    averages = average.table
    pages = averages.column("pages")[-1].as_py() if averages.num_rows else None
    return Answer(query.counts["sink:sessions"]["in"], averages.num_rows, pages)


if __name__ == "__main__":
    run(query)
