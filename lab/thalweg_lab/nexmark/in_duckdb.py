"""The queries in DuckDB's SQL over the whole input: the yardstick of the answers, and a limit of a stream's speed.

Views ``persons``, ``auctions``, ``bids`` and ``side`` are expected. Where SQL leaves open which of equal rows comes
first, there are marks such as ``{n_desc}``: in tests for a column that counts the rows in order of arrival, else for
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

_RANKS: Final = """
    count(*) AS total_{0}, count(*) FILTER (price < 10000) AS rank1_{0},
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_{0},
    count(*) FILTER (price >= 1000000) AS rank3_{0}"""


def _distinct(field: str, name: str) -> str:
    return _RANKS.replace("*", f"DISTINCT {field}").format(name)


_DAY: Final = "date_trunc('day', date_time)"
_STATISTICS: Final = ", ".join(
    [_RANKS.format("bids"), _distinct("bidder", "bidders"), _distinct("auction", "auctions")]
)
_VALID: Final = """FROM auctions a JOIN bids b
    ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"""
_SOLD: Final = f"SELECT a.id, a.seller, a.category, a.expires, max(b.price) AS price {_VALID} GROUP BY ALL"  # fmt: skip
_MEAN: Final = "sum(price) OVER w // count(*) OVER w"

#: By query, columns named as those of the flow.
SQL: Final[dict[str, str]] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bids",
    "q1": "SELECT auction, bidder, 0.908::DOUBLE * price AS price, date_time, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, CAST({_MEAN} AS BIGINT) AS final FROM ({_SOLD})
        WINDOW w AS (PARTITION BY category ORDER BY expires, id ROWS UNBOUNDED PRECEDING)""",
    "q5": """WITH counted AS (
            SELECT auction, count(*) AS num,
                time_bucket(INTERVAL 2 SECONDS, date_time) - hop * INTERVAL 2 SECONDS AS start
            FROM bids, range(5) AS hops(hop) GROUP BY ALL)
        SELECT auction, num, start FROM counted QUALIFY num = max(num) OVER (PARTITION BY start)""",
    "q6": f"""SELECT seller, avg(price) OVER
            (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS avg_price
        FROM ({_SOLD})""",
    "q7": """SELECT auction, price, bidder, date_time, extra FROM bids
        QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL 10 SECONDS, date_time))""",
    "q8": """SELECT p.id, p.name AS called, p.start, a.opened FROM
        (SELECT id, name, time_bucket(INTERVAL 10 SECONDS, date_time) AS start FROM persons) p JOIN
        (SELECT seller, time_bucket(INTERVAL 10 SECONDS, date_time) AS start, count(*) AS opened
            FROM auctions GROUP BY ALL) a ON p.id = a.seller AND p.start = a.start""",
    "q9": f"""SELECT a.*, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra
        {_VALID} QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time{{b_n}}) = 1""",
    "q10": """SELECT auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d') AS dt,
        strftime(date_time, '%H:%M') AS hm FROM bids""",
    "q11": """WITH marked AS (
            SELECT bidder, date_time, date_time - lag(date_time) OVER w <= INTERVAL 10 SECONDS AS joins
            FROM bids WINDOW w AS (PARTITION BY bidder ORDER BY date_time)),
        numbered AS (SELECT bidder, date_time, count(*) FILTER (joins IS NOT TRUE) OVER w AS session
            FROM marked WINDOW w AS (PARTITION BY bidder ORDER BY date_time ROWS UNBOUNDED PRECEDING))
        SELECT bidder, count(*) AS bid_count, min(date_time) AS start, max(date_time) AS "end"
        FROM numbered GROUP BY bidder, session""",
    "q12": "SELECT bidder, count(*) AS bid_count FROM bids GROUP BY bidder",
    "q13": """SELECT b.auction, b.bidder, b.price, b.date_time, s.value FROM bids b ASOF JOIN side s
        ON b.auction % 10000 = s.key AND b.date_time >= s.date_time""",
    "q14": """SELECT auction, bidder, 0.908::DOUBLE * price AS price,
        CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
        date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bids WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000""",
    "q15": f"SELECT {_DAY} AS start, {_STATISTICS} FROM bids GROUP BY start",
    "q16": f"""SELECT channel, {_DAY} AS start, max(date_time) AS minute, {_STATISTICS}
        FROM bids GROUP BY channel, start""",
    "q17": f"""SELECT auction, {_DAY} AS start, {_RANKS.format("bids")}, min(price) AS min_price,
        max(price) AS max_price, avg(price) AS avg_price, sum(price)::BIGINT AS sum_price
        FROM bids GROUP BY auction, start""",
    "q18": f"""SELECT auction, bidder, price, channel, url, date_time, extra FROM bids
        QUALIFY row_number() OVER (PARTITION BY bidder, auction, {_DAY} ORDER BY date_time DESC{{n_desc}}) = 1""",
    "q19": f"""SELECT auction, bidder, price, channel, url, date_time, extra,
            row_number() OVER (PARTITION BY auction, {_DAY} ORDER BY price DESC{{time_n}}) AS rank_number
        FROM bids QUALIFY rank_number <= 10""",
    "q20": """SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra AS bid_extra,
        a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_date_time, a.expires, a.seller,
        a.category, a.extra AS auction_extra FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10""",
    "q21": """SELECT auction, bidder, price, channel, CASE lower(channel)
            WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bids WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
            OR regexp_matches(url, '(&|^)channel_id=')""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
        split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bids""",
}


def text(name: str, *, ties: bool = False) -> str:
    """A query's SQL; with ``ties`` the rows have a column ``n``, by which those that are equal are ordered."""
    parts = {"n_desc": ", n DESC", "time_n": ", date_time, n", "b_n": ", b.n"}
    sql = SQL[name]
    for mark, order in parts.items():
        sql = sql.replace(f"{{{mark}}}", order if ties else "")
    return sql.replace("a.*", "a.* EXCLUDE (n)") if ties else sql


def differences(name: str, inputs: Mapping[str, pa.Table], out: pa.Table) -> tuple[int, int]:
    """How many rows DuckDB has that a flow has not put out, and the other way round."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for source, table in inputs.items():
        connection.register(f"{source}_", table)
        # Arrow's rows are numbered in their order.
        connection.execute(f"CREATE TABLE {source} AS SELECT *, row_number() OVER () AS n FROM {source}_")  # fmt: skip
    connection.execute(f"CREATE TABLE expected AS {text(name, ties=True)}")
    if name == "q12":
        totals = out.group_by("bidder").aggregate([("bid_count", "sum")])
        out = totals.rename_columns({"bid_count_sum": "bid_count"})
    connection.register("found_", out)
    columns = ", ".join(f'"{column[0]}"' for column in connection.execute("DESCRIBE expected").fetchall())  # fmt: skip
    connection.execute(f"CREATE TABLE found AS SELECT {columns} FROM found_")
    counts = [
        connection.execute(f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchone()
        for one, other in (("expected", "found"), ("found", "expected"))
    ]
    missing, extra = (count[0] for count in counts if count is not None)
    return missing, extra


def prepare(name: str, folder: Path) -> Callable[[], Any]:
    """A function that runs a query over the files, to a table."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for source in ("persons", "auctions", "bids", "side"):
        connection.execute(f"CREATE VIEW {source} AS FROM read_parquet('{folder}/{source}/*.parquet')")  # fmt: skip
    return lambda: connection.sql(text(name)).to_arrow_table()
