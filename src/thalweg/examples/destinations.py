"""How many departures each flight number and then each destination has had: two keys that go together.

Nearly every flight number goes to one or a few destinations, so a tuple that was counted by its number need not
leave its slot to be counted by its destination, if the slots know. ``thalweg locality demo`` runs this flow on a
cluster, with keys by hash and with keys that Thalweg has learnt to bring together (docs/locality.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

import thalweg as tw
from thalweg import data
from thalweg.examples import running

#: How the bundled file is read: a missing value is the text NA.
NULL_VALUES: Final = ("NA",)


class Flight(NamedTuple):
    """A flight in the order in which flights were planned."""

    carrier: str
    flight: int
    dest: str


class Served(NamedTuple):
    """A departure of a flight number, and which it is."""

    carrier: str
    flight: int
    dest: str
    departure: int


class Arrival(NamedTuple):
    """A departure for a destination, and which it is; ``numbers`` flight numbers have gone there so far."""

    dest: str
    carrier: str
    flight: int
    departure: int
    numbers: int


@tw.state
class Number:
    """A flight number's departures."""

    departures: int = 0


@tw.state
class Airport:
    """A destination's departures and flight numbers."""

    departures: int = 0
    numbers: int = 0


def serve(number: Number, flight: Flight) -> Served:
    """The next departure of a flight number."""
    number.departures += 1
    return Served(flight.carrier, flight.flight, flight.dest, number.departures)


def arrive(airport: Airport, served: Served) -> Arrival:
    """The next departure for a destination."""
    airport.departures += 1
    airport.numbers += served.departure == 1
    return Arrival(served.dest, served.carrier, served.flight, airport.departures, airport.numbers)


def make_flow() -> tw.Flow:
    """Flights by their number, and then by their destination."""
    flow = tw.Flow("destinations")
    flights = flow.source("flights", Flight)
    served = flights.key_by("carrier", "flight").process(serve, state=Number)
    served.key_by("dest").process(arrive, state=Airport).sink("arrivals")
    return flow


flow = make_flow()


def write_parts(folder: Path, parts: int) -> None:
    """The bundled flights in several files, one after the other in the order of their names."""
    lines = list(_lines())
    header, rows = lines[0], lines[1:]
    share = -(-len(rows) // parts)
    for number in range(parts):
        part = rows[number * share : (number + 1) * share]
        (folder / f"part-{number:03}.csv").write_text("".join([header, *part]), encoding="utf-8")


def _lines() -> Iterator[str]:
    import gzip

    with gzip.open(data.path("nyc_flights"), "rt", encoding="utf-8") as file:
        yield from file


def run(*, slots: int = 1, embedded: bool = False) -> running.ExampleOutcome:
    """The flow over the bundled flights, to its end."""
    given = running.ExampleInput(str(data.path("nyc_flights")), "csv", {"null_values": NULL_VALUES})
    return running.run(flow, {"flights": given}, slots=slots, embedded=embedded)


def main(
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Count departures by flight number and by destination."""
    running.show(run(slots=slots, embedded=embedded), "arrivals")


if __name__ == "__main__":
    running.command(main)
