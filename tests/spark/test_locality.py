"""Learned routing on Spark: other tables in every batch, with rescales and restarts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import kill_driver as driver
import pytest
import witness
from pyspark.sql import SparkSession

import thalweg as tw
from thalweg.checkpoint.paths import resolve
from thalweg.checkpoint.record import latest
from thalweg.checkpoint.routing_files import epochs, save_table
from thalweg.locality import RoutingTable, keyed_operators
from thalweg.plan.plan import make_plan

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def places(folder: Path) -> list[str]:
    return [str(folder / name) for name in ("in", "out", "ckpt")]


@pytest.mark.merge
def test_restless_rescale_restart_off(tmp_path: Path) -> None:
    """Keys move in every batch, the slots change, a restart learns no more: output, state and counts are serial."""
    rows = driver.make_rows(seed=51, count=1_400)
    driver.write_files(tmp_path / "in", rows[:800], 4)
    query = driver.start(*places(tmp_path), slots=2, trigger=None, locality=driver.restless)
    try:
        query.process_all_available()
        first = [one["locality"] for one in query.recent_progress]
        assert first[1]["decision"] == "restless" and first[1]["keys_moved"] > 5
        assert first[2]["epoch"] > first[1]["epoch"] and first[2]["keys_pinned"] > 20
        assert first[1]["bytes_moved"] > 0 and 0 < first[2]["stay_hashed"] < 1
        assert first[2]["imbalance"].keys() == {"number", "track", "per_item", "total"}
        query.rescale(slots=3)
        driver.write_files(tmp_path / "in", rows[800:1_200], 2, first=4)
        query.process_all_available()
        assert query.last_progress["slots"] == 3
    finally:
        query.stop()
    fs, root = resolve(str(tmp_path / "ckpt" / "thalweg"))
    before = latest(fs, root)
    assert before is not None and before.extra["routing"] in epochs(fs, root)
    assert len(epochs(fs, root)) <= 4
    driver.write_files(tmp_path / "in", rows[1_200:], 1, first=6)
    last = driver.start(*places(tmp_path), slots=3, end="drain")
    last.await_termination()
    assert last.recent_progress[0]["locality"]["epoch"] == before.extra["routing"]
    assert last.recent_progress[-1]["locality"]["keys_moved"] == 0
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


def test_a_table_made_offline(tmp_path: Path) -> None:
    """A new checkpoint starts with it; one that has state moves its keys to it, once."""
    rows = driver.make_rows(seed=52, count=600)
    hashed = RoutingTable.hashed(keyed_operators(make_plan(driver.make_flow())), 2)
    table = hashed.placed({("number", user): user % 2 for user in range(40)}, epoch=1)
    save_table(str(tmp_path / "table.json"), table)
    driver.write_files(tmp_path / "in", rows[:200], 1)
    driver.start(*places(tmp_path), slots=2).await_termination()
    driver.write_files(tmp_path / "in", rows[200:], 2, first=1)
    query = driver.start(
        *places(tmp_path), slots=2, end="drain", locality=str(tmp_path / "table.json")
    )
    query.await_termination()
    said = [one["locality"] for one in query.recent_progress]
    assert [one["keys_pinned"] for one in said] == [0, 40, 40]
    assert said[0]["states_moved"] > 5 and said[1]["states_moved"] == 0
    witness.compare(tmp_path / "out", tmp_path / "ckpt", rows, end=True)


class Row(NamedTuple):
    n: int


def test_refused(tmp_path: Path, spark: SparkSession) -> None:
    """A table for other slots, none at all, more slots than buckets, no operator by key, and what is no locality."""
    driver.write_files(tmp_path / "in", driver.make_rows(seed=53, count=20), 1)
    hashed = RoutingTable.hashed(keyed_operators(make_plan(driver.make_flow())), 3)
    save_table(str(tmp_path / "three.json"), hashed)
    three, missing = str(tmp_path / "three.json"), str(tmp_path / "no.json")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"locality": three, "slots": 2}, tw.BuildError, "for 3 slots, and 2 are asked"),
        ({"locality": missing, "slots": 2}, tw.CheckpointError, "no routing table"),
        ({"locality": "online", "slots": 200}, tw.BuildError, "128 buckets"),
        ({"locality": 7, "slots": 2}, tw.BuildError, "got 7"),
        ({"locality": "", "slots": 2}, tw.BuildError, "got ''"),
        ({"locality": tw.locality.Online, "slots": 2}, tw.BuildError, "got <class"),
        ({"locality": tmp_path / "three.json", "slots": 2}, tw.BuildError, "for 3 slots"),
    ]
    for place, (arguments, error, text) in enumerate(wrong):
        checkpoint = str(tmp_path / f"ckpt{place}")
        with pytest.raises(error, match=text):
            driver.start(
                str(tmp_path / "in"), str(tmp_path / f"out{place}"), checkpoint, **arguments
            )
    flow = tw.Flow("plain")
    flow.source("rows", Row).sink("out")
    given = {"rows": tw.spark.files(str(tmp_path / "in"), format="parquet")}
    with pytest.raises(tw.BuildError, match="no operator by key"):
        tw.spark.start(flow, given, {}, checkpoint=str(tmp_path / "ckpt9"), locality="online")


def test_more_slots_than_a_table_can_have(tmp_path: Path) -> None:
    """The call refuses them; the query goes on."""
    driver.write_files(tmp_path / "in", driver.make_rows(seed=55, count=100), 1)
    query = driver.start(*places(tmp_path), slots=2, locality="online", trigger=None)
    try:
        with pytest.raises(tw.BuildError, match=r"129 slots, but operator .* has 128 buckets"):
            query.rescale(slots=129)
        query.process_all_available()
        assert query.last_progress["slots"] == 2
    finally:
        query.stop()


def test_a_lost_table(tmp_path: Path) -> None:
    """Without the file of the table that holds nobody knows where the keys are: the start says so."""
    rows = driver.make_rows(seed=54, count=200)
    driver.write_files(tmp_path / "in", rows[:100], 1)
    driver.start(*places(tmp_path), slots=2, locality="online").await_termination()
    for file in (tmp_path / "ckpt" / "thalweg" / "routing").iterdir():
        file.unlink()
    driver.write_files(tmp_path / "in", rows[100:], 1, first=1)
    query = driver.start(*places(tmp_path), slots=2)
    with pytest.raises(tw.CheckpointError, match=r"routing/1.json is missing"):
        query.await_termination()
