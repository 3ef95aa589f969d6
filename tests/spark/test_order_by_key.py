"""``order="key"`` on Spark: the reference's output for every number of slots, across restarts and rescales."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import make_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Click(NamedTuple):
    ts: int
    user: str
    n: int


class Seen(NamedTuple):
    user: str
    ts: int
    n: int


@tw.state
class Open:
    n: int = 0
    timer: tw.Timer = None


def track(state: Open, row: Click) -> Iterator[Seen]:
    state.n += 1
    if row.n % 3:
        state.timer = row.ts + 7
    yield Seen(row.user, row.ts, state.n)


def close(state: Open, key: str, time: int) -> Seen:
    if state.n < 50:
        state.n += 10
        state.timer = time + 2
    return Seen(key, time, -state.n)


def clicks_flow(lateness: int = 15) -> tw.Flow:
    flow = tw.Flow("clicks", compile="never")
    clicks = flow.source("clicks", Click, order_by="ts", lateness=lateness, order="key")
    by_user = clicks.filter(lambda row: row.n != 5, name="some").key_by("user", buckets=8)
    by_user.sessions(10, pages=tw.agg.count()).sink("visits")
    by_user.process(track, state=Open, on_timer=close).sink("seen")
    clicks.late.sink("late")
    return flow


def random_clicks(seed: int, count: int) -> list[Click]:
    chooser = random.Random(seed)
    rows, time = [], 0
    for _ in range(count):
        time += chooser.randint(0, 3)
        back = chooser.choice([0, 0, 0, 2, 5, 12, 40])
        rows.append(Click(time - back, f"u{chooser.randint(0, 9)}", chooser.randint(0, 9)))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("slots", [[1, 1, 1], [2, 3, 1]])
def test_slots_and_restarts(spark: SparkSession, tmp_path: Path, slots: list[int]) -> None:
    """Three starts on one checkpoint, each with its slots, give what one serial run gives; late rows count."""
    flow, rows = clicks_flow(), random_clicks(1, 180)
    expected = testing.reference(flow, {"clicks": rows})
    got: dict[str, list[Any]] = {name: [] for name in expected.sinks}

    def into(name: str) -> Any:
        def add(frame: DataFrame, batch: int) -> None:
            got[name] += [tuple(row) for row in frame.collect()]

        return add

    (tmp_path / "in").mkdir()
    for number, count in enumerate(slots):
        lines = [f"{row.ts},{row.user},{row.n}\n" for row in rows[60 * number : 60 * (number + 1)]]
        (tmp_path / "in" / f"{number}.csv").write_text("ts,user,n\n" + "".join(lines))
        query = tw.spark.start(
            flow,
            {"clicks": tw.spark.files(str(tmp_path / "in"), format="csv")},
            {name: into(name) for name in got},
            checkpoint=str(tmp_path / "checkpoint"),
            slots=count,
            trigger="available_now",
            end="drain" if number == 2 else "keep",
        )
        query.await_termination()
    assert query.counts["clicks"]["late"] == len(expected.sinks["late"]) > 5
    for name, wanted in expected.sinks.items():
        assert got[name] == [tuple(row) for row in wanted], name


def test_one_exchange() -> None:
    """The operators by key run where their rows were put in order: they are not sent once more."""
    assert make_plan(clicks_flow()).depth == 2
