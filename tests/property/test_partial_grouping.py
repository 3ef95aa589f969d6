"""Rows of a key made into parts where they are: the output is the serial reference's, and that of whole keys."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import Recipe, SourceStep, Step, random_rows, rows_for
from tests.property.test_parallel import COMMON, any_options
from tests.property.test_slots import check as check_in_slots
from tests.sizes import sized

import thalweg as tw
from thalweg import testing

_STEP = st.builds(
    lambda param, key: ("window_of_parts", param, key), st.integers(0, 11), st.integers(0, 6)
)


@st.composite
def flows(draw: st.DrawFn) -> tuple[Recipe, dict[str, list[Any]]]:
    """A window of parts behind rows, timers, repeated rows or a union, and an operator by key behind it."""
    before = draw(st.sampled_from([None, "running", "quiet", "ticking", "repeat", "jitter"]))
    steps: list[Step] = []
    sources = (SourceStep(3),)
    if draw(st.booleans()):
        sources = (SourceStep(3), SourceStep(0))
        steps.append(Step("union", (0, 1)))
    if before is not None:
        steps.append(Step(before, (_last(sources, steps),), draw(st.integers(0, 5)), 0))
    op, param, key = draw(_STEP)
    steps.append(Step(op, (_last(sources, steps),), param, key))
    behind = draw(st.sampled_from([None, "running", "window_of_parts"]))
    if behind is not None:
        steps.append(Step(behind, (_last(sources, steps),), draw(st.integers(0, 11)), 1))
    recipe = Recipe(sources, tuple(steps))
    return recipe, draw(rows_for(recipe))


def _last(sources: tuple[SourceStep, ...], steps: list[Step]) -> int:
    return len(sources) + len(steps) - 1


_SEEDS = st.lists(st.integers(0, 9_999), min_size=2, max_size=2)


@settings(max_examples=sized(60), **COMMON)
@given(flows(), _SEEDS)
def test_any_cut(case: tuple[Recipe, dict[str, list[Any]]], seeds: list[int]) -> None:
    """Chunks and batches of any size, in one thread: rows, order, the state that is left."""
    recipe, inputs = case
    for end in (True, False):
        testing.assert_same(recipe.build(), inputs, seeds=seeds, compile=("never",), end=end)


@settings(max_examples=sized(25), **COMMON)
@given(flows(), _SEEDS)
def test_any_slots(case: tuple[Recipe, dict[str, list[Any]]], seeds: list[int]) -> None:
    """Slots that exchange messages in any order, reconfigured while rows pass."""
    check_in_slots(case, seeds)


@settings(max_examples=sized(15), **COMMON)
@given(flows(), _SEEDS)
def test_any_threads(case: tuple[Recipe, dict[str, list[Any]]], seeds: list[int]) -> None:
    """Many threads, all policies and queues."""
    recipe, inputs = case
    testing.assert_same(
        recipe.build(), inputs, seeds=seeds, compile=("never",), options=any_options
    )


class Order(NamedTuple):
    ts: int
    key: int
    amount: int
    price: float
    maybe: int | None


def sales(grouping: Any) -> tw.Flow:
    """A flow that is compiled from end to end."""
    flow = tw.Flow("sales")
    orders = flow.source("orders", Order, order_by="ts", lateness=9)
    orders.key_by("key", grouping=grouping).window(
        20, every=10, name="window", n=tw.agg.count(), total=tw.agg.sum("amount"), low=tw.agg.min("price"),
        high=tw.agg.max("price"), some=tw.agg.sum("maybe"),
    ).sink("out")  # fmt: skip
    return flow


ORDERS = [
    Order(row.ts, 0 if row.amount < 10 else row.key, row.amount, row.value, row.maybe)
    for row in random_rows(4, 600)
]


def test_compiled() -> None:
    """The merging operator is machine code; what it gives is what whole keys give, whatever the cuts and threads."""
    flow = sales("partial")
    said = str(flow.explain()).partition("  window  keyed")[2].splitlines()[:3]
    assert said[2].strip() == "compiled"
    expected = testing.reference(sales("fields"), {"orders": ORDERS})
    got = testing.assert_same(flow, {"orders": ORDERS}, options=any_options, seeds=range(6))
    assert repr(got.rows("out")) == repr(expected.rows("out"))
    assert repr(got.states) == repr(expected.states)


@pytest.mark.parametrize("options", [{}, {"slots": 3, "chunk_rows": 50}, {"threads": 2}])
def test_in_this_process(options: dict[str, Any]) -> None:
    """tw.run gives the rows of whole keys; and the counts say what was saved."""
    expected = tw.run(sales("fields"), {"orders": ORDERS}).rows("out")
    result = tw.run(sales("partial"), {"orders": ORDERS}, **options)
    assert repr(result.rows("out")) == repr(expected)
    made = result.counts["window/combine"]
    assert made["out"] == result.counts["window"]["in"] < made["in"]
