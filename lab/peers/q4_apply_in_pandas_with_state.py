"""Query 4 in PySpark Structured Streaming with applyInPandasWithState: one pandas frame a user and batch.

One file a micro-batch, trigger availableNow, append mode. The watermark closes the sessions; since it moves only with
later rows, a last file with one row of a far future ends the stream. Wants pandas below 3.
"""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from common import GAP_US, Answer, parquet_files, run
from pyarrow import parquet
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from spark_session import session

OUTPUT = "pages long, abandoned boolean"
STATE = "last_us long, pages long, carted boolean, bought boolean"


def track(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The closed sessions of a user; the open one stays in the state."""
    closed = []
    last, pages, carted, bought = state.get if state.exists else (None, 0, False, False)
    if state.hasTimedOut:
        state.remove()
        closed.append((pages, carted and not bought))
    else:
        clicks = pd.concat(list(frames)).sort_values("us", kind="stable")
        for us, action in zip(clicks["us"].tolist(), clicks["action"].tolist(), strict=True):
            if last is not None and us - last > GAP_US:
                closed.append((pages, carted and not bought))
                pages, carted, bought = 0, False, False
            last, pages = us, pages + 1
            carted, bought = carted or action == "cart", bought or action == "checkout"
        state.update((last, pages, carted, bought))
        # Timers count in milliseconds; one more, so that none fires before its microsecond.
        state.setTimeoutTimestamp((last + GAP_US) // 1000 + 1)
    yield pd.DataFrame(closed, columns=["pages", "abandoned"])


def query(folder: Path) -> Answer:
    work = Path(tempfile.mkdtemp(prefix="q4-"))
    try:
        return stream(folder, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def stream(folder: Path, work: Path) -> Answer:
    spark = session()
    clicks = work / "in"
    clicks.mkdir()
    for path in parquet_files(folder):
        shutil.copyfile(path, clicks / path.name)
    end_of_stream(clicks)
    # Spark takes files in the order of their modification times, in milliseconds.
    now = time.time()
    for age, path in enumerate(reversed(parquet_files(clicks))):
        os.utime(path, (now - age, now - age))
    rows = (
        spark.readStream.schema(spark.read.parquet(str(clicks)).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(clicks))
        .withWatermark("ts", "1 second")
        .select("user", "action", "ts", F.unix_micros("ts").alias("us"))
    )
    closed = rows.groupBy("user").applyInPandasWithState(
        track, OUTPUT, STATE, "append", GroupStateTimeout.EventTimeTimeout
    )
    (
        closed.writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(work / "out"))
        .awaitTermination()
    )
    # Of the user of the last row nothing comes out: no later row closes the session.
    row = (
        spark.read.schema(OUTPUT)
        .parquet(str(work / "out"))
        .agg(
            F.count("*"), F.count_if("abandoned"), F.avg(F.when(F.col("abandoned"), F.col("pages")))
        )
        .first()
    )
    return Answer(*row)


def end_of_stream(folder: Path) -> None:
    last = parquet_files(folder)[-1]
    row = parquet.read_table(last).slice(0, 1)
    far = pa.array(
        [datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)], row.schema.field("ts").type
    )
    row = row.set_column(0, row.schema.field("ts"), far).set_column(
        1, row.schema.field("user"), pa.array([-1], pa.int64())
    )
    parquet.write_table(row, folder / "part-99999.parquet")


if __name__ == "__main__":
    run(query)
