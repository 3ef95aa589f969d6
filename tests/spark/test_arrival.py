"""The order of arrival of frames, by the bodies of Spark's tasks: one order for the whole input, or the query stops."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from slots_host import SlotsHost

import thalweg as tw
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint.evolution.compare import source_verdict
from thalweg.checkpoint.hosts.plan_manifest import manifest_of
from thalweg.plan.plan import make_plan
from thalweg.spark.reading.arrival import arrival_order


class Entry(NamedTuple):
    """A row of a log of partitions."""

    at: tw.Timestamp
    partition: int
    offset: int


def make_flow(**order: Any) -> tw.Flow:
    flow = tw.Flow("log", compile="never")
    log = flow.source("log", Entry, order_by="at", lateness=10, **order)
    log.sink("sorted")
    log.late.sink("late")
    return flow


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Any]:
    """Makes a host; its state is in a folder of its own."""
    made: list[SlotsHost] = []

    def make(**order: Any) -> SlotsHost:
        made.append(SlotsHost(make_flow(**order), str(tmp_path / str(len(made)))))
        return made[-1]

    yield make
    SlotsHost.forget()


def entry(offset: int, partition: int = 0, at: int = 0) -> Entry:
    return Entry(at or offset, partition, offset)


BACK = r"source 'log': (offset=4) comes in a later batch than (offset=7) in the order of arrival"
AGAIN = r"source 'log': (offset=7) comes again in the order of arrival"
TWICE = r"source 'log': two rows have the same place in the order of arrival, (offset=9)"


@pytest.mark.parametrize(("second", "text"), [([4, 9], BACK), ([7], AGAIN), ([9, 9], TWICE)])
@pytest.mark.parametrize("slots", [1, 2])
def test_no_whole_order(hosts: Any, second: list[int], text: str, slots: int) -> None:
    """A batch that goes back, a place that comes again and one that comes twice stop it, also after a restart."""
    host = hosts(arrival=["offset"])
    host.batch([entry(7), entry(2)], slots=slots)
    host.forget()
    with pytest.raises(tw.DataError, match=re.escape(text)):
        host.batch([entry(offset) for offset in second], slots=slots)
    # The batch was not committed; one that goes on may follow.
    host.batch([entry(8)], slots=slots, ends=True)
    assert [row.offset for row in host.rows["sorted"]] == [2, 7, 8]


def test_advice(hosts: Any) -> None:
    """The error says what to do about a source of partitions."""
    host = hosts(arrival=["partition", "offset"])
    host.batch([entry(1, 0), entry(1, 1)], slots=1)
    with pytest.raises(
        tw.DataError, match=r"(?s)\(partition=0, offset=2\).*lane=.*lanes=\[\.\.\.\]"
    ):
        host.batch([entry(2, 0)], slots=1)


@pytest.mark.parametrize("arrival", [["offset"], ["partition", "offset"]])
def test_each_lane_has_an_order(hosts: Any, arrival: list[str]) -> None:
    """Partitions may be behind each other; within one the offsets must go on."""
    host = hosts(lane="partition", lanes=[0, 1], arrival=arrival)
    host.batch([entry(5, 0), entry(1, 1), entry(4, 0)], slots=1)
    host.batch([entry(2, 1), entry(6, 0)], slots=1)
    host.forget()
    text = "(partition=1, offset=2) comes again in the order of arrival; within each lane of 'partition'"
    with pytest.raises(tw.DataError, match=re.escape(text)):
        host.batch([entry(7, 0), entry(2, 1)], slots=1)


def test_lanes_that_count_from_their_first_row_need_a_whole_order(hosts: Any) -> None:
    """``lanes="arrival"`` is judged in the order of arrival, which a batch must not break."""
    host = hosts(lane="partition", lanes="arrival", arrival=["offset"])
    host.batch([entry(5, 0)], slots=1)
    with pytest.raises(tw.DataError, match="comes in a later batch than"):
        host.batch([entry(2, 1)], slots=1)


@pytest.mark.parametrize("seed", range(4))
def test_any_cuts_of_partitions(hosts: Any, seed: int) -> None:
    """Partitions that are read by pieces of any size give what the serial reference gives, late rows in order, too."""
    chooser = random.Random(seed)
    log = {p: [entry(n, p, n + chooser.randint(0, 30)) for n in range(30)] for p in range(3)}
    order: dict[str, Any] = {"lane": "partition", "lanes": [0, 1, 2], "arrival": ["offset"]}
    rows = [row for mine in log.values() for row in mine]
    wanted = tw.testing.reference(make_flow(**order), {"log": rows})
    host = hosts(**order)
    while any(log.values()):
        batch = []
        for mine in log.values():
            count = chooser.randint(0, 9)
            batch += mine[:count]
            del mine[:count]
        chooser.shuffle(batch)
        if chooser.random() < 0.4:
            host.forget()
        host.batch(batch, slots=chooser.randint(1, 3))
    host.batch([], slots=2, ends=True)
    assert wanted.rows("late")
    for name in ("sorted", "late"):
        assert host.rows[name] == wanted.rows(name)


def test_rows_that_do_not_fit_have_no_place(hosts: Any) -> None:
    """A row of an undeclared lane is rejected; that its place comes again is nobody's business."""
    host = hosts(lane="partition", lanes=[0], arrival=["offset"], errors="reject")
    reports = host.batch([entry(1, 0), entry(1, 7), entry(1, 7)], slots=1, ends=True)
    assert reports[0]["counts"]["log"]["rejected"] == 2
    assert host.rows["sorted"] == [entry(1, 0)]


def test_other_lanes_are_another_flow() -> None:
    """A checkpoint belongs to a declaration of lanes; the order in which they are named does not matter."""

    def differences(kept: manifests.Manifest, new: manifests.Manifest) -> list[str]:
        (name,) = new.sources
        change = source_verdict(name, kept.sources[name], new.sources[name], held=True).change
        return [change.why] if change.is_refused else []

    def manifest(lanes: Any) -> manifests.Manifest:
        return manifest_of(make_plan(make_flow(lane="partition", lanes=lanes)))

    kept = manifests.Manifest.decode(manifest([0, 1]).encode())
    assert not differences(kept, manifest([1, 0]))
    for lanes, text in (([0, 2], "0, 2"), ("arrival", "arrival"), (None, "of the whole input")):
        found = differences(kept, manifest(lanes))
        assert found == [f", lanes: the checkpoint has 0, 1, the flow has {text}"]
    # A checkpoint that says nothing about them has lanes that count from their first row.
    before = json.loads(manifest("arrival").encode())
    del before["sources"]["log"]["lanes"]
    kept = manifests.Manifest.decode(json.dumps(before).encode())
    assert not differences(kept, manifest("arrival"))
    assert differences(kept, manifest([0, 1]))


def test_streams_that_do_not_end(tmp_path: Path) -> None:
    """Lanes of the whole input need an end; the error names both choices."""
    files = tw.spark.files(str(tmp_path), format="json")
    text = r"(?s)trigger='available_now', end='drain'; give lanes=\[\.\.\.\].*or lanes='arrival'"
    runs: list[dict[str, Any]] = [{}, {"end": "drain"}, {"trigger": "available_now"}]
    for run in runs:
        with pytest.raises(tw.BuildError, match=text):
            tw.spark.start(
                make_flow(lane="partition"), {"log": files}, {}, checkpoint=str(tmp_path), **run
            )


def test_narrow_columns() -> None:
    """Columns as Spark's sources have them, say partitions of 32 bits, and lanes that fit no such column."""
    flow = make_flow(lane="partition", lanes=[0, 2**40], arrival=["offset"])
    (source,) = make_plan(flow).sources
    table = pa.table(
        {
            "at": pa.array([3, 2, 1], pa.timestamp("us", "UTC")),
            "partition": pa.array([1, 0, 0], pa.int32()),
            "offset": pa.array([9, 8, 7], pa.int64()),
        }
    )
    last: dict[Any, Any] = {}
    assert arrival_order(source, table, last).column("offset").to_pylist() == [7, 8, 9]
    assert last == {0: [[0, 0], [0, 8]]}
