"""NEXMark's queries in Flink SQL: ``nexmark_flink.py FOLDER BEGAN QUERY ...``, a line of JSON for each query.

Started by ``thalweg bench nexmark --flink PYTHON``; the figures are those of its cells. Flink as pip has it reads no Parquet, so the
rows come as CSV files; its sink takes all and keeps nothing. Streaming mode, default settings, as many slots as cores.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from nexmark_usage import Tree
from pyflink.table import EnvironmentSettings, TableEnvironment

COLUMNS = {
    "persons": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, ms BIGINT, extra STRING",
    "auctions": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ms BIGINT, ends BIGINT, seller BIGINT, category BIGINT, extra STRING, expires AS TO_TIMESTAMP_LTZ(ends, 3)",
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ms BIGINT, extra STRING, p_time AS PROCTIME()",
    "side": "key BIGINT, `value` STRING, ms BIGINT",
}
RANKS = """count(*) AS total_{0}, count(*) FILTER (WHERE price < 10000) AS rank1_{0},
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{0}, count(*) FILTER (WHERE price >= 1000000) AS rank3_{0}"""
STATISTICS = ", ".join(
    [RANKS.format("bids")]
    + [RANKS.replace("*", f"DISTINCT {one}").format(one) for one in ("bidder", "auction")]
)
DAY = "DATE_FORMAT(date_time, 'yyyy-MM-dd')"
VALID = "FROM auctions a JOIN bids b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"
HOPS = "SELECT auction, count(*) AS num, window_start, window_end FROM HOP(TABLE bids, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY auction, window_start, window_end"
PASSED = "auction, bidder, price, date_time, extra"
CHANNEL = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
SQL = {
    "q0": f"SELECT {PASSED} FROM bids",
    "q1": "SELECT auction, bidder, 0.908 * price, date_time, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0",
    "q3": "SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
    "q4": f"SELECT category, AVG(final) FROM (SELECT MAX(b.price) AS final, a.category {VALID} GROUP BY a.id, a.category) GROUP BY category",
    "q5": f"""SELECT c.auction, c.num FROM ({HOPS}) c JOIN (SELECT max(num) AS most, window_start, window_end FROM ({HOPS}) GROUP BY window_start, window_end) m
        ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.most""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.date_time, b.extra FROM bids b JOIN (SELECT max(price) AS most, window_end
            FROM TUMBLE(TABLE bids, DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY window_start, window_end) m
        ON b.price = m.most AND b.date_time BETWEEN m.window_end - INTERVAL '10' SECOND AND m.window_end""",
    "q8": """SELECT p.id, p.name, p.window_start FROM
        (SELECT id, name, window_start, window_end FROM TUMBLE(TABLE persons, DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY id, name, window_start, window_end) p JOIN
        (SELECT seller, window_start, window_end FROM TUMBLE(TABLE auctions, DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY seller, window_start, window_end) a
        ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    "q9": f"""SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra, auction, bidder, price, bid_time, bid_extra FROM (
        SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_time, b.extra AS bid_extra, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time ASC) AS n {VALID}) WHERE n <= 1""",
    "q10": f"SELECT {PASSED}, {DAY}, DATE_FORMAT(date_time, 'HH:mm') FROM bids",
    "q11": "SELECT bidder, count(*) AS bid_count, window_start, window_end FROM SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(date_time), INTERVAL '10' SECOND) GROUP BY bidder, window_start, window_end",
    "q12": "SELECT bidder, count(*) AS bid_count, window_start, window_end FROM TUMBLE(TABLE bids, DESCRIPTOR(p_time), INTERVAL '10' SECOND) GROUP BY bidder, window_start, window_end",
    "q13": "SELECT b.auction, b.bidder, b.price, b.date_time, s.`value` FROM (SELECT *, MOD(auction, 10000) AS key FROM bids) b JOIN versions FOR SYSTEM_TIME AS OF b.date_time AS s ON b.key = s.key",
    "q14": """SELECT auction, bidder, 0.908 * price, CASE WHEN HOUR(CAST(date_time AS TIMESTAMP(3))) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN HOUR(CAST(date_time AS TIMESTAMP(3))) <= 6 OR HOUR(CAST(date_time AS TIMESTAMP(3))) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
            date_time, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {DAY}, {STATISTICS} FROM bids GROUP BY {DAY}",
    "q16": f"SELECT channel, {DAY}, max(DATE_FORMAT(date_time, 'HH:mm')), {STATISTICS} FROM bids GROUP BY channel, {DAY}",
    "q17": f"SELECT auction, {DAY}, {RANKS.format('bids')}, min(price), max(price), avg(price), sum(price) FROM bids GROUP BY auction, {DAY}",
    "q18": f"SELECT auction, bidder, price, channel, url, date_time, extra FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) AS n FROM bids) WHERE n <= 1",
    "q19": "SELECT * FROM (SELECT auction, bidder, price, channel, url, date_time, extra, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS n FROM bids) WHERE n <= 10",
    "q20": """SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra, a.item_name, a.description, a.initial_bid, a.reserve,
        a.date_time AS opened, a.expires, a.seller, a.category, a.extra AS auction_extra FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {CHANNEL} END
        FROM bids WHERE {CHANNEL} IS NOT NULL OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5) FROM bids",
}
#: What Flink cannot express, and why.
REFUSED = {"q6": "no rows-between over rows that change (FLINK-19059)"}


def environment(folder: Path) -> TableEnvironment:
    """Tables over the files, and a view of the side table's versions."""
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", str(os.cpu_count()))
    made.get_config().set("table.local-time-zone", "UTC")
    for source, columns in COLUMNS.items():
        made.execute_sql(
            f"CREATE TABLE {source} ({columns}, date_time AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND)"
            f" WITH ('connector' = 'filesystem', 'path' = 'file://{folder / source}', 'format' = 'csv')"
        )
    made.execute_sql(
        "CREATE VIEW versions AS SELECT key, `value`, date_time FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY key ORDER BY date_time DESC) AS n FROM side) WHERE n = 1"
    )
    return made


def run(made: TableEnvironment, query: str, number: int) -> None:
    """Runs a query to its end."""
    fields = made.sql_query(SQL[query]).get_schema()
    columns = ", ".join(
        f"c{n} {str(fields.get_field_data_type(n)._j_data_type.getLogicalType().asSerializableString()).replace('NOT NULL', '')}"
        if hasattr(fields.get_field_data_type(n), "_j_data_type")
        else f"c{n} {type_of(fields.get_field_data_type(n))}"
        for n in range(fields.get_field_count())
    )
    name = f"out_{query}_{number}"
    made.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'blackhole')")
    made.execute_sql(f"INSERT INTO {name} {SQL[query]}").wait()


def type_of(field: object) -> str:
    """A type as SQL names it."""
    text = str(field)
    for known, sql in (("BigInt", "BIGINT"), ("VarChar", "STRING"), ("Char", "STRING"), ("Double", "DOUBLE"), ("Int", "INT")):
        if text.startswith(known):
            return sql
    if text.startswith("LocalZonedTimestamp"):
        return "TIMESTAMP_LTZ(3)"
    if text.startswith("Timestamp"):
        return "TIMESTAMP(3)"
    if text.startswith("Decimal"):
        digits = text[text.index("(") + 1 : text.index(")")].split(",")
        return f"DECIMAL({digits[0]}, {digits[1]})"
    raise ValueError(f"no SQL for the type {text}")


def main(folder: str, began: str, *queries: str) -> None:
    """Prints a line a query."""
    tree = Tree()
    made = environment(Path(folder))
    start = time.time() - float(began), tree.cpu_s()
    for query in queries:
        if query in REFUSED:
            print(json.dumps({"query": query, "cannot": REFUSED[query]}), flush=True)
            continue
        found: dict[str, object] = {"query": query}
        try:
            for number in (1, 2):
                wall, used = time.perf_counter(), tree.cpu_s()
                run(made, query, number)
                wall, used = time.perf_counter() - wall, tree.cpu_s() - used
                if number == 1:
                    found |= {"whole_s": start[0] + wall, "whole_cpu_s": start[1] + used, "peak_mb": tree.peak_mb()}
                found |= {"wall_s": wall, "cpu_s": used}
                if wall > 60:
                    break
        except Exception as error:  # a line for each query, whatever becomes of it
            text = str(error).replace("\n", " ")
            found = {"query": query, "failed": text[:300]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
