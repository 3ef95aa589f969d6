"""The ten on Spark: by Thalweg, in Spark SQL, and with Spark's keyed state in Python."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import thalweg as tw
from thalweg.plan.plan import make_plan
from thalweg.spark.cluster.java import prepare_java
from thalweg_lab.everyday.ways import Cell, NotSo, Output, Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: applyInPandasWithState does some thousand rows a second.
STATE_ROWS: Final = 200_000
_PATTERN: Final = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+|-)$'


def thalweg(cell: Cell, *, slots: int) -> Run:
    """A streaming query that takes the file as a batch, and drains."""
    tw.spark.session("local[2]", light_jvm=True, threads_per_slot=2 // slots)
    flow = cell.functions.flow_of(cell.name)

    def run() -> Output:
        checkpoint, out = tempfile.mkdtemp(prefix="everyday-"), tw.spark.memory()
        try:
            query = tw.spark.start(
                flow,
                {"rows": tw.spark.files(str(cell.path.parent), format="parquet")},
                {"out": out},
                checkpoint=checkpoint,
                trigger="available_now",
                end="drain",
                slots=slots,
            )
            query.await_termination()
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        return out.table

    return run


def _session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    prepare_java()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _log(rows: DataFrame, _: Cell) -> DataFrame:
    names = {3: "method", 4: "path", 5: "status", 6: "size"}
    parts = [F.regexp_extract("text", _PATTERN, n).alias(name) for n, name in names.items()]
    return (
        rows.select("ts", "host", *parts)
        .where("status <> ''")
        .selectExpr(
            "ts",
            "host",
            "method",
            "path",
            "int(status) as status",
            "if(size = '-', 0L, bigint(size)) as size",
        )
    )


def _json(rows: DataFrame, _: Cell) -> DataFrame:
    order = F.from_json("body", "item string, price double, count int").alias("o")
    return rows.select("ts", "customer", order).selectExpr(
        "ts", "customer", "o.item", "o.price * o.count as total"
    )


def _url(rows: DataFrame, _: Cell) -> DataFrame:
    url = F.regexp_replace(F.lower(F.trim("url")), r"^(https://)?(http://)?(www\.)?", "")
    url = F.regexp_replace(F.regexp_replace(url, r"\?.*$", ""), "/$", "")
    return rows.select("ts", "user", url.alias("url"))


def _geohash(rows: DataFrame, cell: Cell) -> DataFrame:
    """A Python function: SQL has none."""
    place, function = cell.functions.Place, cell.functions.geohash
    udf = F.udf(lambda lat, lon: function(place(0, 0, lat, lon)).geohash, "string", useArrow=False)
    return rows.select("ts", "phone", udf("lat", "lon").alias("geohash"))


def _lookup(rows: DataFrame, cell: Cell) -> DataFrame:
    known = cell.functions.RATES
    kind = "string" if cell.is_text else "long"
    rates = _session().createDataFrame(list(known.items()), f"currency {kind}, rate double")
    return rows.join(F.broadcast(rates), "currency").selectExpr(
        "ts", "currency", "amount * rate as euros"
    )


_SPREAD: Final = """select ts, sensor, avg(value) over w as mean, stddev_pop(value) over w as deviation
    from rows window w as (partition by sensor order by ts rows between unbounded preceding and current row)"""
_VELOCITY: Final = """
    select ts, card, before, country, count(*) over (partition by card order by ts) as hops
    from (select *, lag(country) over w as before, lag(ts) over w as seen from rows
          window w as (partition by card order by ts))
    where before <> country and ts - seen <= interval 2 hours"""
_MOVING: Final = """
    select ts, sensor, avg(value) over
           (partition by sensor order by ts rows between 19 preceding and current row) as mean from rows"""


def _query(text: str) -> Callable[[DataFrame, Cell], DataFrame]:
    def query(rows: DataFrame, _: Cell) -> DataFrame:
        rows.createOrReplaceTempView("rows")
        return _session().sql(text)

    return query


_QUERIES: Final[dict[str, Callable[[DataFrame, Cell], DataFrame]]] = {
    "log": _log,
    "json": _json,
    "url": _url,
    "spread": _query(_SPREAD),
    "dedupe": lambda rows, _: rows.dropDuplicates(["id"]),
    "velocity": _query(_VELOCITY),
    "lookup": _lookup,
    "geohash": _geohash,
    "moving": _query(_MOVING),
}


def sql(cell: Cell) -> Run:
    """In batch, which is the kinder measurement: streams have no such windows, and a state store besides."""
    if cell.name not in _QUERIES:
        raise NotSo("not in its SQL")
    query = _QUERIES[cell.name]

    def run() -> Output:
        rows = _session().read.parquet(str(cell.path))
        return query(rows, cell).toArrow()

    return run


def state(cell: Cell) -> Run:
    """A streaming query by applyInPandasWithState, which calls the same function row by row."""
    import pandas  # noqa: F401  # its lack is told before a JVM starts

    step = cell.functions.EVERYDAY[cell.name].step
    if step is None or step[1] is None:
        raise NotSo("no state in it" if step else "not one function")
    if parquet.read_metadata(cell.path).num_rows > STATE_ROWS:
        raise NotSo(f"measured up to {STATE_ROWS:,} rows")
    return lambda: _run_state(cell, *step)


def _run_state(cell: Cell, function: Any, new: Any) -> Output:
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.streaming.state import GroupStateTimeout

    spark, work = _session(), tempfile.mkdtemp(prefix="everyday-")
    schema = from_arrow_schema(_sink_schema(cell))
    columns = [field.name for field in parquet.read_schema(cell.path)]
    rows = spark.readStream.schema(spark.read.parquet(str(cell.path)).schema).parquet(
        str(cell.path.parent)
    )
    rows = rows.select(F.unix_micros("ts").alias("ts"), *columns[1:])
    made = rows.groupBy(columns[1]).applyInPandasWithState(
        _stepper(cell.functions.EVERYDAY[cell.name].row, function, new, schema.names),
        schema, "state binary", "append", GroupStateTimeout.NoTimeout,
    )  # fmt: skip
    try:
        out = Path(work) / "out"
        query = made.writeStream.format("parquet").option("checkpointLocation", f"{work}/ckpt")
        query.trigger(availableNow=True).start(str(out)).awaitTermination()
        return spark.read.schema(schema).parquet(str(out)).toArrow()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sink_schema(cell: Cell) -> pa.Schema:
    """What the flow puts out; times stay ints of microseconds."""
    plan = make_plan(cell.functions.flow_of(cell.name))
    fields = list(plan.sinks[0].record.arrow)
    return pa.schema(
        [
            field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
            for field in fields
        ]
    )


def _stepper(row: Any, function: Any, new: Any, names: list[str]) -> Any:
    import pandas as pd

    def step(key: Any, frames: Iterator[Any], kept: Any) -> Iterator[Any]:
        state = pickle.loads(kept.get[0]) if kept.exists else new()
        rows = pd.concat(list(frames)).sort_values("ts", kind="stable")
        out = [function(state, row._make(one)) for one in rows.itertuples(index=False, name=None)]
        kept.update((pickle.dumps(state),))
        yield pd.DataFrame([one for one in out if one is not None], columns=names)

    return step
