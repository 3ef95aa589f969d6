"""High-mobility fraud in call records: phones that are faster than can be, and how many such cases there are a
day.

This is the example of Prasaad et al., *Scaling Ordered Stream Processing*, Figure 1, with an operator for each
of its numbers: records are filtered by area (1) and reduced to time and place of the phone (2), both stateless;
the speed at which the phone must have come from its last place is computed by phone (3, partitioned stateful);
what is faster than a limit is kept (4, stateless), and counted in windows of time (5, stateful). A card that
was copied is found so, since it calls from two places.

Places are points in space, in km from the middle of the earth, so a distance is the straight line between two
of them: never longer than the way over the ground, and 0.1 % shorter at 1,000 km. Times less than a second
apart count as one second.

In SQL::

    WITH placed AS (
        SELECT *, 6371 * cos(radians(lat)) * cos(radians(lon)) AS x,
            6371 * cos(radians(lat)) * sin(radians(lon)) AS y, 6371 * sin(radians(lat)) AS z
        FROM calls WHERE phone // 1000000 = 770
    ), moved AS (
        SELECT ts, number, phone,
            sqrt((x - lag(x) OVER own) ** 2 + (y - lag(y) OVER own) ** 2 + (z - lag(z) OVER own) ** 2) AS km,
            greatest(epoch_us(ts) - epoch_us(lag(ts) OVER own), 1000000) / 3600e6 AS hours
        FROM placed WINDOW own AS (PARTITION BY phone ORDER BY number)
    )
    SELECT ts, phone, km, km / hours AS km_per_h
    FROM moved WHERE km / hours > 100 ORDER BY number

where ``number`` counts the records in the order of (time, arrival).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import typer

import thalweg as tw
from thalweg import data, datagen
from thalweg.datagen import Call
from thalweg.examples import running

#: How the bundled file is read: the columns stand in the order of the record.
OPTIONS: Final = {
    "delimiter": ";",
    "header": False,
    "timestamp_formats": ("%Y-%m-%d %H:%M:%S",),
}
_EARTH_KM: Final = 6371.0
_RADIANS: Final = math.pi / 180


class Place(NamedTuple):
    """Where a phone was at a time: a point in space, in km from the middle of the earth."""

    ts: tw.Timestamp
    phone: int
    x: float
    y: float
    z: float


class Move(NamedTuple):
    """How far a phone has come since its record before, and how fast it must have been."""

    ts: tw.Timestamp
    phone: int
    km: float
    km_per_h: float


class Count(NamedTuple):
    """How many cases there were in the window before ``until``."""

    until: tw.Timestamp
    cases: int


@tw.state
class Last:
    """A phone's last place; none has been seen where ``seen`` is false."""

    seen: bool = False
    ts: tw.Timestamp = 0
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0


@tw.state
class Cases:
    """How many cases there have been in the window at hand."""

    timer: tw.Timer
    cases: int = 0


def of_area(area: int) -> Callable[[Call], bool]:
    """A function that says whether a phone's number begins with these three digits of nine."""

    def in_area(call: Call) -> bool:
        return call.phone // 1_000_000 == area

    return in_area


def place(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Calls to places, with Arrow's kernels only."""
    lat = pc.multiply(batch.column("lat"), _RADIANS)
    lon = pc.multiply(batch.column("lon"), _RADIANS)
    from_axis = pc.multiply(pc.cos(lat), _EARTH_KM)
    columns = {
        "ts": batch.column("ts"),
        "phone": batch.column("phone"),
        "x": pc.multiply(from_axis, pc.cos(lon)),
        "y": pc.multiply(from_axis, pc.sin(lon)),
        "z": pc.multiply(pc.sin(lat), _EARTH_KM),
    }
    return pa.RecordBatch.from_pydict(columns)


def move(last: Last, here: Place) -> Move | None:
    """The move from a phone's place before; None for its first."""
    made = None
    if last.seen:
        x, y, z = here.x - last.x, here.y - last.y, here.z - last.z
        km = math.sqrt(x * x + y * y + z * z)
        hours = max(here.ts - last.ts, tw.seconds(1)) / tw.hours(1)
        made = Move(here.ts, here.phone, km, km / hours)
    last.seen = True
    last.ts = here.ts
    last.x = here.x
    last.y = here.y
    last.z = here.z
    return made


def faster_than(limit_km_per_h: float) -> Callable[[Move], bool]:
    """A function that says whether a move was faster than a limit."""

    def is_too_fast(move: Move) -> bool:
        return move.km_per_h > limit_km_per_h

    return is_too_fast


def counting(every: int) -> Callable[[Cases, Move], None]:
    """A function that counts cases in windows of so many microseconds."""

    def count(cases: Cases, move: Move) -> None:
        cases.cases += 1
        cases.timer = move.ts // every * every + every - 1

    return count


def counted(cases: Cases, time: tw.Timestamp) -> Count:
    """The window is over."""
    return Count(time + 1, cases.cases)


def make_flow(
    *,
    area: int = datagen.FIRST_AREA,
    limit_km_per_h: float = 100.0,
    every: str = "1 day",
    lateness: str = "2 minutes",
) -> tw.Flow:
    """Call records to moves that are too fast, and how many of them there are in each window of time."""
    flow = tw.Flow("mobility_fraud")
    calls = flow.source("calls", Call, order_by="ts", lateness=lateness)
    places = calls.filter(of_area(area)).map_batches(place, into=Place)
    moves = places.key_by("phone").process(move, state=Last)
    cases = moves.filter(faster_than(limit_km_per_h))
    cases.sink("cases")
    counts = cases.process(counting(tw.duration(every)), state=Cases, on_timer=counted)
    counts.sink("counts")
    return flow


flow = make_flow()


def main(
    rows: Annotated[
        int, typer.Option(min=0, help="How many records to generate; 0 for the bundled ones.")
    ] = 200_000,
    limit: Annotated[float, typer.Option(help="The speed in km/h above which it is fraud.")] = 100,
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Find phones that are in two places, in generated call records or in those of one phone that are bundled."""
    made = make_flow(limit_km_per_h=limit)
    with tempfile.TemporaryDirectory(prefix="thalweg-calls-") as folder:
        given = running.ExampleInput(str(data.path("call_records")), "csv", OPTIONS)
        if rows:
            calls = datagen.call_records(rows, max(rows // 100, 1), disorder_s=60)
            datagen.write_files(calls, folder, rows=rows, files=2)
            given = running.ExampleInput(folder, "parquet")
        outcome = running.run(made, {"calls": given}, slots=slots, embedded=embedded)
    running.show(outcome, "cases")
    running.show(outcome, "counts")


if __name__ == "__main__":
    running.command(main)
