"""The ten in Polars, as far as its expressions do them without a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import polars as pl
from pyarrow import parquet

from thalweg_lab.everyday.ways import Cell, NotSo, Output, Run

_PATTERN: Final = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(?P<method>\S+) (?P<path>\S+)[^"]*" (?P<status>\d{3}) (?P<size>\d+|-)$'
_TWO_HOURS: Final = pl.duration(hours=2)
Frame = Any


def _log(rows: Frame, _: Cell) -> Frame:
    parts = pl.col("text").str.extract_groups(_PATTERN)
    size = pl.col("size").str.replace("^-$", "0").cast(pl.Int64)
    found = rows.select("ts", "host", parts.alias("g")).unnest("g")
    return found.filter(pl.col("status").is_not_null()).select(
        "ts", "host", "method", "path", pl.col("status").cast(pl.Int64), size
    )


def _json(rows: Frame, _: Cell) -> Frame:
    kind = pl.Struct({"item": pl.String, "price": pl.Float64, "count": pl.Int64})
    found = rows.select("ts", "customer", pl.col("body").str.json_decode(kind)).unnest("body")
    return found.select("ts", "customer", "item", total=pl.col("price") * pl.col("count"))


def _url(rows: Frame, _: Cell) -> Frame:
    url = pl.col("url").str.strip_chars().str.to_lowercase()
    for start in ("https://", "http://", "www."):
        url = url.str.strip_prefix(start)
    return rows.select("ts", "user", url.str.replace(r"\?.*$", "").str.strip_suffix("/"))


def _spread(rows: Frame, _: Cell) -> Frame:
    value, count = pl.col("value"), pl.int_range(1, pl.len() + 1)
    mean = value.cum_sum() / count
    squares = (value * value).cum_sum() / count - mean * mean
    return rows.select(
        "ts", "sensor", mean=mean.over("sensor"), deviation=squares.clip(0.0).sqrt().over("sensor")
    )


def _dedupe(rows: Frame, _: Cell) -> Frame:
    return rows.unique("id", keep="first", maintain_order=True)


def _velocity(rows: Frame, _: Cell) -> Frame:
    before = pl.col("country").shift().over("card")
    is_soon = pl.col("ts") - pl.col("ts").shift().over("card") <= _TWO_HOURS
    found = rows.with_columns(before=before).filter((before != pl.col("country")) & is_soon)
    hops = pl.int_range(1, pl.len() + 1).over("card")
    return found.select("ts", "card", "before", "country", hops=hops)


def _lookup(rows: Frame, cell: Cell) -> Frame:
    known = cell.functions.RATES
    rates = pl.DataFrame({"currency": list(known), "rate": list(known.values())}).lazy()
    joined = rows.join(rates, on="currency", maintain_order="left")
    return joined.select("ts", "currency", euros=pl.col("amount") * pl.col("rate"))


def _moving(rows: Frame, _: Cell) -> Frame:
    mean = pl.col("value").rolling_mean(20, min_samples=1).over("sensor")
    return rows.select("ts", "sensor", mean=mean)


_QUERIES: Final[dict[str, Callable[[Frame, Cell], Frame]]] = {
    "log": _log,
    "json": _json,
    "url": _url,
    "spread": _spread,
    "dedupe": _dedupe,
    "velocity": _velocity,
    "lookup": _lookup,
    "moving": _moving,
}


def prepare(cell: Cell) -> Run:
    """Runs its query over the frame in memory."""
    if cell.name not in _QUERIES:
        raise NotSo("not in its expressions")
    frame = pl.DataFrame(parquet.read_table(cell.path))
    query = _QUERIES[cell.name]

    def run() -> Output:
        return query(frame.lazy(), cell).collect().to_arrow()

    return run
