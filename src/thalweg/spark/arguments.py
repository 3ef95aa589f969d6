"""What ``tw.spark.start`` is given, checked and brought into the form in which it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import cloudpickle
from pyspark.sql import SparkSession

from thalweg.brief import counted
from thalweg.checkpoint.routing_files import asked_path, load_table
from thalweg.checks import (
    meant,
    path_of,
    refuse,
    require_count,
    require_instance,
    require_mapping,
    require_rows,
    shown,
)
from thalweg.connectors.logs import Log
from thalweg.engine.idle_orders import refuse_between_slots
from thalweg.engine.watermarks.idle_clock import refuse_useless
from thalweg.errors import BuildError
from thalweg.flow.flow import Flow
from thalweg.plan.plan import Plan, make_plan
from thalweg.spark.cluster.placement import cores_of_task
from thalweg.spark.elastic import Adaptation, Elastic, elastic
from thalweg.spark.reading import inputs as io
from thalweg.times import duration
from thalweg.workers.options import require_policy

log = logging.getLogger("thalweg")
#: Of more slots for each that runs at a time a warning says that they cost time.
_SLOTS_A_CORE: Final = 32


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
            "slots and threads: they share a controller, and a controller finds one number; give each its own"
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
            f"slots: the table {path} is for {counted(count, 'slot')}, so their number cannot be found; give"
            f" slots={count}, or locality='online', which makes tables for any number"
        )


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


def check_flow(where: str, flow: Any, inputs: Any, chunk_rows: Any) -> Plan:
    """The plan of a flow, with what ``start`` and ``lower`` have in common.

    Raises:
        BuildError: one of them is not what it is to be.
    """
    require_instance(where, Flow, "a tw.Flow", flow=flow)
    require_mapping(where, "inputs by source name", inputs=inputs)
    require_rows(where, chunk_rows=chunk_rows)
    return make_plan(flow)


def check_locality(locality: Any) -> None:
    """Refuses what is neither a word, nor a table that is there, nor who proposes tables.

    Raises:
        BuildError: it is none of them.
        CheckpointError: there is no table at the path, or it is torn.
    """
    if locality in ("off", "online") or (callable(locality) and not isinstance(locality, type)):
        return
    path = asked_path(locality)
    if path is None:
        expected = '"off", "online", the path of a table or tw.locality.Online(…)'
        raise refuse("start", "locality", expected, locality)
    load_table(path)


def check_folders(**given: Any) -> None:
    """Refuses what is no path; None is none.

    Raises:
        BuildError: naming it.
    """
    for name, value in given.items():
        if value is not None:
            path_of("start", name, value)


def check(plan: Plan, inputs: Mapping[str, Any], sinks: Mapping[str, Any], end: str) -> None:
    """Refuses names that are not the flow's, and an end that is none.

    Raises:
        BuildError: saying which.
    """
    from thalweg.connectors.names import check_names

    io.refuse_embedded_only(plan)
    refuse_useless(plan)
    refuse_between_slots(plan, "start")
    check_names(plan, inputs)
    if not isinstance(sinks, Mapping):
        raise BuildError(
            f"sinks: expected what is written by sink name, a dict, got {shown(sinks)}"
        )
    names = {sink.name for sink in plan.sinks}
    for extra in sorted(sinks.keys() - names, key=str):
        raise BuildError(
            f"flow {plan.flow!r} has no sink {extra!r}; it has {', '.join(sorted(names))}{meant(extra, names)}"
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
            f"{meant(trigger, ['available_now'])}"
        )
    return {"processingTime": f"{interval // 1000} milliseconds"}


def session_here() -> SparkSession:
    """The running session, or one that is made now.

    Raises:
        EnvironmentProblem: it is one of Spark Connect.
    """
    from thalweg.spark.cluster.session import refuse_connect, session

    found = SparkSession.getActiveSession() or session()
    refuse_connect(found)
    return found


def warn(spark: SparkSession, slots: int, inputs: Mapping[str, Any], plan: Plan) -> None:
    """Says what works and may not be meant: idle cores, and rows whose order of arrival is an accident."""
    cores = spark.sparkContext.defaultParallelism
    task = cores_of_task(spark)
    at_a_time = max(cores // task, 1)
    if slots > _SLOTS_A_CORE * at_a_time:
        log.warning(
            "slots=%d: only %d run at a time here, so each stage of a batch takes %d rounds of tasks; two to four slots"
            " for each that runs at a time are enough",
            slots, at_a_time, -(-slots // at_a_time),
        )  # fmt: skip
    if slots > 1 and slots * task < cores:
        log.info(
            "%d slots of %d cores leave %d of %d cores idle",
            slots,
            task,
            cores - slots * task,
            cores,
        )
    for source in plan.sources:
        if not source.arrival and not isinstance(inputs[source.name], (io.Files, Log)):
            log.warning(
                "source %r: its rows arrive in the order of Spark's partitions, which depends on sizes and cores; name"
                " the columns that give the order of arrival, source(arrival=[...]), or read with tw.spark.files",
                source.name,
            )


def sent_policy(policy: Any) -> bytes:
    """A policy as it goes to Spark's workers; nothing where there is none.

    Raises:
        BuildError: it is no policy, or cannot be pickled.
    """
    if policy is None:
        return b""
    require_policy(policy)
    try:
        sent: bytes = cloudpickle.dumps(policy)
    except Exception as error:
        raise BuildError(
            f"policy: {type(policy).__name__} cannot be sent to Spark's workers: {error}\n"
            "  expected: one that can be pickled: without locks, connections and open files"
        ) from error
    return sent
