"""Carts that were filled and left: query 4 of the benchmark TPCx-BB over a generated clickstream.

A user's visit ends when no click comes for an hour. Of the visits in which something went into the cart and nothing was
bought, the average number of pages is kept up to date. (Prasaad et al. use this query: it
has an operator of each kind.)
"""

from __future__ import annotations

import tempfile
from typing import Annotated, NamedTuple, Protocol

import typer

import thalweg as tw
from thalweg import datagen
from thalweg.datagen import Click
from thalweg.examples import running


class Session(NamedTuple):
    """A visit that has ended."""

    user: int
    pages: int
    carted: bool
    bought: bool


class Average(NamedTuple):
    """How many carts were abandoned so far, and the pages a visit that these visits had on average."""

    sessions: int
    pages: float


@tw.state
class Open:
    """A visit that goes on."""

    timer: tw.Timer
    pages: int = 0
    carted: bool = False
    bought: bool = False


@tw.state
class Mean:
    """A running mean."""

    sessions: int = 0
    pages: int = 0


class Action(Protocol):
    """What a visit needs to know of a click."""

    @property
    def ts(self) -> int: ...
    @property
    def action(self) -> str: ...


def track(open: Open, click: Action) -> None:
    """Every click of a user, in order."""
    open.pages += 1
    open.carted |= click.action == "cart"
    open.bought |= click.action == "checkout"
    open.timer = click.ts + tw.minutes(60)


def close(open: Open, user: int, time: tw.Timestamp) -> Session:
    """An hour without a click; the state is dropped."""
    return Session(user, open.pages, open.carted, open.bought)


def abandoned(session: Session) -> bool:
    """Something went into the cart and nothing was bought."""
    return session.carted and not session.bought


def running_mean(mean: Mean, session: Session) -> Average:
    """One for all abandoned visits, in the order in which they ended."""
    mean.sessions += 1
    mean.pages += session.pages
    return Average(mean.sessions, mean.pages / mean.sessions)


def make_flow(*, lateness: str = "2 minutes") -> tw.Flow:
    """Clicks to the running average."""
    flow = tw.Flow("cart_abandonment")
    clicks = flow.source("clicks", Click, order_by="ts", lateness=lateness)
    closed = clicks.key_by("user").process(track, state=Open, on_timer=close)
    average = closed.filter(abandoned).process(running_mean, state=Mean)
    average.sink("average")
    return flow


flow = make_flow()


def main(
    rows: Annotated[int, typer.Option(min=1, help="How many clicks to generate.")] = 100_000,
    users: Annotated[int, typer.Option(min=1, help="Of how many users.")] = 10_000,
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Generate clicks and find the abandoned carts in them."""
    with tempfile.TemporaryDirectory(prefix="thalweg-clicks-") as folder:
        clicks = datagen.clickstream(rows, users, disorder_s=60)
        datagen.write_files(clicks, folder, rows=rows, files=2)
        given = running.ExampleInput(folder, "parquet")
        outcome = running.run(flow, {"clicks": given}, slots=slots, embedded=embedded)
    running.show(outcome, "average")
    last = outcome.rows("average")[-1:]
    for one in last:
        typer.echo(
            f"{one['sessions']:,} carts abandoned, after {one['pages']:.2f} pages on average"
        )


if __name__ == "__main__":
    running.command(main)
