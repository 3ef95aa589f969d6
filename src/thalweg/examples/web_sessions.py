"""Sessions of a web site's visitors, from the access log that comes with the package.

The log is really out of order: within a minute the seconds are shuffled. With ``lateness="1 minute"`` every row
finds its place; with ``"10 seconds"``, 7,812 of the 9,999 rows are late, and are counted as such.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Final, NamedTuple

import typer

import thalweg as tw
from thalweg import data
from thalweg.examples import running


class Line(NamedTuple):
    """A line of the log."""

    line: str


class Request(NamedTuple):
    """One request, as the combined format of the Apache web server has it."""

    ts: tw.Timestamp
    client: str
    status: int
    size: int


_COMBINED: Final = re.compile(r'(\S+) \S+ \S+ \[([^]]+)\] "[^"]*" (\d{3}) (\d+|-) "[^"]*" "[^"]*"$')


def parse(line: Line) -> Request:
    """The request of a line.

    Raises:
        ValueError: the line has another form; with ``errors="reject"`` it is counted and kept aside.
    """
    found = _COMBINED.match(line.line)
    if found is None:
        raise ValueError("not a line of an access log in combined format")
    client, when, status, size = found.groups()
    time = dt.datetime.strptime(when, "%d/%b/%Y:%H:%M:%S %z")
    return Request(tw.timestamp(time), client, int(status), 0 if size == "-" else int(size))


def make_flow(*, gap: str = "30 minutes", lateness: str = "1 minute") -> tw.Flow:
    """Lines to sessions: a session ends when its client makes no request for ``gap``."""
    flow = tw.Flow("web_sessions")
    requests = flow.source("lines", Line).map(parse, errors="reject")
    ordered = requests.order_by("ts", lateness=lateness)
    sessions = ordered.key_by("client").sessions(
        gap, name="by_client", requests=tw.agg.count(), sent=tw.agg.sum("size")
    )
    sessions.sink("sessions")
    requests.rejected.sink("rejected", ordered=False)
    return flow


flow = make_flow()


def run(
    *, slots: int = 1, embedded: bool = False, lateness: str = "1 minute"
) -> running.ExampleOutcome:
    """The flow over the bundled log, to its end."""
    given = running.ExampleInput(str(data.path("web_log")), "text")
    made = make_flow(lateness=lateness)
    return running.run(made, {"lines": given}, slots=slots, embedded=embedded)


def main(
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    lateness: Annotated[
        str, typer.Option(help="How far a row may be behind the latest.")
    ] = "1 minute",
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Find the sessions in the bundled access log."""
    running.show(run(slots=slots, embedded=embedded, lateness=lateness), "sessions")


if __name__ == "__main__":
    running.command(main)
