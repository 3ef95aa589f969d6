"""Query 4 of TPCx-BB over generated clicks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import thalweg as tw
from thalweg import datagen
from thalweg.examples import running
from thalweg.examples.cart_abandonment import flow

HOUR = 3_600_000_000


def by_hand(clicks: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """Abandoned visits as (when they end, pages), in the order in which they end: sort, then cut."""
    visits: list[list[tuple[int, int, str]]] = []
    for click in sorted(clicks, key=lambda one: (one[1], one[0])):
        last = visits[-1][-1] if visits else None
        if last is None or last[1] != click[1] or click[0] - last[0] > HOUR:
            visits.append([])
        visits[-1].append(click)
    ended = []
    for visit in visits:
        actions = {action for _, _, action in visit}
        if "cart" in actions and "checkout" not in actions:
            ended.append((visit[-1][0] + HOUR, visit[0][1], len(visit)))
    return [(end, pages) for end, _, pages in sorted(ended)]


def test_the_average_after_each_visit(tmp_path: Path) -> None:
    """The running average is the one of a plain program, at each place of the sequence."""
    batches = list(datagen.clickstream(4000, 300, seed=1, days=2, disorder_s=60))
    table = pa.Table.from_batches(batches)
    columns = [table.column(name) for name in ("ts", "user", "action")]
    columns[0] = columns[0].cast(pa.int64())
    clicks = list(zip(*(column.to_pylist() for column in columns), strict=True))
    result = tw.run(flow, {"clicks": table})
    pages, expected = 0, []
    for number, (_, mine) in enumerate(by_hand(clicks), 1):
        pages += mine
        expected.append((number, pages / number))
    assert len(expected) > 50
    assert [tuple(row) for row in result.rows("average")] == expected
    assert result.counts["clicks"]["late"] == 0


def test_from_files(tmp_path: Path) -> None:
    """The same from Parquet files."""
    batches = list(datagen.clickstream(1000, 100, seed=2, days=1))
    datagen.write_files(iter(batches), tmp_path, rows=1000, files=2)
    table = pa.Table.from_batches(batches)
    outcome = running.run(
        flow, {"clicks": running.ExampleInput(str(tmp_path), "parquet")}, embedded=True
    )
    assert outcome.tables["average"].equals(tw.run(flow, {"clicks": table}).sinks["average"])
