"""Which executor runs which slot: slot i of every stage, batch after batch, on one and the same.

Left alone, Spark prefers for a task the hosts that hold a fifth or more of its input, so behind the one task of the
first stage all slots go to one host, and a slot's state to another executor in each batch. Here each slot prefers an
*executor*: its stages follow each other there, what a tuple's next key shares with the one before does not leave the
executor, and the state of the batch before is still in memory. A preference is no promise: when the executor is busy
for longer than ``spark.locality.wait``, or gone, Spark takes another.

Spark's DataFrames know no such preference, but its RDDs do: a narrow dependency on one whose partitions say where
they would like to be. So the rows pass through an RDD that zips them with an empty one of that kind.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("thalweg")

_DRIVER: Final = "driver"
_ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"
#: So many RDDs without rows are kept; slots change their places seldom.
_PLACES: Final = 16
_SETS: Final = "org.apache.spark.sql.execution.debug.package$SetAccumulator"


class Executor(NamedTuple):
    """An executor that is alive."""

    id: str
    host: str
    cores: int

    @property
    def location(self) -> str:
        """As Spark's RDDs write a preference for one executor."""
        return f"executor_{self.host}_{self.id}"


def assign(
    slots: int, executors: Sequence[Executor], before: Mapping[int, str]
) -> dict[int, Executor]:
    """The executor of each slot: the one it had, unless that is gone or would have too many; pure.

    No executor gets more slots than its share by cores, rounded up.

    Args:
        slots: how many.
        executors: those alive; the first ones are the first to be chosen.
        before: ids, by slot, of the batch before.
    """
    cores = sum(one.cores for one in executors)
    room = {one.id: math.ceil(slots * one.cores / cores) for one in executors}
    chosen: dict[int, str] = {}
    for slot in range(slots):
        kept = before.get(slot, "")
        if room.get(kept, 0):
            chosen[slot] = kept
            room[kept] -= 1
    for slot in range(slots):
        if slot not in chosen:
            chosen[slot] = max(room, key=room.__getitem__)
            room[chosen[slot]] -= 1
    by_id = {one.id: one for one in executors}
    return {slot: by_id[chosen[slot]] for slot in range(slots)}


class SlotPlacement:
    """Remembers where a query's slots are and leads its stages there.

    Args:
        spark: the session.
        first: a number of the query's own, so that the first slots of different queries begin on different executors.
    """

    def __init__(self, spark: SparkSession, first: int = 0) -> None:
        self._spark = spark
        self._first = first
        self._works = _wanted(spark)
        self._zip: _Zip | None = None
        #: ids, by slot, of the last batch
        self._before: dict[int, str] = {}
        #: of the executors that were alive then; 0 where nobody has looked
        self.cores = 0

    def next_batch(self, slots: int) -> list[str]:
        """Where the slots of a batch prefer to be, as Spark's locations; empty where there is no choice."""
        executors = executors_of(self._spark) if self._works else []
        self.cores = sum(one.cores for one in executors)
        if len(executors) < 2 or any("_" in one.host for one in executors):
            # Spark splits a location at its underscores.
            return []
        turn = self._first % len(executors)
        chosen = assign(slots, [*executors[turn:], *executors[:turn]], self._before)
        self._before = {slot: one.id for slot, one in chosen.items()}
        return [chosen[slot].location for slot in range(slots)]

    def placed(self, frame: DataFrame, locations: Sequence[str]) -> DataFrame:
        """The frame, each partition with its preference; as it is where there are none or Spark knows no way."""
        if not locations or not self._works:
            return frame
        try:
            self._zip = self._zip or _Zip(self._spark)
            return self._zip.placed(frame, locations)
        except (Py4JError, TypeError) as error:
            self._works = False
            log.warning(
                "this version of Spark lets no slot choose its executor (%s); Spark chooses", error
            )
            return frame


def _wanted(spark: SparkSession) -> bool:
    """Whether executors can be chosen: there are several, and no plan that changes while it runs."""
    return not is_one_process(spark) and spark.conf.get("spark.sql.adaptive.enabled") == "false"


def is_one_process(spark: SparkSession) -> bool:
    """Whether the driver's process is the only executor."""
    master = str(spark.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def cores_of_task(spark: SparkSession) -> int:
    """The cores that Spark gives a task."""
    return int(spark.conf.get("spark.task.cpus", "1") or "1")


def executors_of(spark: SparkSession) -> list[Executor]:
    """The executors that are alive, in the order in which they came."""
    found = _spark(spark).statusStore().executorList(True)
    parts = [found.apply(i) for i in range(found.size())]
    executors = [
        Executor(one.id(), one.hostPort().rsplit(":", 1)[0], one.totalCores())
        for one in parts
        if one.id() != _DRIVER and one.totalCores()
    ]
    return sorted(executors, key=lambda one: (len(one.id), one.id))


class _Zip:
    """Zips the rows of frames with nothing, at given locations.

    What zips is a class of Spark's own that passes rows on and counts them, so that executors need no code of ours. All
    that frames do not differ in is made once: each part of a Java name, asked for, is searched in all of Spark's jars.

    Raises:
        TypeError: this version of Spark has other classes.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        java_class = jvm.java.lang.Class.forName
        tags: Any = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
        self._spark = _spark(spark)
        self._row = tags.apply(java_class(_ROW))
        self._pair, self._list, self._to_seq = (
            jvm.scala.Tuple2, jvm.java.util.ArrayList, jvm.PythonUtils.toSeq
        )  # fmt: skip
        self._passing = jvm.org.apache.spark.sql.execution.debug.DebugEvaluatorFactory
        self._counts = (
            self._spark.longAccumulator(),
            0,
            jvm.java.lang.reflect.Array.newInstance(java_class(_SETS), 0),
        )
        self._zipped = jvm.org.apache.spark.rdd.ZippedPartitionsWithEvaluatorRDD
        #: by locations, an RDD that has its partitions there
        self._places: dict[tuple[str, ...], Any] = {}

    def placed(self, frame: DataFrame, locations: Sequence[str]) -> DataFrame:
        """The frame, each partition with its preference."""
        execution: Any = frame._jdf.queryExecution()
        passing = self._passing(*self._counts, execution.executedPlan().output())
        places = self._at(locations)
        zipped = self._zipped(execution.toRdd(), places, passing, self._row, self._row)
        session: Any = frame.sparkSession._jsparkSession
        made = session.internalCreateDataFrame(zipped, frame._jdf.schema(), False)
        return DataFrame(made, frame.sparkSession)

    def _at(self, locations: Sequence[str]) -> Any:
        key = tuple(locations)
        if key not in self._places:
            if len(self._places) >= _PLACES:
                self._places.clear()
            nowhere = [self._pair(None, self._seq([place])) for place in locations]
            self._places[key] = self._spark.makeRDD(self._seq(nowhere), self._row)
        return self._places[key]

    def _seq(self, values: Sequence[Any]) -> Any:
        listed = self._list()
        for value in values:
            listed.add(value)
        return self._to_seq(listed)


def _spark(spark: SparkSession) -> Any:
    """The JVM's own context, of which Python shows a part."""
    return spark.sparkContext._jsc.sc()
