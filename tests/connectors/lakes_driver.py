"""A flow between tables, and a program that runs it on Spark, for tests that kill it.

    python lakes_driver.py INPUT OUTPUT CHECKPOINT SLOTS DSN

INPUT is a Delta table; the rows go to a Delta table, a Delta table by key, a folder by partitions and, with a DSN, to
PostgreSQL.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import thalweg as tw

NAMES = 7


class Visit(NamedTuple):
    name: str
    n: int


class Seen(NamedTuple):
    name: str
    n: int
    #: the how-manieth of its name it is
    place: int


@tw.state
class Count:
    n: int = 0


def number(seen: Count, visit: Visit) -> Seen:
    """A running number a name: a lost row leaves a gap, a doubled one a repetition."""
    seen.n += 1
    return Seen(visit.name, visit.n, seen.n)


def make_flow() -> tw.Flow:
    flow = tw.Flow("lakes")
    seen = flow.source("visits", Visit).key_by("name").process(number, state=Count)
    for name in ("delta", "newest", "folder", "postgres"):
        seen.sink(name)
    return flow


def targets(output: str, dsn: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "delta": tw.to_delta(f"{output}/delta", partition_by="name"),
        "newest": tw.to_delta(f"{output}/newest", mode="upsert", key="name"),
        "folder": tw.to_files(f"{output}/folder", partition_by="name"),
    }
    if dsn:
        found["postgres"] = tw.to_postgres(dsn, "seen")
    return found


def visits(first: int, many: int) -> list[Visit]:
    return [Visit(f"ü/{n * n % NAMES}", n) for n in range(first, first + many)]


def wanted(many: int) -> list[Seen]:
    """What a plain loop gives."""
    counts: dict[str, int] = {}
    out = []
    for one in visits(0, many):
        counts[one.name] = counts.get(one.name, 0) + 1
        out.append(Seen(one.name, one.n, counts[one.name]))
    return out


def main(arguments: list[str]) -> None:
    source, output, checkpoint, slots, dsn = arguments
    # One worker process a slot, and few of Spark's own tasks.
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    tw.spark.session("local[2]", conf=conf)
    log = tw.delta(source, start="earliest", max_rows=60)
    query = tw.spark.start(
        make_flow(), {"visits": log}, targets(output, dsn),
        checkpoint=checkpoint, slots=int(slots), trigger="available_now",
    )  # fmt: skip
    print("runs", flush=True)
    query.await_termination()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    main(sys.argv[1:])
