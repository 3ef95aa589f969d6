"""Query 4 in Pathway: windowby with a session window per user; one process, one thread.

Its gap is exclusive (next - last < gap), so it is given one microsecond more. The result is a stream of updates; the
last one counts. Pathway reads no Parquet files itself, so its own reader for data frames does.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pathway as pw
from common import GAP_US, Answer, record_batches, run


def clicks_of(folder: Path) -> pw.Table:
    frames = [
        pd.DataFrame(
            {
                "ts": batch["ts"].cast("int64").to_numpy(),
                "user": batch["user"].to_numpy(),
                "action": batch["action"].to_pandas(),
            }
        )
        for batch in record_batches(folder, "ts", "user", "action")
    ]
    return pw.debug.table_from_pandas(pd.concat(frames, ignore_index=True)).select(
        pw.this.ts,
        pw.this.user,
        cart=pw.cast(int, pw.this.action == "cart"),
        checkout=pw.cast(int, pw.this.action == "checkout"),
    )


def query(folder: Path) -> Answer:
    clicks = clicks_of(folder)
    sessions = clicks.windowby(
        clicks.ts, window=pw.temporal.session(max_gap=GAP_US + 1), instance=clicks.user
    ).reduce(
        pages=pw.reducers.count(),
        carts=pw.reducers.sum(pw.this.cart),
        checkouts=pw.reducers.sum(pw.this.checkout),
    )
    totals = sessions.select(
        pw.this.pages,
        abandoned=pw.cast(int, (pw.this.carts > 0) & (pw.this.checkouts == 0)),
    ).reduce(
        sessions=pw.reducers.count(),
        abandoned=pw.reducers.sum(pw.this.abandoned),
        pages=pw.reducers.sum(pw.this.pages * pw.this.abandoned),
    )
    latest: list[tuple[int, int, int]] = []

    def keep(key: object, row: dict, time: int, is_addition: bool) -> None:
        if is_addition:
            latest.append((row["sessions"], row["abandoned"], row["pages"]))

    pw.io.subscribe(totals, keep)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    pw.internals.parse_graph.G.clear()
    count, abandoned, pages = latest[-1]
    return Answer(count, abandoned, pages / abandoned if abandoned else None)


if __name__ == "__main__":
    run(query)
