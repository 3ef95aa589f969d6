"""Keys placed when they come for the first time: whatever is placed and freed, output and state are serial."""

from __future__ import annotations

import gzip
import itertools
import os
import shutil
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import kill_driver as driver
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from new_keys_host import FLOW, Driver, see
from slots_host import SlotsHost, check
from tests.sizes import sized
from thalweg_lab.figures.caneill.samples import LogLine, count_request, request
from thalweg_lab.figures.caneill.samples import SampleCount as Requests

import thalweg as tw
from thalweg import data
from thalweg.locality.links import foreseen_links, links_of
from thalweg.plan.plan import make_plan
from thalweg.spark.keys import known_keys, locality
from thalweg.spark.keys.new_keys import NewKeysOfBatches, PrepassPace
from thalweg.testing.reference import run_reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = st.lists(
    st.tuples(
        st.integers(1, 4),  # slots
        st.booleans(),  # whether keys move behind the batch
        st.booleans(),  # whether the batch is lost first
        st.booleans(),  # whether driver and workers are new then
    ),
    min_size=3,
    max_size=7,
)


@settings(max_examples=sized(12, 4), deadline=None)
@given(st.integers(0, 10_000), STEPS, st.sampled_from([20, 60, 10_000]))
def test_random_batches(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    steps: list[tuple[int, bool, bool, bool]],
    pins: int,
) -> None:
    """Any batches, rescales, moves, lost tries and new drivers, little room for pins or much: as the serial run."""
    folder = tmp_path_factory.mktemp("first")
    rows = driver.make_rows(seed, 60 * len(steps))
    made = Driver(folder, pins)
    for place, (slots, moves, lost, new) in enumerate(steps):
        part, ends = rows[60 * place : 60 * place + 60], place == len(steps) - 1
        if lost:
            made.run(part, slots, moves=not moves, commit=False, ends=ends)
        if new:
            made.host.forget()
            made.begin()
        made.run(part, slots, moves=moves, ends=ends)
    assert made.placings[0].keys
    check(FLOW, made.host, folder, rows)


@pytest.mark.parametrize("threads", [1, 2])
def test_placed_once_and_freed(tmp_path: Path, threads: int) -> None:
    """Keys are placed when they are new and then never again; where there is no room, idle pins go first."""
    rows = driver.make_rows(3, 400)
    made = Driver(tmp_path, 90, threads)
    for place in range(8):
        made.run(rows[50 * place : 50 * place + 50], 2, moves=False, ends=place == 7)
    placed = [end for one in made.placings for end in one.keys]
    freed = {end for one in made.placings for end in one.freed}
    kept = [end for end in placed if end not in freed]
    assert len(kept) == len(set(kept)) and len(placed) > 100
    # Windows that are over, and keys of rows that still wait.
    assert any(name == "windows" for name, _ in freed)
    assert any(one.left for one in made.placings)
    check(FLOW, made.host, tmp_path, rows)


def test_too_much_state_to_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the keys with state are too many to be told apart, none is placed, and nothing is lost."""
    rows = driver.make_rows(4, 120)
    made = Driver(tmp_path, 10_000)
    made.run(rows[:60], 2, moves=False)
    monkeypatch.setattr(made.keys._known, "_most", 10)
    made.run(rows[60:], 2, moves=False, ends=True)
    assert made.placings[0].keys and not made.placings[1].keys
    check(FLOW, made.host, tmp_path, rows)


def test_keys_with_state_are_known(tmp_path: Path) -> None:
    """By the files alone: a driver that is new knows every key that has state, whichever slot and batch wrote it."""
    rows = driver.make_rows(6, 180)
    made = Driver(tmp_path, 40)
    for place, slots in enumerate((2, 1, 3)):
        made.run(rows[60 * place : 60 * place + 60], slots, moves=True)
    known = known_keys.KnownKeys(made.host.plan, made.host.store.fs, made.host.store.root)
    assert known.follow(made.host.record)
    spec = made.keys._new_keys.specs["number"]
    ever = sorted({row.user for row in rows})
    has = known.has("number", spec.hashes(spec.columns_of(ever), len(ever)))
    numbered = {row.user for row in made.host.rows["seen"]}
    assert {user for user, one in zip(ever, has.tolist(), strict=True) if one} == numbered
    assert known.follow(None) and not len(known)


def test_pace() -> None:
    """All batches while keys are placed; after one with few, 1, 2, 4, 8, 8, … are passed over."""
    pace = PrepassPace()
    shares = iter([0.3, 0.01, 0.009, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5])
    due = []
    for _ in range(33):
        due.append(pace.is_due())
        if due[-1]:
            pace.found(next(shares))
    looked = [place for place, one in enumerate(due) if one]
    assert looked == [0, 1, 2, 4, 7, 12, 21, 30, 31, 32]


def test_nothing_new_is_looked_for_less_often(tmp_path: Path) -> None:
    """The same keys again and again: a pre-pass that places none is followed by batches without one."""
    rows = driver.make_rows(6, 60)
    made = Driver(tmp_path, 10_000)
    due = []
    for _ in range(6):
        due.append(made.keys.is_due())
        if due[-1]:
            made.run(rows, 2, moves=False)
    assert due == [True, True, False, True, False, False]
    assert made.placings[0].keys and not made.placings[1].keys


def test_failing_rows_are_the_batchs_affair(tmp_path: Path) -> None:
    """A function that raises in the pre-pass gives no pairs there; the batch tells the error."""

    def bad(row: driver.Click) -> driver.Click:
        raise ValueError("bad")

    flow = tw.Flow("bad")
    clicks = flow.source("clicks", driver.Click).map(bad)
    numbered = clicks.key_by("user").process(driver.number, state=driver.Count)
    numbered.key_by("item").process(see, state=driver.Count).sink("seen")
    host = SlotsHost(flow, str(tmp_path))
    keys = NewKeysOfBatches(host.plan, host.store.fs, host.store.root)
    rows = driver.make_rows(1, 10)
    assert host.pairs(rows, keys.reads).num_rows == 0
    with pytest.raises(tw.OperatorError, match="bad"):
        host.batch(rows, slots=2)


# -- what can be foreseen ----------------------------------------------------------------------------------


def test_foreseen() -> None:
    """Links whose keys the first records carry by name; of the others, why they are not."""
    found, reasons = foreseen_links(make_plan(FLOW))
    assert [one.link for one in found] == [("number", "see"), ("windows", "add")]
    assert not reasons
    plan = make_plan(driver.make_flow())
    found, reasons = foreseen_links(plan)
    assert not found and reasons.keys() == set(links_of(plan))
    assert "computed by a function" in reasons["track", "total"]


def test_refused(tmp_path: Path) -> None:
    """A flow of which nothing can be foreseen."""
    host = SlotsHost(driver.make_flow(), str(tmp_path))
    with pytest.raises(tw.BuildError, match="key of total is computed by a function"):
        NewKeysOfBatches(host.plan, host.store.fs, host.store.root)


def test_pairs_of_a_batch(tmp_path: Path) -> None:
    """Each pair once, with its tuples, rows that wait for their time included; the same from call to call."""
    host = SlotsHost(FLOW, str(tmp_path))
    keys = NewKeysOfBatches(host.plan, host.store.fs, host.store.root)
    rows = driver.make_rows(8, 90)
    found = host.pairs(rows, keys.reads)
    again = host.pairs(rows, keys.reads)
    assert isinstance(found, pa.Table) and found.equals(again)
    links = found.group_by("link").aggregate([("tuples", "sum")]).to_pydict()
    on_time = len(rows) - len(run_reference(FLOW, {"clicks": rows}, end=True).sinks["late"])
    assert dict(zip(links["link"], links["tuples_sum"], strict=True)) == {0: on_time, 1: on_time}


# -- on Spark ----------------------------------------------------------------------------------------------


def requests_flow() -> tw.Flow:
    flow = tw.Flow("requests")
    first = flow.source("lines", LogLine).map(request).key_by("client")
    counted = first.process(count_request, state=Requests, name="client")
    counted.key_by("path").process(count_request, state=Requests, name="path").sink("out")
    return flow


def write_log(folder: Path, files: int) -> list[str]:
    """The bundled access log in so many files; its lines."""
    folder.mkdir()
    with gzip.open(data.path("web_log"), "rt") as file:
        lines = file.read().splitlines()
    for place in range(files):
        part = lines[len(lines) * place // files : len(lines) * (place + 1) // files]
        path = folder / f"{place:03}.txt"
        path.write_text("\n".join(part) + "\n")
        os.utime(path, (1_700_000_000 + place,) * 2)
    return lines


@pytest.mark.merge
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_requests_stay_in_their_slot(tmp_path: Path) -> None:
    """A table from an access log's first half, new keys placed in the second: 65 % stay there; hashed, a sixth.

    Behind that, and behind a rescale, the first requests come again.
    """
    lines = write_log(tmp_path / "in", 8)
    parts = [tmp_path / "in" / f"{place:03}.txt" for place in range(8)]
    hide(parts[4:])
    sink = tw.spark.memory()
    query = start_requests(tmp_path, sink, first_seen=False)
    try:
        query.process_all_available()
        query.tick(0)  # a batch without rows, in front of which the table is made
        query.process_all_available()
        assert "used" in query.last_progress["locality"]["decision"]
    finally:
        query.stop()
    show(parts[4:])
    query = start_requests(tmp_path, sink, first_seen=True)
    try:
        query.process_all_available()
        said = [one["locality"] for one in query.recent_progress]
        query.rescale(slots=3)
        shutil.copy(parts[0], tmp_path / "in" / "again.txt")
        query.process_all_available()
        assert query.last_progress["slots"] == 3
    finally:
        query.stop()
    means = {name: mean(one[name] for one in said) for name in ("stay", "stay_hashed")}
    worst = {name: mean(max(one[name].values()) for one in said) for name in BALANCE}
    print({name: round(found, 3) for name, found in (means | worst).items()})
    assert means["stay"] >= 0.65 and means["stay_hashed"] < 0.2
    assert said[0]["keys_placed"] > 50 and said[0]["pre_pass_s"] > 0
    lines += lines[: len(lines) // 8]
    assert sink.rows == [one for line in lines if (one := request(LogLine(line))) is not None]


def test_a_query_tries_whether_it_pays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left to itself it looks at three batches, says what it found, and goes on by that; output is the same. In one
    process, where nothing goes over a network, it is not tried."""
    (tmp_path / "in").mkdir()
    with gzip.open(data.path("web_log"), "rt") as file:
        lines = list(itertools.islice(file, 900))
    for part in range(9):
        text = "".join(lines[100 * part : 100 * part + 100])
        (tmp_path / "in" / f"{part}.txt").write_text(text)
    monkeypatch.setattr(locality, "_is_one_process", lambda _: False)
    sink = tw.spark.memory()
    query = start_requests(tmp_path, sink, first_seen=None)
    try:
        query.process_all_available()
        said = [one["locality"] for one in query.recent_progress]
    finally:
        query.stop()
    assert ["keys_placed" in one for one in said][:8] == [False] * 5 + [True] * 3
    assert said[6]["first_seen"] == "new keys go by hash: not tried yet"
    assert "of the pairs had keys to place, a look took" in said[7]["first_seen"]
    pays = said[7]["first_seen"].startswith("new keys are placed")
    assert ("keys_placed" in said[8]) == pays
    assert sink.rows == [one for line in lines if (one := request(LogLine(line))) is not None]
    monkeypatch.undo()
    query = start_requests(tmp_path, sink, first_seen=None)
    try:
        query.process_all_available()
        shutil.copy(tmp_path / "in" / "0.txt", tmp_path / "in" / "again.txt")
        query.process_all_available()
        assert "first_seen" not in query.last_progress["locality"]
    finally:
        query.stop()


BALANCE = ("imbalance", "imbalance_hashed")


def start_requests(folder: Path, sink: Any, *, first_seen: bool | None) -> tw.spark.Query:
    files = tw.spark.files(str(folder / "in"), format="text", max_files_per_trigger=1)
    return tw.spark.start(
        requests_flow(),
        {"lines": files},
        {"out": sink},
        checkpoint=str(folder / "ckpt"),
        slots=6,
        # Clients come some times only: moving one for a tuple each would not be worth it.
        locality=tw.locality.Online(every=4, move_cost=0.5, first_seen=first_seen),
    )


def hide(files: list[Path]) -> None:
    """Spark does not see files with such names."""
    for path in files:
        path.rename(path.with_name(f".{path.name}"))


def show(files: list[Path]) -> None:
    for path in files:
        path.with_name(f".{path.name}").rename(path)
