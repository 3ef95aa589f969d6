"""Random flows that crash and go on: every sink has the rows of the serial reference, each once and in order."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.durable_kit import run_with_crashes
from tests.property.operators_kit import Recipe, cases, random_rows
from tests.property.test_random_flows import FOUND
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import make_plan

_COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def check(recipe: Recipe, inputs: dict[str, list[Any]], seed: int, *, threads: int = 1) -> None:
    flow = recipe.build()
    try:
        expected = testing.reference(flow, inputs)
    except tw.OperatorError:
        return  # a function of the kit that does not take these rows
    with tempfile.TemporaryDirectory() as folder:
        rows, counts, _ = run_with_crashes(
            recipe.build, inputs, f"{folder}/ck", seed, threads=threads
        )
    if testing.depends_on_cuts(make_plan(flow)):
        return  # that repeats of a batch are the same is all that can be said
    for name, found in rows.items():
        assert not testing.row_difference(expected.sinks[name], found), name
    parts = testing.counts_of_parts(make_plan(flow))
    for name, of in expected.counts.items():
        whole = {what: count for what, count in of.items() if (name, what) not in parts}
        assert {what: counts[name].get(what, 0) for what in whole} == whole, name


@settings(max_examples=sized(120, 12), **_COMMON)
@given(cases(), st.integers(0, 999))
def test_timed(case: tuple[Recipe, dict[str, list[Any]]], seed: int) -> None:
    """Flows with event time: what waits at gates and in timers outlives a crash at any point."""
    check(*case, seed)


@settings(max_examples=sized(40, 6), **_COMMON)
@given(cases(timed=False), st.integers(0, 999))
def test_untimed(case: tuple[Recipe, dict[str, list[Any]]], seed: int) -> None:
    """Flows without event time have the order (source, arrival)."""
    check(*case, seed)


@pytest.mark.slow
def test_found() -> None:
    """Flows that once went wrong stay right, in one thread or two from one start to the next."""
    for seed, recipe in enumerate(FOUND.values()):
        inputs: dict[str, list[Any]] = {
            f"in{i}": random_rows(i, 40) for i in range(len(recipe.sources))
        }
        check(recipe, inputs, seed, threads=2)
