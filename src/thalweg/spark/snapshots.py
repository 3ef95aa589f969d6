"""A query's snapshot, made of what its last batches reported: between two batches nothing of it changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from thalweg.engine.bad_rows import newest
from thalweg.engine.build import Prepared
from thalweg.engine.meter import known_time, operators_of, sinks_of
from thalweg.plan.drawn import edges_of
from thalweg.plan.plan import Plan
from thalweg.snapshot import (
    BatchParts,
    KeyTraffic,
    PolicyRound,
    Snapshot,
    SourceProgress,
    StateSize,
)
from thalweg.spark.elastic import BatchChange
from thalweg.spark.scheduler import Scheduler
from thalweg.stats import Change, FaultyRow, Latency

#: Batches whose parts a snapshot has.
_BATCHES: Final = 20
#: What changes of slots, threads and tables a query keeps.
_CHANGES: Final = 100


def query_snapshot(
    prepared: Prepared,
    recent: Sequence[Mapping[str, Any]],
    counts: Mapping[str, Mapping[str, int]],
    *,
    rows_in: int,
    seconds: float,
    slots: int,
    threads: int,
    scheduler: Scheduler | None = None,
    asked: Sequence[BatchChange] = (),
    **more: Any,
) -> Snapshot:
    """The snapshot of a query.

    Args:
        prepared: the flow.
        recent: the progress of the last batches, oldest first.
        counts: rows since the first batch of the checkpoint.
        rows_in: of the sources, in this process.
        seconds: since the query began in this process.
        slots, threads: for the next batch.
        scheduler: that admits its batches.
        asked: changes by hand that no batch has told yet.
        more: what is known of the query itself.
    """
    plan = prepared.plan
    last: Mapping[str, Any] = recent[-1] if recent else {}
    whole = query_latency(last)
    # From the start of a batch to its commit, so it is the same of all sinks that have rows.
    latency = {
        one.name: whole
        for one in plan.sinks
        if whole is not None and counts.get(one.label, {}).get("in")
    }
    totals = {name: dict(its) for name, its in counts.items()}
    batch_s = last.get("batch_s", 0.0)
    rates = {
        name: its.get("in", 0) / batch_s if batch_s else 0.0
        for name, its in last.get("operators", {}).items()
    }
    return Snapshot(
        host="spark",
        rows_in=rows_in,
        seconds=seconds,
        rows_per_s=rows_in / max(seconds, 1e-9),
        latency=latency,
        operators=tuple(
            dataclasses.replace(one, queue_rows=_waiting(last, one.name))
            for one in operators_of(prepared, {}, totals, rates if last else None, {}, None, {})
        ),
        edges=edges_of(plan),
        sources=tuple(_sources(plan, last, totals, rates)),
        sinks=sinks_of(plan, totals, latency),
        state=tuple(
            StateSize(operator=name, rows=one["keys"], bytes=one["bytes"])
            for name, one in last.get("state", {}).items()
        ),
        slots=slots,
        threads=threads,
        changes=changes_of(recent, asked)[-_CHANGES:],
        policy=None if scheduler is None else _policy(scheduler, plan.flow),
        keys=_keys(last.get("locality", {})),
        batches=tuple(_parts(one) for one in recent[-_BATCHES:]),
        bad_rows=newest(FaultyRow(**row) for said in recent for row in said.get("bad_rows", ())),
        **more,
    )


def links_of(spark: SparkSession, run_id: str | None) -> dict[str, str]:
    """Spark's own pages about a query; none where its interface is off."""
    address = spark.sparkContext.uiWebUrl
    if not address:
        return {}
    links = {"jobs in Spark": f"{address}/jobs/"}
    if run_id is not None:
        links["this query in Spark"] = f"{address}/StreamingQuery/statistics/?id={run_id}"
    return links


def changes_of(
    recent: Sequence[Mapping[str, Any]], asked: Sequence[BatchChange] = ()
) -> tuple[Change, ...]:
    """What was changed behind batches, at their ends, or by hand, when it was asked for; from the oldest batch on."""
    found = [(said["at_s"], one) for said in recent for one in said.get("changes", ())]
    known = [one for _, one in found]
    # A batch may tell them at this moment.
    new = [one for one in map(dataclasses.asdict, asked) if one not in known]
    found += [(one["at_s"], one) for one in new]
    if not found:
        return ()
    began = recent[0]["at_s"] - recent[0]["batch_s"] if recent else found[0][0]
    timed = ((one.get("at_s") or at_s, one) for at_s, one in found)
    return tuple(
        Change(
            seconds=max(0.0, at_s - began), what=one["what"], operator="", before=one["before"],
            after=one["after"], reason=one["reason"],
        )
        for at_s, one in sorted(timed, key=lambda one: one[0])
    )  # fmt: skip


def query_latency(last: Mapping[str, Any]) -> Latency | None:
    """How long rows of the recent batches took; None without any."""
    given = last.get("latency_s") or {}
    if not given:
        return None
    return Latency(last["rows"], last["batch_s"], given["p50"], given["p99"], given["max"])


def _waiting(last: Mapping[str, Any], name: str) -> int | None:
    """Rows that wait at an operator's inputs."""
    found = [
        n for at, n in last.get("waiting", {}).items() if at == name or at.startswith(f"{name}.")
    ]
    return sum(found) if found else None


def _sources(
    plan: Plan,
    last: Mapping[str, Any],
    totals: Mapping[str, Mapping[str, int]],
    rates: Mapping[str, float],
) -> list[SourceProgress]:
    out, idle = [], last.get("idle", {})
    for node in plan.sources:
        its, domain = totals.get(node.label, {}), plan.domains[node.index - 1]
        watermark = last.get("watermark", {}).get(str(domain))
        held_by = last.get("slowest_lane", {}).get(node.name)
        out.append(
            SourceProgress(
                name=node.name, rows_in=its.get("in", 0), rows_out=its.get("out", 0),
                late=its.get("late", 0), rejected=its.get("rejected", 0),
                rows_per_s=rates.get(node.label, 0.0) if last else None,
                waiting_rows=last.get("waiting", {}).get(node.name),
                watermark=None if watermark is None else known_time(watermark),
                held_by=None if held_by is None else str(held_by),
                pauses=its.get("idle", 0),
                is_idle=idle.get(node.name, {}).get("is_idle", False),
                idle_lanes=tuple(idle.get(node.name, {}).get("lanes", ())),
            )
        )  # fmt: skip
    return out


def _policy(scheduler: Scheduler, flow: str) -> PolicyRound:
    progress = scheduler.progress
    last = progress.decisions[-1] if progress.decisions else None
    mine = progress.queries.get(flow)
    return PolicyRound(
        policy=type(scheduler.policy).__name__,
        rounds=None if mine is None else mine.batches,
        assigned=() if last is None else ((last.query,),),
        reason="" if last is None else last.reason,
    )


def _keys(said: Mapping[str, Any]) -> KeyTraffic | None:
    if not said:
        return None
    names = {one.name for one in dataclasses.fields(KeyTraffic)}
    mine = {name: value for name, value in said.items() if name in names}
    for name in ("local_bytes", "remote_bytes"):
        mine[name] = sum(said[name]) if said.get(name) else None
    return KeyTraffic(**mine)


def _parts(said: Mapping[str, Any]) -> BatchParts:
    parts = said.get("parts_s", {})
    return BatchParts(
        batch=said["batch"], rows=said["rows"], seconds=said["batch_s"],
        wait_s=said["admission_wait_s"], plan_s=parts.get("plan"), run_s=parts.get("run"),
        write_s=parts.get("write"), commit_s=parts.get("commit"), slots=said["slots"],
        threads=said.get("threads", 1),
    )  # fmt: skip
