"""Another number of slots while a query runs and at each start: output and state stay those of a serial run."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import kill_driver as driver
import pytest
import witness
from pyspark.sql import SparkSession
from test_kill import Run
from tests.page.kit import request

import thalweg as tw
from thalweg.checkpoint.hosts.snapshot_file import read_snapshot
from thalweg.checkpoint.inspect import describe, read_state
from thalweg.snapshot import Snapshot
from thalweg.testing.reference_keys import sort_key

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

DEADLINE_S = 120.0


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Polls until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def _check_snapshot(query: Any, checkpoint: Path) -> None:
    """What a query's snapshot says is what it has counted, here and beside the checkpoint."""
    snapshot, last = query.progress(), query.last_progress
    assert (snapshot.host, snapshot.status, snapshot.slots) == ("spark", "running", 3)
    for one in (*snapshot.operators, *snapshot.sources):
        assert one.rows_in == query.counts[one.name].get("in", 0), one.name
        assert one.late == query.counts[one.name].get("late", 0), one.name
    batch = snapshot.batches[-1]
    assert (batch.batch, batch.rows, batch.slots) == (last["batch"], last["rows"], 3)
    parts = [batch.plan_s, batch.run_s, batch.write_s, batch.commit_s]
    assert sum(parts) == pytest.approx(batch.seconds) and batch.run_s > 0
    assert {one.operator: one.rows for one in snapshot.state} == {
        name: one["keys"] for name, one in last["state"].items()
    }
    assert snapshot.keys is not None and snapshot.keys.local_bytes is not None
    for name, slots in snapshot.keys.slot_rows.items():
        assert len(slots) == 3 and sum(slots) == last["operators"][name]["in"], name
    (shown,) = json.loads(request(query.page, "GET", "/now.json")[2])["flows"]
    assert shown["snapshot"]["flow"] == snapshot.flow
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    place = str(checkpoint)
    wait_until(lambda: read_snapshot(place).snapshot.operators == snapshot.operators, "the file")
    assert read_snapshot(place).is_alive


@pytest.mark.merge
def test_two_three_one_kill_five(tmp_path: Path) -> None:
    """2 slots, live to 3, restart with 1, kill -9 amid a run, restart with 5: as without all that."""
    rows = driver.make_rows(seed=11, count=1_500)
    run = Run(tmp_path, tmp_path / "in")
    places = [str(run.source), str(tmp_path / "out"), str(tmp_path / "ckpt")]
    driver.write_files(run.source, rows[:600], 2)
    query = driver.start(*places, slots=2, trigger=None)
    try:
        query.process_all_available()
        query.serve_page(True, control=True)
        assert query.page is not None
        asked = {"action": "rescale", "flow": query.name, "value": 3}
        assert request(query.page, "POST", "/do", body=asked)[0] == 200
        driver.write_files(run.source, rows[600:900], 1, first=2)
        query.process_all_available()
        assert query.last_progress["slots"] == 3
        latency = query.last_progress["latency_s"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
        _check_snapshot(query, tmp_path / "ckpt")
    finally:
        query.stop()
    driver.write_files(run.source, rows[900:1_200], 1, first=3)
    driver.start(*places, slots=1).await_termination()
    driver.write_files(run.source, rows[1_200:], 2, first=4)
    assert run.killed(random.Random(3), tear_log=True, moment="committed", slots=2)
    last = driver.start(*places, slots=5)
    last.await_termination()
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=False)
    last.drain()
    assert last.finished
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


@pytest.mark.short
def test_stop_and_start_without_data(tmp_path: Path) -> None:
    """Starting again without new input runs no batch and changes nothing; the drain comes after."""
    rows = driver.make_rows(seed=12, count=300)
    driver.write_files(tmp_path / "in", rows, 1)
    places = [str(tmp_path / name) for name in ("in", "out", "ckpt")]
    first = driver.start(*places, slots=2)
    first.await_termination()
    before = describe(places[2]).batch
    again = driver.start(*places, slots=3)
    again.await_termination()
    assert (again.name, again.id) == (first.name, first.id)
    assert again.run_id != first.run_id
    assert again.status["message"] == "Stopped"
    assert again.last_progress is None
    assert describe(places[2]).batch == before
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=False)
    last = driver.start(*places, slots=2, end="drain")
    last.await_termination()
    assert last.finished
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)
    with pytest.raises(tw.CheckpointError, match="finished"):
        driver.start(*places, slots=2)


def test_drain_of_a_running_query(tmp_path: Path) -> None:
    """drain() on a query that polls for input: all of it is processed, the timers fire, the query ends."""
    rows = driver.make_rows(seed=13, count=400)
    driver.write_files(tmp_path / "in", rows, 2)
    places = [str(tmp_path / name) for name in ("in", "out", "ckpt")]
    query = driver.start(*places, slots=2, trigger="0 seconds")
    query.drain()
    assert query.finished
    assert not query.is_active
    assert query.await_termination(10)
    assert query.exception() is None
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


class Beat(NamedTuple):
    ts: tw.Timestamp
    device: str
    lane: str


class Silent(NamedTuple):
    device: str
    last: tw.Timestamp


@tw.state
class Last:
    timer: tw.Timer
    ts: int = 0


def beat(last: Last, row: Beat) -> None:
    last.ts = row.ts
    last.timer = row.ts + tw.minutes(1)


def silent(last: Last, device: str, time: tw.Timestamp) -> Silent:
    return Silent(device, last.ts)


def watch(lane: str | None = None) -> tw.Flow:
    flow = tw.Flow("watch")
    lanes: dict[str, Any] = {} if lane is None else {"lane": lane, "lanes": "arrival"}
    beats = flow.source("beats", Beat, order_by="ts", lateness="10 seconds", **lanes)
    beats.late.sink("late")
    beats.key_by("device").process(beat, state=Last, on_timer=silent).sink("silent")
    return flow


def write_beats(folder: Path, name: str, *rows: tuple[int, str, str]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [
        f'{{"ts": {s * 1_000_000}, "device": "{d}", "lane": "{lane}"}}\n' for s, d, lane in rows
    ]
    hidden = folder / f".{name}"
    hidden.write_text("".join(lines))
    hidden.rename(folder / name)


def start_watch(tmp_path: Path, slots: int, lane: str | None = None) -> tw.spark.Query:
    files = tw.spark.files(str(tmp_path / "in"), format="json", epoch_unit="us")
    sinks = {"silent": tw.spark.memory(), "late": tw.spark.memory()}
    return tw.spark.start(
        watch(lane), {"beats": files}, sinks, checkpoint=str(tmp_path / "ckpt"), slots=slots
    )


@pytest.mark.parametrize("slots", [1, 2])
def test_tick(tmp_path: Path, slots: int) -> None:
    """tick(now) releases what waits up to now minus the lateness and fires the timers below, without rows."""
    write_beats(tmp_path / "in", "a.json", (0, "x", "l"), (5, "y", "l"))
    query = start_watch(tmp_path, slots)
    try:
        query.process_all_available()
        assert query.sink("silent").rows == []
        query.tick(71 * 1_000_000)
        query.process_all_available()
        assert query.sink("silent").rows == [Silent("x", 0)]
        write_beats(tmp_path / "in", "b.json", (60, "x", "l"), (61, "y", "l"))
        query.process_all_available()
        assert [row.device for row in query.sink("late").rows] == ["x"]
        assert query.counts["beats"]["late"] == 1
    finally:
        query.stop()
    assert query.exception() is None


def test_tick_before_the_first_row_of_any_lane(tmp_path: Path) -> None:
    """A tick in front of all rows must not leave a lane behind that holds the clock for ever."""
    (tmp_path / "in").mkdir()
    query = start_watch(tmp_path, 1, lane="lane")
    try:
        query.tick(1_000_000)
        query.process_all_available()
        write_beats(tmp_path / "in", "a.json", (100, "x", "p"), (100, "y", "q"), (300, "z", "p"))
        write_beats(tmp_path / "in", "b.json", (301, "z", "q"))
        query.process_all_available()
        assert query.sink("silent").rows == [Silent("x", 100_000_000), Silent("y", 100_000_000)]
    finally:
        query.stop()


def test_a_command_that_is_being_written(tmp_path: Path) -> None:
    """A file in the control folder that is not whole yet is not a command."""
    write_beats(tmp_path / "in", "a.json", (0, "x", "l"))
    control = tmp_path / "ckpt" / "thalweg" / "control"
    control.mkdir(parents=True)
    (control / "1-a.json.0a1b2c.tmp").write_text('{"comm')
    query = start_watch(tmp_path, 1)
    query.drain()
    assert query.sink("silent").rows == [Silent("x", 0)]


def test_two_queries_at_once(tmp_path: Path) -> None:
    """Two queries of one session, of one flow, with checkpoints of their own, do not mix."""
    both = []
    for number, slots in ((21, 1), (22, 2)):
        rows = driver.make_rows(seed=number, count=300)
        driver.write_files(tmp_path / f"in{number}", rows, 2)
        places = [str(tmp_path / f"{name}{number}") for name in ("in", "out", "ckpt")]
        query = driver.start(*places, slots=slots, end="drain")
        both.append((number, rows, query))
    for number, rows, query in both:
        query.await_termination()
        witness.compare(tmp_path / f"out{number}", tmp_path / f"ckpt{number}", rows, end=True)


def test_stop_amid_a_batch(tmp_path: Path, spark: SparkSession) -> None:
    """stop() gives the running batch up without an error; the next start repeats it, nothing is lost."""
    rows = driver.make_rows(seed=14, count=600)
    driver.write_files(tmp_path / "in", rows, 3)
    places = [str(tmp_path / name) for name in ("in", "out", "ckpt")]
    for batch in range(2):
        query = driver.start(*places, slots=2)
        offsets = tmp_path / "ckpt" / "spark" / "offsets" / str(batch)
        wait_until(lambda: offsets.exists() or not query.is_active, f"batch {batch}")  # noqa: B023
        assert query.exception() is None and offsets.exists()
        query.stop()
        assert query.exception() is None
        assert query.await_termination(10)
    driver.start(*places, slots=1, end="drain").await_termination()
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


@pytest.mark.merge
def test_slots_that_find_themselves(tmp_path: Path) -> None:
    """A controller moves the slots 1, 3, 2, 4 between batches; then they are set by hand, and a start has others."""
    rows = driver.make_rows(seed=12, count=1_600)
    source = tmp_path / "in"
    source.mkdir()
    places = [str(source), str(tmp_path / "out"), str(tmp_path / "ckpt")]
    slots = tw.spark.Elastic(controller=driver.InTurn(3, 2, 4), maximum=4, least_rows=1)
    query = driver.start(*places, slots=slots, trigger=None)
    seen = []
    try:
        for number in range(8):
            if number == 7:
                query.rescale(slots=1, reason="night has come")
                told = query.progress().changes[-1]
                assert (told.before, told.after, told.reason) == (4, 1, "night has come")
                assert told.seconds >= query.progress().changes[-2].seconds
            driver.write_files(source, rows[200 * number : 200 * number + 200], 1, first=number)
            query.process_all_available()
            seen += [p["slots"] for p in query.recent_progress if p["rows"]][len(seen) :]
        changes = [one for p in query.recent_progress for one in p["changes"]]
        assert [one.after for one in query.progress().changes] == [3, 2, 4, 1]
    finally:
        query.stop()
    query = driver.start(*places, slots=2, end="drain")
    query.await_termination()
    assert [one.reason for one in query.progress().changes] == ["started with 2 slots"]
    assert seen == [1, 1, 3, 3, 2, 2, 4, 1]
    assert [(one["what"], one["before"], one["after"]) for one in changes] == [
        ("slots", 1, 3), ("slots", 3, 2), ("slots", 2, 4), ("slots", 4, 1),
    ]  # fmt: skip
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


def test_small_batches_change_nothing(tmp_path: Path) -> None:
    rows = driver.make_rows(seed=13, count=400)
    driver.write_files(tmp_path / "in", rows, 2)
    places = [str(tmp_path / "in"), str(tmp_path / "out"), str(tmp_path / "ckpt")]
    query = driver.start(*places, slots="auto")
    query.await_termination()
    assert query.last_progress["slots"] == 1 and query.last_progress["changes"] == []
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=False)


class Offer(NamedTuple):
    ts: tw.Timestamp
    item: str | None
    price: int


def offers(within: str = "40 seconds") -> tw.Flow:
    """A join of two streams; some rows have no key, and the keys of others come no more."""
    flow = tw.Flow("offers", compile="never")
    bids, asks = (
        flow.source(name, Offer, order_by="ts", lateness="5 seconds") for name in ("bids", "asks")
    )
    bids.join(asks, on="item", within=within, how="left").sink("met")
    return flow


def made_offers(seed: int, count: int) -> list[Offer]:
    """Rows in nearly the order of their times, of items that change as time goes on."""
    chooser = random.Random(seed)
    return [
        Offer(
            (i * 2 + chooser.randrange(4)) * 1_000_000,
            None if chooser.random() < 0.1 else f"item {i // 40 + chooser.randrange(6)}",
            i,
        )
        for i in range(count)
    ]


@pytest.mark.short
def test_joins_in_one_three_two_slots(tmp_path: Path) -> None:
    """A join's rows go where their keys go: its pairs and its state are those of a serial run."""
    inputs = {"bids": made_offers(1, 240), "asks": made_offers(2, 240)}
    sink = tw.spark.memory()

    def run(first: int, slots: int, **options: Any) -> None:
        for name, rows in inputs.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            lines = [json.dumps(row._asdict()) + "\n" for row in rows[first : first + 80]]
            (folder / f"{first}.json").write_text("".join(lines))
        files = {
            name: tw.spark.files(str(tmp_path / name), format="json", epoch_unit="us")
            for name in inputs
        }
        query = tw.spark.start(
            offers(), files, {"met": sink}, checkpoint=str(tmp_path / "ckpt"), slots=slots,
            trigger="available_now", **options,
        )  # fmt: skip
        query.await_termination()

    for first, slots in ((0, 1), (80, 3), (160, 2)):
        run(first, slots)
        seen = {name: rows[: first + 80] for name, rows in inputs.items()}
        expected = tw.testing.reference(offers(), seen, end=False)
        assert sink.rows == expected.sinks["met"]
        found = read_state(str(tmp_path / "ckpt"), "join").to_pydict()
        states = expected.states["join"]
        assert found["item"] == sorted(states, key=sort_key) and states
        for side in ("left", "right"):
            for key, rows in zip(found["item"], found[side], strict=True):
                held = [one.price for one in getattr(states[key], side)]
                # In files there may be rows before these that can meet none any more.
                assert [one["price"] for one in rows][len(rows) - len(held) :] == held
    run(240, 2, end="drain")
    assert sink.rows == tw.testing.reference(offers(), inputs).sinks["met"]
    assert read_state(str(tmp_path / "ckpt"), "join").num_rows == 0
