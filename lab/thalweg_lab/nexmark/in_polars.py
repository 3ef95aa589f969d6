"""The queries in Polars over the whole input: a limit of what a stream can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl

Frame = pl.LazyFrame
c = pl.col
_DAY: Final = c("date_time").dt.truncate("1d").alias("start")
_PRICE: Final = 0.908 * c("price")
_PRICES: Final = {"rank1": c("price") < 10_000, "rank2": c("price").is_between(10_000, 999_999), "rank3": c("price") >= 1_000_000}  # fmt: skip


class Inputs:
    """The files of persons, auctions, bids and side."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getattr__(self, name: str) -> Frame:
        return pl.scan_parquet(self._folder / name / "*.parquet")


def _counts() -> list[pl.Expr]:
    return [pl.len().alias("total_bids"), *(p.sum().alias(f"{n}_bids") for n, p in _PRICES.items())]


def _statistics() -> list[pl.Expr]:
    made = _counts()
    for field in ("bidder", "auction"):
        made.append(c(field).n_unique().alias(f"total_{field}s"))
        made += [c(field).filter(p).n_unique().alias(f"{n}_{field}s") for n, p in _PRICES.items()]
    return made


def _sold(of: Inputs) -> Frame:
    pairs = of.auctions.join(of.bids, left_on="id", right_on="auction", suffix="_bid")
    return pairs.filter(c("date_time_bid").is_between(c("date_time"), c("expires")))


def _prices(of: Inputs) -> Frame:
    return _sold(of).group_by("id", "seller", "category", "expires").agg(c("price").max()).sort("expires", "id")  # fmt: skip


def q4(of: Inputs) -> Frame:
    mean = c("price").cum_sum() // pl.int_range(1, pl.len() + 1)
    return _prices(of).select("category", mean.over("category").alias("final"))


def q5(of: Inputs) -> Frame:
    starts = of.bids.select("auction", c("date_time").dt.truncate("2s").alias("start"))
    counts = starts.group_by("auction", "start").len("num")
    hops = pl.concat([counts.with_columns(c("start") - pl.duration(seconds=2 * n)) for n in range(5)])  # fmt: skip
    sums = hops.group_by("auction", "start").agg(c("num").sum())
    return sums.filter(c("num") == c("num").max().over("start"))


def q6(of: Inputs) -> Frame:
    mean = c("price").rolling_mean(10, min_samples=1)
    return _prices(of).select("seller", mean.over("seller").alias("avg_price"))


def q7(of: Inputs) -> Frame:
    window = c("date_time").dt.truncate("10s")
    return of.bids.filter(c("price") == c("price").max().over(window))


def q8(of: Inputs) -> Frame:
    start = c("date_time").dt.truncate("10s").alias("start")
    opened = of.auctions.group_by("seller", start).len("opened")
    return of.persons.select("id", "name", start).join(opened, left_on=["id", "start"], right_on=["seller", "start"])  # fmt: skip


def q9(of: Inputs) -> Frame:
    best = _sold(of).sort("price", "date_time_bid", descending=[True, False])
    return best.group_by("id", maintain_order=True).first()


def q11(of: Inputs) -> Frame:
    rows = of.bids.select("bidder", "date_time").sort("bidder", "date_time")
    apart = (c("date_time").diff() > pl.duration(seconds=10)).fill_null(True)
    number = apart.cum_sum().over("bidder").alias("session")
    return rows.with_columns(number).group_by("bidder", "session").agg(pl.len(), c("date_time").min().alias("start"), c("date_time").max().alias("end"))  # fmt: skip


def q13(of: Inputs) -> Frame:
    bids = of.bids.select("auction", "bidder", "price", "date_time", key=c("auction") % 10_000)
    return bids.sort("date_time").join_asof(of.side.sort("date_time"), on="date_time", by="key").filter(c("value").is_not_null())  # fmt: skip


def q14(of: Inputs) -> Frame:
    hour = c("date_time").dt.hour()
    kind = pl.when(hour.is_between(8, 18)).then(pl.lit("dayTime")).when((hour <= 6) | (hour >= 20)).then(pl.lit("nightTime")).otherwise(pl.lit("otherTime"))  # fmt: skip
    count = c("extra").str.count_matches("c", literal=True).alias("c_counts")
    return of.bids.filter((_PRICE > 1_000_000) & (_PRICE < 50_000_000)).select("auction", "bidder", _PRICE.alias("price"), kind.alias("bid_time_type"), "date_time", "extra", count)  # fmt: skip


def q17(of: Inputs) -> Frame:
    price = c("price")
    return of.bids.group_by("auction", _DAY).agg(*_counts(), price.min().alias("min"), price.max().alias("max"), price.mean().alias("avg"), price.sum().alias("sum"))  # fmt: skip


def q18(of: Inputs) -> Frame:
    rows = of.bids.sort("date_time", maintain_order=True)
    return rows.group_by("bidder", "auction", _DAY).last()


def q19(of: Inputs) -> Frame:
    place = c("price").rank("ordinal", descending=True).over("auction", _DAY).alias("rank_number")
    return of.bids.with_columns(place).filter(c("rank_number") <= 10)


def q20(of: Inputs) -> Frame:
    return of.bids.join(of.auctions.filter(c("category") == 10), left_on="auction", right_on="id")


def q21(of: Inputs) -> Frame:
    numbers = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    known = c("channel").str.to_lowercase().replace_strict(numbers, default=None)
    number = known.fill_null(c("url").str.extract("(?:&|^)channel_id=([^&]*)", 1))
    rows = of.bids.select("auction", "bidder", "price", "channel", number.alias("channel_id"))
    return rows.filter(c("channel_id").is_not_null())


def q22(of: Inputs) -> Frame:
    parts = c("url").str.split("/")
    return of.bids.select("auction", "bidder", "price", "channel", *(parts.list.get(n).alias(f"dir{n - 2}") for n in (3, 4, 5)))  # fmt: skip


_PASSED: Final = ("auction", "bidder", "price", "date_time", "extra")
QUERIES: Final[dict[str, Callable[[Inputs], Frame]]] = {
    "q0": lambda of: of.bids.select(_PASSED),
    "q1": lambda of: of.bids.select(_PASSED).with_columns(_PRICE.alias("price")),
    "q2": lambda of: of.bids.filter(c("auction") % 123 == 0).select("auction", "price"),
    "q3": lambda of: (
        of.auctions.filter(c("category") == 10)
        .join(of.persons.filter(c("state").is_in(["OR", "ID", "CA"])), left_on="seller", right_on="id")
        .select("name", "city", "state", "id")
    ),
    "q4": q4, "q5": q5, "q6": q6, "q7": q7, "q8": q8, "q9": q9,
    "q10": lambda of: of.bids.select(
        *_PASSED, dt=c("date_time").dt.strftime("%Y-%m-%d"), hm=c("date_time").dt.strftime("%H:%M")
    ),
    "q11": q11,
    "q12": lambda of: of.bids.group_by("bidder").len("bid_count"),
    "q13": q13, "q14": q14,
    "q15": lambda of: of.bids.group_by(_DAY).agg(_statistics()),
    "q16": lambda of: of.bids.group_by("channel", _DAY).agg(c("date_time").max().alias("minute"), *_statistics()),
    "q17": q17, "q18": q18, "q19": q19, "q20": q20, "q21": q21, "q22": q22,
}  # fmt: skip


def prepare(name: str, folder: Path) -> Callable[[], Any]:
    """A function that runs a query over the files, to a table."""
    query, of = QUERIES[name], Inputs(folder)
    return lambda: query(of).collect().to_arrow()
