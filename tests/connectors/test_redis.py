"""Streams of Redis as inputs and outputs: every entry once, in order, and what was trimmed is named."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.connectors import kit, small_servers
from tests.connectors.kit import EVERY, Every, Pair, node, plain, table
from tests.connectors.small_servers import Valkey

import thalweg as tw
from thalweg.connectors.contracts import never
from thalweg.connectors.logs import LogReader, Positions
from thalweg.connectors.redis import reader as reading
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import make_plan

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with small_servers.valkey() as one:
        yield one


@pytest.fixture
def stream() -> str:
    """A stream of the test's own."""
    return f"s{next(_numbers)}"


class Row(NamedTuple):
    n: int


class Whole(NamedTuple):
    n: int
    text: str | None
    id: str
    at: tw.Timestamp


def source(record: type = Row, **how: Any) -> Source:
    flow = tw.Flow("f")
    flow.source("rows", record, **how).sink("out")
    return make_plan(flow).sources[0]


ROWS = source()


def copied(record: type = Row, **how: Any) -> tw.Flow:
    flow = tw.Flow("copied")
    flow.source("rows", record, **how).sink("out")
    return flow


def read(reader: LogReader, start: Positions, end: Positions, node: Source = ROWS) -> list[Any]:
    chunks = [chunk for chunk, _ in reader.read(node, start, end, 7, never())]
    assert all(len(chunk) <= 7 for chunk in chunks)
    return [row for chunk in chunks for row in chunk.rows()]


def rest(reader: LogReader, at: Positions, rows: int = 1 << 20) -> tuple[list[int], Positions]:
    """What a host reads from a place on, batch after batch, and where it is then."""
    found, end = [], reader.end(at)
    while at != end:
        upto = reader.upto(at, end, rows)
        assert upto != at
        found += [row.n for row in read(reader, at, upto)]
        at = upto
    return found, at


def send(server: Valkey, stream: str, numbers: range) -> None:
    pipe = server.client.pipeline(transaction=False)
    for n in numbers:
        pipe.xadd(stream, {"n": n})
    pipe.execute()


def test_a_span_is_the_same_each_time(
    server: Valkey, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of any size, planned and read by one reader or by two, with entries deleted in between."""
    monkeypatch.setattr(reading, "PAGE", 10)
    client, draw = server.client, random.Random(5)
    send(server, stream, range(95))
    for entry, _ in draw.sample(client.xrange(stream), 20):
        client.xdel(stream, entry)
    expected = [int(fields["n"]) for _, fields in client.xrange(stream)]
    for rows in (1, 3, 10, 29, 1_000):
        log = tw.redis_stream(server.url, stream, max_rows=rows)
        one, two = log.open(), log.open()
        found, at, end = [], one.begin(), one.end({})
        while at != end:
            upto = one.upto(at, end, rows)
            first = read(one, at, upto)
            assert len(first) <= rows
            assert read(two, at, upto) == first
            found += [row.n for row in first]
            at = upto
        assert found == expected
        assert rest(one, at) == ([], at)
        for reader in (one, two):
            reader.close()


def test_where_a_run_begins(server: Valkey, stream: str) -> None:
    """At an end, behind an entry, at a time; a stream that is not there yet is empty."""
    log = tw.redis_stream(server.url, stream)
    early = log.open()
    at = early.begin()
    assert rest(early, at) == ([], at)
    for n in range(4):
        server.client.xadd(stream, {"n": n}, id=f"{1_000 * n}-{n + 1}")
    assert rest(early, at)[0] == [0, 1, 2, 3]
    for start, expected in (
        ("earliest", [0, 1, 2, 3]),
        ("latest", []),
        ("1000-2", [2, 3]),
        ("1970-01-01T00:00:01", [1, 2, 3]),
        (1_000_001, [2, 3]),
        (0, [0, 1, 2, 3]),
    ):
        reader = tw.redis_stream(server.url, stream, start=start).open()
        found, at = rest(reader, reader.begin())
        assert found == expected, start
        server.client.xadd(stream, {"n": 9})
        assert rest(reader, at)[0] == [9]
        server.client.xdel(stream, server.client.xrevrange(stream, count=1)[0][0])


def lose(server: Valkey, stream: str, how: str) -> Positions:
    """Loses entries; gives a position from which some would have been read."""
    send(server, stream, range(10))
    reader = tw.redis_stream(server.url, stream, max_rows=2).open()
    at = reader.upto(reader.begin(), reader.end({}), 2)
    client = server.client
    if how == "trimmed":
        client.xtrim(stream, maxlen=4, approximate=False)
    elif how == "emptied":
        client.xtrim(stream, maxlen=0, approximate=False)
        send(server, stream, range(100, 101))
    else:
        client.delete(stream)
    if how == "renewed":
        send(server, stream, range(100, 101))
    return at


LOSSES = {
    "trimmed": ("4 entries behind .* were trimmed or deleted; the first that is there is", [6, 7, 8, 9]),
    "emptied": ("8 entries behind .* cannot be read any more", [100]),
    "deleted": ("cannot be read on behind entry .*: it is not there any more", []),
    "renewed": ("it was deleted and made again", [100]),
}  # fmt: skip


def test_what_is_lost_is_named_or_skipped(server: Valkey, caplog: pytest.LogCaptureFixture) -> None:
    """Trimmed, emptied, deleted, made again: an error, or a warning that counts."""
    for how, (told, left) in LOSSES.items():
        stream = f"lost-{how}"
        at = lose(server, stream, how)
        reader = tw.redis_stream(server.url, stream).open()
        with pytest.raises(tw.DataError, match=f"stream '{stream}'.*" + told) as error:
            reader.end(at)
        assert "on_loss='skip'" in str(error.value)
        caplog.clear()
        skips = tw.redis_stream(server.url, stream, on_loss="skip").open()
        with caplog.at_level(logging.WARNING, "thalweg"):
            found, at = rest(skips, at)
        assert found == left, how
        assert caplog.text.count(f"stream '{stream}'") == 1, caplog.text
        send(server, stream, range(7, 8))
        assert rest(skips, at)[0] == [7]


def test_trimming_behind_a_reader_is_no_loss(server: Valkey, stream: str) -> None:
    """A stream that keeps few entries, and a reader that keeps up; and one whose batch is trimmed before it is read."""
    reader = tw.redis_stream(server.url, stream).open()
    at, found = reader.begin(), []
    for start in range(0, 40, 5):
        send(server, stream, range(start, start + 5))
        more, at = rest(reader, at, rows=3)
        found += more
        server.client.xtrim(stream, maxlen=start % 3, approximate=False)
    assert found == list(range(40))
    send(server, stream, range(10))
    end = reader.end(at)
    server.client.xtrim(stream, maxlen=6, approximate=False)
    with pytest.raises(tw.DataError, match="4 entries behind"):
        read(tw.redis_stream(server.url, stream).open(), at, end)
    with pytest.raises(tw.DataError, match="4 entries behind"):
        reader.upto(at, end, 3)


def test_every_type_comes_back(server: Valkey) -> None:
    """A row of every type, as fields of text, there and back; the record without bytes also as JSON in one field."""
    writer = tw.to_redis(server.url, "every").open(node(Every), "q")
    writer.write(0, table(Every, EVERY[:-3]))
    writer.close()
    log = tw.redis_stream(server.url, "every", follow=False)
    assert plain(tw.run(copied(Every), {"rows": log}).rows("out")) == plain(EVERY[:-3])
    rows = [Whole(n, text, str(n), n) for n, text in enumerate(["a", None, "Grüße\n", ""])]
    for value in (None, "data"):
        target = tw.to_redis(server.url, f"whole-{value}", value=value)
        tw.run(copied(Whole), {"rows": rows}, {"out": target})
        log = tw.redis_stream(server.url, f"whole-{value}", value=value, follow=False)
        assert tw.run(copied(Whole), {"rows": log}).rows("out") == rows
    server.client.xadd("beside", {"n": 1, "other": "x"}, id="1700000000123-4")
    log = tw.redis_stream(server.url, "beside", follow=False, entry_id="id", timestamp="at")
    assert tw.run(copied(Whole), {"rows": log}).rows("out") == [
        (1, None, "1700000000123-4", 1_700_000_000_123_000)
    ]


def test_an_entry_that_does_not_fit_is_named(server: Valkey, stream: str) -> None:
    """By stream and id, whether it lacks a field or has a wrong value."""
    client = server.client
    ids = [client.xadd(stream, fields) for fields in ({"n": "1"}, {"n": "x"}, {"m": "1"})]
    log = tw.redis_stream(server.url, stream, follow=False)
    told = f"stream '{stream}' entry {ids[1]} does not fit Row: n: expected int, got 'x'"
    with pytest.raises(tw.DataError, match=told):
        tw.run(copied(), {"rows": log})
    fed = list(log.open().read(source(errors="reject"), {}, log.open().end({}), 7, never()))
    bad = [(place, why) for _, rows in fed for why, place, _ in rows]
    assert [place for place, _ in bad] == [f"stream '{stream}' entry {one}" for one in ids[1:]]
    assert bad[1][1] == "n is missing"
    one_field = tw.redis_stream(server.url, stream, value="data", follow=False)
    with pytest.raises(tw.DataError, match=f"{ids[0]} does not fit Row: a message without a value"):
        tw.run(copied(), {"rows": one_field})
    client.set("text", "x")
    with pytest.raises(tw.EnvironmentProblem, match="WRONGTYPE"):
        tw.run(copied(), {"rows": tw.redis_stream(server.url, "text", follow=False)})
    with pytest.raises(tw.EnvironmentProblem, match="holds a string; expected a stream"):
        tw.run(copied(), {"rows": [Row(1)]}, {"out": tw.to_redis(server.url, "text")})


def pairs(*names: str) -> pa.Table:
    return table(Pair, [Pair(name, n) for n, name in enumerate(names)])


def test_a_batch_counts_once(server: Valkey, stream: str) -> None:
    """Written again, by the same writer or the next; of two writers the one that is behind is fenced."""
    target = tw.to_redis(server.url, stream)
    one, two = (target.open(node(Pair), "q") for _ in range(2))
    one.write(0, pairs("a"))
    one.write(0, pairs("a"))
    two.write(0, pairs("a"))
    two.write(1, pairs("b", "c"))
    with pytest.raises(tw.EnvironmentProblem, match="another process writes the same batches"):
        one.write(1, pairs("b", "c"))
    target.open(node(Pair), "other").write(0, pairs("d"))
    found = [fields["name"] for _, fields in server.client.xrange(stream)]
    assert found == ["a", "b", "c", "d"]
    trimmed = tw.to_redis(server.url, stream, maxlen=1).open(node(Pair), "q")
    trimmed.write(2, pairs(*"x" * 500))
    assert server.client.xlen(stream) < 250


@pytest.mark.slow
def test_kill_9_in_the_middle(server: Valkey, stream: str, tmp_path: Path) -> None:
    """A host that is killed at random leaves each row once, in order."""
    kit.run_killed(f"tw.to_redis({server.url!r}, {stream!r})", tmp_path, kills=4)
    found = [Pair(one["name"], int(one["n"])) for _, one in server.client.xrange(stream)]
    assert found == kit.all_rows()


@pytest.mark.merge
def test_a_server_that_is_away_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading and writing go on when it is back, and say so; nothing is lost, nothing comes twice."""
    keeps = ["--dir", str(tmp_path), "--appendonly", "yes", "--appendfsync", "always"]
    with small_servers.valkey() as server, caplog.at_level(logging.WARNING, "thalweg"):
        server.stop()
        server.start(*keeps)
        found: list[int] = []
        log = tw.redis_stream(server.url, "in")
        writer = tw.to_redis(server.url, "in").open(node(Row), "q")
        writer.write(0, table(Row, [Row(1), Row(2)]))
        with tw.start(threads=1) as running:
            run = running.add(
                copied(), {"rows": log}, {"out": tw.each(lambda row: found.append(row.n))}
            )
            _soon(lambda: len(found) == 2)
            server.stop()
            again = threading.Thread(target=writer.write, args=(1, table(Row, [Row(3)])))
            again.start()
            _soon(lambda: caplog.text.count("does not answer") >= 2)
            server.start(*keeps)
            again.join()
            _soon(lambda: len(found) == 3)
            run.stop()
        assert found == [1, 2, 3]
        assert caplog.text.count("answers again") == 2
        server.stop()
        short = tw.redis_stream(server.url, "in", follow=False, patience="200 ms")
        with pytest.raises(tw.EnvironmentProblem, match=r"(?s)has not answered for .* patience="):
            tw.run(copied(), {"rows": short})


def _soon(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_options_are_checked() -> None:
    """Each by its name; a password is shown nowhere."""
    for given, told in (
        ({"url": "localhost:6379"}, "redis_stream: url: expected redis://host:6379/0"),
        ({"stream": ""}, "stream: expected a text"),
        ({"value": ""}, "value: expected a text"),
        ({"format": "text"}, "format: expected 'json' where value="),
        ({"format": "avro", "value": "v"}, "format: expected one of json, text, bytes"),
        ({"start": "yesterday"}, "start: expected 'earliest', 'latest', the id"),
        ({"on_loss": "ignore"}, "on_loss: expected one of fail, skip"),
        ({"max_rows": 0}, "max_rows: expected a whole number"),
        ({"patience": "long"}, "patience: not a duration"),
    ):
        with pytest.raises(tw.BuildError, match=told):
            tw.redis_stream(**{"url": "redis://a", "stream": "s", **given})
    with pytest.raises(tw.BuildError, match="maxlen: expected a whole number"):
        tw.to_redis("redis://a", "s", maxlen=0)
    with pytest.raises(tw.BuildError, match=r"JSON cannot hold data: bytes .*; leave out value="):
        tw.run(copied(Every), {"rows": []}, {"out": tw.to_redis("redis://a", "s", value="v")})
    url = "redis://me:secret@host:6379/3?x=secret"
    target = tw.to_redis(url, "s")
    for one in (tw.redis_stream(url, "s"), target, target.place):
        assert "secret" not in repr(one) and "host:6379/3" in repr(one)


def test_a_stream_that_is_not_there(
    server: Valkey, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, not read as empty without a word; or it ends the run. An empty one is neither."""
    log = tw.redis_stream(server.url, stream, follow=False)
    assert tw.run(copied(), {"rows": log}).rows("out") == []
    assert f"has no stream {stream!r}; it is read as empty" in caplog.text
    refused = tw.redis_stream(server.url, stream, follow=False, missing="fail")
    with pytest.raises(tw.EnvironmentProblem, match=f"has no stream {stream!r}"):
        tw.run(copied(), {"rows": refused})
    send(server, stream, range(1))
    server.client.xtrim(stream, maxlen=0)
    caplog.clear()
    assert (
        tw.run(
            copied(),
            {
                "rows": tw.redis_stream(
                    server.url, stream, follow=False, missing="fail", start="latest"
                )
            },
        ).rows("out")
        == []
    )
    assert caplog.text == ""
