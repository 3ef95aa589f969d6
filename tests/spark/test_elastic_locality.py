"""Slots that find themselves, and tables that are learnt: as one run that is routed by hash and left alone.

When the slots change, the batch that has them first makes a table for them (docs/locality.md). Slots change here as a
script says, behind each batch that says anything: under ``slots="auto"`` they follow the time that batches take.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import kill_driver
import moves_driver as driver
import pytest
from test_kill import Run
from test_kill_first_seen import KILLS, PLACES, counts_of, require_one_unit_a_key, rows_of

import thalweg as tw
from thalweg.checkpoint.inspect import read_state
from thalweg.elasticity import BatchCosts

pytestmark = pytest.mark.spark


def require_equal(run: Run, other: Run) -> None:
    """Rows, states and counts are the same, and each key of the run is in one unit, which its table says."""
    for sink in driver.SINKS:
        assert rows_of(run, sink) == rows_of(other, sink), sink
    for name in driver.STATEFUL:
        mine, wanted = (read_state(str(one.folder / "ckpt"), name) for one in (run, other))
        assert mine.to_pylist() == wanted.to_pylist(), name
    assert counts_of(run) == counts_of(other)
    require_one_unit_a_key(run)


def start(run: Run, **arguments: Any) -> tw.spark.Query:
    """The flow over the run's input, one file a batch."""
    files = tw.spark.files(str(run.source), format="parquet", max_files_per_trigger=1)
    sinks = {name: tw.spark.parquet(str(run.folder / "out" / name)) for name in driver.SINKS}
    given: dict[str, Any] = {"trigger": "available_now", "end": "drain"} | arguments
    return tw.spark.start(
        driver.new_keys_host.FLOW, {"clicks": files}, sinks, checkpoint=str(run.folder / "ckpt"), **given
    )  # fmt: skip


@pytest.mark.merge
@pytest.mark.usefixtures("spark")
def test_slots_and_tables_find_themselves(tmp_path: Path) -> None:
    """The batch that has other slots first makes a table for them, in front of a restart and behind it."""
    rows = driver.make_rows(1, 10, 60)
    mine, hashed = (Run(tmp_path / name, tmp_path / "in") for name in ("mine", "hashed"))
    seen = []
    for part, levels, end in ((0, (3, 4), "keep"), (1, (4, 3), "drain")):
        kill_driver.write_files(mine.source, rows[300 * part : 300 * part + 300], 5, first=5 * part)
        slots = tw.spark.Elastic(
            minimum=2, maximum=4, controller=kill_driver.InTurn(*levels), least_rows=1
        )
        query = start(mine, slots=slots, locality=driver.ASKED["learnt"], end=end)
        query.await_termination()
        seen += query.recent_progress
    # Behind a change of slots two batches say nothing: the first moves state, the second keys to their new places.
    assert [one["slots"] for one in seen] == [2, 2, 3, 3, 3, 2, 2, 4, 4, 4, 3]
    assert [one["changes"][0]["after"] for one in seen if len(one["changes"]) == 2] == [3, 4, 4, 3]
    # A driver that begins anew, with the fewest slots, has counted nothing.
    causes = {2: "slots changed", 5: "", 7: "slots changed", 10: "slots changed"}
    for batch, cause in causes.items():
        said = seen[batch]["locality"]
        assert said["decision"].startswith(cause) and bool(said["decision"]) == bool(cause)
        assert bool(said["keys_moved"]) == bool(cause)
    for one, following in itertools.pairwise(seen):
        moved = [change["after"] for change in one["changes"] if change["what"] == "table"]
        if moved and one["slots"] == following["slots"]:
            assert following["locality"]["epoch"] == moved[0]
    start(hashed, slots=2).await_termination()
    require_equal(mine, hashed)


@pytest.mark.usefixtures("spark")
def test_no_more_slots_than_buckets(tmp_path: Path) -> None:
    """A controller may ask for more than a table can have: the query goes on with what there can be."""
    kill_driver.write_files(tmp_path / "in", driver.make_rows(3, 5, 20), 5)
    flow = tw.Flow("few")
    clicks = flow.source("clicks", kill_driver.Click, order_by="ts", lateness="15 seconds")
    by_user = clicks.key_by("user", buckets=2)
    by_user.process(kill_driver.number, state=kill_driver.Count).sink("numbered")
    files = tw.spark.files(str(tmp_path / "in"), format="parquet", max_files_per_trigger=1)
    slots = tw.spark.Elastic(controller=kill_driver.InTurn(2, 4), maximum=4, least_rows=1)
    query = tw.spark.start(
        flow, {"clicks": files}, {}, checkpoint=str(tmp_path / "ckpt"), slots=slots,
        trigger="available_now", locality="online",
    )  # fmt: skip
    query.await_termination()
    assert [one["slots"] for one in query.recent_progress] == [1, 1, 2, 2, 2]


@pytest.mark.usefixtures("spark")
def test_slots_by_the_cost_of_batches(tmp_path: Path) -> None:
    """Another number is tried when it may be worth it, whatever comes of it: the output is that of one slot."""
    rows = driver.make_rows(3, 7, 40)
    kill_driver.write_files(tmp_path / "in", rows, 7)
    flow = tw.Flow("costs")
    clicks = flow.source("clicks", kill_driver.Click, order_by="ts", lateness="15 seconds")
    clicks.key_by("user").process(kill_driver.number, state=kill_driver.Count).sink("numbered")
    files = tw.spark.files(str(tmp_path / "in"), format="parquet", max_files_per_trigger=1)
    # Any saving is worth a trial here: which one is the better takes no part in this.
    slots = tw.spark.Elastic(controller=BatchCosts(worth_trying=0), maximum=2, least_rows=1)
    numbered = tw.spark.memory()
    query = tw.spark.start(
        flow, {"clicks": files}, {"numbered": numbered}, checkpoint=str(tmp_path / "ckpt"), slots=slots,
        trigger="available_now", end="drain",
    )  # fmt: skip
    query.await_termination()
    seen = query.recent_progress
    # The first batch says nothing, two more what one slot costs.
    assert [one["slots"] for one in seen][:4] == [1, 1, 1, 2]
    assert [one["slots_reason"] for one in seen][:2] == ["", ""]
    assert seen[2]["slots_reason"] == seen[2]["changes"][0]["reason"]
    assert "ms with 1, and at best" in seen[2]["slots_reason"]
    expected = tw.testing.reference(flow, {"clicks": rows}, end=True)
    assert numbered.rows == expected.rows("numbered")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An input by hash, in two slots, without a kill."""
    folder = tmp_path_factory.mktemp("hashed")
    kill_driver.write_files(folder / "in", driver.make_rows(2, 14, 80), 14)
    run = Run(folder, folder / "in", program=driver.__file__)
    run.to_the_end(2, "drain")
    return run


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (2, 3))]
)
def test_kills_amid_slots_and_tables(tmp_path: Path, undisturbed: Run, seed: int) -> None:
    """The slots change behind each batch, tables are made for them, and the driver is killed: four times a seed."""
    rng = random.Random(seed)
    run = Run(
        tmp_path, undisturbed.source, locality="learnt", program=driver.__file__, moments=PLACES
    )
    for moment in rng.sample(sorted(KILLS), 4):
        slots = ",".join(map(str, rng.sample((1, 2, 3, 4), 3)))
        assert run.killed(
            rng, tear_log=rng.random() < 0.4, moment=moment, slots=slots, later_s=KILLS[moment]
        ), f"{moment} did not come: all input was processed before"
    run.to_the_end("2,4,3", "drain")
    said = (tmp_path / "stderr.txt").read_text()
    assert said.count("slots changed: ") >= 2, said[-3_000:]
    require_equal(run, undisturbed)
