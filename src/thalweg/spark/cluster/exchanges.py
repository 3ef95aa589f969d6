"""What the exchanges between a batch's stages carried, and between which executors, as Spark measured it.

Its numbers come late and are asked for one by one, which takes a part of a short batch. Where one process runs all
tasks there is one executor, and what the tasks say that they have sent is enough.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

#: Spark's numbers arrive behind the job; they are waited for so long, ms.
_LATE_MS: Final = 500
#: More tasks than slots a stage has; those that ran again count last.
_TASKS: Final = 100_000
#: Spark's name of the executor of a local master.
_HERE: Final = "driver"


class Exchange(NamedTuple):
    """One exchange: bytes that its slots read, and where they ran.

    Attributes:
        local_bytes: from their own executor, or from a file of another one on their host.
        remote_bytes: from executors on other hosts.
        executors: ids, by slot.
    """

    local_bytes: int
    remote_bytes: int
    executors: tuple[str, ...]


@contextlib.contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Jobs that the block starts in this thread carry a tag."""
    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError):  # the session may have been stopped
            context.removeJobTag(tag)


def exchanges_here(slots: int, reports: Sequence[Mapping[str, Any]]) -> list[Exchange]:
    """The exchanges of a batch whose tasks all ran in one process, by what its tasks reported."""
    sent: dict[int, int] = {}
    for stage, size in (one for said in reports for one in said.get("sent", {}).items()):
        sent[int(stage)] = sent.get(int(stage), 0) + size
    return [Exchange(sent[stage], 0, (_HERE,) * slots) for stage in sorted(sent)]


def exchanges(spark: SparkSession, tag: str) -> list[Exchange]:
    """The exchanges of the jobs with a tag, in the order of the stages; empty where Spark's numbers are late."""
    context: Any = spark.sparkContext._jsc.sc()
    try:
        context.listenerBus().waitUntilEmpty(_LATE_MS)
    except Py4JError:
        return []
    tracker, store = context.statusTracker(), context.statusStore()
    jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForTag(tag))]
    stages = {stage for job in jobs if job.isDefined() for stage in job.get().stageIds()}
    try:
        found = [_exchange(store, store.lastStageAttempt(stage)) for stage in sorted(stages)]
    except Py4JError:
        # Spark has dropped a stage already, to keep no more than spark.ui.retainedStages.
        return []
    return [one for one in found if one is not None]


def _exchange(store: Any, stage: Any) -> Exchange | None:
    """What a stage read; None for one that read no exchange, or found it done by another job."""
    if stage.status().toString() != "COMPLETE" or not stage.shuffleReadRecords():
        return None
    tasks = store.taskList(stage.stageId(), stage.attemptId(), _TASKS)
    ran = {}
    for task in (tasks.apply(i) for i in range(tasks.size())):
        if task.status() == "SUCCESS":
            ran[task.index()] = task.executorId()
    executors = tuple(ran[slot] for slot in sorted(ran))
    return Exchange(stage.shuffleLocalBytesRead(), stage.shuffleRemoteBytesRead(), executors)


def co_located(found: Sequence[Exchange]) -> float:
    """The share of slots that ran on the executor on which they ran in the stage before; 1 for a single stage."""
    pairs = [
        pair
        for one, other in itertools.pairwise(found)
        for pair in zip(one.executors, other.executors, strict=False)
    ]
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else 1.0
