"""Sources and lanes that fall silent: rows and decisions give what the serial reference gives, however they are cut."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property import idle_kit as kit
from tests.property.operators_kit import Recipe, SourceStep, Step, cases, random_rows
from tests.property.slots_kit import interpreted
from tests.sizes import sized

from thalweg import testing
from thalweg.flow.operators.idle import IdleDecision

_COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def check(recipe: Recipe, inputs: kit.Inputs, seed: int, makes: tuple[Any, ...]) -> int:
    """Improvises, then repeats it with other engines; how many decisions there were."""
    chooser = random.Random(seed)
    recipe = kit.with_idle(recipe, chooser)
    flow = recipe.build()
    plan = interpreted(flow)
    if testing.depends_on_cuts(plan):
        return 0
    for end in (True, False):
        first = kit.improvised(plan, recipe, inputs, chooser)
        script = first.script
        decisions = [one for one in script if isinstance(one, IdleDecision)]
        expected = testing.reference(flow, inputs, end=end, decisions=decisions)
        assert not testing.difference(flow, expected, first.result(end=end))
        for make in makes:
            again = kit.repeated(plan, script, inputs, make, chooser)
            assert not testing.difference(flow, expected, again.result(end=end))
    return len(decisions)


@pytest.mark.slow
@settings(max_examples=sized(200, 40), **_COMMON)
@given(cases(max_steps=5), st.integers(0, 9_999))
def test_random_flows(case: tuple[Recipe, kit.Inputs], seed: int) -> None:
    """Any flow: the first run and a repeat of its decisions in other chunks are as the reference has them."""
    check(*case, seed, (kit.serial,))


@pytest.mark.slow
@settings(max_examples=sized(60, 15), **_COMMON)
@given(cases(max_steps=5), st.integers(0, 9_999))
def test_threads_and_slots(case: tuple[Recipe, kit.Inputs], seed: int) -> None:
    """The same in one to three threads, and in one to three slots."""
    check(*case, seed, (kit.threads, kit.slots))


_SESSIONS = (Step("sessions", (0,), 4), Step("late", (0,)), Step("running", (2,)))
SHAPES = {
    "one source": Recipe((SourceStep(2),), _SESSIONS),
    "lanes": Recipe((SourceStep(2, lanes="all"),), _SESSIONS),
    "a lane that never comes": Recipe((SourceStep(1, lanes="silent"),), _SESSIONS),
    "lanes that appear": Recipe((SourceStep(2, lanes="arrival"),), _SESSIONS),
    "ties of two sources": Recipe((SourceStep(0), SourceStep(0)), (Step("union", (1, 0)),)),
    "lanes beside another source": Recipe(
        (SourceStep(0, lanes="all"), SourceStep(1)), (Step("union", (0, 1)), Step("quiet", (2,)))
    ),
    "three sources": Recipe(
        (SourceStep(3, lanes="arrival"), SourceStep(0), SourceStep(1, lanes="silent")),
        (Step("union", (2, 0, 1)), Step("window", (3,))),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    """Each kind of source, over many plays of rows that come late."""
    recipe, many = SHAPES[shape], 0
    for seed in range(sized(40, 6)):
        inputs: kit.Inputs = {
            f"in{i}": random_rows(seed + i, 25) for i in range(len(recipe.sources))
        }
        many += check(recipe, inputs, seed, (kit.serial,))
    assert many
