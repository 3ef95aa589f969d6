"""Query 4 in Polars: a lazy frame over the Parquet files, in batch. Another session when the gap is > 60 min."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from common import GAP_US, Answer, run


def query(folder: Path) -> Answer:
    clicks = pl.scan_parquet(folder / "*.parquet").select("ts", "user", "action").sort("user", "ts")
    begins = (pl.col("user") != pl.col("user").shift()) | (
        pl.col("ts").diff() > pl.duration(microseconds=GAP_US)
    )
    sessions = (
        clicks.with_columns(session=begins.fill_null(True).cum_sum())
        .group_by("session")
        .agg(
            pages=pl.len(),
            abandoned=(pl.col("action") == "cart").any() & ~(pl.col("action") == "checkout").any(),
        )
    )
    totals = sessions.select(
        pl.len(),
        pl.col("abandoned").sum(),
        pl.col("pages").filter("abandoned").mean().alias("mean"),
    )
    return Answer(*totals.collect().row(0))


if __name__ == "__main__":
    run(query)
