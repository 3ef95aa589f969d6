"""Query 4 on Thalweg's engine alone, in this process on one core: no Spark."""

from __future__ import annotations

from pathlib import Path

from common import Answer, record_batches, run
from q4_flow import make_flow

import thalweg as tw


def query(folder: Path) -> Answer:
    """Runs the flow over the folder's files."""
    result = tw.run(
        make_flow(),
        {
            "clicks": record_batches(
                folder, "ts", "user", "item", "action", read_dictionary=["action"]
            )
        },
    )
    averages = result.rows("average")
    last = averages[-1] if averages else None
    return Answer(
        result.counts["sink:sessions"]["in"], len(averages), None if last is None else last.pages
    )


if __name__ == "__main__":
    run(query)
