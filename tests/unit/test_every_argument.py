"""Every argument of every public function is checked: what cannot be meant is refused by an error that names it."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.flow.operators import agg
from thalweg.flow.streams import Stream


class Row(NamedTuple):
    ts: int
    key: str
    n: int = 0


@tw.state
class Seen:
    n: int = 0


@tw.state
class Timed:
    timer: tw.Timer = tw.NEVER
    n: int = 0


def fired(state: Timed, key: str, time: int) -> Row:
    return Row(time, key)


def same(row: Row) -> Row:
    return row


def keep(row: Row) -> bool:
    return True


def several(row: Row) -> Iterator[Row]:
    yield row


def count(state: Seen, row: Row) -> Row:
    state.n += 1
    return row


async def asked(row: Row) -> Row:
    return row


def whole(batch: Any) -> Any:
    return batch


def pair(left: Row, right: Row) -> Row:
    return left


def named(row: Row) -> str:
    return "a"


async def loop(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_any(rows):
        await out.push(rows.get())


def composite(stream: Stream) -> Stream:
    return stream.map(same)


def put(batch: Any) -> None: ...


def put_batch(frame: Any, batch: int) -> None: ...


def flow_of(**more: Any) -> tw.Flow:
    return tw.Flow("words", **more)


def rows_of(flow: tw.Flow | None = None, name: str = "rows", **more: Any) -> Stream:
    return (flow or flow_of()).source(name, Row, **{"order_by": "ts", **more})


PROGRESS: Final = SimpleNamespace(json='{"id": "none", "batchId": 0}')


def whole_flow() -> tw.Flow:
    flow = flow_of()
    rows_of(flow).sink("out")
    return flow


def two(verb: str, **given: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    left = rows_of(flow)
    return getattr(left, verb), {"other": rows_of(flow, "more"), **given}


def positional(call: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """The function with its first parameters, which have no names for callers, by these names."""

    def called(**given: Any) -> Any:
        return call(*[given.pop(name) for name in names if name in given], **given)

    called.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]
    return called


def joined() -> tuple[Callable[..., Any], dict[str, Any]]:
    call, given = two(
        "join",
        combine=pair,
        on="key",
        within=None,
        before=3,
        after=3,
        how="inner",
        name="join",
        into=None,
    )
    return positional(call, "other", "combine"), given


def one_row(verb: str, right: str, **more: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    call = getattr(rows_of(flow), verb)
    given = {right: rows_of(flow, "more"), "combine": pair, "on": "key", "name": "op", "into": None}
    return positional(call, right, "combine"), {**given, **more}


def zipped() -> tuple[Callable[..., Any], dict[str, Any]]:
    call, given = two("zip", combine=pair, timeout=3, name="zip", into=None)
    return positional(call, "other", "combine"), given


def gated() -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    call = rows_of(flow).gate
    given = {"switch": rows_of(flow, "more"), "is_open": keep, "opened": False, "name": "gate"}
    return positional(call, "switch", "is_open"), given


def barred() -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    streams = {"left": rows_of(flow, "one"), "right": rows_of(flow, "two")}
    given = {"combine": pair, "by_time": False, "name": "barrier", "into": None, "max_waiting": 9}
    return positional(flow.barrier, "combine"), {**given, **streams}


def operated() -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    given = {"name": "op", "function": loop, "into": None, "max_waiting": 9, "capacity": 9}
    return positional(flow.operator, "name", "function"), {**given, "rows": rows_of(flow)}


def merged() -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    streams = [rows_of(flow, name, order_by=None) for name in ("one", "two")]
    return lambda **given: flow.merge(*streams, **given), {"by": "n", "name": "merge"}


def united(verb: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    flow = flow_of()
    first = [rows_of(flow, name) for name in ("one", "two")]
    owner = flow if verb == "flow" else first.pop(0)
    return (
        lambda streams, **more: owner.union(
            *first, *([] if streams is None else [streams]), **more
        ),
        {"streams": None, "name": "union"},
    )


RUN: Final[dict[str, Any]] = {"inputs": {"rows": [Row(1, "a")]}, "sinks": {"out": put}}
THREADS: Final[dict[str, Any]] = {
    "threads": None, "threading": "dynamic", "policy": None, "controller": None, "period_s": 1.0, "options": None,
}  # fmt: skip
OWN: Final[dict[str, Any]] = {
    "init": 0, "add": lambda held, row: held + 1, "merge": None, "retract": None, "result": None, "where": None,
}  # fmt: skip


class OwnClass:
    """The least class of an aggregate."""

    @staticmethod
    def init() -> int:
        return 0

    @staticmethod
    def add(held: int, row: Any) -> int:
        return held + 1


DURABLE: Final = ("checkpoint", "every", "end", "drop")
FUNCTION: Final[dict[str, Any]] = {"name": "op", "into": None, "errors": "fail", "compile": "auto"}
WINDOW: Final[dict[str, Any]] = {"function": None, "name": "op", "into": None, "n": agg.count()}
READ: Final[dict[str, Any]] = {
    "format": "csv", "delimiter": ",", "header": True, "quote": '"', "null_values": ("",), "true_values": ("t",),
    "false_values": ("f",), "epoch_unit": None, "recursive": False,
}  # fmt: skip

Case = tuple[Callable[..., Any], dict[str, Any]]
#: By public function: it, and arguments that fit.
CALLS: Final[Mapping[str, Callable[[], Case]]] = {
    "tw.decimal": lambda: (tw.decimal, {"precision": 12, "scale": 2}),
    "tw.Flow": lambda: (tw.Flow, {"name": "f", "errors": "fail", "compile": "auto", "renamed": {"a": "b"}}),
    "Flow.source": lambda: (
        flow_of().source,
        {
            "name": "rows", "record": Row, "order_by": "ts", "lateness": 3, "arrival": (), "order": "total",
            "errors": None, "names": None, "epoch_unit": None, "timestamp_formats": (),
        },
    ),
    "Flow.union": lambda: united("flow"),
    "Flow.barrier": barred,
    "Flow.merge": merged,
    "Flow.operator": operated,
    "Flow.feedback": lambda: (flow_of().feedback, {"name": "back", "record": Row}),
    "Flow.explain": lambda: (whole_flow().explain, {"compile": False}),
    "Flow.draw": lambda: (whole_flow().draw, {}),
    "Stream.map": lambda: (rows_of().map, {"function": same, **FUNCTION}),
    "Stream.filter": lambda: (
        rows_of().filter, {"function": keep, "name": "op", "errors": "fail", "compile": "auto"},
    ),
    "Stream.flat_map": lambda: (rows_of().flat_map, {"function": several, **FUNCTION}),
    "Stream.map_batches": lambda: (
        rows_of().map_batches, {"function": whole, "name": "op", "into": None, "errors": None},
    ),
    "Stream.map_async": lambda: (
        rows_of().map_async,
        {
            "function": asked, "concurrency": 3, "timeout": "1 s", "retries": 1, "backoff": "1 ms",
            "retry_on": ValueError, "client": None, "name": "op", "into": None, "errors": "fail",
        },
    ),
    "Stream.process": lambda: (
        rows_of().process, {"function": count, "state": Seen, "on_timer": None, **FUNCTION},
    ),
    "Stream.key_by": lambda: (
        positional(rows_of().key_by, "keys"),
        {"keys": "key", "buckets": 8, "into": None, "grouping": "fields"},
    ),
    "Stream.dedupe": lambda: (
        positional(rows_of().dedupe, "by"), {"by": "key", "within": 3, "name": "op", "buckets": 8},
    ),
    "Stream.union": lambda: united("stream"),
    "Stream.order_by": lambda: (rows_of().order_by, {"field": "n", "lateness": 3, "name": "op"}),
    "Stream.apply": lambda: (rows_of().apply, {"composite": composite, "name": "op"}),
    "Stream.sink": lambda: (rows_of().sink, {"name": "out", "ordered": True}),
    "Stream.join": joined,
    "Stream.join_asof": lambda: one_row("join_asof", "other", direction="nearest", within=3),
    "Stream.lookup": lambda: one_row("lookup", "table"),
    "Stream.zip": zipped,
    "Stream.gate": gated,
    "Stream.throttle": lambda: (rows_of().throttle, {"rows": 3, "per": 5, "name": "op"}),
    "Stream.delay": lambda: (rows_of().delay, {"by": 5, "name": "op"}),
    "Stream.split": lambda: (
        rows_of().split, {"choose": named, "outputs": ["a", "b"], "name": "op"},
    ),
    "KeyedStream.process": lambda: (
        rows_of().key_by("key").process,
        {
            "function": count, "state": Timed, "on_timer": fired, "keep": True, "at_end": "fire",
            **FUNCTION,
        },
    ),
    "KeyedStream.window": lambda: (
        rows_of().key_by("key").window,
        {"size": 5, "every": 5, "start": 0, "early": 2, "early_rows": None, **WINDOW},
    ),
    "Stream.window": lambda: (
        rows_of().window, {"size": 5, "every": 5, "start": 0, "early": None, "early_rows": 3, **WINDOW},
    ),
    **{
        f"{owner}.{verb}": lambda verb=verb, made=made, given=given: (getattr(made(), verb), given)
        for owner, made in {
            "Stream": lambda: rows_of(), "KeyedStream": lambda: rows_of().key_by("key"),
        }.items()
        for verb, given in {
            "aggregate": {"name": "op", "n_": agg.count()},
            "rolling": {"rows": None, "within": 5, "name": "op", "n_": agg.count()},
        }.items()
    },
    "Stream.rolling of rows": lambda: (
        rows_of().rolling, {"rows": 3, "within": None, "name": "op", "n_": agg.count()},
    ),
    "Stream.count_window": lambda: (
        positional(rows_of().count_window, "size"), {"size": 3, "name": "op", "n_": agg.count()},
    ),
    "KeyedStream.count_window": lambda: (
        positional(rows_of().key_by("key").count_window, "size"),
        {"size": 3, "name": "op", "n_": agg.count()},
    ),
    "Stream.sessions": lambda: (rows_of().sessions, {"gap": 5, **WINDOW}),
    "tw.aggregate": lambda: (tw.aggregate, OWN),
    "agg.aggregate": lambda: (agg.aggregate, OWN),
    "agg.of_class": lambda: (agg.of_class, {"cls": OwnClass, "where": "ok"}),
    "KeyedStream.sessions": lambda: (rows_of().key_by("key").sessions, {"gap": 5, **WINDOW}),
    "KeyedStream.dedupe": lambda: (
        rows_of().key_by("key").dedupe, {"within": 3, "name": "op"},
    ),
    **{
        f"agg.{name}": lambda call=call, given=given: (call, {**given, "where": "ok"})
        for name, (call, given) in {
            "sum": (agg.sum, {"field": "n"}),
            "min": (agg.min, {"field": "n"}),
            "max": (agg.max, {"field": "n"}),
            "mean": (agg.mean, {"field": "n"}),
            "variance": (agg.variance, {"field": "n", "population": True}),
            "stddev": (agg.stddev, {"field": "n", "population": True}),
            "first": (agg.first, {"field": "n"}),
            "last": (agg.last, {"field": "n"}),
            "min_by": (agg.min_by, {"by": "n", "field": "n"}),
            "max_by": (agg.max_by, {"by": "n", "field": "n"}),
            "count": (agg.count, {}),
            "count_distinct": (agg.count_distinct, {"field": "n"}),
            "approx_count_distinct": (agg.approx_count_distinct, {"field": "n", "size": 12}),
            "approx_quantile": (agg.approx_quantile, {"field": "n", "share": 0.5, "size": 100}),
            "collect": (agg.collect, {"field": "n", "last": 3}),
            "top_k": (agg.top_k, {"k": 3, "by": "n", "ties": True}),
        }.items()
    },
    "tw.state": lambda: (positional(tw.state, "cls"), {"cls": Seen}),
    "tw.state of an older": lambda: (tw.state, {"migrate": dict}),
    "tw.run": lambda: (
        tw.run,
        {
            "flow": whole_flow(), **RUN, "classes": None, **THREADS, "chunk_rows": 10, "slots": None,
            "routing": None,
        },
    ),
    "tw.run with a checkpoint": lambda: (
        tw.run,
        {
            "flow": whole_flow(), **RUN, "chunk_rows": 10, "checkpoint": tempfile.mkdtemp(), "every": "1 second",
            "end": "drain", "drop": ["old"],
        },
    ),
    "tw.run of slots": lambda: (
        tw.run, {"flow": whole_flow(), **RUN, "chunk_rows": 10, "slots": 2, "routing": None},
    ),
    "tw.run of several": lambda: (
        tw.run,
        {
            "flow": [whole_flow()], "inputs": {"words": RUN["inputs"]}, "sinks": {}, "classes": {"words": 1},
            "chunk_rows": 10,
        },
    ),
    "tw.start": lambda: (tw.start, {**THREADS, "reserve": None, "metrics": 0, "page": 9465, "control": False}),
    "tw.files": lambda: (
        tw.files,
        {"path": __file__, "follow": False, "max_files_per_trigger": 3, **READ},
    ),
    "tw.to_files": lambda: (tw.to_files, {"path": "a.csv", "format": "csv", "partition_by": "n"}),
    "tw.delta": lambda: (
        tw.delta,
        {
            "path": "a", "follow": False, "start": "latest", "on_change": "skip", "max_rows": 3,
            "storage_options": {},
        },
    ),
    "tw.to_delta": lambda: (
        tw.to_delta,
        {
            "path": "a", "partition_by": "n", "mode": "upsert", "key": ["n"], "storage_options": {},
            "patience": "1 second",
        },
    ),
    "tw.to_postgres": lambda: (
        tw.to_postgres,
        {"dsn": "host=h", "table": "t", "key": "n", "create": False, "patience": "1 second"},
    ),
    "tw.to_iceberg": lambda: (
        tw.to_iceberg,
        {
            "catalog": "c", "table": "n.t", "key": "n", "create": False, "properties": {}, "patience": "1 second",
        },
    ),
    "tw.postgres": lambda: (
        tw.postgres, {"dsn": "host=h", "table": "t", "order_by": "n", "patience": "1 s"},
    ),
    "tw.postgres_changes": lambda: (
        tw.postgres_changes,
        {
            "dsn": "host=h", "publication": "p", "slot": "s", "table": "t", "follow": False, "create": False,
            "confirm": "read", "max_rows": 3, "patience": "1 s",
        },
    ),
    "tw.redis_stream": lambda: (
        tw.redis_stream,
        {
            "url": "redis://h", "stream": "s", "value": "v", "format": "json", "follow": False, "max_rows": 3,
            "start": "earliest", "on_loss": "skip", "missing": "fail", "entry_id": "i", "timestamp": "t",
            "patience": "1 s",
        },
    ),
    "tw.to_redis": lambda: (
        tw.to_redis, {"url": "redis://h", "stream": "s", "value": "v", "maxlen": 3, "patience": "1 s"},
    ),
    "tw.nats": lambda: (
        tw.nats,
        {
            "url": "nats://h", "stream": "s", "subject": "a", "follow": False, "max_rows": 3, "start": "earliest",
            "on_loss": "skip", "missing": "fail", "format": "json", "subject_field": "f", "sequence": "n",
            "timestamp": "t", "patience": "1 s", "config": {},
        },
    ),
    "tw.to_nats": lambda: (
        tw.to_nats, {"url": "nats://h", "subject": "s", "patience": "1 s", "config": {}},
    ),
    "tw.http_post": lambda: (
        tw.http_post, {"port": 0, "host": "127.0.0.1", "token": "t", "max_bytes": 3, "capacity": 3},
    ),
    "tw.to_http": lambda: (
        tw.to_http, {"url": "http://h", "headers": {}, "timeout_s": 1.0, "patience": "1 s"},
    ),
    "tw.mqtt": lambda: (
        tw.mqtt,
        {
            "host": "h", "topic": "t", "port": 1883, "qos": 0, "client_id": "c", "username": "u", "password": "p",
            "tls": False, "format": "json", "topic_field": "f", "capacity": 3, "patience": "1 s",
        },
    ),
    "tw.websocket": lambda: (
        tw.websocket,
        {
            "url": "ws://h", "send": "s", "headers": {}, "format": "json", "max_bytes": 3, "capacity": 3,
            "patience": "1 s",
        },
    ),
    "tw.each": lambda: (tw.each, {"function": keep}),
    "tw.batches": lambda: (tw.batches, {"function": put}),
    "tw.from_iterable": lambda: (tw.from_iterable, {"items": [], "linger_s": 0.1}),
    "tw.push_source": lambda: (tw.push_source, {"capacity": 3, "linger_s": 0.1, "record": False}),
    "tw.tcp_lines": lambda: (
        tw.tcp_lines,
        {
            "host": "localhost", "port": 9, "format": "csv", "listen": False, "reconnect": False,
            "max_line_bytes": 99, "header": False,
        },
    ),
    "tw.kafka": lambda: (
        tw.kafka,
        {
            "servers": "localhost:9", "topic": "t", "follow": False, "max_rows": 9, "start": "latest",
            "on_loss": "skip", "format": "json", "decode": None, "schema": None, "tombstones": "skip",
            "topic_field": "a", "partition": "b", "offset": "c", "timestamp": "d", "key": "e", "headers": "f",
            "patience": "1 s", "config": {}, "epoch_unit": "s",
        },
    ),
    "tw.to_kafka": lambda: (
        tw.to_kafka,
        {
            "servers": "localhost:9", "topic": "t", "key": "k", "format": "json", "patience": "1 s",
            "config": {},
        },
    ),
    "tw.to_tcp": lambda: (tw.to_tcp, {"host": "localhost", "port": 9, "format": "csv"}),
    "spark.files": lambda: (
        tw.spark.files,
        {"path": "in", "streaming": True, "max_files_per_trigger": 2, **READ},
    ),
    "spark.parquet": lambda: (tw.spark.parquet, {"path": "out", "compression": "zstd"}),
    "spark.json": lambda: (tw.spark.json, {"path": "out", "compression": "gzip"}),
    "spark.csv": lambda: (tw.spark.csv, {"path": "out", "nullValue": "NULL"}),
    "spark.console": lambda: (tw.spark.console, {"max_rows": 3}),
    "spark.memory": lambda: (tw.spark.memory, {}),
    "spark.foreach_batch": lambda: (tw.spark.foreach_batch, {"function": put_batch}),
    "spark.progress_of": lambda: (tw.spark.progress_of, {"event": PROGRESS}),
    "spark.foreach_table": lambda: (tw.spark.foreach_table, {"function": put_batch}),
    "spark.Elastic": lambda: (
        tw.spark.Elastic, {"minimum": 1, "maximum": 3, "controller": None, "least_rows": 3},
    ),
    "spark.Scheduler": lambda: (
        tw.spark.Scheduler,
        {"policy": None, "classes": None, "slots": 2, "reserved": 1, "starve_after_s": 3.0},
    ),
    "spark.start": lambda: (
        tw.spark.start,
        {
            "flow": whole_flow(), "inputs": {"rows": tw.spark.files("in", format="csv")}, "sinks": {},
            "checkpoint": "c", "state": "s", "slots": 1, "threads": 1, "trigger": "1 s", "end": "keep", "drop": ["old"],
            "chunk_rows": 9, "scheduler": None, "policy": None,
            "locality": "off", "metrics": 9464, "page": 9465, "control": False,
        },
    ),
    "spark.lower": lambda: (
        tw.spark.lower,
        {
            "flow": whole_flow(), "inputs": {"rows": tw.spark.files("in", format="csv", streaming=False)}, "slots": 1,
            "threads": 1, "chunk_rows": 9, "checkpoint": None, "locality": "off",
        },
    ),
    "spark.session": lambda: (
        tw.spark.session,
        {"master": "local[2]", "app_name": "a", "threads_per_slot": 1, "light_jvm": True, "conf": {}},
    ),
    "testing.run": lambda: (
        testing.run, {"flow": whole_flow(), "inputs": RUN["inputs"], "chunk_rows": 10, "end": True, "compile": "never"},
    ),
    "testing.reference": lambda: (
        testing.reference, {"flow": whole_flow(), "inputs": RUN["inputs"], "end": True},
    ),
    "testing.Session": lambda: (testing.Session, {"flow": whole_flow(), "compile": "never"}),
}  # fmt: skip

VALUES: Final[Mapping[str, Any]] = {"thing": object(), "0": 0, "-1": -1, "None": None, "empty": ""}
#: What is meant by an odd value, by argument: everywhere, or of one function.
ACCEPTS: Final[Mapping[str, set[str]]] = {
    "errors": {"None"},
    "compile": {"None"},
    "into": {"None"},
    "name": {"None"},
    "on_timer": {"None"},
    "function": {"None"},
    "combine": {"None"},
    "max_waiting": {"None"},
    "lateness": {"0"},
    "within": {"0", "None"},
    "early": {"None"},
    "early_rows": {"None"},
    "Stream.rolling(rows)": {"None"},
    "KeyedStream.rolling(rows)": {"None"},
    "Stream.rolling of rows(rows)": {"None"},
    "where": {"None"},
    "init": {"0", "-1", "thing", "empty"},
    "merge": {"None"},
    "retract": {"None"},
    "result": {"None"},
    "agg.approx_quantile(share)": {"0"},
    "agg.first(field)": {"None"},
    "agg.last(field)": {"None"},
    "agg.min_by(field)": {"None"},
    "agg.max_by(field)": {"None"},
    "agg.collect(field)": {"None"},
    "Stream.sessions(gap)": {"0"},
    "before": {"0", "None"},
    "tw.Flow(renamed)": {"None"},
    "tw.run with a checkpoint(end)": {"None"},
    "tw.state of an older(migrate)": {"None"},
    "tw.run with a checkpoint(every)": {"0", "None"},
    "after": {"0", "None"},
    "timeout": {"0"},
    "gap": {"0"},
    "every": {"None"},
    "start": {"0", "-1"},
    "sinks": {"None"},
    "classes": {"None"},
    "threads": {"None"},
    "policy": {"None"},
    "controller": {"None"},
    "options": {"None"},
    "reserve": {"None"},
    "metrics": {"0", "None"},
    "page": {"0"},
    "slots": {"None"},
    "routing": {"None"},
    "chunk_rows": {"None"},
    "linger_s": {"0"},
    "quote": {"None"},
    "epoch_unit": {"None"},
    "format": {"None"},
    "max_files_per_trigger": {"None"},
    "follow": {"None"},
    "names": {"None"},
    "tw.decimal(scale)": {"0"},
    "maximum": {"None"},
    "reserved": {"0", "None"},
    "starve_after_s": {"None"},
    "nullValue": {"0", "-1", "empty"},
    "trigger": {"None"},
    "scheduler": {"None"},
    "state": {"None"},
    "checkpoint": {"None"},
    "master": {"None"},
    "conf": {"None"},
    "threads_per_slot": {"None"},
    "Stream.delay(by)": {"0"},
    "streams": {"None"},
    "partition_by": {"None"},
    "storage_options": {"None"},
    "max_rows": {"None"},
    "tw.to_postgres(key)": {"None"},
    "tw.to_iceberg(key)": {"None"},
    "tw.to_iceberg(properties)": {"None"},
    "tw.postgres(order_by)": {"None"},
    "tw.postgres_changes(table)": {"None"},
    "decode": {"None"},
    "schema": {"None"},
    "config": {"None"},
    "topic_field": {"None"},
    "partition": {"None"},
    "offset": {"None"},
    "timestamp": {"None"},
    "key": {"None"},
    "headers": {"None"},
    "tw.redis_stream(value)": {"None"},
    "tw.redis_stream(start)": {"0"},
    "tw.redis_stream(entry_id)": {"None"},
    "tw.to_redis(value)": {"None"},
    "tw.to_redis(maxlen)": {"None"},
    "tw.nats(subject)": {"None"},
    "tw.nats(subject_field)": {"None"},
    "tw.nats(sequence)": {"None"},
    "token": {"None"},
    "client_id": {"None"},
    "username": {"None"},
    "password": {"None"},
    "Stream.map_async(timeout)": {"None"},
    "Stream.join_asof(within)": {"None", "0"},
    "Stream.map_async(client)": {"None"},
    "Stream.map_async(retries)": {"0"},
    "Stream.map_async(backoff)": {"0"},
    "tw.http_post(port)": {"0"},
    "tw.mqtt(qos)": {"0"},
    "tw.websocket(send)": {"empty"},
}
#: Where an argument that is None elsewhere must be something, although it is None by default somewhere.
NEVER_NONE: Final = (
    "Flow.source(name)", "tw.Flow(errors)", "tw.Flow(compile)", "tw.Flow(name)", "Flow.barrier(name)",
    "Flow.merge(name)", "Flow.operator(name)", "Flow.feedback(name)", "Flow.explain(compile)",
    "Stream.sink(name)", "Stream.join(name)", "Stream.join(how)", "Stream.zip(name)", "Stream.gate(name)",
    "Stream.throttle(name)",
    "Stream.delay(name)", "Stream.split(name)", "Stream.map(function)",
    "Stream.filter(function)", "Stream.flat_map(function)", "Stream.map_batches(function)",
    "Stream.map_async(function)",
    "Stream.process(function)", "KeyedStream.process(function)", "Flow.operator(function)",
    "Stream.process(state)", "KeyedStream.process(state)", "tw.each(function)", "tw.batches(function)",
    "tw.tcp_lines(format)", "tw.to_tcp(format)", "tw.kafka(format)", "tw.kafka(follow)", "tw.to_kafka(format)",
    "spark.console(max_rows)", "spark.files(format)", "spark.foreach_batch(function)",
    "spark.foreach_table(function)", "spark.Scheduler(slots)", "spark.start(sinks)", "spark.start(checkpoint)",
    "spark.start(chunk_rows)", "spark.lower(chunk_rows)", "spark.lower(slots)", "testing.run(compile)",
    "testing.Session(compile)",
)  # fmt: skip


def cases() -> Iterator[Any]:
    for name, made in CALLS.items():
        for argument in made()[1]:
            for value in VALUES:
                place = f"{name}({argument})"
                accepted = ACCEPTS.get(argument, set()) | ACCEPTS.get(place, set())
                if value not in accepted or (value == "None" and place in NEVER_NONE):
                    yield pytest.param(name, argument, value, id=f"{name}({argument}={value})")


@pytest.mark.parametrize(("name", "argument", "value"), [*cases()])
def test_a_value_that_cannot_be_meant(name: str, argument: str, value: str) -> None:
    """An error of ours, in few lines, that names the argument."""
    call, given = CALLS[name]()
    with pytest.raises(tw.ThalwegError) as refused:
        call(**{**given, argument: VALUES[value]})
    text = str(refused.value)
    assert argument in text
    assert len(text.splitlines()) <= 10


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_does_not_exist(name: str) -> None:
    """It is refused by its name, and not passed on to where nobody reads it."""
    call, given = CALLS[name]()
    with pytest.raises(tw.BuildError, match="nosuch"):
        call(**given, nosuch=3)


@pytest.mark.parametrize("value", [None, object(), 1.5, True, ""])
def test_times(value: Any) -> None:
    """What is no duration and no time is a ValueError that says so, as of Python's own parsers."""
    with pytest.raises(ValueError, match="duration"):
        tw.duration(value)
    if value != "":
        with pytest.raises(ValueError, match="timestamp"):
            tw.timestamp(value)


#: Public functions that are not called with arguments of a user's choice, or run in users' functions, row by row.
NOT_CALLED: Final = {
    "tw.drop", "tw.wait_for_all", "tw.wait_for_any",  # in a function of the user's
    "tw.times.text", "tw.times.hour", "tw.times.weekday", "tw.times.date", "tw.times.year", "tw.times.month",
    "tw.times.day", "tw.times.minute", "tw.times.second", "tw.times.local", "tw.microseconds", "tw.milliseconds",
    "tw.seconds", "tw.minutes",
    "tw.hours", "tw.days", "tw.duration", "tw.timestamp",  # compiled as they stand, or tested above
    "Stream.late", "Stream.rejected",  # no arguments
    "Flow.tags",  # any keyword; see test_tags
    "Flow.threading",  # see test_regions
    "testing.assert_same", "testing.assert_recut", "testing.random_cuts", "testing.depends_on_cuts",
    "testing.difference", "testing.counts_of_parts", "testing.row_difference", "testing.states_of",
    "testing.check_names", "testing.collect",  # call the others
    "spark.prepare_java",  # no arguments
}  # fmt: skip


def public() -> Iterator[str]:
    """The functions and verbs that users call, by the names of the table."""
    for home, module in {"tw": tw, "spark": tw.spark}.items():
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield f"{home}.{name}"
    for owner in (tw.Flow, Stream, tw.KeyedStream):
        for name, _ in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{owner.__name__}.{name}"
    for name, its in inspect.getmembers(agg, inspect.isfunction):
        if its.__module__ == agg.__name__ and not name.startswith("_") and name != "bind":
            yield f"agg.{name}"


def test_no_function_is_left_out() -> None:
    """Every public function is in the table, with every parameter that it has."""
    assert sorted({*public()} - {*CALLS} - NOT_CALLED) == []
    for name, made in CALLS.items():
        call, given = made()
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        has = {p.name for p in inspect.signature(call).parameters.values() if p.kind not in kinds}
        left = has - {*given} - LEFT.get(name, set()) - {"self"}
        assert not left, f"{name}: {left}"


#: Parameters that others test: of lanes, and of what one kind of call does not have.
LEFT: Final[Mapping[str, set[str]]] = {
    "Flow.source": {"lane", "lanes", "idle"},
    "testing.reference": {"decisions"},
    "tw.run": {*DURABLE},
    "tw.state": {"migrate"},
    "tw.state of an older": {"cls"},
    "tw.websocket": {"decode"},  # of all messages, see tw.kafka
    "tw.mqtt": {"decode"},  # of all messages, see tw.kafka
    "tw.nats": {"decode", "schema"},  # of all messages, see tw.kafka
    "tw.run with a checkpoint": {*THREADS, "classes", "slots", "routing"},
    "tw.run of slots": {*THREADS, *DURABLE, "classes"},
    "tw.run of several": {*THREADS, *DURABLE, "slots", "routing"},
    "testing.run": {"cuts", "options", "restart_every"},
    "testing.Session": {"chunk_rows", "options", "restart_every"},
}


def test_words_in_any_case() -> None:
    """A word that is one of a few is taken in any case of letters; a keyword that is near to one is told."""
    assert tw.files("a.csv", "CSV").options.format == "csv"  # type: ignore[arg-type]
    assert tw.kafka("h:1", "t", on_loss="Skip").on_loss == "skip"  # type: ignore[arg-type]
    call, given = joined()
    call(**{**given, "how": "LEFT"})
    with pytest.raises(tw.BuildError, match="did you mean 'header'"):
        tw.files("a.csv", Headr=False)
    with pytest.raises(tw.BuildError, match="did you mean 'left'"):
        call(**{**given, "how": "lefft"})
    with pytest.raises(tw.BuildError, match="did you mean 'patience'"):
        tw.to_postgres("host=h", "t", patience_s=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("option", ["group_id", "growing", "partitions", "null_values"])
def test_logs_have_no_options_of_files(option: str) -> None:
    """What a message cannot have is refused, with the options that there are."""
    for made in (
        lambda **more: tw.kafka("h:1", "t", **more),
        lambda **more: tw.redis_stream("redis://h", "s", **more),
        lambda **more: tw.nats("nats://h", "s", **more),
    ):
        with pytest.raises(tw.BuildError, match=f"no option '{option}'; there are .*on_loss") as no:
            made(**{option: True})
        assert "delimiter" not in str(no.value)
