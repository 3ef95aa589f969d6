"""The same twelve flows between all connectors: from and into each, in every host, the rows of the reference."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors import postgres_server, small_servers
from tests.connectors.pair_flows import FLOWS, SECOND, Tick

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import make_plan

_names = itertools.count()


@dataclasses.dataclass(frozen=True)
class Kind:
    """A connector: a new place in it, and the input and the output there."""

    place: Callable[[], str]
    reads: Callable[[str], Any]
    writes: Callable[[str], Any]


def kinds_of(folder: Path, stack: contextlib.ExitStack) -> dict[str, Kind]:
    for needed in ("confluent_kafka", "deltalake"):
        pytest.importorskip(needed, reason=f"needs {needed}")
    from thalweg_lab import brokers

    kafka = stack.enter_context(brokers.mock())
    postgres = stack.enter_context(postgres_server.running())
    redis = stack.enter_context(small_servers.valkey())
    nats = stack.enter_context(small_servers.nats())

    def name() -> str:
        return f"p{next(_names)}"

    def path() -> str:
        return str(folder / name())

    def stream() -> str:
        made = name()
        nats.do(lambda js: js.add_stream(name=made, subjects=[made]))
        return made

    return {
        "files": Kind(
            path,
            lambda at: tw.files(f"{at}.parquet", recursive=True, format="parquet"),
            lambda at: tw.to_files(f"{at}.parquet"),
        ),
        "kafka": Kind(
            name,  # the broker makes topics of four partitions
            lambda at: tw.kafka(kafka.servers, at, follow=False),
            lambda at: tw.to_kafka(kafka.servers, at),
        ),
        "delta": Kind(path, lambda at: tw.delta(at, follow=False), tw.to_delta),
        "postgres": Kind(
            name,
            lambda at: tw.postgres(postgres.dsn, at),
            lambda at: tw.to_postgres(postgres.dsn, at),
        ),
        "redis": Kind(
            name,
            lambda at: tw.redis_stream(redis.url, at, follow=False),
            lambda at: tw.to_redis(redis.url, at),
        ),
        "nats": Kind(
            stream,
            lambda at: tw.nats(nats.url, at, follow=False),
            lambda at: tw.to_nats(nats.url, at),
        ),
    }


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kind]]:
    with contextlib.ExitStack() as stack:
        yield kinds_of(tmp_path_factory.mktemp("pairs"), stack)


def ticks(seed: int) -> list[Tick]:
    """Rows out of order, each with a time of its own."""
    chosen = random.Random(seed)
    times = chosen.sample(range(0, 120 * SECOND, SECOND // 2), 90)
    return [Tick(time, chosen.choice(["a", "é", "", "zz"]), n) for n, time in enumerate(times)]


ROWS = {"a": ticks(1), "b": ticks(2)}


@pytest.fixture(scope="module")
def inputs(kinds: dict[str, Kind]) -> dict[str, dict[str, Any]]:
    """The same rows in each connector, by its name and that of the source."""
    out: dict[str, dict[str, Any]] = {}
    for kind, one in kinds.items():
        out[kind] = {}
        for source, rows in ROWS.items():
            at = one.place()
            flow = tw.Flow("fill")
            flow.source("in", Tick).sink("out")
            tw.run(flow, {"in": rows}, {"out": one.writes(at)})
            out[kind][source] = one.reads(at)
    return out


def found(kind: Kind, at: str, flow: tw.Flow, sink: str) -> list[Any]:
    """What a sink's place has now."""
    record = next(one.record for one in make_plan(flow).sinks if one.name == sink)
    back = tw.Flow("back")
    back.source("in", record).sink("out")
    return [tuple(row) for row in tw.run(back, {"in": kind.reads(at)}).rows("out")]


Go = Callable[[tw.Flow, dict[str, Any], dict[str, Any]], None]


def check(go: Go, flow: tw.Flow, kinds: dict[str, Kind], given: dict[str, Any], into: str) -> None:
    """Runs a flow from one connector into another, and holds each sink against the reference."""
    plan = make_plan(flow)
    places = {one.name: kinds[into].place() for one in plan.sinks}
    sources = {one.name: given[one.name] for one in plan.sources}
    go(flow, sources, {name: kinds[into].writes(at) for name, at in places.items()})
    expected = testing.reference(flow, {name: ROWS[name] for name in sources})
    for name, at in places.items():
        rows = [tuple(row) for row in expected.rows(name)]
        assert rows, name
        came = found(kinds[into], at, flow, name)
        if name == "bad":  # where a row stood is the connector's own
            rows, came = ([(row[0], row[1], row[3]) for row in some] for some in (rows, came))
        assert sorted(came, key=repr) == sorted(rows, key=repr), (flow.name, name, into)
        if into in ("files", "delta", "redis", "nats") and flow.name != "order-key":
            assert came == rows, (flow.name, name, into)  # these keep the order


def run(flow: tw.Flow, sources: dict[str, Any], sinks: dict[str, Any]) -> None:
    tw.run(flow, sources, sinks)


def start(flow: tw.Flow, sources: dict[str, Any], sinks: dict[str, Any]) -> None:
    with tw.start() as running:
        running.add(flow, sources, sinks).wait()


@pytest.mark.slow
def test_every_flow_from_and_into_every_connector(
    kinds: dict[str, Kind], inputs: dict[str, dict[str, Any]]
) -> None:
    """In ``tw.run``: each flow reads each connector once and writes each once, in pairs that differ by flow."""
    names = [*kinds]
    for number, make in enumerate(FLOWS.values()):
        for at, kind in enumerate(names):
            into = names[(at + 1 + number) % len(names)]
            check(run, make(), kinds, inputs[kind], into)


@pytest.mark.slow
def test_started_flows(kinds: dict[str, Kind], inputs: dict[str, dict[str, Any]]) -> None:
    """``tw.start`` gives the same rows: each flow once, and each connector in and out."""
    names = [*kinds]
    for number, make in enumerate(FLOWS.values()):
        from_, into = names[number % len(names)], names[(number * 5 + 1) % len(names)]
        check(start, make(), kinds, inputs[from_], into)


#: Flows with an own path on Spark, each from a connector and into one; every connector is once in and once out.
ON_SPARK = (
    ("sum", "kafka", "delta"), ("window", "redis", "postgres"), ("join", "delta", "kafka"),
    ("timer", "files", "nats"), ("reject", "nats", "files"), ("order=key", "postgres", "redis"),
)  # fmt: skip


@pytest.mark.exhaustive
def test_flows_on_spark(
    spark: Any, kinds: dict[str, Kind], inputs: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """The same descriptions on Spark: the same rows, in the same order where the connector keeps one."""
    checkpoints = itertools.count()

    def on_spark(flow: tw.Flow, sources: dict[str, Any], sinks: dict[str, Any]) -> None:
        folder = tmp_path / str(next(checkpoints))
        query = tw.spark.start(
            flow, sources, sinks, checkpoint=folder, trigger="available_now", end="drain", slots=2
        )
        query.await_termination()

    for name, from_, into in ON_SPARK:
        check(on_spark, FLOWS[name](), kinds, inputs[from_], into)
