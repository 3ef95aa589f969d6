"""Flows by the bodies of Spark's tasks, without a session: many batches, slots and new processes for little."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from slots_host import SlotsHost
from tests.property import idle_kit
from tests.property.operators_kit import (
    Recipe,
    SourceStep,
    Step,
    cases,
    idle_rows,
    random_rows,
)
from tests.property.slots_kit import interpreted
from tests.property.test_idle import SHAPES
from tests.sizes import sized

from thalweg import testing
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import make_plan
from thalweg.spark.tasks import numbers

Inputs = dict[str, list[Any]]
_COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


def check(recipe: Recipe, rows: Inputs, seed: int, *, batches: int) -> None:
    """Runs a flow to its end and compares whole sequences of sinks with the reference.

    Args:
        batches: 1: a bounded input, whose only batch has its rows and its end; else the end is a batch of its own.
    """
    flow = recipe.build()
    expected = testing.reference(flow, rows)
    chooser = random.Random(seed)
    # Blobs of two rows and more have their numbers narrowed, not only long ones.
    few = mock.patch.object(numbers, "FEW", chooser.choice((2, 256)))
    with tempfile.TemporaryDirectory() as folder, few:
        host = SlotsHost(flow, folder)
        host.chunk_rows = chooser.choice((1, 3, 65_536))
        try:
            for part in parts_of(rows, batches, chooser):
                if chooser.random() < 0.3:
                    host.forget()
                host.batch(part, slots=chooser.randint(1, 4), ends=batches == 1)
            if batches > 1:
                host.batch({}, slots=chooser.randint(1, 4), ends=True)
        finally:
            host.forget()
    for name, wanted in expected.sinks.items():
        found = testing.row_difference(wanted, host.rows[name])
        assert not found, f"sink {name!r}: {found}\n{recipe}\nseed {seed}"


def parts_of(
    rows: Inputs, batches: int, chooser: random.Random
) -> Sequence[Mapping[str, Sequence[Any]]]:
    """The rows of so many batches, cut at random."""
    ends = {
        name: [0, *sorted(chooser.randint(0, len(mine)) for _ in range(batches - 1)), len(mine)]
        for name, mine in rows.items()
    }
    return [
        {name: mine[ends[name][n] : ends[name][n + 1]] for name, mine in rows.items()}
        for n in range(batches)
    ]


def random_case(examples: int, *, batches: st.SearchStrategy[int]) -> None:
    """Many random flows."""

    @settings(**_COMMON, max_examples=examples)
    @given(cases(mixed=False, max_steps=6, rejecting=False), st.integers(0, 999), batches)
    def one(case: tuple[Recipe, Inputs], seed: int, batches: int) -> None:
        recipe, rows = case
        assume(not testing.depends_on_cuts(make_plan(recipe.build())))
        check(recipe, rows, seed, batches=batches)

    one()


#: Timers of keys that no later row wakes, behind lateness 0: nothing but the clock fires them.
IDLE = {
    "sessions": (Step("sessions", (0,), 3), Step("running", (1,), 0, 4)),
    "timers": (Step("quiet", (0,), 2), Step("running", (1,), 0, 4)),
    "timers of timers": (Step("ticking", (0,)), Step("quiet", (1,), 1), Step("alarms", (2,), 0, 5)),
    "windows": (Step("window", (0,), 2), Step("running", (1,), 0, 2)),
}


@pytest.mark.parametrize("steps", IDLE)
@pytest.mark.parametrize("batches", [1, 3])
def test_idle_keys_and_slots(steps: str, batches: int) -> None:
    """With lateness 0 the end of a bounded input finds nothing that waits; idle slots fire in order all the same."""
    for seed in range(4):
        recipe = Recipe((SourceStep(0),), IDLE[steps])
        check(recipe, {"in0": idle_rows(seed)}, seed, batches=batches)


@pytest.mark.parametrize("lanes", ["arrival", "all", "silent", "whole"])
def test_lanes_over_restarts(lanes: str) -> None:
    """Rows that wait in their lanes, late ones too, survive batches, other slots and new processes."""
    steps = (
        Step("late", (0,)),
        Step("running", (1,), 0, 4),
        Step("quiet", (0,), 1),
        Step("every_third", (1,), 0, 8),
    )
    recipe = Recipe((SourceStep(2, lanes=lanes),), steps, (0, 1))
    for seed in range(4):
        check(recipe, {"in0": random_rows(seed, 60)}, seed, batches=1 + seed * 2)


def test_loops_over_restarts() -> None:
    """All of a loop of feedback is in one slot, its state by key too, whoever reads what from outside."""
    for param in (2, 5):
        steps = (Step("running", (0,), 0, 4), Step("looped", (1,), param, param))
        for seed in range(2):
            recipe = Recipe((SourceStep(0),), steps)
            check(recipe, {"in0": random_rows(seed, 40)}, seed, batches=1 + 2 * seed)


Batch = tuple[list[IdleDecision], Mapping[str, Sequence[Any]]]


def batches_of(script: list[idle_kit.Entry], rows: Inputs, chooser: random.Random) -> list[Batch]:
    """A play as batches: what is decided stands before their rows; what follows from rows is not said."""
    made: list[Batch] = []
    ahead: list[IdleDecision] = []
    for entry in script:
        if isinstance(entry, IdleDecision):
            ahead += [entry] * (entry.what == "idle")
            continue
        name, start, stop = entry
        if made and not ahead and name in made[-1][1] and chooser.random() < 0.5:
            made[-1] = (made[-1][0], {name: [*made[-1][1][name], *rows[name][start:stop]]})
        else:
            made.append((ahead, {name: rows[name][start:stop]}))
            ahead = []
    return [*made, (ahead, {})]


@pytest.mark.parametrize("shape", SHAPES)
def test_idle_sources_over_batches(shape: str) -> None:
    """Batches that begin with decisions give what the reference gives, over slots and new processes."""
    decided = 0
    for seed in range(sized(12, 3)):
        chooser = random.Random(seed)
        recipe = idle_kit.with_idle(SHAPES[shape], chooser)
        flow = recipe.build()
        rows: Inputs = {f"in{i}": random_rows(seed + i, 20) for i in range(len(recipe.sources))}
        script = idle_kit.improvised(interpreted(flow), recipe, rows, chooser).script
        decisions: list[IdleDecision] = []
        with tempfile.TemporaryDirectory() as folder:
            host = SlotsHost(flow, folder)
            try:
                for given_, part in batches_of(script, rows, chooser):
                    if chooser.random() < 0.3:
                        host.forget()
                    slots = chooser.randint(1, 3)
                    if (
                        chooser.random() < 0.2
                    ):  # a crash before the record: the same is decided again
                        host.batch(part, slots=slots, decisions=given_, commit=False)
                        host.forget()
                    reports = host.batch(part, slots=slots, decisions=given_)
                    woken = [IdleDecision(*one) for r in reports for one in r.get("woken", ())]
                    decisions += [*given_, *woken]
                host.batch({}, slots=chooser.randint(1, 3), ends=True)
            finally:
                host.forget()
        decided += len(decisions)
        expected = testing.reference(flow, rows, decisions=decisions)
        for name, wanted in expected.sinks.items():
            found = testing.row_difference(wanted, host.rows[name])
            assert not found, f"sink {name!r}: {found}\n{recipe}\nseed {seed}"
    assert decided


def test_random_flows() -> None:
    """Bounded inputs, and streams of batches with new processes and other slots between."""
    random_case(30, batches=st.sampled_from((1, 1, 2, 4)))


@pytest.mark.slow
def test_many_random_flows() -> None:
    """Many more."""
    random_case(400, batches=st.sampled_from((1, 1, 2, 3, 5)))
