"""Streams of NATS as inputs and outputs: every message once, in order, and what was removed is named."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from tests.connectors import kit, small_servers
from tests.connectors.kit import node, table
from tests.connectors.small_servers import NatsServer

import thalweg as tw
from thalweg.connectors.contracts import never
from thalweg.connectors.logs import LogReader, Positions
from thalweg.connectors.nats import pulling, reader
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import make_plan

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with small_servers.nats() as one:
        yield one


class Row(NamedTuple):
    n: int


class Beside(NamedTuple):
    n: int
    subject: str
    seq: int
    at: tw.Timestamp


def copied(record: type = Row, **how: Any) -> tw.Flow:
    flow = tw.Flow("copied")
    flow.source("rows", record, **how).sink("out")
    return flow


def source(record: type = Row, **how: Any) -> Source:
    return make_plan(copied(record, **how)).sources[0]


ROWS = source()


def make(server: NatsServer, **how: Any) -> str:
    """A stream of the test's own, with subjects below its name."""
    name = f"S{next(_numbers)}"
    server.do(lambda js: js.add_stream(name=name, subjects=[f"{name}.*"], **how))
    return name


def send(server: NatsServer, name: str, values: Any) -> None:
    async def sent(js: Any) -> None:
        for n in values:
            await js.publish(f"{name}.{n % 3}", orjson.dumps({"n": n}))

    server.do(sent)


def read(reader: LogReader, start: Positions, end: Positions) -> list[int]:
    chunks = [chunk for chunk, _ in reader.read(ROWS, start, end, 7, never())]
    assert all(len(chunk) <= 7 for chunk in chunks)
    return [row.n for chunk in chunks for row in chunk.rows()]


def rest(reader: LogReader, at: Positions, rows: int = 1 << 20) -> tuple[list[int], Positions]:
    found, end = [], reader.end(at)
    while at != end:
        upto = reader.upto(at, end, rows)
        assert upto != at
        found += read(reader, at, upto)
        at = upto
    return found, at


def test_a_span_is_the_same_each_time(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches of any size, by one reader or two, with deleted messages, and of one subject."""
    for module in (pulling, reader):
        monkeypatch.setattr(module, "BATCH", 10)
    name = make(server)
    send(server, name, range(60))
    gone = {5, 6, 20, 59, 60}
    for sequence in gone:
        server.do(lambda js, sequence=sequence: js.delete_msg(name, sequence))
    for subject, third in ((None, None), (f"{name}.1", 1)):
        left = [n for n in range(60) if n + 1 not in gone and third in (None, n % 3)]
        log = tw.nats(server.url, name, subject=subject)
        one, two = log.open(), log.open()
        for rows in (1, 7, 25, 1_000):
            found, at = rest(one, one.begin(), rows)
            assert found == left
            assert rest(one, at) == ([], at)
        middle, end = {**one.begin(), "": 23}, {**one.begin(), "": 31}
        assert read(one, middle, end) == read(two, middle, end) == [n for n in left if 22 <= n < 30]
        for each in (one, two):
            each.close()


def test_where_a_run_begins_and_what_stands_beside(server: NatsServer) -> None:
    """At an end, at a sequence, at a time; fields for subject, sequence and time."""
    name = make(server)
    send(server, name, [0, 1])
    between = time.time_ns() // 1_000
    send(server, name, [2])
    when = tw.times.text(between)
    for start, expected in (
        ("earliest", [0, 1, 2]), ("latest", []), (2, [1, 2]), (when, [2]), ("2999-01-01T00:00:00", [])
    ):  # fmt: skip
        log = tw.nats(server.url, name, start=start, follow=False)
        assert [row.n for row in tw.run(copied(), {"rows": log}).rows("out")] == expected, start
    log = tw.nats(
        server.url, name, subject_field="subject", sequence="seq", timestamp="at", follow=False
    )
    rows = tw.run(copied(Beside), {"rows": log}).rows("out")
    assert [row[:3] for row in rows] == [(n, f"{name}.{n}", n + 1) for n in range(3)]
    assert rows[1].at < between < rows[2].at
    server.do(lambda js: js.publish(f"{name}.0", b"x"))
    with pytest.raises(tw.DataError, match=f"stream '{name}' message 4 does not fit Row"):
        tw.run(copied(), {"rows": tw.nats(server.url, name, follow=False)})


def test_what_is_lost_is_named_or_skipped(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Limits, a purge, a stream that was made again; in a stream of last values nothing is lost."""
    for how, told, left in (
        ("limit", "messages 3 to 6 cannot be read any more", [6, 7, 8, 9]),
        ("purge", "messages 3 to 10 cannot be read any more", []),
        ("renewed", "deleted and made again", [7]),
    ):
        name = make(server, max_msgs=4 if how == "limit" else -1)
        log = tw.nats(server.url, name)
        opened = log.open()
        at = {**opened.begin(), "": 3}
        opened.close()
        send(server, name, range(10))
        if how == "purge":
            server.do(lambda js, name=name: js.purge_stream(name))
        if how == "renewed":
            server.do(lambda js, name=name: js.delete_stream(name))
            server.do(lambda js, name=name: js.add_stream(name=name, subjects=[f"{name}.*"]))
            send(server, name, [7])
        with pytest.raises(tw.DataError, match=f"stream '{name}': .*{told}") as error:
            log.open().end(at)
        assert "on_loss='skip'" in str(error.value)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "thalweg"):
            skips = tw.nats(server.url, name, on_loss="skip").open()
            assert rest(skips, at)[0] == left, how
        assert caplog.text.count(f"stream '{name}'") == 1, caplog.text
        skips.close()
    name = make(server, max_msgs_per_subject=1)
    send(server, name, range(10))
    reader = tw.nats(server.url, name).open()
    assert rest(reader, {**reader.begin(), "": 3})[0] == [7, 8, 9]
    reader.close()
    with pytest.raises(tw.EnvironmentProblem, match="has no stream 'NIX'; make it"):
        tw.run(copied(), {"rows": tw.nats(server.url, "NIX")})


def test_the_server_drops_repeats(server: NatsServer) -> None:
    """A batch that is written again, also by another writer; a row that is too large is named."""
    name = make(server)
    target = tw.to_nats(server.url, f"{name}.out")
    one, two = (target.open(node(Row), "q") for _ in range(2))
    one.write(0, table(Row, [Row(n) for n in range(2_500)]))
    for writer in (one, two):
        writer.write(0, table(Row, [Row(n) for n in range(2_500)]))
    two.write(1, table(Row, [Row(n) for n in range(2_500, 2_510)]))
    for writer in (one, two):
        writer.close()
    log = tw.nats(server.url, name, follow=False)
    rows = tw.run(copied(), {"rows": log}).rows("out")
    assert [row.n for row in rows] == list(range(2_510))

    class Text(NamedTuple):
        text: str

    large = target.open(node(Text), "large")
    with pytest.raises(tw.DataError, match=r"(?s)batch 3, row 1 is refused: .*row: text='xxx"):
        large.write(3, table(Text, [Text("a"), Text("x" * 2_000_000)]))
    large.close()
    with pytest.raises(tw.EnvironmentProblem, match="no stream takes this subject"):
        tw.run(copied(), {"rows": [Row(1)]}, {"out": tw.to_nats(server.url, "nowhere")})


@pytest.mark.slow
def test_kill_9_in_the_middle(server: NatsServer, tmp_path: Path) -> None:
    """A host that is killed at random leaves each row once, in order, within the duplicate window."""
    name = make(server)
    kit.run_killed(f"tw.to_nats({server.url!r}, '{name}.out')", tmp_path, kills=4)
    log = tw.nats(server.url, name, follow=False)
    assert tw.run(copied(kit.Pair), {"rows": log}).rows("out") == kit.all_rows()


@pytest.mark.merge
def test_a_server_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Reading and writing go on when it is back, and say so; nothing is lost, nothing comes twice."""
    threads = set(threading.enumerate())
    with small_servers.nats() as server, caplog.at_level(logging.WARNING, "thalweg"):
        name = make(server)
        found: list[int] = []
        target = tw.to_nats(server.url, f"{name}.out")
        writer = target.open(node(Row), "q")
        writer.write(0, table(Row, [Row(1), Row(2)]))
        with tw.start(threads=1) as running:
            log = tw.nats(server.url, name)
            out = {"out": tw.each(lambda row: found.append(row.n))}
            run = running.add(copied(), {"rows": log}, out)
            _soon(lambda: len(found) == 2)
            server.stop()
            writer.close()
            fresh = target.open(node(Row), "q")
            again = threading.Thread(target=fresh.write, args=(1, table(Row, [Row(3)])))
            again.start()
            _soon(lambda: "does not answer" in caplog.text)
            server.start()
            again.join()
            fresh.close()
            _soon(lambda: len(found) == 3)
            run.stop()
        assert found == [1, 2, 3]
        assert "answers again" in caplog.text
        server.stop()
        short = tw.nats(server.url, name, follow=False, patience="200 ms")
        with pytest.raises(tw.EnvironmentProblem, match=r"(?s)has not answered for .* patience="):
            tw.run(copied(), {"rows": short})
    assert not [one for one in set(threading.enumerate()) - threads if one.name == "nats"]


def _soon(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_options_are_checked() -> None:
    """Each by its name; a password is shown nowhere."""
    for given, told in (
        ({"url": "localhost:4222"}, "nats: url: expected nats://host:4222"),
        ({"stream": ""}, "stream: expected a text"),
        ({"subject": ""}, "subject: expected a text"),
        ({"start": 0}, "start: expected 'earliest', 'latest', a sequence"),
        ({"on_loss": "ignore"}, "on_loss: expected one of fail, skip"),
        ({"config": 3}, "config: expected a dict"),
    ):
        with pytest.raises(tw.BuildError, match=told):
            tw.nats(**{"url": "nats://a", "stream": "s", **given})
    with pytest.raises(tw.BuildError, match="subject: expected one subject without"):
        tw.to_nats("nats://a", "a.*")
    url = "nats://me:secret@host:4222"
    for one in (tw.nats(url, "s", config={"token": "secret"}), tw.to_nats(url, "s")):
        assert "secret" not in repr(one) and "host:4222" in repr(one)


def test_a_subject_that_no_message_has(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said with the subjects that there are, or ends the run; one with messages is neither."""
    name = make(server)
    send(server, name, [0, 3])
    for missing in ("warn", "fail"):
        log = tw.nats(server.url, name, subject=f"{name}.0", follow=False, missing=missing)
        assert tw.run(copied(), {"rows": log}).rows("out") == [Row(0), Row(3)]
    assert caplog.text == ""
    wrong = tw.nats(server.url, name, subject=f"{name}.zero", follow=False)
    assert tw.run(copied(), {"rows": wrong}).rows("out") == []
    assert f"no message of subject '{name}.zero' yet, and takes {name}.*" in caplog.text
    with pytest.raises(tw.EnvironmentProblem, match="no message of subject"):
        tw.run(copied(), {"rows": dataclasses.replace(wrong, missing="fail")})
