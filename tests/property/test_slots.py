"""Slots in one process: whatever reconfigurations come while rows pass, the output is the serial reference's."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import slots_kit
from tests.property.operators_kit import (
    Recipe,
    SourceStep,
    Step,
    cases,
    idle_rows,
    random_rows,
)
from tests.property.test_parallel import COMMON
from tests.sizes import sized

from thalweg import testing
from thalweg.testing.sampling import sample

Case = tuple[Recipe, dict[str, list[Any]]]
_SEEDS = st.lists(st.integers(0, 9_999), min_size=2, max_size=2)


def check(case: Case, seeds: list[int], *, threads: bool = False, places: bool = False) -> int:
    """Runs a flow in slots; the number of reconfigurations."""
    recipe, inputs = case
    flow = recipe.build()
    plan = slots_kit.interpreted(flow)
    expected = testing.reference(flow, inputs)
    epochs = 0
    for seed in seeds:
        chooser = random.Random(seed)
        whole = testing.depends_on_cuts(plan)
        ran = slots_kit.run(
            plan, inputs, chooser, threads=threads, places=places,
            chunk_rows=65_536 if whole else chooser.choice([1, 2, 3, 7]),
            cut=(lambda chooser, rows: []) if whole else testing.random_cuts,
        )  # fmt: skip
        found = testing.difference(flow, expected, ran.result)
        assert not found, f"{found}\nwith seed {seed}"
        epochs += ran.epochs
    return epochs


@settings(max_examples=sized(60), **COMMON)
@given(st.one_of(cases(), cases(), cases(timed=False)), _SEEDS)
def test_random_flows(case: Case, seeds: list[int]) -> None:
    """Flows of all operators, messages in any order."""
    check(case, seeds)


@settings(max_examples=sized(40), **COMMON)
@given(st.one_of(cases(), cases(timed=False)), _SEEDS)
def test_random_flows_with_new_keys_placed(case: Case, seeds: list[int]) -> None:
    """The same while new keys get their places in the steps that bring them, between other reconfigurations."""
    check(case, seeds, places=True)


CHAINS = {
    "two": (Step("running", (0,), 3), Step("sessions", (1,), 4)),
    "three": (Step("running", (0,)), Step("alarms", (1,), 3), Step("quiet", (2,), 5)),
}


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_chains(chain: str, threads: bool) -> None:
    """Two and three keyed operators in a row."""
    recipe = Recipe((SourceStep(3),), CHAINS[chain])
    inputs = {"in0": random_rows(5, 120)}
    assert check((recipe, inputs), [1, 2], threads=threads) > 6


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_chains_with_new_keys_placed(chain: str, threads: bool) -> None:
    """Two and three keyed operators in a row, whose new keys get their places."""
    recipe = Recipe((SourceStep(3),), CHAINS[chain])
    inputs = {"in0": random_rows(6, 120)}
    seeds = list(range(1, 1 + sized(4, 2)))
    assert check((recipe, inputs), seeds, threads=threads, places=True) > 3 * len(seeds)


@pytest.mark.parametrize("chain", CHAINS)
def test_what_is_counted(chain: str) -> None:
    """Keys and pairs are those of the serial run, those of timers too, however slots and messages lie."""
    recipe = Recipe((SourceStep(3),), CHAINS[chain])
    flow, inputs = recipe.build(), {"in0": random_rows(5, 120)}
    ran = slots_kit.run(slots_kit.interpreted(flow), inputs, random.Random(1), often=0.0)
    expected = sample(flow, inputs).statistics()
    assert ran.counted is not None
    assert set(ran.counted.pairs) == set(expected.pairs)
    for name, loads in expected.loads.items():
        assert ran.counted.loads[name].total == loads.total
        assert {one.key for one in ran.counted.loads[name].keys} == {one.key for one in loads.keys}


@pytest.mark.parametrize("step", ["sessions", "quiet", "ticking"])
def test_idle_keys(step: str) -> None:
    """With lateness 0 nothing waits at the end of the input; timers of idle keys and slots fire in order."""
    recipe = Recipe((SourceStep(0),), (Step(step, (0,), 3), Step("running", (1,), 0, 4)), (1,))
    check((recipe, {"in0": idle_rows(3)}), [1, 2, 3])


def test_a_join_whose_state_is_on_its_way() -> None:
    """A join takes the rows of a step in the order of their times: none of them before state that is to come."""
    steps = (Step("running", (0,), 1, 1), Step("join", (2, 1), 2, 4))
    recipe = Recipe((SourceStep(2), SourceStep(0)), steps)
    assert check((recipe, {"in0": random_rows(146, 60), "in1": random_rows(1146, 60)}), [146]) > 10
