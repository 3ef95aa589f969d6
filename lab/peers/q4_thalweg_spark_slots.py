"""Query 4 on Thalweg on Spark local[2] with two slots: the keyed stage in two tasks, one core each."""

from __future__ import annotations

from pathlib import Path

from common import Answer, run
from q4_thalweg_spark import query


def two_slots(folder: Path) -> Answer:
    """The query with two slots."""
    return query(folder, slots=2)


if __name__ == "__main__":
    run(two_slots)
