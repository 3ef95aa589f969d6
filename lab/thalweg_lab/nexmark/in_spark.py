"""The queries on Spark: by Thalweg, and in Structured Streaming's SQL where that can express them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import thalweg as tw
from thalweg.examples.nexmark.queries import flow_of, sources_of
from thalweg.spark.cluster.java import prepare_java
from thalweg_lab.nexmark.ways import NotSo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHANGES: Final = "a stream of groups is aggregated again, which its SQL does only within windows"
#: What Structured Streaming cannot express, and why.
REFUSED: Final[dict[str, str]] = {
    "q4": _CHANGES,
    "q6": _CHANGES,
    "q9": "no row numbers over a stream",
    "q15": "no distinct counts over a stream",
    "q16": "no distinct counts over a stream",
    "q19": "no row numbers over a stream",
}
_COUNTS: Final = """count(*) AS total_bids, count_if(price < 10000) AS rank1_bids,
    count_if(price >= 10000 AND price < 1000000) AS rank2_bids, count_if(price >= 1000000) AS rank3_bids"""
_ID: Final = r"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
SQL: Final[dict[str, str]] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bids",
    "q1": "SELECT auction, bidder, 0.908D * price AS price, date_time, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q5": """WITH counted AS (
            SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w, count(*) AS num FROM bids GROUP BY 1, 2),
        hottest AS (
            SELECT window(window_time(w), '2 seconds') AS v, max(num) AS most,
                collect_list(named_struct('auction', auction, 'num', num)) AS each FROM counted GROUP BY 1)
        SELECT v, inline(filter(each, one -> one.num = most)) FROM hottest""",
    "q7": """SELECT window(date_time, '10 seconds') AS w, max(named_struct('price', price, 'auction', auction,
            'bidder', bidder, 'date_time', date_time, 'extra', extra)) AS bid FROM bids GROUP BY 1""",
    "q8": """SELECT p.id, p.name, p.w, a.opened FROM
        (SELECT id, window(date_time, '10 seconds') AS w, first(name) AS name FROM persons GROUP BY 1, 2) p JOIN
        (SELECT seller, window(date_time, '10 seconds') AS w, count(*) AS opened FROM auctions GROUP BY 1, 2) a
        ON p.id = a.seller AND p.w = a.w""",
    "q10": """SELECT auction, bidder, price, date_time, extra, date_format(date_time, 'yyyy-MM-dd') AS dt,
        date_format(date_time, 'HH:mm') AS hm FROM bids""",
    "q11": """SELECT bidder, session_window(date_time, '10 seconds') AS w, count(*) AS bid_count
        FROM bids GROUP BY 1, 2""",
    "q12": """SELECT bidder, window(now, '10 seconds') AS w, count(*) AS bid_count
        FROM (SELECT bidder, current_timestamp() AS now FROM bids) GROUP BY 1, 2""",
    "q13": """SELECT b.auction, b.bidder, b.price, b.date_time, s.value FROM bids b JOIN table_of_side s
        ON b.auction % 10000 = s.key""",
    "q14": """SELECT auction, bidder, 0.908D * price AS price,
            CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
            date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bids WHERE 0.908D * price > 1000000 AND 0.908D * price < 50000000""",
    "q17": f"""SELECT auction, date_trunc('day', date_time) AS start, {_COUNTS}, min(price) AS min_price,
        max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price FROM bids GROUP BY 1, 2""",
    "q18": """SELECT bidder, auction, max_by(named_struct('price', price, 'channel', channel, 'url', url,
            'date_time', date_time, 'extra', extra), date_time) AS last FROM bids GROUP BY 1, 2""",
    "q20": "SELECT b.*, a.* FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10",
    "q21": f"""SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0'
            WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_ID} END AS channel_id
        FROM bids WHERE {_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
        split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bids""",
}  # fmt: skip
#: Their groups have no end: what changed is put out with each batch.
_UPDATES: Final = ("q12", "q17", "q18")


def thalweg(name: str, folder: Path, *, slots: int) -> Callable[[], Any]:
    """A streaming query of the flow that takes the files that are there, and drains."""
    tw.spark.session("local[2]", light_jvm=True, threads_per_slot=2 // slots)
    flow = flow_of(name)

    def run() -> Any:
        checkpoint, out = tempfile.mkdtemp(prefix="nexmark-"), tw.spark.memory()
        given = {
            source: tw.spark.files(str(folder / source), format="parquet")
            for source in sources_of(name)
        }
        try:
            query = tw.spark.start(
                flow, given, {"out": out}, checkpoint=checkpoint, trigger="available_now",
                end="drain", slots=slots,
            )  # fmt: skip
            query.await_termination()
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)
        return out.table

    return run


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    prepare_java()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sql(name: str, folder: Path) -> Callable[[], Any]:
    """Structured Streaming over the files that are there, into a sink that takes all and keeps nothing."""
    if name in REFUSED:
        raise NotSo(REFUSED[name])
    spark = _session()
    for source in ("persons", "auctions", "bids"):
        path = str(folder / source)
        rows = spark.readStream.schema(spark.read.parquet(path).schema).parquet(path)
        rows.withWatermark("date_time", "4 seconds").createOrReplaceTempView(source)
    # A stream is joined with a table as it is when a batch begins; here with its last state.
    side = spark.read.parquet(str(folder / "side"))
    side.groupBy("key").agg({"value": "last"}).toDF("key", "value").createOrReplaceTempView("table_of_side")  # fmt: skip

    def run() -> None:
        checkpoint = tempfile.mkdtemp(prefix="nexmark-")
        made = spark.sql(SQL[name]).writeStream.option("checkpointLocation", checkpoint)
        made = made.outputMode("update" if name in _UPDATES else "append").format("noop")
        try:
            made.trigger(availableNow=True).start().awaitTermination()
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    return run
