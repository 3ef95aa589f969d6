"""What ``tw.spark.start`` is given, checked and brought into the form in which it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from thalweg.checks import require_count
from thalweg.errors import BuildError
from thalweg.plan import Plan
from thalweg.spark import inputs as io
from thalweg.spark.elastic import Adaptation, Elastic, elastic
from thalweg.state.routing_files import asked_path, load_table
from thalweg.times import duration

log = logging.getLogger("thalweg")


def numbers_of(spark: SparkSession, slots: Any, threads: Any) -> Adaptation:
    """How many slots and threads, given or to be found.

    Raises:
        BuildError: they are no numbers, or both are to be found by one controller.
    """
    wanted, each = elastic("slots", slots), elastic("threads", threads)
    refuse_shared_controller(wanted, each)
    if not isinstance(each, Elastic):
        each = threads_of(spark, each)
    cores = cores_of_task(spark)
    most = spark.sparkContext.defaultParallelism // cores
    warn_of_minimum("slots", wanted, most, "the cluster runs at a time")
    warn_of_minimum("threads", each, cores, "cores of a task")
    return Adaptation(1 if wanted is None else wanted, each, most_slots=most, most_threads=cores)


def refuse_shared_controller(slots: Any, threads: Any) -> None:
    """A controller knows one number.

    Raises:
        BuildError: both numbers have the same one.
    """
    both = isinstance(slots, Elastic) and isinstance(threads, Elastic)
    if both and slots.controller is not None and slots.controller is threads.controller:
        raise BuildError(
            "slots and threads: both have the same controller, which can find one number; give each its own"
        )


def warn_of_minimum(what: str, given: Any, most: int, why: str) -> None:
    """Says where the least wanted is more than there is: then nothing is left to find.

    Args:
        what: ``slots`` or ``threads``.
        given: the number, or how it is to be found.
        most: what there is.
        why: what these are, behind their number.
    """
    if isinstance(given, Elastic) and given.maximum is None and given.minimum > max(most, 1):
        log.warning(
            "%s: Elastic(minimum=%d) is more than the %d %s: there will be %d all the time; give a smaller minimum, or"
            " a maximum above it if so many are meant",
            what, given.minimum, most, why, given.minimum,
        )  # fmt: skip


def refuse_elastic_with_table(slots: Any, locality: Any) -> None:
    """A routing table from a file is for one number of slots, so that number cannot be found.

    Args:
        slots: as given to ``start``.
        locality: as given to ``start``.

    Raises:
        BuildError: saying for which number the table is.
    """
    path = asked_path(locality)
    if path is not None and isinstance(elastic("slots", slots), Elastic):
        count = load_table(path).slots
        raise BuildError(
            f"slots: the table {path} is for {count} slots, so their number cannot be found; give"
            f" slots={count}, or locality='online', which makes tables for any number"
        )


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
    if not isinstance(sinks, Mapping):
        raise BuildError(f"sinks: expected what is written by sink name, a dict, got {sinks!r:.60}")
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
