"""Batches of several slots as one Spark stage, where the driver's process runs all tasks.

Spark's exchanges are for rows that go to other machines and for tasks that are tried again. A local master has
neither, so its tasks pass rows on by files while they run (:mod:`thalweg.spark.tasks.one_job`), and a batch has one
stage of Spark's for all stages of the flow.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from thalweg.spark.cluster.placement import is_one_process

#: A local master whose tasks are tried several times.
_TRIES: Final = re.compile(r"local\[[^,\]]+,\s*(\d+)\s*\]")


class OneMachine:
    """Makes the frames and folders of such batches.

    Args:
        spark: the session.
        can_pass: whether tasks can pass rows on by files on this system.
    """

    def __init__(self, spark: SparkSession, *, can_pass: bool) -> None:
        self._spark = spark
        context = spark.sparkContext
        cores = int(spark.conf.get("spark.task.cpus", "1") or "1")
        tries = _TRIES.fullmatch(str(context.master))
        #: whether batches of this session can be such
        self.works = can_pass and is_one_process(spark) and (tries is None or int(tries[1]) == 1)
        #: how many tasks run at a time
        self._at_once = max(int(context.defaultParallelism) // cores, 1)
        self._places = context.getConf().get("spark.local.dir", tempfile.gettempdir()).split(",")
        #: by the columns of the input, frames of further tasks
        self._empty: dict[tuple[str, int], DataFrame] = {}

    @contextlib.contextmanager
    def mailboxes(self, slots: int) -> Iterator[str]:
        """The folder of a batch while it runs; "" where its stages go by Spark's exchanges."""
        if slots == 1 or not self.works:
            yield ""
            return
        Path(self._places[0]).mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="thalweg-batch-", dir=self._places[0])
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def with_tasks(self, frame: DataFrame, slots: int) -> DataFrame:
        """The frame as the first of as many tasks as can run at once; the others have no rows of a source."""
        others = min(slots, self._at_once) - 1
        frame = frame.coalesce(1)
        return frame.union(self._without_rows(frame, others)) if others else frame

    def _without_rows(self, frame: DataFrame, tasks: int) -> DataFrame:
        """A frame of so many partitions with a row of nulls in each, whose plan is known.

        As a frame over an RDD, of which Spark knows nothing that could have it leave partitions out, or join them.
        """
        key = frame.schema.json(), tasks
        if key not in self._empty:
            nulls = [
                f"CAST(NULL AS {one.dataType.simpleString()}) AS `{one.name}`"
                for one in frame.schema
            ]
            rows = self._spark.range(0, tasks, 1, tasks).selectExpr(*nulls)
            session: Any = self._spark._jsparkSession
            java: Any = rows._jdf
            made = session.internalCreateDataFrame(
                java.queryExecution().toRdd(), java.schema(), False
            )
            self._empty[key] = DataFrame(made, self._spark)
        return self._empty[key]
