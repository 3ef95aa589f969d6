"""Statistics out of rows of keys, for tests of locality."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from xxhash import xxh64_intdigest

from thalweg import data
from thalweg.locality import Assignment, ExactCounts, Report, Statistics

BUCKETS = 128


def buckets_of(_: str, keys: Sequence[Any]) -> list[int]:
    """Buckets by the stable hash of the key as text."""
    return [(xxh64_intdigest(str(key).encode()) >> 32) * BUCKETS >> 32 for key in keys]


def count(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> Statistics:
    """Exact statistics of rows with one key for each operator of a chain."""
    counts = ExactCounts(dict.fromkeys(names, BUCKETS))
    for row in rows:
        ends = list(zip(names, row, strict=True))
        for name, key in ends:
            counts.take(name, key)
        for left, right in itertools.pairwise(ends):
            counts.pair(left, right)
    return counts.statistics(buckets_of)


def hashed(names: Sequence[str], parts: int) -> Assignment:
    """Plain hashing: no key is pinned, buckets are shared out evenly."""
    owners = tuple(bucket * parts // BUCKETS for bucket in range(BUCKETS))
    return Assignment(parts, {}, dict.fromkeys(names, owners), Report(1.0, {}, 1.03))


def flights(*columns: str) -> list[tuple[str, ...]]:
    """Rows of the bundled flights; ``flight`` is the carrier with the flight's number, as on a ticket."""
    with gzip.open(data.path("nyc_flights"), "rt") as file:
        rows = [
            row | {"flight": row["carrier"] + row["flight"]}
            for row in csv.DictReader(file)
            if row["tailnum"] != "NA"
        ]
    return [tuple(row[name] for name in columns) for row in rows]


def requests() -> list[tuple[str, str]]:
    """Client and path of each request of the bundled access log, as far as its lines can be read."""
    with gzip.open(data.path("web_log"), "rt") as file:
        found = [re.match(r'(\S+) \S+ \S+ \[[^\]]+\] "\S+ (\S+)', line) for line in file]
    return [(one[1], one[2]) for one in found if one]
