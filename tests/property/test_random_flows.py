"""Random flows over random data: the engine gives what the serial reference gives, however the input is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import (
    OPERATORS,
    REJECTING,
    SIDES,
    Recipe,
    SourceStep,
    Step,
    cases,
    random_rows,
)
from tests.sizes import sized

from thalweg import testing
from thalweg.plan.plan import make_plan

Case = tuple[Recipe, dict[str, list[Any]]]
_COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
#: Different seeds cut the input differently: chunks of one row to all, batches of none to all.
_SEEDS = st.lists(st.integers(0, 999), min_size=2, max_size=2)


def check(case: Case, seeds: list[int], *, end: bool = True) -> None:
    recipe, inputs = case
    flow = recipe.build()
    testing.assert_same(
        flow, inputs, seeds=seeds, compile=("never",), end=end,
        restart_every=lambda chooser: chooser.choice([0, 1, 2, 5]),
    )  # fmt: skip


@settings(max_examples=sized(300), **_COMMON)
@given(cases(), _SEEDS)
def test_timed(case: Case, seeds: list[int]) -> None:
    """Flows with event time: every sink's whole sequence, counts and the state that is left are the same."""
    check(case, seeds)


@settings(max_examples=sized(100), **_COMMON)
@given(cases(), _SEEDS)
def test_open_ended(case: Case, seeds: list[int]) -> None:
    """The same while the streams go on: only what the watermark has passed is out, state and timers are left."""
    recipe, _ = case
    if not testing.depends_on_cuts(make_plan(recipe.build())):
        check(case, seeds, end=False)


@settings(max_examples=sized(120), **_COMMON)
@given(cases(timed=False), _SEEDS)
def test_untimed(case: Case, seeds: list[int]) -> None:
    """Flows without event time have the order (source, arrival) within a batch."""
    check(case, seeds)


#: Flows that once went wrong.
FOUND = {
    "an order_by behind rejected firings ends with them": Recipe(
        (SourceStep(0),), (Step("alarms", (0,), 3), Step("rejected", (1,)), Step("order_by", (2,), 9))
    ),
    "firings and rows are rejected in order, by key functions too": Recipe(
        (SourceStep(3),),
        (Step("alarms", (0,)), Step("failing_key", (1,)), Step("rejected", (1,)), Step("rejected", (2,))),
    ),
    "ties at the clock of two sources": Recipe((SourceStep(0), SourceStep(3)), (Step("union", (1, 0)),)),
    "lanes that appear late": Recipe(
        (SourceStep(2, lanes="arrival"),), (Step("quiet", (0,)), Step("late", (0,)))
    ),
    "lanes that are declared": Recipe((SourceStep(2, lanes="all"),), (Step("quiet", (0,)), Step("late", (0,)))),
    "lanes beside a source without any": Recipe(
        (SourceStep(0), SourceStep(1, lanes="all"), SourceStep(0)),
        (Step("union", (2, 1, 0)), Step("quiet", (3,)), Step("late", (1,)), Step("order_by", (5,), 2)),
    ),
    "a stream merged with itself": Recipe(
        (SourceStep(3),), (Step("repeat", (0,)), Step("union", (1, 1)), Step("union", (2, 1, 2)))
    ),
    "rejected rows of a chain behind a flat_map": Recipe(
        (SourceStep(3),),
        (
            Step("repeat_or_fail", (0,)), Step("fail_some", (1,)), Step("count_or_fail", (2,)),
            Step("rejected", (1,)), Step("rejected", (2,)), Step("rejected", (3,)), Step("union", (6, 5, 4)),
        ),
    ),
    "branches of a stream within a loop meet behind it": Recipe(
        (SourceStep(3), SourceStep(0)), (Step("repeat", (0,)), Step("looped", (0, 2), 4, 3))
    ),
    "a loop with all that may stand in it, in another": Recipe(
        (SourceStep(3),), (Step("looped", (0, 0), 5, 2), Step("looped", (1, 0), 8, 3), Step("quiet", (2,)))
    ),
    "one timer feeds another": Recipe(
        (SourceStep(3),), (Step("ticking", (0,)), Step("quiet", (1,)), Step("alarms", (2,), 0, 5))
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", FOUND)
def test_found(why: str) -> None:
    """Each stays right, over many cuts."""
    recipe = FOUND[why]
    inputs: dict[str, list[Any]] = {
        f"in{i}": random_rows(i, 60) for i in range(len(recipe.sources))
    }
    for end in (True, False):
        testing.assert_same(
            recipe.build(), inputs, seeds=range(sized(8, 2)), compile=("never",), end=end
        )


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPERATORS if op not in SIDES])
def test_compiled(op: str) -> None:
    """Each operator of the kit gives the same compiled and interpreted, behind a flat_map."""
    steps = (Step("repeat", (0,)), Step(op, (1, 0) if op == "union" else (1,), 4, 3))
    side = (Step("rejected", (2,)),) if op in REJECTING else ()
    recipe = Recipe((SourceStep(3),), steps + side, (2,))
    inputs = {"in0": random_rows(1, 60)}
    testing.assert_same(recipe.build(compile="auto"), inputs, seeds=range(2))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("count", [600, pytest.param(6_000, marks=pytest.mark.exhaustive)])
def test_many(count: int) -> None:
    """Many more of all kinds."""
    flows = st.one_of(cases(), cases(), cases(timed=False), cases(max_steps=14))

    @settings(**{**_COMMON, "max_examples": count})
    @given(flows, _SEEDS)
    def whole(case: Case, seeds: list[int]) -> None:
        check(case, seeds)

    whole()
