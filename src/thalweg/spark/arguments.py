"""What ``tw.spark.start`` is given, checked and brought into the form in which it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from thalweg.errors import BuildError
from thalweg.plan import Plan
from thalweg.runtime.options import require_count
from thalweg.spark import inputs as io
from thalweg.spark.elastic import Adaptation, Elastic, elastic
from thalweg.times import duration

log = logging.getLogger("thalweg")


def numbers_of(spark: SparkSession, slots: Any, threads: Any) -> Adaptation:
    """How many slots and threads, given or to be found."""
    wanted, each = elastic("slots", slots), elastic("threads", threads)
    if not isinstance(each, Elastic):
        each = threads_of(spark, each)
    cores = cores_of_task(spark)
    most = spark.sparkContext.defaultParallelism // cores
    return Adaptation(1 if wanted is None else wanted, each, most_slots=most, most_threads=cores)


def cores_of_task(spark: SparkSession) -> int:
    """The cores that Spark gives a task."""
    return int(spark.conf.get("spark.task.cpus", "1") or "1")


def threads_of(spark: SparkSession, threads: int | None) -> int:
    """The threads of a slot: what was asked for, else the cores that Spark gives a task.

    Raises:
        BuildError: what was asked for is no number from 1 on.
    """
    cores = cores_of_task(spark)
    if threads is None:
        return cores
    require_count("threads", threads)
    if threads > cores:
        log.warning(
            "%d threads a slot share the %d core(s) of a task with others; tw.spark.session(threads_per_slot=%d)"
            " gives each a core",
            threads, cores, threads,
        )  # fmt: skip
    return threads


def check(plan: Plan, inputs: Mapping[str, Any], sinks: Mapping[str, Any], end: str) -> None:
    """Refuses names that are not the flow's, and an end that is none.

    Raises:
        BuildError: saying which.
    """
    from thalweg.embedded import check_names

    io.refuse_embedded_only(plan)
    check_names(plan, inputs)
    names = {sink.name for sink in plan.sinks}
    for extra in sorted(sinks.keys() - names):
        raise BuildError(
            f"flow {plan.flow!r} has no sink {extra!r}; it has {', '.join(sorted(names))}"
        )
    if end not in ("keep", "drain"):
        raise BuildError(f"end is 'keep' or 'drain', got {end!r}")


def trigger_of(trigger: str | None) -> dict[str, Any]:
    """The arguments of Spark's ``trigger``.

    Raises:
        BuildError: it is none.
    """
    if trigger is None:
        return {"processingTime": "0 seconds"}
    if trigger in ("available_now", "once"):
        return {"availableNow": True}
    try:
        interval = duration(trigger)
    except (TypeError, ValueError):
        interval = -1
    if interval < 0 or not isinstance(trigger, str):
        raise BuildError(
            f"trigger is 'available_now', an interval such as '5 seconds', or None, got {trigger!r}"
        )
    return {"processingTime": f"{interval // 1000} milliseconds"}


def session_here() -> SparkSession:
    """The running session, or one that is made now."""
    from thalweg.spark.session import session

    return SparkSession.getActiveSession() or session()


def warn(spark: SparkSession, slots: int, inputs: Mapping[str, Any], plan: Plan) -> None:
    """Says what works and may not be meant: idle cores, and rows whose order of arrival is an accident."""
    cores = spark.sparkContext.defaultParallelism
    task = cores_of_task(spark)
    if slots > 1 and slots * task < cores:
        log.info(
            "%d slots of %d cores leave %d of %d cores idle",
            slots,
            task,
            cores - slots * task,
            cores,
        )
    for source in plan.sources:
        if not source.arrival and not isinstance(inputs[source.name], io.Files):
            log.warning(
                "source %r: its rows arrive in the order of Spark's partitions, which depends on sizes and cores; name"
                " the columns that give the order of arrival, source(arrival=[...]), or read with tw.spark.files",
                source.name,
            )
