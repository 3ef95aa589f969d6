"""Query 4 in DuckDB: one SQL statement over the Parquet files, in batch. Another session when the gap is > 60 min."""

from __future__ import annotations

from pathlib import Path

import duckdb
from common import GAP_S, Answer, run

SQL = """
    with gaps as (
        select "user", action, ts,
            ts - lag(ts) over (partition by "user" order by ts) <= to_seconds({gap}) as goes_on
        from read_parquet('{folder}/*.parquet')
    ), numbered as (
        select "user", action, count(*) filter (goes_on is not true)
            over (partition by "user" order by ts rows unbounded preceding) as session
        from gaps
    ), sessions as (
        select count(*) as pages, bool_or(action = 'cart') and not bool_or(action = 'checkout') as abandoned
        from numbered group by "user", session
    )
    select count(*), count(*) filter (abandoned), avg(pages) filter (abandoned) from sessions
"""


def query(folder: Path) -> Answer:
    return Answer(*duckdb.sql(SQL.format(folder=folder, gap=GAP_S)).fetchall()[0])


if __name__ == "__main__":
    run(query)
