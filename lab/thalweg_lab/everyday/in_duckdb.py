"""The ten in DuckDB, as far as SQL expresses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb
from pyarrow import parquet

from thalweg_lab.everyday.ways import Cell, NotSo, Output, Run

if TYPE_CHECKING:
    import pyarrow as pa

_PATTERN: Final = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+|-)$'
_QUERIES: Final = {
    "log": f"""
        select ts, host, g.method, g.path, g.status::int as status,
               case when g.size = '-' then 0 else g.size::bigint end as size
        from (select ts, host, regexp_extract(text, '{_PATTERN}',
                     ['a', 'b', 'method', 'path', 'status', 'size']) as g from rows)
        where g.status <> ''""",
    "json": """
        select ts, customer, body->>'$.item' as item,
               (body->>'$.price')::double * (body->>'$.count')::int as total from rows""",
    "url": """
        select ts, "user", regexp_replace(regexp_replace(regexp_replace(
               lower(trim(url)), '^(https://)?(http://)?(www\\.)?', ''), '\\?.*$', ''), '/$', '') as url
        from rows""",
    "spread": """
        select ts, sensor, avg(value) over w as mean, stddev_pop(value) over w as deviation from rows
        window w as (partition by sensor order by ts rows unbounded preceding)""",
    "dedupe": "select * from rows qualify row_number() over (partition by id order by ts) = 1",
    "velocity": """
        select ts, card, before, country, sum(1) over (partition by card order by ts) as hops
        from (select *, lag(country) over w as before, lag(ts) over w as seen from rows
              window w as (partition by card order by ts))
        where before <> country and ts - seen <= interval 2 hours""",
    "lookup": "select ts, currency, amount * rate as euros from rows join rates using (currency)",
    "moving": """
        select ts, sensor, avg(value) over (partition by sensor order by ts rows 19 preceding) as mean
        from rows""",
}


def prepare(cell: Cell) -> Run:
    """Runs its query over the table in memory."""
    if cell.name not in _QUERIES:
        raise NotSo("not in its SQL")
    base = duckdb.connect()
    base.register("rows", parquet.read_table(cell.path))
    base.register("rates", rates(cell))

    def run() -> Output:
        table: pa.Table = base.sql(_QUERIES[cell.name]).to_arrow_table()
        return table

    return run


def rates(cell: Cell) -> pa.Table:
    """The captured dict as a table."""
    import pyarrow as pa

    known = cell.functions.RATES
    return pa.table({"currency": list(known), "rate": list(known.values())})
