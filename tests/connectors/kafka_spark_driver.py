"""A query over Kafka whose output shows every lost, doubled or misplaced row; the tests kill it.

python kafka_spark_driver.py SERVERS TOPIC OUTPUT CHECKPOINT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import thalweg as tw


class Row(NamedTuple):
    n: int
    user: int
    part: int
    off: int


class Numbered(NamedTuple):
    user: int
    place: int
    n: int
    part: int
    off: int


@tw.state
class Count:
    place: int = 0


def number(seen: Count, row: Row) -> Numbered:
    """A running number a user: a lost row leaves a gap, a doubled one a repetition."""
    seen.place += 1
    return Numbered(row.user, seen.place, row.n, row.part, row.off)


def make_flow() -> tw.Flow:
    flow = tw.Flow("numbered")
    rows = flow.source("rows", Row)
    rows.key_by("user").process(number, state=Count).sink("out")
    rows.sink("copies")
    return flow


def start(servers: str, topic: str, output: Path, checkpoint: Path) -> tw.spark.Query:
    """The query, which ends when it has read what there is."""
    log = tw.kafka(servers, topic, max_rows=400, partition="part", offset="off")
    return tw.spark.start(
        make_flow(),
        {"rows": log},
        {
            "out": tw.spark.parquet(str(output)),
            "copies": tw.to_kafka(servers, f"{topic}-copies"),
        },
        checkpoint=str(checkpoint),
        trigger="available_now",
    )


def main(servers: str, topic: str, output: str, checkpoint: str) -> None:
    session = tw.spark.session("local[2]", conf={"spark.sql.shuffle.partitions": 2})
    query = start(servers, topic, Path(output), Path(checkpoint))
    query.await_termination()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
