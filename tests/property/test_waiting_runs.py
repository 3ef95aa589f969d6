"""Functions that sleep, on real threads whose number follows the waiting: the output is that of the reference."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from typing import Any, ClassVar, NamedTuple

import pytest
from tests.property.test_elastic_runs import Anything

import thalweg as tw
from thalweg import testing
from thalweg.elasticity import Combined, Controller, Sample, ThreadLevels, Utilization, trial
from thalweg.elasticity.samples import Suggestion
from thalweg.workers import adaptive


class Call(NamedTuple):
    ts: int
    key: int
    sleep_us: int


@tw.state
class Calls:
    n: int = 0
    last: int = -1


class Seen:
    """Names of the threads that have been in a function."""

    names: ClassVar[set[str]] = set()


def ask(call: Call) -> Call | None:
    """Waits for so long; now and then there is no answer."""
    Seen.names.add(threading.current_thread().name)
    time.sleep(call.sleep_us * 1e-6)
    return None if call.sleep_us % 7 == 3 else call


def tell(calls: Calls, call: Call) -> Call:
    """Waits in state: calls of one key come one after the other."""
    n, last = calls.n, calls.last
    time.sleep(call.sleep_us * 1e-6)
    assert (n, last) == (calls.n, calls.last), "two calls of one key at once"
    calls.n, calls.last = n + 1, call.ts
    return Call(call.ts, call.key, 1_000 * calls.n + last % 10)


def fails_at_times(call: Call) -> Call:
    time.sleep(call.sleep_us * 1e-7)
    if call.sleep_us % 11 == 5:
        raise ValueError("no answer")
    return call


def flow_of(chooser: random.Random) -> tw.Flow:
    """Two or three operators that wait, in a chain that is split and put together again, or by key."""
    flow = tw.Flow("waits")
    rows = flow.source("calls", Call, **chooser.choice([{}, {"order_by": "ts"}]))
    asked = rows.map(ask, name="ask")
    if chooser.random() < 0.5:
        asked = asked.union(rows.filter(lambda call: call.key % 2 == 0).map(ask, name="again"))
    tried = asked.map(fails_at_times, name="tries", errors="reject")
    tried.rejected.sink("failed")
    tried.key_by("key").process(tell, state=Calls, name="tell").sink("out")
    return flow


def calls_of(chooser: random.Random, count: int) -> list[Call]:
    """Most wait for about a millisecond, some not at all, some for long: threads come and go."""
    longest = chooser.choice([1_500, 4_000])
    return [
        Call(i, chooser.randrange(12), chooser.choice([0, 300, chooser.randrange(longest)]))
        for i in range(count)
    ]


class UpAndDown(Controller):
    """From few threads to all, and back, a step a period: what was seen of waiting is only looked at."""

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        assert all(0.0 <= one.waits <= 1.0 for one in sample.operators)
        target = self.limits.clamp(sample.threads % 7 + 2)
        return (Suggestion("threads", None, sample.threads, target, "any"),)


def started(flow: tw.Flow, inputs: dict[str, Any], **how: Any) -> tw.Result:
    with tw.start(**how) as running:
        return running.add(flow, inputs).result()


def durable(flow: tw.Flow, inputs: dict[str, Any]) -> tw.Result:
    """With a commit after each look at the input: nothing is on its way at any of them."""
    with tempfile.TemporaryDirectory() as folder:
        return tw.run(flow, inputs, checkpoint=folder, every=0)


WAYS: dict[str, Any] = {
    "default": tw.run,
    "durable": durable,
    "started": started,
    "four": lambda flow, inputs: tw.run(flow, inputs, threads=4),
    "sixteen": lambda flow, inputs: started(flow, inputs, threads=16),
    "auto": lambda flow, inputs: tw.run(flow, inputs, threads="auto", period_s=0.02),
    "up and down": lambda flow, inputs: tw.run(
        flow, inputs, threads="auto", controller=UpAndDown(), period_s=0.01
    ),
    "utilization": lambda flow, inputs: tw.run(
        flow, inputs, threads="auto", controller=Combined(Utilization(low=0.3, high=0.5)), period_s=0.02
    ),
    "levels and replicas": lambda flow, inputs: started(
        flow, inputs, threads="auto", controller=Combined(ThreadLevels(max_cpu_share=1.0)), period_s=0.02
    ),
    "anything": lambda flow, inputs: tw.run(
        flow, inputs, threads=6, controller=Anything(3), period_s=0.01
    ),
}  # fmt: skip


def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default decides after milliseconds, so that short runs show it."""
    monkeypatch.setattr(adaptive, "is_warm", lambda: True)
    monkeypatch.setattr(trial, "FIRST_NS", 4_000_000)
    monkeypatch.setattr(trial, "LEAST_LEFT_NS", 10_000_000)


def check(way: str, seed: int, count: int) -> int:
    """Runs one flow; how many threads were in its functions."""
    chooser = random.Random(f"{seed} {count}")
    flow, inputs = flow_of(chooser), {"calls": calls_of(chooser, count)}
    expected = testing.reference(flow, inputs)
    Seen.names.clear()
    found = WAYS[way](flow, inputs)
    for sink in ("out", "failed"):
        assert found.rows(sink) == expected.rows(sink), (way, seed, sink)
    return len(Seen.names)


def test_sleeps_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, in one flow and beside others, more threads than usable processors wait; the output is the same."""
    soon(monkeypatch)
    monkeypatch.setattr("thalweg.embedded.run_options.usable_processors", lambda: 2)
    # Where others have the processors, little of the waiting may be seen in one run.
    for way in ("default", "durable", "started"):
        assert any(check(way, seed, 120) > 2 for seed in range(1, 9)), way


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_elastic_runs_with_sleeps(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever changes the threads, and whichever flow it is."""
    soon(monkeypatch)
    monkeypatch.setattr("thalweg.embedded.run_options.usable_processors", lambda: 2)
    assert max(check(way, seed, 200) for seed in range(3)) > 1
