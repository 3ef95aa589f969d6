"""Random flows whose engine goes to threads and back between any two steps; and what a default costs in work."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import cases
from tests.property.test_parallel import COMMON, Case
from tests.sizes import sized
from thalweg_lab.everyday import functions
from thalweg_lab.everyday.data import make
from thalweg_lab.everyday.ways import rows_of

import thalweg as tw
from thalweg import testing
from thalweg.elasticity.trial import ThreadTrial
from thalweg.embedded import amount, entry
from thalweg.errors import SchemaError
from thalweg.testing import session
from thalweg.workers import adaptive
from thalweg.workers.adaptive import AdaptiveEngine
from thalweg.workers.options import Options


class Erratic(ThreadTrial):
    """Changes its mind at every other step, by a seed."""

    def __init__(self, rows: float) -> None:
        super().__init__(rows)
        self._chooser = random.Random(rows)

    def is_due(self, now_ns: int) -> bool:
        return self._chooser.random() < 0.5

    def look(self, now_ns: int) -> bool:
        self.in_threads = self._chooser.random() < 0.5
        return self.in_threads


class Anywhere(AdaptiveEngine):
    """Goes to threads also where Python runs operators."""

    @property
    def is_held_up(self) -> bool:
        return False


@settings(max_examples=sized(40, 5), **COMMON)
@given(st.one_of(cases(), cases(timed=False)), st.integers(0, 9_999))
def test_there_and_back(case: Case, seed: int) -> None:
    """Outputs, counts and state are those of the serial reference, whichever steps ran in threads."""
    recipe, inputs = case

    def make(prepared: Any, **how: Any) -> AdaptiveEngine:
        return Anywhere(prepared, rows=float(seed), **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "ParallelEngine", make)
        patch.setattr(adaptive, "ThreadTrial", Erratic)
        patch.setattr(adaptive, "is_warm", lambda: True)
        testing.assert_same(
            recipe.build(), inputs, seeds=[seed], compile=("never",),
            options=lambda chooser: Options(threads=chooser.choice([1, 2, 3])),
        )  # fmt: skip


def sessions() -> tw.Flow:
    """Sessions by sensor: timers in machine code."""
    flow = tw.Flow("sessions")
    readings = flow.source("rows", functions.Reading, order_by="ts", lateness="1 s")
    readings.key_by("sensor").sessions("30 s", n=tw.agg.count()).sink("out")
    return flow


@pytest.mark.parametrize(
    "names", [("sessions",), pytest.param(("spread", "dedupe"), marks=pytest.mark.slow)]
)
def test_machine_code_there_and_back(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """State and timers of compiled operators are one, whoever runs them: chains, keyed operators, windows."""
    monkeypatch.setattr(amount, "SMALL", 0)
    monkeypatch.setattr(amount, "usable_processors", lambda: 2)
    monkeypatch.setattr(adaptive, "is_warm", lambda: True)
    for name in names:
        flow = sessions() if name == "sessions" else functions.flow_of(name)
        table = make("spread" if name == "sessions" else name, text=False, rows=3_000)
        alone = tw.run(flow, {"rows": table}, threads=1)
        units = 0
        for seed in range(4):
            monkeypatch.setattr(entry, "rows_at_most", lambda plan, inputs, seed=seed: float(seed))
            monkeypatch.setattr(adaptive, "ThreadTrial", Erratic)
            went = tw.run(flow, {"rows": table}, chunk_rows=100)
            assert went.sinks["out"] == alone.sinks["out"], (name, seed)
            assert went.counts == alone.counts
            done = {one.name: (one.rows_in, one.rows_out) for one in went.progress.operators}
            for one in alone.progress.operators:
                if one.name in done:
                    assert done[one.name] == (one.rows_in, one.rows_out), (name, seed, one.name)
            units += sum(one.units for one in went.progress.operators)
        # A digest is Python.
        assert units or name == "dedupe", f"{name}: nothing ran in threads"


def python_entries(run: Callable[[], Any]) -> int:
    """How many functions Python has entered in all threads: work that no other load on the machine changes."""
    entries = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal entries
        entries += event == "call"

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entries


@pytest.mark.slow
def test_the_default_does_no_more_work_than_the_best_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of everyday flows that end soon: within a tenth of the best of one thread and two, and what a run costs."""
    monkeypatch.setattr(amount, "SMALL", 0)
    monkeypatch.setattr(amount, "usable_processors", lambda: 2)
    for name, one in functions.EVERYDAY.items():
        try:
            flow = functions.flow_of(name)
        except SchemaError:
            continue  # a deque in state
        table = make(name, text=False, rows=1_000)
        rows = rows_of(one.row, table)

        def run(flow: tw.Flow = flow, rows: list[Any] = rows, **how: Any) -> int:
            return python_entries(lambda: tw.run(flow, {"rows": rows}, **how))

        run()
        best = min(run(threads=1), run(threads=2))
        assert run() <= 1.1 * best + 200, name
