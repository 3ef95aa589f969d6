"""What a web site sends: sizes by status, the last large answers of each client, and totals, from the bundled log.

Aggregates of all kinds in one flow: filtered ones (``where=``), the client of the largest answer, exact counts of
distinct clients, an aggregate of one's own, rolling windows, and a total over all rows.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

import thalweg as tw
from thalweg import data
from thalweg.examples import running
from thalweg.examples.web_sessions import Line, Request, parse


class Range(NamedTuple):
    """The least and the greatest size."""

    least: int
    most: int


def widen(sizes: Range, request: Request) -> Range:
    return Range(min(sizes.least, request.size), max(sizes.most, request.size))


def width(sizes: Range) -> int:
    return sizes.most - sizes.least


def failed(request: Request) -> bool:
    return request.status >= 400


def make_flow() -> tw.Flow:
    """Lines to sizes by hour and status, requests with the last five of their client, and totals."""
    flow = tw.Flow("page_sizes")
    requests = flow.source("lines", Line).map(parse, errors="reject")
    ordered = requests.order_by("ts", lateness="1 minute")
    ordered.key_by("status").window(
        "1 hour",
        name="by_hour",
        requests=tw.agg.count(),
        clients=tw.agg.count_distinct("client"),
        mean=tw.agg.mean("size"),
        spread=tw.agg.stddev("size"),
        largest=tw.agg.max_by("size", "client"),
        width=tw.aggregate(init=Range(1 << 62, 0), add=widen, result=width),
    ).sink("by_hour")
    ordered.key_by("client").rolling(
        rows=5, name="last_five", failed=tw.agg.count(where=failed), most=tw.agg.max("size")
    ).filter(lambda row: row.failed > 2, name="failing").sink("failing")
    ordered.aggregate(
        name="all",
        requests=tw.agg.count(),
        failed=tw.agg.count(where=failed),
        sent=tw.agg.sum("size"),
    ).sink("totals")
    return flow


flow = make_flow()


def run(*, slots: int = 1, embedded: bool = False) -> running.ExampleOutcome:
    """The flow over the bundled log, to its end."""
    given = running.ExampleInput(str(data.path("web_log")), "text")
    return running.run(make_flow(), {"lines": given}, slots=slots, embedded=embedded)


def main(
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
) -> None:
    """Sizes of answers by hour and status, from the bundled access log."""
    running.show(run(slots=slots, embedded=embedded), "by_hour")


if __name__ == "__main__":
    running.command(main)
