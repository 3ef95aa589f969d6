"""Names of other libraries: each message has the right one, and all that messages name is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import guesses
from thalweg.drawing import Drawing
from thalweg.embedded.result import SinkRows
from thalweg.spark import Query


class Row(NamedTuple):
    ts: int
    user: str
    n: int


def made() -> dict[str, Any]:
    flow = tw.Flow("guessed")
    stream = flow.source("rows", Row, order_by="ts")
    stream.sink("out")
    result = tw.run(flow, {"rows": [Row(1, "ann", 2)]})
    return {
        "flow": flow, "stream": stream, "keyed": stream.key_by("user"), "tw": tw, "result": result,
        "rows": result["out"], "drawing": flow.draw(),
    }  # fmt: skip


#: Of Structured Streaming, Flink, Bytewax, Faust, pandas, Polars: what is tried, and what the message must have.
NAMES = {
    "stream.withWatermark": "lateness=", "stream.with_watermark": "order_by=", "stream.groupBy": '.key_by("user")',
    "stream.select": ".map(", "stream.where": ".filter(", "stream.withColumn": ".map(", "stream.writeStream": ".sink(",
    "stream.dropDuplicates": ".dedupe(", "stream.agg": "tw.agg.count()", "keyed.count": ".window(",
    "keyed.applyInPandasWithState": ".process(", "keyed.transformWithState": "@tw.state",
    "keyed.mapGroupsWithState": "state=Class", "flow.readStream": "flow.source(", "stream.foreachBatch": "tw.batches(",
    "stream.foreach": "tw.each(print)", "stream.start": "tw.run(", "stream.awaitTermination": "tw.spark.start(",
    "tw.window": ".window(", "tw.count": "tw.agg.count()", "tw.col": "function of the row",
    "tw.agg.avg": "tw.agg.mean(", "tw.agg.collect_list": "tw.agg.collect(", "tw.spark.readStream": "tw.spark.files(",
    "tw.spark.foreachBatch": "tw.spark.foreach_batch(",
    "stream.assign_timestamps_and_watermarks": "lateness=", "stream.keyBy": "key_by", "keyed.timeWindow": ".window(",
    "keyed.reduce": ".process(", "keyed.tumble": ".window(", "keyed.sliding_window": 'every="10 seconds"',
    "keyed.session_window": ".sessions(", "stream.flatMap": "flat_map", "stream.addSink": ".sink(",
    "stream.sink_to": ".sink(", "stream.getSideOutput": ".split(", "tw.ValueState": "@tw.state",
    "tw.StreamExecutionEnvironment": "tw.Flow(", "tw.KeyedProcessFunction": ".process(", "flow.execute": "tw.run(",
    "flow.from_collection": "flow.source(", "stream.set_parallelism": "slots=", "stream.connect": "flow.operator(",
    "stream.uid": "name=", "stream.interval_join": ".join(", "tw.Dataflow": "tw.Flow(", "flow.input": "flow.source(",
    "flow.map": "on a stream", "stream.key_on": ".key_by(", "keyed.stateful_map": ".process(",
    "keyed.fold_window": ".window(", "stream.inspect": "tw.each(print)", "stream.branch": ".split(",
    "stream.merge": ".union(", "tw.cluster_main": "tw.run(", "tw.TumblingWindower": ".window(",
    "keyed.map": "before .key_by", "stream.groupby": ".key_by(", "keyed.mean": ".rolling(",
    "stream.head": "result.rows(",
    "stream.rename": ".map(", "stream.merge_asof": ".join_asof(", "keyed.resample": ".window(",
    "stream.sort_values": ".order_by(", "stream.unique": ".dedupe(", "stream.group_by_dynamic": ".window(",
    "stream.explode": ".flat_map(", "stream.concat": ".union(", "stream.user": "row.user", "tw.read_csv": "tw.files(",
    "tw.scan_csv": "tw.files(", "tw.from_pandas": "pyarrow", "tw.to_csv": "tw.to_files(",
    "tw.kafka_source": "tw.kafka(",
    "tw.print_sink": "tw.each(print)", "tw.State": "@tw.state", "tw.minute": "tw.minutes(1)",
    "tw.timedelta": "tw.duration(",
    "tw.scheduling.FIFO": "FirstComeFirstServed()",
    "tw.scheduling.RoundRobbin": "did you mean 'RoundRobin'?", "stream.filtre": "did you mean 'filter'?",
    "result.out": 'result["out"]', "result.to_pandas": ".to_pandas()", "result.collect": "result.rows(",
    "rows.df": ".to_pandas()", "rows.toPandas": "to_pandas", "rows.collect": ".rows", "drawing.show": ".save(",
    "flow.plot": "flow.draw()",
}  # fmt: skip


def test_names_of_others_say_which_is_right() -> None:
    """The error is an AttributeError, so ``hasattr`` is False, and names what to write."""
    places = made()
    for path, wanted in NAMES.items():
        place, *between, name = path.split(".")
        owner = places[place]
        for part in between:
            owner = getattr(owner, part)
        assert not hasattr(owner, name), path
        with pytest.raises(AttributeError, match=re.escape(wanted)):
            getattr(owner, name)


CALLS: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda p: tw.run(p["flow"], {"rows": []}, outputs={}), "sinks= is meant"),
    (lambda p: tw.run(p["flow"], {"rows": []}, parallelism=4), "threads= is meant"),
    (lambda p: tw.run(p["flow"], {"rows": []}, scheduler="x"), "policy= is meant"),
    (lambda p: tw.run(p["flow"], {"rows": []}, checkpoint_dir="x"), "checkpoint= is meant"),
    (lambda p: tw.run(p["flow"], {"rows": []}, metrics=1), "tw.start(metrics=...)"),
    (lambda p: tw.run(p["flow"]), "it is run(flow, inputs, sinks=,"),
    (lambda p: tw.spark.start(p["flow"], {}, {}, outputMode="append"), "one mode, append"),
    (lambda p: tw.spark.start(p["flow"], {}, {}, checkpointLocation="x"), "checkpoint= is meant"),
    (lambda p: tw.spark.start(p["flow"], {}, {}, availableNow=True), 'trigger="available_now"'),
    (lambda p: p["flow"].source("r", schema=Row), "record= is meant"),
    (lambda p: p["flow"].source("r", Row, watermark=5), "lateness= is meant"),
    (lambda p: p["flow"].source("r", Row, timestamp="ts"), "order_by= is meant"),
    (lambda p: p["stream"].key_by(key="user"), '.key_by("user")'),
    (lambda p: p["keyed"].window(60, slide=10, n=tw.agg.count()), "every= is meant"),
    (lambda p: p["keyed"].process(print, init=0), "state= is meant"),
    (lambda p: p["keyed"].rolling("1 minute"), "it is rolling(rows=, within=,"),
    (lambda p: p["stream"].sink("o", "out.csv"), "it is sink(name, ordered=)"),
    (lambda p: tw.kafka(bootstrap_servers="x", topic="t"), "servers= is meant"),
    (lambda p: p["stream"]["user"], '.key_by("user")'),
    (lambda p: list(p["stream"]), "result of tw.run"),
]


def test_options_of_others_say_which_is_right() -> None:
    """An option under another name, too few or too many arguments, and columns as of a frame."""
    places = made()
    for call, wanted in CALLS:
        with pytest.raises((tw.BuildError, TypeError)) as refused:
            call(places)
        assert wanted in str(refused.value), str(refused.value)


def texts() -> list[str]:
    return [text for table in guesses.GUESSES.values() for text in table.values()]


def test_all_that_messages_name_is_there() -> None:
    """Functions of tw, verbs of streams and methods of results are found under the names that messages give."""
    places = made()
    verbs = {
        name
        for one in (*places.values(), tw.spark, tw.scheduling, Query, Drawing, SinkRows)
        for name in dir(one)
    }
    for text in texts():
        for path in re.findall(r"\btw((?:\.[a-zA-Z_]+)+)", text):
            owner: Any = tw
            for part in path.strip(".").split("."):
                owner = getattr(owner, part)
        for verb in re.findall(r"(?<![a-z])\.([a-z_]+)\(", text):
            assert verb in verbs, text


def test_tables_are_by_plain_names() -> None:
    """Without underscores and in lower case, else they would never be found; nothing that exists is in them."""
    places = made()
    owners = {"Stream": places["stream"], "KeyedStream": places["keyed"], "Flow": places["flow"], "thalweg": tw,
              "tw.agg": tw.agg, "Result": places["result"], "SinkRows": SinkRows, "Drawing": Drawing,
              "tw.spark": tw.spark, "tw.scheduling": tw.scheduling, "Query": Query}  # fmt: skip
    assert owners.keys() == guesses.GUESSES.keys()
    for where, table in guesses.GUESSES.items():
        assert [name for name in table if name != guesses.plain(name)] == []
        there = {
            one
            for one in dir(owners[where])
            if not isinstance(getattr(owners[where], one), ModuleType)
        }
        assert set(table) & there <= {"state"}, where  # of which tw.State is asked, too
