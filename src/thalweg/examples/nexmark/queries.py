"""All queries by their names, and the flow of each."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Final

import thalweg as tw
from thalweg.examples.nexmark import closing, each_bid, joins, reports, windows, winning

#: The sources. At one time a row of the table comes first, and bids last.
SOURCES: Final = ("side", "persons", "auctions", "bids")
QUERIES: Final[dict[str, Callable[..., tw.Stream[Any]]]] = {
    f"q{number}": getattr(module, f"q{number}")
    for number in range(23)
    for module in (each_bid, closing, winning, joins, windows, reports)
    if hasattr(module, f"q{number}")
}


def sources_of(name: str) -> dict[str, type[Any]]:
    """The sources that a query reads, and what it reads of each: the records of its parameters."""
    hints = typing.get_type_hints(QUERIES[name])
    return {one: typing.get_args(hints[one])[0] for one in SOURCES if one in hints}


def _time_of(record: type[Any], lateness: str) -> dict[str, Any]:
    """By which field a source is ordered: the time of an event, or of its arrival."""
    if "arrived" in record.__annotations__:
        return {"order_by": "arrived", "stamp": "arrived"}
    return {"order_by": "date_time", "lateness": lateness}


def flow_of(name: str, *, lateness: str = "4 seconds") -> tw.Flow:
    """The flow of a query, with a sink ``out``."""
    flow = tw.Flow(f"nexmark_{name}")
    streams: dict[str, tw.Stream[Any]] = {
        source: flow.source(source, record, **_time_of(record, lateness))
        for source, record in sources_of(name).items()
    }
    QUERIES[name](**streams).sink("out")
    return flow
