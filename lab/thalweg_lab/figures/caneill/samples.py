"""Real data with two keyed operators in a row, and what sketches of slots make of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg import data
from thalweg.connectors import files, never
from thalweg.hashing import UInt64s, bucket_of
from thalweg.locality import Key, KeySketch, KeySummary, Statistics
from thalweg.plan.plan import make_plan
from thalweg.testing.sampling import SampledKeys, sample

_REQUEST: Final = re.compile(r'(\S+) \S+ \S+ \[[^]]+\] "\S+ (\S+)')
#: Rows of a slot's batch.
_BATCH: Final = 8_192


class PlannedFlight(NamedTuple):
    """A planned flight."""

    carrier: str
    flight: int
    tailnum: str | None
    dest: str


class LogLine(NamedTuple):
    """A line of an access log."""

    line: str


class LogRequest(NamedTuple):
    """Who asked for what."""

    client: str
    path: str


@tw.state
class SampleCount:
    """How many tuples a key had, as the two operators of the paper's application count them (4.1)."""

    rows: int = 0


def request(line: LogLine) -> LogRequest | None:
    """The request of a line; None if it is none."""
    found = _REQUEST.match(line.line)
    return LogRequest(found[1], found[2]) if found else None


def count_flight(state: SampleCount, flight: PlannedFlight) -> PlannedFlight:
    """Counts the key's flights."""
    state.rows += 1
    return flight


def count_request(state: SampleCount, request: LogRequest) -> LogRequest:
    """Counts the key's requests."""
    state.rows += 1
    return request


def planned_flights(*left: str) -> tw.Flow:
    """Flights by some fields (by their number), then by destination."""
    flow = tw.Flow("flights")
    first = flow.source("flights", PlannedFlight).key_by(*(left or ("carrier", "flight")))
    counted = first.process(count_flight, state=SampleCount, name="left")
    counted.key_by("dest").process(count_flight, state=SampleCount, name="dest").sink("out")
    return flow


def flights(*left: str) -> SampledKeys:
    """Flights of two months by some fields, then by destination."""
    return _sample(planned_flights(*left), "nyc_flights", format="csv", null_values=("NA",))


def requests() -> SampledKeys:
    """Requests of four days by client, then by path."""
    flow = tw.Flow("requests")
    first = flow.source("lines", LogLine).map(request).key_by("client")
    counted = first.process(count_request, state=SampleCount, name="client")
    counted.key_by("path").process(count_request, state=SampleCount, name="path").sink("out")
    return _sample(flow, "web_log", format="text")


#: What is measured, by name.
SAMPLES: Final[dict[str, Callable[[], SampledKeys]]] = {
    "flight → dest": lambda: flights("carrier", "flight"),
    "tailnum → dest": lambda: flights("tailnum"),
    "client → path": requests,
}


def _sample(flow: tw.Flow, name: str, **how: Any) -> SampledKeys:
    [source] = make_plan(flow).sources
    found = files(str(data.path(name)), **how)
    rows = [row for chunk, _ in found.rows(source, _BATCH, never()) for row in chunk.rows()]
    return sample(flow, {source.name: rows})


class Sketched(NamedTuple):
    """What sketches of all slots gave together, the memory of the largest, and CPU time a row and sketch."""

    statistics: Statistics
    nbytes: int
    ns: float


def sketched(
    taken: SampledKeys, start: float, stop: float, *, slots: int, pairs: int, keys: int
) -> Sketched:
    """Counts a part of a sample with one link in bounded memory, each slot the tuples that its left keys have."""
    link, columns = _columns(taken, start, stop)
    known = [sorted(set(column), key=repr) for column in columns]
    codes = [_codes(column, names) for column, names in zip(columns, known, strict=True)]
    hashes = [
        taken.hashes(name, names)[code]
        for name, names, code in zip(link, known, codes, strict=True)
    ]
    buckets = {name: count for name, (_, count) in taken.operators.items()}
    owners = bucket_of(hashes[0], slots)
    summaries, nbytes, cpu = [], 0, 0
    for slot in range(slots):
        sketch = KeySketch(buckets, [link], pairs=pairs, keys=keys)
        mine = np.flatnonzero(owners == slot)
        begun = time.process_time_ns()
        for at in range(0, len(mine), _BATCH):
            rows = mine[at : at + _BATCH]
            _feed(sketch, link, [one[rows] for one in hashes], [one[rows] for one in codes])
        cpu += time.process_time_ns() - begun
        nbytes = max(nbytes, sketch.nbytes)
        summaries.append(KeySummary.from_bytes(sketch.summary().to_bytes()))

    def decode(name: str, names: pa.BinaryArray) -> list[Key]:
        return [known[link.index(name)][int(code)] for code in names.to_pylist()]

    # Two operators take each row, and one link.
    return Sketched(
        KeySummary.merged(summaries).statistics(decode), nbytes, cpu / max(3 * len(owners), 1)
    )


def _columns(
    taken: SampledKeys, start: float, stop: float
) -> tuple[tuple[str, str], list[list[Key]]]:
    first, last = (round(len(taken.takes) * share) for share in (start, stop))
    found = [(left, taken.takes[place]) for place, left in taken.pairs if first <= place < last]
    (left, _), (right, _) = found[0]
    return (left, right), [[one[1] for one, _ in found], [other[1] for _, other in found]]


def _codes(column: list[Key], names: list[Key]) -> Any:
    places = {key: place for place, key in enumerate(names)}
    return np.array([places[key] for key in column], np.int64)


def _feed(
    sketch: KeySketch, link: tuple[str, str], hashes: list[UInt64s], codes: list[Any]
) -> None:
    """A batch of one slot; a key is called by its code."""
    names = [
        lambda rows, code=code: pa.array(code[rows].astype(str), pa.string()) for code in codes
    ]
    for name, hashed, named in zip(link, hashes, names, strict=True):
        sketch.take(name, hashed, named)
    sketch.pair(link, hashes[0], hashes[1], names[0], names[1])
