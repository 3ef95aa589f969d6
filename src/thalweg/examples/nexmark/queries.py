"""All queries by their names, and the flow of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import thalweg as tw
from thalweg.examples.nexmark import closing, each_bid, joins, reports, windows, winning
from thalweg.examples.nexmark.records import Auction, Bid, Person, SideRow

#: The sources. At one time a row of the table comes first, and bids last.
SOURCES: Final = {"side": SideRow, "persons": Person, "auctions": Auction, "bids": Bid}
QUERIES: Final[dict[str, Callable[..., tw.Stream[Any]]]] = {
    f"q{number}": getattr(module, f"q{number}")
    for number in range(23)
    for module in (each_bid, closing, winning, joins, windows, reports)
    if hasattr(module, f"q{number}")
}


def sources_of(name: str) -> list[str]:
    """The sources that a query reads."""
    return [source for source in SOURCES if source in inspect.signature(QUERIES[name]).parameters]


def flow_of(name: str, *, lateness: str = "4 seconds") -> tw.Flow:
    """The flow of a query, with a sink ``out``."""
    flow = tw.Flow(f"nexmark_{name}")
    streams: dict[str, tw.Stream[Any]] = {
        source: flow.source(source, SOURCES[source], order_by="date_time", lateness=lateness)
        for source in sources_of(name)
    }
    QUERIES[name](**streams).sink("out")
    return flow
