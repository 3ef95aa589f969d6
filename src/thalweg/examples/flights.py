"""Each plane's departures from New York in the order in which they happened, and how the plane connects them.

The bundled flights are sorted by the hour for which they were planned; delays of up to a day change the order in which
planes really left, so the flow sorts again. A plane connects when it departs from the airport that it left before: it
flew out and came back there. Where it departs from another one, the chain breaks. (All flights begin in New York, so
what the plane did in between is not in the data: time away is what can be known.)
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import typer

import thalweg as tw
from thalweg import data
from thalweg.examples import running

#: How the bundled file is read: a missing value is the text NA.
OPTIONS: Final = {"null_values": ("NA",)}


class Flight(NamedTuple):
    """A planned flight; those that were cancelled have no delay."""

    time_hour: tw.Timestamp
    sched_dep_time: int
    dep_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str


class Departure(NamedTuple):
    """A flight that left, at the minute at which it did."""

    ts: tw.Timestamp
    plane: str
    flight: str
    origin: str
    dest: str


class Connection(NamedTuple):
    """A plane's next departure: ``same`` says whether from the airport that it left before."""

    plane: str
    out: str
    via: str
    back: str
    origin: str
    departs: tw.Timestamp
    away_min: int
    same: bool


class Tally(NamedTuple):
    """Connections and breaks so far."""

    connections: int
    breaks: int


@tw.state
class Last:
    """A plane's latest departure."""

    ts: tw.Timestamp = 0
    flight: str = ""
    origin: str = ""
    dest: str = ""


@tw.state
class Seen:
    """How many connections and breaks there were."""

    connections: int = 0
    breaks: int = 0


def departed(flight: Flight) -> Departure | None:
    """The departure of a flight; None for one that was cancelled or whose plane is not known."""
    if flight.dep_delay is None or flight.tailnum is None:
        return None
    minutes = flight.sched_dep_time % 100 + flight.dep_delay
    time = flight.time_hour + tw.minutes(minutes)
    number = f"{flight.carrier}{flight.flight}"
    return Departure(time, flight.tailnum, number, flight.origin, flight.dest)


def connect(last: Last, departure: Departure) -> Connection | None:
    """The connection of a plane's departure with the one before; None for its first."""
    made = None
    if last.flight:
        made = Connection(
            departure.plane,
            last.flight,
            last.dest,
            departure.flight,
            departure.origin,
            departure.ts,
            (departure.ts - last.ts) // tw.minutes(1),
            departure.origin == last.origin,
        )
    last.ts = departure.ts
    last.flight = departure.flight
    last.origin = departure.origin
    last.dest = departure.dest
    return made


def tally(seen: Seen, connection: Connection) -> Tally:
    """One for all planes: how many connections and breaks there were by then."""
    seen.connections += connection.same
    seen.breaks += not connection.same
    return Tally(seen.connections, seen.breaks)


def make_flow(*, lateness: str = "1 day") -> tw.Flow:
    """Flights to connections, and a running tally of them."""
    flow = tw.Flow("flights")
    departures = flow.source("flights", Flight).map(departed)
    in_time = departures.order_by("ts", lateness=lateness, name="in_time")
    connected = in_time.key_by("plane").process(connect, state=Last)
    connected.sink("connections")
    connected.process(tally, state=Seen).sink("totals")
    return flow


flow = make_flow()


def run(*, slots: int = 1, embedded: bool = False) -> running.ExampleOutcome:
    """The flow over the bundled flights, to its end."""
    given = running.ExampleInput(str(data.path("nyc_flights")), "csv", OPTIONS)
    return running.run(flow, {"flights": given}, slots=slots, embedded=embedded)


def main(
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Follow each plane through its departures from New York."""
    outcome = run(slots=slots, embedded=embedded)
    running.show(outcome, "connections")
    for last in outcome.rows("totals")[-1:]:
        typer.echo(f"{last['connections']:,} connections, {last['breaks']:,} breaks")


if __name__ == "__main__":
    running.command(main)
