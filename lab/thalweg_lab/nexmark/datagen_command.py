"""``thalweg datagen nexmark``: the events of NEXMark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thalweg.datagen.writers import FORMATS
from thalweg.printing import bar, say

#: Help of the ratios.
Ratio = "All but one in so many {} the hot one of the time."


def nexmark(
    out: Annotated[
        Path | None, typer.Option(help="Folder to write persons/, auctions/, bids/, side/ into.")
    ] = None,
    events: Annotated[
        int, typer.Option(min=1, help="Persons, auctions and bids together.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other events.")] = 0,
    format: Annotated[str, typer.Option(help=" or ".join(FORMATS))] = "parquet",
    files: Annotated[int, typer.Option(min=1, help="Files a folder.")] = 4,
    rate: Annotated[float, typer.Option(help="Events a second of event time.")] = 10_000,
    proportions: Annotated[str, typer.Option(help="Persons:auctions:bids.")] = "1:3:46",
    hot_auctions: Annotated[int, typer.Option(min=1, help=Ratio.format("bids are for"))] = 2,
    hot_bidders: Annotated[int, typer.Option(min=1, help=Ratio.format("bids are by"))] = 4,
    hot_sellers: Annotated[int, typer.Option(min=1, help=Ratio.format("auctions are of"))] = 4,
    out_of_order: Annotated[
        int,
        typer.Option(min=1, help="Each so many events come in another order; 1 for time order."),
    ] = 1,
    start: Annotated[str, typer.Option(help="Time of the first event.")] = "2026-01-05T00:00:00Z",
    kafka: Annotated[
        str | None, typer.Option(help="Also, or instead of a folder: a broker's address.")
    ] = None,
) -> None:
    """Write NEXMark's persons, auctions and bids in order of arrival, and query 13's table."""  # fmt: skip
    from thalweg_lab.nexmark.spec import Spec
    from thalweg_lab.nexmark.written import publish, write

    if out is None and kafka is None:
        raise typer.BadParameter("give --out or --kafka")
    persons, auctions, bids = _proportions(proportions)
    try:
        spec = Spec(
            events, seed, rate, persons, auctions, bids, hot_auctions, hot_bidders, hot_sellers,
            out_of_order_group=out_of_order, start=start,
        )  # fmt: skip
        if out is not None:
            with bar("writing events", events) as more:
                write(spec, out, format=format, files=files, on_rows=more)
            say(f"{events:,} events in {out}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if kafka is not None:
        publish(spec, kafka)
        say(f"{events:,} events in the topics nexmark-… of {kafka}")


def _proportions(text: str) -> tuple[int, int, int]:
    try:
        persons, auctions, bids = map(int, text.split(":"))
    except ValueError:
        raise typer.BadParameter(
            f"--proportions is {text!r}, expected three numbers such as 1:3:46"
        ) from None
    return persons, auctions, bids
