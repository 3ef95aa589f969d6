"""Each metric: its name, unit and meaning, and where a snapshot has its numbers; docs/metrics.md has the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from thalweg.snapshot import Snapshot, bottleneck

#: A value with its labels besides ``flow``.
Sample: TypeAlias = tuple[Mapping[str, str], float]
#: Gives the snapshots of the flows that there are.
Snapshots: TypeAlias = Callable[[], Iterable[Snapshot]]


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: in Prometheus' form; a counter's has no ``_total``, which the exposition adds.
        kind: a counter grows as long as a run goes on.
        labels: besides ``flow``.
        help: what it means, with its unit.
        read: its samples in a snapshot; what a host cannot tell has none.
    """

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str
    read: Callable[[Snapshot], Iterator[tuple[tuple[str, ...], Any]]]


def _each(field: str, value: str, name: str = "name") -> Any:
    def read(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
        for one in getattr(snapshot, field):
            yield (getattr(one, name),), getattr(one, value)

    return read


def _whole(value: Callable[[Snapshot], Any]) -> Any:
    def read(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield (), value(snapshot)

    return read


def _seconds(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in snapshot.operators:
        yield (one.name,), None if one.busy_ns is None else one.busy_ns * 1e-9


def _cost(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in snapshot.operators:
        yield (one.name,), None if one.cost_ns is None else one.cost_ns * 1e-9


def _in_python(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in snapshot.operators:
        yield (one.name,), None if one.runs is None else float(one.runs == "Python")


def _culprit(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    culprit = bottleneck(snapshot)
    for one in snapshot.operators:
        yield (one.name,), float(one.name == culprit)


def _latency(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, one in snapshot.latency.items():
        for quantile, value in (("0.5", one.p50), ("0.99", one.p99), ("1", one.max)):
            yield (name, quantile), value


def _parts(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    for one in snapshot.batches[-1:]:
        for part in ("wait", "plan", "run", "write", "commit"):
            yield (part,), getattr(one, f"{part}_s")


def _keys(value: str) -> Any:
    return _whole(lambda snapshot: None if snapshot.keys is None else getattr(snapshot.keys, value))


def _last(value: str) -> Any:
    return _whole(
        lambda snapshot: getattr(snapshot.batches[-1], value) if snapshot.batches else None
    )


def _status(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield (snapshot.host,), float(snapshot.status == "running")


def _changes(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], Any]]:
    for what in sorted({one.what for one in snapshot.changes}):
        yield (what,), sum(one.what == what and not one.refused for one in snapshot.changes)


_OPERATOR: Final = ("operator",)
_SOURCE: Final = ("source",)
METRICS: Final[tuple[Metric, ...]] = (
    Metric("thalweg_up", "gauge", ("host",), "1 while the flow runs", _status),
    Metric(
        "thalweg_run_seconds", "gauge", (), "since the run began, s", _whole(lambda s: s.seconds)
    ),
    Metric(
        "thalweg_operator_rows_in",
        "counter",
        _OPERATOR,
        "tuples that an operator took",
        _each("operators", "rows_in"),
    ),
    Metric(
        "thalweg_operator_rows_out",
        "counter",
        _OPERATOR,
        "tuples that it put out",
        _each("operators", "rows_out"),
    ),
    Metric(
        "thalweg_operator_late_rows",
        "counter",
        _OPERATOR,
        "of these, late",
        _each("operators", "late"),
    ),
    Metric(
        "thalweg_operator_rejected_rows",
        "counter",
        _OPERATOR,
        "of these, rejected",
        _each("operators", "rejected"),
    ),
    Metric(
        "thalweg_operator_rows_per_second",
        "gauge",
        _OPERATOR,
        "tuples taken a second, lately",
        _each("operators", "rows_per_s"),
    ),
    Metric("thalweg_operator_busy_seconds", "counter", _OPERATOR, "worker time in it, s", _seconds),
    Metric(
        "thalweg_operator_busy_ratio",
        "gauge",
        _OPERATOR,
        "worker time a second, lately; 1 is one thread",
        _each("operators", "busy"),
    ),
    Metric(
        "thalweg_operator_back_pressured_ratio",
        "gauge",
        _OPERATOR,
        "share of looks that found it waiting for room",
        _each("operators", "back_pressured"),
    ),
    Metric(
        "thalweg_operator_queue_rows",
        "gauge",
        _OPERATOR,
        "tuples that wait in its inbox",
        _each("operators", "queue_rows"),
    ),
    Metric("thalweg_operator_cost_seconds", "gauge", _OPERATOR, "worker time a tuple, s", _cost),
    Metric(
        "thalweg_operator_in_python",
        "gauge",
        _OPERATOR,
        "1 where Python runs it, 0 machine code",
        _in_python,
    ),
    Metric(
        "thalweg_operator_bottleneck",
        "gauge",
        _OPERATOR,
        "1 of the operator that holds up the others",
        _culprit,
    ),
    Metric(
        "thalweg_operator_state_keys",
        "gauge",
        _OPERATOR,
        "keys that have a state",
        _each("state", "rows", "operator"),
    ),
    Metric(
        "thalweg_operator_state_bytes",
        "gauge",
        _OPERATOR,
        "their bytes",
        _each("state", "bytes", "operator"),
    ),
    Metric(
        "thalweg_source_rows",
        "counter",
        _SOURCE,
        "rows that a source read",
        _each("sources", "rows_in"),
    ),
    Metric(
        "thalweg_source_late_rows",
        "counter",
        _SOURCE,
        "rows that were late",
        _each("sources", "late"),
    ),
    Metric(
        "thalweg_source_rejected_rows",
        "counter",
        _SOURCE,
        "rows that did not fit its record",
        _each("sources", "rejected"),
    ),
    Metric(
        "thalweg_source_rows_per_second",
        "gauge",
        _SOURCE,
        "rows read a second, lately",
        _each("sources", "rows_per_s"),
    ),
    Metric(
        "thalweg_source_waiting_rows",
        "gauge",
        _SOURCE,
        "rows that wait for the watermark",
        _each("sources", "waiting_rows"),
    ),
    Metric(
        "thalweg_source_lag_rows",
        "gauge",
        _SOURCE,
        "rows of a log that are there and were not read",
        _each("sources", "lag_rows"),
    ),
    Metric(
        "thalweg_source_watermark",
        "gauge",
        _SOURCE,
        "the watermark, in the unit of the flow's time (µs)",
        _each("sources", "watermark"),
    ),
    Metric(
        "thalweg_source_idle",
        "gauge",
        _SOURCE,
        "1 while it is declared idle, so that nothing waits for it",
        _each("sources", "is_idle"),
    ),
    Metric(
        "thalweg_source_holds",
        "gauge",
        _SOURCE,
        "1 while the watermark of all that it meets is its own",
        _each("sources", "holds"),
    ),
    Metric(
        "thalweg_sink_rows", "counter", ("sink",), "rows that a sink took", _each("sinks", "rows")
    ),
    Metric(
        "thalweg_sink_latency_seconds",
        "gauge",
        ("sink", "quantile"),
        "from a row's release to its exit, s",
        _latency,
    ),
    Metric("thalweg_threads", "gauge", (), "workers that may run", _whole(lambda s: s.threads)),
    Metric("thalweg_slots", "gauge", (), "slots", _whole(lambda s: s.slots)),
    Metric(
        "thalweg_changes",
        "counter",
        ("what",),
        "changes of threads, slots, replicas and tables",
        _changes,
    ),
    Metric(
        "thalweg_policy_rounds",
        "counter",
        (),
        "rounds of the policy",
        _whole(lambda s: s.policy.rounds if s.policy else None),
    ),
    Metric("thalweg_batch_number", "gauge", (), "the last batch", _last("batch")),
    Metric("thalweg_batch_rows", "gauge", (), "its rows", _last("rows")),
    Metric(
        "thalweg_batch_seconds", "gauge", (), "from its start to its commit, s", _last("seconds")
    ),
    Metric("thalweg_batch_part_seconds", "gauge", ("part",), "where its time went, s", _parts),
    Metric(
        "thalweg_keys_stay_ratio",
        "gauge",
        (),
        "share of tuples that stayed in their slot",
        _keys("stay"),
    ),
    Metric(
        "thalweg_keys_remote_bytes",
        "gauge",
        (),
        "bytes between executors in the last batch",
        _keys("remote_bytes"),
    ),
    Metric(
        "thalweg_keys_moved_bytes",
        "gauge",
        (),
        "state that moved in the last batch, bytes",
        _keys("bytes_moved"),
    ),
)


def samples_of(metric: Metric, snapshots: Iterable[Snapshot]) -> Iterator[Sample]:
    """The values of a metric with their labels; those that nobody knows are left out."""
    for snapshot in snapshots:
        for labels, value in metric.read(snapshot):
            if value is not None:
                yield (
                    {"flow": snapshot.flow, **dict(zip(metric.labels, labels, strict=True))},
                    float(value),
                )
