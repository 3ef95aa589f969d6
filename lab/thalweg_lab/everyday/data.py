"""Seeded inputs of the ten everyday functions, as Parquet files in a cache folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

#: Cards, hosts, users, and sensors.
KEYS: Final = 10_000
SENSORS: Final = 1_000
#: The verbs of :mod:`thalweg_lab.everyday.verbs`, which all read the same.
VERBS: Final = (
    "distinct", "collect", "ties", "hll", "quantile", "rolling", "backward", "forward", "nearest",
)  # fmt: skip
_START_US: Final = 1_767_225_600_000_000
_COUNTRIES: Final = ["DE", "FR", "GB", "IT", "ES", "PL", "NL", "SE", "US", "JP", "Åland", "CH"]
_CURRENCIES: Final = ["EUR", "USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK", "???"]

Columns = dict[str, Any]
Random = np.random.Generator


def data_of(name: str, *, text: bool, rows: int, folder: Path) -> Path:
    """The file of an input, made if it is not there."""
    # A folder of its own, since Spark's streams read folders.
    path = folder / f"{name}-{'text' if text else 'int'}-{rows}" / "rows.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.{os.getpid()}")
        parquet.write_table(make(name, text=text, rows=rows), hidden)
        hidden.rename(path)
    return path


def make(name: str, *, text: bool, rows: int) -> pa.Table:
    """An input: times that rise by some seconds, keys, and what the function reads."""
    random = np.random.default_rng(7)
    ts = _START_US + np.cumsum(random.integers(1, 4_000_000, rows))
    return pa.table(
        {"ts": pa.array(ts, pa.timestamp("us", tz="UTC")), **_MAKERS[name](random, rows, text)}
    )


def _keys(random: Random, rows: int, text: bool, what: str, count: int = KEYS) -> pa.Array:
    return _named(random.integers(0, _most(count, rows), rows), text, what)


def _most(keys: int, rows: int) -> int:
    """Small inputs have fewer keys, so that each comes again."""
    return max(1, min(keys, rows // 20))


def _named(numbers: Any, text: bool, what: str) -> pa.Array:
    keys = pa.array(numbers, pa.int64())
    return pc.binary_join_element_wise(what, keys.cast(pa.string()), "-") if text else keys


def _texts(random: Random, rows: int, known: list[str]) -> pa.Array:
    """Rows drawn from some thousand texts: made one by one they would take minutes."""
    return pa.array(known).take(pa.array(random.integers(0, len(known), rows)))


def _log(random: Random, rows: int, text: bool) -> Columns:
    known = [
        f"10.{n % 251}.{n % 13}.7 - - [01/Jan/2026:00:{n % 60:02}:12 +0000] "
        f'"{("GET", "POST", "HEAD")[n % 3]} /articles/{n % 997}/page{n % 31}.html HTTP/1.1" '
        f"{(200, 200, 200, 304, 404)[n % 5]} {n * 37 % 90_000 if n % 5 else '-'}"
        for n in range(5_000)
    ] + ["garbage without a request"] * 50
    return {"host": _keys(random, rows, text, "host"), "text": _texts(random, rows, known)}


def _json(random: Random, rows: int, text: bool) -> Columns:
    known = [
        f'{{"item": "item-{n % 977}", "price": {n % 5000 / 100 + 1}, "count": {n % 9 + 1}, '
        f'"gift": {"true" if n % 7 == 0 else "false"}, "tags": ["a", "b{n % 11}"]}}'
        for n in range(5_000)
    ]
    return {"customer": _keys(random, rows, text, "customer"), "body": _texts(random, rows, known)}


def _url(random: Random, rows: int, text: bool) -> Columns:
    known = [
        f"{('http://', 'https://', 'HTTPS://', '')[n % 4]}{('www.', '')[n % 2]}Shop-{n % 401}.example.com"
        f"/Products/{n % 613}{('/', '', '?session=' + str(n), '/?ref=Mail')[n % 4]}{' ' if n % 17 == 0 else ''}"
        for n in range(5_000)
    ]
    return {"user": _keys(random, rows, text, "user"), "url": _texts(random, rows, known)}


def _readings(random: Random, rows: int, text: bool) -> Columns:
    values = np.round(random.normal(20.0, 5.0, rows), 3)
    return {"sensor": _keys(random, rows, text, "sensor", SENSORS), "value": values}


def _events(random: Random, rows: int, text: bool) -> Columns:
    """One row in ten comes again, later by up to a thousand rows."""
    numbers = np.arange(rows)
    again = random.random(rows) < 0.1
    source = np.where(again, np.maximum(numbers - random.integers(1, 1_000, rows), 0), numbers)
    return {"id": _named(source * 7919, text, "event"), "amount": source % 9_973 / 4}


def _payments(random: Random, rows: int, text: bool) -> Columns:
    near = random.integers(0, _most(KEYS, rows), rows)
    away = random.random(rows) < 0.05
    country = np.where(away, random.integers(0, len(_COUNTRIES), rows), near % len(_COUNTRIES))
    return {
        "card": _named(near, text, "card"),
        "country": pa.array(_COUNTRIES).take(pa.array(country)),
        "amount": np.round(random.exponential(50.0, rows), 2),
    }


def _sales(random: Random, rows: int, text: bool) -> Columns:
    code = pa.array(random.integers(0, len(_CURRENCIES), rows))
    currency = pa.array(_CURRENCIES).take(code) if text else code
    return {"currency": currency, "amount": np.round(random.exponential(50.0, rows), 2)}


def _ticks(random: Random, rows: int, text: bool) -> Columns:
    """Trades and quotes of some hundred symbols at thousands of venues."""
    venues = [f"venue {n}, Nº {n % 97}" for n in range(3_000)]
    return {
        "symbol": _keys(random, rows, text, "symbol", SENSORS),
        "venue": _texts(random, rows, venues),
        "price": np.round(random.normal(20.0, 5.0, rows), 2),
        "is_quote": random.random(rows) < 0.5,
    }


def _places(random: Random, rows: int, text: bool) -> Columns:
    return {
        "phone": _keys(random, rows, text, "phone"),
        "lat": random.uniform(-90, 90, rows),
        "lon": random.uniform(-180, 180, rows),
    }


_MAKERS: Final[dict[str, Callable[[Random, int, bool], Columns]]] = {
    "log": _log,
    "json": _json,
    "url": _url,
    "spread": _readings,
    "dedupe": _events,
    "velocity": _payments,
    "lookup": _sales,
    "geohash": _places,
    "moving": _readings,
    "top": _readings,
    **dict.fromkeys(VERBS, _ticks),
}
