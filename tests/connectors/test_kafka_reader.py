"""What a reader of Kafka makes of any broker: order, gaps, losses, new partitions, start; the broker is in memory."""

from __future__ import annotations

import logging
import random
from typing import Any, NamedTuple

import pytest
from tests.sizes import sized

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from confluent_kafka import TopicPartition
from tests.connectors.kafka_fake import FakeBroker, FakeClient

import thalweg as tw
from thalweg.connectors.contracts import never
from thalweg.connectors.kafka import fetching
from thalweg.connectors.logs import LogReader, Positions
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import make_plan


class Row(NamedTuple):
    n: int
    part: int
    off: int
    at: tw.Timestamp


OPTIONS: dict[str, Any] = {"partition": "part", "offset": "off", "timestamp": "at"}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker()
    made.install(monkeypatch)
    return made


def source(record: type = Row, **how: Any) -> Source:
    flow = tw.Flow("f")
    flow.source("rows", record, **how).sink("out")
    return make_plan(flow).sources[0]


ROWS = source()


def opened(topic: Any = "t", **options: Any) -> LogReader:
    return tw.kafka("broker:1", topic, **{**OPTIONS, **options}).open()


def read(reader: LogReader, start: Positions, end: Positions, node: Source = ROWS) -> list[Any]:
    chunks = [chunk for chunk, _ in reader.read(node, start, end, 7, never())]
    assert all(len(chunk) <= 7 for chunk in chunks)
    return [row for chunk in chunks for row in chunk.rows()]


def all_rows(reader: LogReader, node: Source = ROWS) -> list[Any]:
    start = reader.begin()
    return read(reader, start, reader.end(start), node)


def merged(rows: list[Row]) -> list[Row]:
    """Rows of a span in the order that docs/order.md says."""
    clocks: dict[int, int] = {}
    keyed = []
    for row in sorted(rows, key=lambda row: (row.part, row.off)):
        clocks[row.part] = max(clocks.get(row.part, 0), row.at)
        keyed.append((clocks[row.part], row.part, row.off, row))
    return [one[-1] for one in sorted(keyed)]


def test_the_order_of_a_span_follows_from_the_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However messages come, with gaps, ties and times that go back; also where lanes rest that are far ahead."""
    for seed in range(sized(40)):
        draw = random.Random(seed)
        broker = FakeBroker(seed)
        broker.install(monkeypatch)
        for name in ("MANY", "FEW"):
            monkeypatch.setattr(fetching, name, draw.choice([1, 3, 50_000]))
        broker.create("t", parts := draw.randrange(1, 5), first=draw.randrange(3))
        for n in range(draw.randrange(80)):
            part = draw.randrange(parts)
            if draw.random() < 0.2:
                broker.skip("t", part, draw.randrange(4))
            broker.send("t", part, b'{"n": %d}' % n, draw.randrange(12))
        reader = opened()
        start = reader.begin()
        end = reader.end(start)
        whole = read(reader, start, end)
        assert whole == merged(whole)
        assert len(whole) == sum(len(part.messages) for part in broker.parts.values())
        # The same in parts: each is merged by itself, and nothing is read twice or left out.
        rows, at = [], start
        while at != end:
            upto = reader.upto(at, end, draw.randrange(1, 20))
            part_rows = read(reader, at, upto)
            assert part_rows == merged(part_rows)
            rows += part_rows
            at = upto
        assert sorted(rows) == sorted(whole)
        # And again, by another reader: the same rows in the same order.
        assert read(opened(), start, end) == whole


def test_the_broker_in_memory_hands_over_all_that_it_counts_as_read(broker: FakeBroker) -> None:
    """However few messages are asked for at once: a client's place never moves past one that it keeps."""
    broker.create("t", 4)
    sent = [(n % 4, n // 4) for n in range(40)]
    for n in range(40):
        broker.send("t", n % 4, b"%d" % n)
    for most in (1, 2, 3, 8_192):
        client = FakeClient(broker)
        client.incremental_assign([TopicPartition("t", part, 0) for part in range(4)])
        found: list[Any] = []
        ended: set[int] = set()
        for _ in range(1_000):
            got = client.consume(most, 0.0)
            assert len(got) <= most
            found += [(one.partition(), one.offset()) for one in got if one.error() is None]
            ended |= {one.partition() for one in got if one.error() is not None}
        assert ended == set(range(4))
        assert sorted(found) == sorted(sent)
        for part in range(4):
            assert [offset for one, offset in found if one == part] == list(range(10))


def test_a_tail_without_messages_ends(broker: FakeBroker) -> None:
    """The last offsets may be marks of a transaction."""
    broker.create("t", 2)
    broker.send("t", 0, b'{"n": 1}')
    broker.skip("t", 0, 3)
    broker.skip("t", 1, 2)
    reader = opened()
    start = reader.begin()
    assert reader.end(start) == {"t/0": 4, "t/1": 2}
    assert [row.n for row in all_rows(reader)] == [1]


def test_what_is_ahead_stays_for_the_next_span(broker: FakeBroker) -> None:
    """A span that goes on where the last one ended reads nothing again."""
    broker.create("t")
    for n in range(20):
        broker.send("t", 0, b'{"n": %d}' % n)
    reader = opened()
    found = []
    for at in range(0, 20, 4):
        found += read(reader, {"t/0": at}, {"t/0": at + 4})
    assert [row.n for row in found] == list(range(20))
    assert len(broker.assigned) < 5
    assert [row.n for row in read(reader, {"t/0": 3}, {"t/0": 5})] == [3, 4]


def test_new_partitions_and_topics_are_read_from_their_first_message(broker: FakeBroker) -> None:
    """While it runs; of a pattern new topics, too. An idle partition has no part in it."""
    broker.create("orders-a", 2)
    reader = opened("^orders-")
    start = reader.begin()
    assert start == {"orders-a/0": 0, "orders-a/1": 0}
    broker.create("orders-a", 3)
    broker.create("orders-b", 1)
    broker.create("other", 1)
    broker.send("orders-a", 2, b'{"n": 1}', 5)
    broker.send("orders-b", 0, b'{"n": 2}', 4)
    end = reader.end(start)
    assert end == {"orders-a/0": 0, "orders-a/1": 0, "orders-a/2": 1, "orders-b/0": 1}
    assert [row.n for row in read(reader, start, end)] == [2, 1]
    both = opened(["orders-b", "orders-a"])
    assert [row.n for row in all_rows(both)] == [2, 1]


def test_where_a_run_begins(broker: FakeBroker) -> None:
    """At an end, at a time, at offsets; the time is rounded up to Kafka's milliseconds."""
    broker.create("t", 2)
    for n in range(4):
        broker.send("t", 0, b'{"n": %d}' % n, 1_000 * n)
    for start, expected in (
        ("earliest", {"t/0": 0, "t/1": 0}),
        ("latest", {"t/0": 4, "t/1": 0}),
        ("1970-01-01T00:00:02", {"t/0": 2, "t/1": 0}),
        (1_000_001, {"t/0": 2, "t/1": 0}),
        ({0: 3}, {"t/0": 3, "t/1": 0}),
        ({"t/1": 0}, {"t/0": 0, "t/1": 0}),
    ):
        assert opened(start=start).begin() == expected, start
    with pytest.raises(tw.DataError, match="there is no partition t/7; there are t/0, t/1"):
        opened(start={7: 0}).begin()
    with pytest.raises(tw.EnvironmentProblem, match="broker:1 has no topic 'nix'"):
        opened("nix").begin()


def lose(broker: FakeBroker, how: str) -> dict[str, Any]:
    """Loses messages before offset 5 of ten; gives positions inside of them."""
    broker.create("t", 2)
    broker.ids["t"] = "one"
    for n in range(10):
        broker.send("t", 0, b'{"n": %d}' % n)
    since = dict(opened().begin()) | {"t/0": 2}
    if how == "retention":
        broker.cut("t", 0, 5)
        return since
    broker.delete("t")
    if how == "deleted":
        return since
    broker.create("t", 2)
    for n in range(1 if how == "shorter" else 10):
        broker.send("t", 0, b'{"n": %d}' % (100 + n))
    if how == "renewed":
        broker.ids["t"] = "two"
    return since


LOSSES = {
    "retention": ("offsets 2 to 4 cannot be read any more: retention has removed all before 5", [5, 6, 7, 8, 9]),
    "deleted": ("offset 2 cannot be read any more: it is not there any more", []),
    "shorter": ("offset 2 cannot be read any more: it ends at 1: it was cut, or", [100]),
    "renewed": ("offset 2 cannot be read any more: the topic was deleted and made again", list(range(100, 110))),
}  # fmt: skip


def test_what_is_lost_is_named_or_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention, a deleted topic, one that was made again, with more rows or fewer: an error, or a warning."""
    for how, (told, rest) in LOSSES.items():
        broker = FakeBroker()
        broker.install(monkeypatch)
        since = lose(broker, how)
        reader = opened()
        with pytest.raises(tw.DataError, match="topic 't' partition 0: " + told) as error:
            reader.end(since)
        assert "on_loss='skip'" in str(error.value)
        caplog.clear()
        reader = opened(on_loss="skip")
        with caplog.at_level(logging.WARNING, "thalweg"):
            end = reader.end(since)
            rows, at = [], since
            while at != end:
                upto = reader.upto(at, end, 3)
                rows += read(reader, at, upto)
                at = dict(upto)
        assert [row.n for row in rows] == rest, how
        assert "topic 't' partition 0: offset" in caplog.text, how
        assert reader.end(at) == end
        if how == "deleted":
            broker.create("t")
            broker.send("t", 0, b'{"n": 7}')
            assert [row.n for row in read(reader, at, reader.end(at))] == [7]


def test_what_is_lost_while_it_is_read(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the look at the ends and the reading retention may come."""
    broker.create("t", 2)
    for n in range(10):
        broker.send("t", n % 2, b'{"n": %d}' % n)
    start, end = {"t/0": 0, "t/1": 0}, {"t/0": 5, "t/1": 5}
    broker.cut("t", 0, 3)
    with pytest.raises(tw.DataError, match="partition 0: offsets 0 to 2 cannot be read any more"):
        read(opened(), start, end)
    with caplog.at_level(logging.WARNING, "thalweg"):
        rows = read(opened(on_loss="skip"), start, end)
    assert sorted(row.n for row in rows) == [1, 3, 5, 6, 7, 8, 9]
    assert "skipped 3 messages" in caplog.text
    broker.delete("t")
    with pytest.raises(tw.DataError, match="the topic 't' is not there any more"):
        read(opened(), start, end)
    assert read(opened(on_loss="skip"), start, end) == []


class Poison(NamedTuple):
    n: int


def test_a_message_that_does_not_fit_is_named(broker: FakeBroker) -> None:
    """By topic, partition and offset."""
    broker.create("t", 2)
    broker.send("t", 1, b'{"n": 1}')
    broker.send("t", 1, b'{"n": "x"}')
    broker.send("t", 1, None)
    reader = opened(partition=None, offset=None, timestamp=None)
    with pytest.raises(
        tw.DataError, match="'rows': topic 't' partition 1 offset 1 does not fit Poison: n:"
    ):
        all_rows(reader, source(Poison))
    kept = source(Poison, errors="reject")
    fed = list(reader.read(kept, {}, {"t/0": 0, "t/1": 3}, 7, never()))
    assert [place for _, bad in fed for _, place, _ in bad] == [
        "topic 't' partition 1 offset 1",
        "topic 't' partition 1 offset 2",
    ]
    skips = opened(partition=None, offset=None, timestamp=None, tombstones="skip")
    fed = list(skips.read(kept, {}, {"t/1": 3}, 7, never()))
    assert sum(len(bad) for _, bad in fed) == 1


class Header(NamedTuple):
    name: str
    value: bytes | None


class Beside(NamedTuple):
    topic: str
    part: int
    off: int
    at: tw.Timestamp | None
    key: str | None
    raw: list[Header]
    value: bytes | None


class Named(NamedTuple):
    trace: str | None
    value: bytes | None


def test_what_stands_beside_the_value(broker: FakeBroker) -> None:
    """Topic, partition, offset, time, key and headers fill the fields that options name."""
    broker.create("t")
    headers = [("a", b"1"), ("trace", b"x"), ("trace", b"\xc3\xa9"), ("none", None)]
    broker.send("t", 0, b"v", 1_500, key="schl\xfcssel".encode(), headers=headers)
    broker.send("t", 0, None, 1_500)
    options = {
        "format": "bytes", "tombstones": "null", "topic_field": "topic", "partition": "part", "offset": "off",
        "timestamp": "at", "key": "key", "headers": "raw",
    }  # fmt: skip
    first, second = all_rows(opened(**options), source(Beside))
    assert first == ("t", 0, 0, 1_500_000, "schl\xfcssel", [Header(*one) for one in headers], b"v")
    assert second == ("t", 0, 1, 1_500_000, None, [], None)
    log = tw.kafka("b:1", "t", format="bytes", headers={"trace": "trace"}, tombstones="null")
    assert all_rows(log.open(), source(Named)) == [("\xe9", b"v"), (None, None)]
