"""map_async: the order of rows, how many calls are open, failures, retries, clients, calls that take long, stops."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.engine.asynchronous import calls, loop


class Row(NamedTuple):
    ts: int
    n: int


ROWS = [Row(i, i) for i in range(40)]


def flow_of(function: Any, **how: Any) -> tw.Flow:
    """A flow of one operator; its rejected rows have a sink, too."""
    flow = tw.Flow("calls")
    asked = flow.source("rows", Row, order_by="ts").map_async(function, **how)
    asked.sink("out")
    asked.rejected.sink("rejected")
    return flow


def run(function: Any, rows: Any = ROWS, options: Any = None, **how: Any) -> Any:
    return tw.run(flow_of(function, **how), {"rows": rows}, **(options or {}))


class Gauge:
    """How many calls are open, and were at most."""

    def __init__(self) -> None:
        self.now = self.most = self.began = 0

    async def hold(self, turns: int) -> None:
        self.now, self.began = self.now + 1, self.began + 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
        finally:
            self.now -= 1


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"threads": 3}, {"chunk_rows": 3}])
def test_order_and_concurrency(options: dict[str, Any]) -> None:
    """Outputs stand in the order of rows, None leaves one out; so many calls are open at once, never more."""
    gauge = Gauge()

    async def ask(row: Row) -> Row | None:
        await gauge.hold(200 - 5 * (row.n % 7))
        return None if row.n % 5 == 2 else Row(row.ts, -row.n)

    result = run(ask, options=options, concurrency=7)
    assert result.rows("out") == [Row(n, -n) for n in range(40) if n % 5 != 2]
    assert gauge.most == (3 if options.get("chunk_rows") and "threads" not in options else 7)
    assert (gauge.now, gauge.began) == (0, 40)
    counts = result.counts["ask"]
    assert (counts["in"], counts["out"], counts["rejected"]) == (40, 32, 0)


def test_the_first_row_that_fails_is_told() -> None:
    """Where a later row fails first, earlier calls go on, later ones are cancelled, and no further ones begin."""
    ended: list[tuple[int, str]] = []

    async def ask(row: Row) -> Row:
        try:
            for _ in range({3: 50, 5: 1}.get(row.n, 100 if row.n < 3 else 10_000)):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            ended.append((row.n, "cancelled"))
            raise
        if row.n in (3, 5):
            raise ConnectionError(f"no answer {row.n}")
        ended.append((row.n, "ended"))
        return row

    with pytest.raises(tw.OperatorError) as caught:
        run(ask, concurrency=8)
    message = str(caught.value)
    assert "operator 'ask' failed: ConnectionError: no answer 3" in message
    assert "row:      Row(ts=3, n=3)" in message and "test_map_async.py:" in message
    assert sorted(ended) == [(n, "ended" if n < 3 else "cancelled") for n in (0, 1, 2, 4, 6, 7)]


def test_rejected_with_reasons() -> None:
    """Failures, timeouts, answers that do not fit and calls that cancel themselves are rejected in order."""

    async def ask(row: Row) -> Row:
        if row.n == 1:
            raise KeyError("no such")
        if row.n == 2:
            await asyncio.sleep(60)
        if row.n == 3:
            return (row.ts, "three")  # type: ignore[return-value]
        if row.n == 4:
            raise asyncio.CancelledError
        return row

    result = run(ask, ROWS[:6], errors="reject", timeout="20 ms")
    assert result.rows("out") == [ROWS[0], ROWS[5]]
    told = [(one.operator, one.row, one.reason) for one in result.rows("rejected")]
    assert [one[:2] for one in told] == [("ask", str(row)) for row in ROWS[1:5]]
    reasons = [one[2] for one in told]
    assert reasons[:2] == ["KeyError: 'no such'", "TimeoutError: no answer within 0.02 s"]
    assert "TypeError" in reasons[2] and "three" in reasons[2]
    assert reasons[3] == "RuntimeError: the call was cancelled by its own function"
    expected = testing.reference(
        flow_of(ask, errors="reject", timeout="20 ms"), {"rows": [*ROWS[:4], ROWS[5]]}
    )
    assert [one.reason for one in expected.rows("rejected")] == reasons[:3]


@pytest.mark.parametrize("runner", [tw.run, testing.reference])
def test_retries(runner: Any) -> None:
    """A call is made again as often as may be, for errors that are worth it, and timeouts."""
    made: list[int] = []

    async def ask(row: Row) -> Row:
        made.append(row.n)
        if row.n == 2:
            raise ValueError("never")
        if row.n == 3:
            await asyncio.sleep(60)
        if made.count(row.n) <= row.n:
            raise ConnectionError(f"try {made.count(row.n)}")
        return row

    flow = flow_of(
        ask, retries=2, backoff="1 ms", timeout="20 ms", errors="reject",
        retry_on=(ConnectionError, TimeoutError),
    )  # fmt: skip
    rows = [*ROWS[:4], ROWS[9]]
    result = runner(flow, {"rows": rows})
    assert result.rows("out") == ROWS[:2]
    assert [made.count(row.n) for row in rows] == [1, 2, 1, 3, 3]
    assert [one.reason for one in result.rows("rejected")] == [
        "ValueError: never",
        "TimeoutError: no answer within 0.02 s (3 tries)",
        "ConnectionError: try 3",
    ]


def test_pauses_grow() -> None:
    """Each pause is twice as long as the one before, up to thirty seconds."""
    flow = flow_of(_same, retries=2_000, backoff="10 seconds")
    node: Any = flow.nodes[1]
    assert [node.tries.pause_s(made) for made in (1, 2, 3, 2_000)] == [10.0, 20.0, 30.0, 30.0]


async def _same(row: Row) -> Row:
    return row


@dataclasses.dataclass
class Client:
    opened: list[str]
    name: str = "client"


@pytest.mark.parametrize("options", [{}, {"threads": 3}])
@pytest.mark.parametrize("fails", [False, True])
def test_client(options: dict[str, Any], fails: bool) -> None:
    """It is opened once, shared by all calls, and closed at the end, also of a run that fails."""
    story: list[str] = []

    @contextlib.asynccontextmanager
    async def client() -> AsyncIterator[Client]:
        story.append("open")
        try:
            yield Client(story)
        finally:
            await asyncio.sleep(0)
            story.append("closed")

    async def ask(row: Row, client: Client) -> Row:
        if fails and row.n == 30:
            raise ValueError(client.name)
        return row

    flow = flow_of(ask, client=client)
    if fails:
        with pytest.raises(tw.OperatorError, match="ValueError: client"):
            tw.run(flow, {"rows": ROWS}, chunk_rows=5, **options)
    else:
        assert tw.run(flow, {"rows": ROWS}, chunk_rows=5, **options).rows("out") == ROWS
        assert testing.reference(flow, {"rows": ROWS}).rows("out") == ROWS
    assert story == ["open", "closed"] * (1 if fails else 2)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("calls of")]


def test_client_that_does_not_open_or_close(caplog: pytest.LogCaptureFixture) -> None:
    """The first is an error that names the operator, the second a warning."""

    async def ask(row: Row, client: Any) -> Row:
        return row

    @contextlib.asynccontextmanager
    async def refused() -> AsyncIterator[None]:
        raise OSError("nobody there")
        yield

    @contextlib.asynccontextmanager
    async def stuck() -> AsyncIterator[None]:
        yield
        raise OSError("cannot close")

    with pytest.raises(
        tw.OperatorError, match=r"'ask': its client could not be opened: OSError: nobody"
    ):
        run(ask, client=refused)
    with pytest.raises(
        tw.OperatorError, match=r"could not be opened: TypeError.*asynchronous context"
    ):
        run(ask, client=lambda: 3)
    with caplog.at_level(logging.WARNING, "thalweg"):
        assert run(ask, client=stuck).rows("out") == ROWS
    assert "operator 'ask': its client failed to close: OSError('cannot close')" in caplog.text


@pytest.mark.parametrize("blocks", [False, True])
def test_calls_that_take_long_are_named(
    blocks: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With function, row and advice; so is one that blocks the others."""
    monkeypatch.setattr(calls, "SLOW_S", 0.02)
    monkeypatch.setattr(loop, "_LOOK_S", 0.005)
    told = threading.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    async def ask(row: Row) -> Row:
        if row.n == 3 and blocks:
            told.wait(30)
        while row.n == 3 and not told.is_set():
            await asyncio.sleep(0.005)
        return row

    logging.getLogger("thalweg").addHandler(handler := Told(logging.WARNING))
    try:
        assert run(ask).rows("out") == ROWS
    finally:
        logging.getLogger("thalweg").removeHandler(handler)
    assert re.search(
        r"operator 'ask': a call of ask \(test_map_async.py:\d+\) has not", caplog.text
    )
    assert ("the function blocks all calls" in caplog.text) == blocks
    if not blocks:
        assert "row:      Row(ts=3, n=3)" in caplog.text
        assert 'timeout="2 seconds" (say)' in caplog.text


def test_a_stop_ends_open_calls(tmp_path: Any) -> None:
    """A run whose call never ends is stopped, in threads, and with a checkpoint; the client is closed."""
    for checkpoint in (None, str(tmp_path / "ckpt")):
        asked, closed = threading.Event(), threading.Event()

        @contextlib.asynccontextmanager
        async def client(closed: threading.Event = closed) -> AsyncIterator[None]:
            yield
            closed.set()

        async def ask(row: Row, client: None, asked: threading.Event = asked) -> Row:
            asked.set()
            await asyncio.sleep(3600)
            return row

        with tw.start(threads=2) as running:
            flow = running.add(flow_of(ask, client=client), {"rows": ROWS}, checkpoint=checkpoint)
            assert asked.wait(30)
            began = time.monotonic()
            flow.stop()
        assert closed.wait(30)
        assert time.monotonic() - began < 30


def test_beside_a_running_loop() -> None:
    """A run may be called where a loop runs already, as in a notebook."""

    async def notebook() -> list[Row]:
        rows: list[Row] = run(_same).rows("out")
        assert testing.reference(flow_of(_same), {"rows": ROWS}).rows("out") == rows
        return rows

    assert asyncio.run(notebook()) == ROWS


def test_a_function_that_wants_to_end_the_process() -> None:
    """It is told as that of a map."""

    async def ask(row: Row) -> Row:
        raise SystemExit(3)

    with pytest.raises((tw.ThalwegError, SystemExit)):
        run(ask, errors="reject")


def test_rows_of_live_sources_do_not_wait_for_others() -> None:
    """What has come is called at once: each row's output is there before the next row comes."""
    source, seen = tw.push_source(), threading.Semaphore(0)

    async def ask(row: Row) -> Row:
        await asyncio.sleep(0)
        return row

    def put(row: Row) -> None:
        seen.release()

    flow = tw.Flow("live")
    flow.source("rows", Row).map_async(ask).sink("out")
    with tw.start(threads=2) as running:
        one = running.add(flow, {"rows": source}, {"out": tw.each(put)})
        for row in ROWS[:5]:
            source.push(row)
            assert seen.acquire(timeout=30)
        source.close()
        one.result()


@dataclasses.dataclass
class Seen:
    at: dt.datetime
    n: int


def test_rows_of_users_classes() -> None:
    """Coroutines get and give dataclasses, as other functions do."""
    first = Seen(dt.datetime(2026, 11, 30, tzinfo=dt.UTC), 1)

    async def later(row: Seen) -> Seen | None:
        return None if row.n == 3 else dataclasses.replace(row, at=row.at + dt.timedelta(days=1))

    flow = tw.Flow("users")
    flow.source("rows", Seen).map_async(later).sink("out")
    rows = [first, dataclasses.replace(first, n=3)]
    expected = [dataclasses.replace(first, at=first.at + dt.timedelta(days=1))]
    assert tw.run(flow, {"rows": rows}).rows("out") == expected
    assert testing.reference(flow, {"rows": rows}).rows("out") == expected


async def _several(row: Row) -> list[Row]:
    return [row]


async def _stream(row: Row) -> AsyncIterator[Row]:
    yield row


async def _untyped(row):  # type: ignore[no-untyped-def]
    return row


class _Open:
    async def __aenter__(self) -> _Open:
        return self

    async def __aexit__(self, *ended: object) -> None: ...


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (lambda row: row, {}, "is not async def, so calls would run one after the other"),
    (_stream, {}, "has a yield, which makes it an async generator"),
    (_several, {}, "gives several records a row; give one that has a list"),
    (_untyped, {}, "does not say what it returns"),
    (_same, {"client": _Open}, r"is called with \(row, client\)"),
    (_same, {"concurrency": 0}, "concurrency: expected a whole number from 1 on, got 0"),
    (_same, {"retries": -1}, "retries: expected a whole number from 0 on, got -1"),
    (_same, {"timeout": 5}, 'timeout: expected a duration such as "2 seconds" or a timedelta, got 5'),
    (_same, {"timeout": "0 s"}, "timeout: expected a duration above 0"),
    (_same, {"timeout": "soon"}, "timeout: "),
    (_same, {"backoff": "-1 s"}, "backoff: "),
    (_same, {"retry_on": "ValueError"}, "retry_on: expected an exception class, or several"),
    (_same, {"retry_on": [KeyboardInterrupt]}, "retry_on: expected an exception class"),
    (_same, {"client": _Open()}, r"got one; each process opens its own: client=lambda: _Open\(...\)"),
    (_same, {"client": _same}, "put @contextlib.asynccontextmanager on it"),
    (_same, {"client": 3}, "client: expected a function, got 3"),
]  # fmt: skip


def test_refused() -> None:
    """What cannot be meant is refused when the flow is built."""
    for function, how, message in REFUSED:
        with pytest.raises(tw.BuildError, match=message):
            flow_of(function, name="asked", **how)


def test_explained() -> None:
    """The plan says that it is awaited, how many calls there are, and what a call may take."""
    text = flow_of(_same, concurrency=5, timeout="2 seconds", retries=3).explain()
    assert "stateless (map_async), reads rows, gives Row" in text
    assert re.search(
        r"_same \(test_map_async.py:\d+\) awaited, at most 5 at once, timeout 2 s, at most 3\s+retries",
        text,
    )
