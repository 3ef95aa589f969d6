"""A stream of Redis as the input and the output of a query on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tests.connectors import small_servers

import thalweg as tw


class Row(NamedTuple):
    n: int
    user: int


class Numbered(NamedTuple):
    user: int
    place: int
    n: int


@tw.state
class Count:
    place: int = 0


def number(seen: Count, row: Row) -> Numbered:
    """A running number a user: a lost row leaves a gap, a doubled one a repetition."""
    seen.place += 1
    return Numbered(row.user, seen.place, row.n)


def test_a_query_goes_on_where_it_ended(spark: Any, tmp_path: Path) -> None:
    """From stream to stream; the next start reads what has come since, and nothing twice."""
    flow = tw.Flow("numbered")
    flow.source("rows", Row).key_by("user").process(number, state=Count).sink("out")
    with small_servers.valkey() as server:
        client = server.client
        for upto in (60, 90):
            for n in range(upto - 30 if upto > 60 else 0, upto):
                client.xadd("in", {"n": n, "user": n % 7})
            query = tw.spark.start(
                flow,
                {"rows": tw.redis_stream(server.url, "in", max_rows=25)},
                {"out": tw.to_redis(server.url, "out")},
                checkpoint=str(tmp_path / "ckpt"),
                trigger="available_now",
            )
            query.await_termination()
            rows = [
                {name: int(text) for name, text in one.items()} for _, one in client.xrange("out")
            ]
            assert sorted(row["n"] for row in rows) == list(range(upto))
            for user in range(7):
                places = [row["place"] for row in rows if row["user"] == user]
                assert places == list(range(1, len(places) + 1))
