"""Random flows side by side, under changing policies and numbers of threads: each puts out what it does alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import cases
from tests.property.test_parallel import COMMON, POLICIES, Case, any_options
from tests.sizes import sized

import thalweg as tw
from thalweg import scheduling
from thalweg.plan.plan import make_plan
from thalweg.testing import counts_of_parts

_CASES = st.lists(st.one_of(cases(), cases(timed=False)), min_size=2, max_size=4)
_CHANGES = [
    None,
    *POLICIES,
    scheduling.MultiClass(
        {0: scheduling.FirstComeFirstServed(), 1: scheduling.HighestRate()}, period_s=0.001
    ),
]


def outcome(flow: tw.Flow, run: Any) -> dict[str, Any]:
    """Rows by sink (as text, since NaN differs from NaN), and the counts that are not 0 and depend on no cuts."""
    result = run()
    parts = counts_of_parts(make_plan(flow))
    counts = {
        (name, what): count
        for name, counted in result.counts.items()
        for what, count in counted.items()
        if count and (name, what) not in parts
    }
    return {"counts": counts, **{sink: [*map(repr, result.rows(sink))] for sink in result.sinks}}


def check(chosen: list[Case], seed: int) -> None:
    chooser = random.Random(seed)
    flows = [recipe.build(name=f"flow{number}") for number, (recipe, _) in enumerate(chosen)]
    inputs = [given for _, given in chosen]
    expected = [
        outcome(flow, lambda flow=flow, given=given: tw.run(flow, given, threading="manual"))
        for flow, given in zip(flows, inputs, strict=True)
    ]
    with tw.start(options=any_options(chooser)) as running:
        runs = [
            running.add(
                flow,
                given,
                priority_class=chooser.randrange(2),
                chunk_rows=chooser.choice([1, 7, 100]),
            )
            for flow, given in zip(flows, inputs, strict=True)
        ]
        for _ in range(chooser.randrange(6)):
            running.set_threads(chooser.choice([1, 2, 8]))
            running.policy = chooser.choice(_CHANGES)
            runs[0].wait(chooser.choice([0.0, 0.001]))
        stopped = chooser.choice([None, *runs[1:]])
        if stopped is not None:
            stopped.stop()
        again = running.add(chosen[0][0].build(name="again"), inputs[0])
        for flow, one, wanted in zip(flows, runs, expected, strict=True):
            if one is not stopped:
                assert outcome(flow, one.result) == wanted
        assert outcome(flows[0], again.result) == expected[0]


@settings(max_examples=sized(40), **COMMON)
@given(_CASES, st.integers(0, 9_999))
def test_random_flows_side_by_side(chosen: list[Case], seed: int) -> None:
    check(chosen, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_side_by_side() -> None:
    settings(**{**COMMON, "max_examples": 400})(given(_CASES, st.integers(0, 9_999))(check))()
