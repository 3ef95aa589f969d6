"""Settings compared on the cluster: hash-based routing, a table that knows the partners, and the worst table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from thalweg_lab.figures.caneill.checks import wins
from thalweg_lab.figures.caneill.cluster import measured
from thalweg_lab.figures.caneill.measured import CaneillSetting, Found
from thalweg_lab.figures.contract import Effort, Line, Progress, ShapeCheck

#: The paper's names of the ways.
NAMES: Final = {
    "hashed": "hash-based", "table": "locality-aware", "worst": "worst-case", "online": "with reconfiguration",
}  # fmt: skip
#: The rate of a card: so slow that the network is what limits the workers, which share this machine's few processors.
#: The paper's two networks had 50 and 500 Mbit/s for each of a server's processors, and limited its largest tuples.
SLOW: Final = 0.01
#: Where more workers are compared, which have no more processors than fewer: there the network must be all that limits.
SLOWEST: Final = 0.002
#: MB a batch: seconds on the way, beside which Spark's fixed cost of a batch is small.
BATCH_MB: Final[dict[Effort, float]] = {"quick": 8.0, "full": 16.0}
#: Where figures are measured in virtual networks of one machine.
ON: Final = (
    "a cluster on this machine, a network namespace a worker, links of 10 Mbit/s, pairs of ints"
)


def all_of(
    settings: Iterable[CaneillSetting], tell: Progress
) -> Iterator[tuple[CaneillSetting, Found]]:
    """Measures settings in turn."""
    for setting in settings:
        yield setting, measured(setting, tell)


def lines(points: Mapping[float, Found], suffix: str = "") -> tuple[Line, ...]:
    """Rows a second of each way over what varies."""
    ways = dict.fromkeys(way for found in points.values() for way in found)
    made = []
    for way in ways:
        mine = {x: found[way].rows_per_s for x, found in points.items() if way in found}
        made.append(Line(NAMES[way] + suffix, tuple(mine), tuple(mine.values())))
    return tuple(made)


def ratio(found: Found, way: str = "table") -> float:
    """Rows a second of a way by those of hashing."""
    return found[way].rows_per_s / found["hashed"].rows_per_s


def sent(found: Found, way: str = "table") -> float:
    """The bytes between executors of a way by those of hashing."""
    return found[way].remote_bytes / found["hashed"].remote_bytes


def kept(found: Found, way: str = "table") -> float:
    """Bytes a tuple that a way keeps from the network."""
    return found["hashed"].remote_bytes - found[way].remote_bytes


def order(label: str, found: Found) -> Iterator[ShapeCheck]:
    """The table is faster than hashing, and that faster than the worst case."""
    rates = {way: run.rows_per_s for way, run in found.items()}
    yield wins(f"{label}: locality-aware beats hash-based", rates["table"], rates["hashed"], 1.1)
    if "worst" in rates:
        yield wins(f"{label}: hash-based beats worst-case", rates["hashed"], rates["worst"])


def told(found: Found) -> str:
    """Rows a second of the ways, and how many times those of hashing a table has."""
    rates = " / ".join(f"{run.rows_per_s:,.0f}" for run in found.values())
    return f"{rates} rows/s ({ratio(found):.2f}×)" if "table" in found else f"{rates} rows/s"
