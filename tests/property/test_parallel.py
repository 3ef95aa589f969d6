"""Random flows in many threads: whole output sequences, counts and state are those of the serial reference.

Threads 1 to 8, all threading models, worklists of all kinds, both reorder buffers, queues down to one chunk.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import (
    Recipe,
    SourceStep,
    Step,
    cases,
    random_rows,
)
from tests.sizes import sized

import thalweg as tw
from thalweg import scheduling, testing
from thalweg.flow.fields.field_types import Kind
from thalweg.plan.plan import make_plan
from thalweg.workers.options import Options

Case = tuple[Recipe, dict[str, list[Any]]]
COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
_SEEDS = st.lists(st.integers(0, 9_999), min_size=2, max_size=2)


#: Compiling a pick takes longer than a flow of this size runs, so the objects are shared.
POLICIES = [
    scheduling.QueueSizeThrottling(capacity=50),
    scheduling.LastInPipeline(),
    scheduling.EstimatedTime(),
    scheduling.CurrentThroughput(),
    scheduling.CurrentThroughput(normalize="output", slice_ns=1_000),
    scheduling.Random(slice_ns=1_000),
    scheduling.RoundRobin(),
    scheduling.MaxQueueLength(),
    scheduling.MinLatency(slice_ns=1_000),
    scheduling.MaxRunningTime(slice_ns=100_000),
    # Chain knows no fan-out, unless it is told what to do then.
    scheduling.FirstComeFirstServed(period_s=0.001, batch_rows=1),
    scheduling.HighestRate(period_s=0.002, batch_rows=10_000, starve_after_s=0.001),
    scheduling.Chain(period_s=0.001, fanout="max", stale_after_s=0.001),
]


def any_options(chooser: random.Random) -> Options:
    """How a run goes, drawn from all that there is."""
    return Options(
        threads=chooser.choice([1, 2, 3, 8]),
        threading=chooser.choice(["dynamic", "dynamic", "dynamic", "dedicated", "manual"]),
        policy=chooser.choice([None, scheduling.FreeList(), *POLICIES]),
        queue_chunks=chooser.choice([1, 2, 3, 64]),
        rows_limit=chooser.choice([1, 4_000_000]),
        partitions=chooser.choice([None, 1, 2, 5, 200]),
        queue=chooser.choice(["hybrid", "hybrid", "partitioned", "shared"]),
        reorder=chooser.choice(["non-blocking", "non-blocking", "lock-based"]),
    )


def check(case: Case, seeds: list[int]) -> None:
    recipe, inputs = case
    testing.assert_same(
        recipe.build(), inputs, seeds=seeds, compile=("never",), options=any_options
    )


@settings(max_examples=sized(150), **COMMON)
@given(st.one_of(cases(), cases(), cases(timed=False)), _SEEDS)
def test_random_flows(case: Case, seeds: list[int]) -> None:
    """Timed and untimed flows of all operators."""
    check(case, seeds)


@settings(max_examples=sized(150), **COMMON)
@given(st.one_of(cases(), cases(), cases(timed=False)), _SEEDS)
def test_regions(case: Case, seeds: list[int]) -> None:
    """Manual, dedicated and dynamic operators in any mix, whatever the run says of the others."""
    recipe, inputs = case
    flow = recipe.build(regions=random.Random(seeds[0]))
    testing.assert_same(flow, inputs, seeds=seeds, compile=("never",), options=any_options)


#: By the kind of a key's first field, where ranges may begin; the last of all are for keys that never come.
FIRSTS: dict[Kind, list[Any]] = {
    Kind.INT: [-(2**63), -1, 0, 1, 2, 3, 5, 9, 2**63 - 1],
    Kind.FLOAT: [-math.inf, -1.5, 0.0, 0.5, 3.0, math.inf, math.nan],
    Kind.STR: ["", "a", "b", "k", "r", "s", "z", "\u00fc", "\U0001f600"],
    Kind.CATEGORY: ["", "a", "blue", "green", "red", "z"],
    Kind.BOOL: [True],
    Kind.TIMESTAMP: [0, 5, 20, 100],
}


def with_ranges(flow: tw.Flow, chooser: random.Random) -> Options:
    """Any options, with ranges for the keys of some operators, or of all."""
    names: dict[str, list[Any]] = {}
    for node in make_plan(flow).keyed:
        firsts = FIRSTS.get(node.key.fields[0].type.kind, []) if node.key.fields else []
        chosen = [one for one in firsts if chooser.random() < 0.5]
        if chosen and chooser.random() < 0.8:
            names[node.name] = chosen
    options = any_options(chooser)
    return dataclasses.replace(options, partition="range", boundaries=names) if names else options


@settings(max_examples=sized(150), **COMMON)
@given(st.one_of(cases(), cases(), cases(timed=False)), _SEEDS)
def test_ranges(case: Case, seeds: list[int]) -> None:
    """Partitions that are ranges of keys, of any boundaries and types of keys, beside regions."""
    recipe, inputs = case
    flow = recipe.build(regions=random.Random(seeds[0]))
    how = functools.partial(with_ranges, flow)
    testing.assert_same(flow, inputs, seeds=seeds, compile=("never",), options=how)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("count", [600, pytest.param(6_000, marks=pytest.mark.exhaustive)])
def test_many(count: int) -> None:
    """Many more, and deeper ones."""
    flows = st.one_of(cases(), cases(timed=False), cases(max_steps=14))
    settings(**{**COMMON, "max_examples": count})(given(flows, _SEEDS)(check))()


#: Compiled operators, alone, before and behind others, and where functions raise.
MACHINE_CODE = {
    "a chain": Recipe(
        (SourceStep(0),), (Step("repeat", (0,)), Step("scale", (1,)), Step("not_third", (2,)))
    ),
    "texts": Recipe(
        (SourceStep(0),),
        (Step("speaks", (0,)), Step("greet", (1,), 3), Step("spell", (2,)), Step("speaks", (3,))),
    ),
    "keyed": Recipe(
        (SourceStep(0),), (Step("scale", (0,)), Step("alarms", (1,), 3), Step("repeat", (2,)))
    ),
    "fan-out": Recipe(
        (SourceStep(0),),
        (
            Step("repeat", (0,)),
            Step("scale", (1,)),
            Step("odd_only", (1,)),
            Step("not_third", (2,)),
        ),
    ),
    "raising": Recipe(
        (SourceStep(0),),
        (Step("fail_some", (0,)), Step("repeat_or_fail", (1,)), Step("rejected", (1,))),
    ),
    "two sources": Recipe(
        (SourceStep(0), SourceStep(3)),
        (Step("scale", (0,)), Step("odd_only", (1,)), Step("is_tagged", (2,))),
    ),
}


@pytest.mark.parametrize("what", MACHINE_CODE)
def test_machine_code(what: str) -> None:
    """Compiled operators inside the worker loop give what the reference gives."""
    recipe = MACHINE_CODE[what]
    inputs: dict[str, list[Any]] = {
        f"in{i}": random_rows(i, 150) for i in range(len(recipe.sources))
    }
    for regions in (None, random.Random(what)):
        flow = recipe.build(compile="auto", regions=regions)
        testing.assert_same(
            flow,
            inputs,
            seeds=range(sized(12, 4)),
            compile=("auto",),
            options=functools.partial(with_ranges, flow),
        )


#: Shapes that must be seen whatever the random ones are.
SHAPES = {
    "diamond": Recipe(
        (SourceStep(0),),
        (Step("repeat", (0,)), Step("scale", (1,)), Step("odd_only", (1,)), Step("union", (2, 3))),
    ),
    "fan-out": Recipe(
        (SourceStep(0),), (Step("alarms", (0,), 3), Step("scale", (0,)), Step("quiet", (0,), 4))
    ),
    "union of two sources": Recipe(
        (SourceStep(0), SourceStep(3)), (Step("union", (0, 1)), Step("alarms", (2,), 3))
    ),
    "calls before and behind keyed stages": Recipe(
        (SourceStep(3),),
        (
            Step("asked", (0,), 4),
            Step("quiet", (1,)),
            Step("asked_service", (2,)),
            Step("rejected", (3,)),
        ),
    ),
    "keyed stages in a row": Recipe(
        (SourceStep(3),), (Step("alarms", (0,), 3), Step("quiet", (1,), 4), Step("ticking", (2,)))
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    """Each over many ways to run it."""
    recipe = SHAPES[shape]
    inputs: dict[str, list[Any]] = {
        f"in{i}": random_rows(i, 80) for i in range(len(recipe.sources))
    }
    testing.assert_same(
        recipe.build(), inputs, seeds=range(sized(24)), compile=("never",), options=any_options
    )


#: More of them, deep, for machine code and Python side by side.
COMPILED = {
    **SHAPES,
    "windows beside timers": Recipe(
        (SourceStep(3), SourceStep(0)),
        (Step("union", (0, 1)), Step("window", (2,), 1), Step("alarms", (2,), 3), Step("union", (3, 4))),
    ),
    "rejected and late": Recipe(
        (SourceStep(0),),
        (Step("fail_some", (0,)), Step("rejected", (1,)), Step("late", (0,)), Step("count_or_fail", (1,))),
    ),
    "interpreted between compiled": Recipe(
        (SourceStep(3),),
        (
            Step("scale", (0,)), Step("add_ten", (1,)), Step("sessions", (2,), 4), Step("dedupe", (3,)),
            Step("top_k", (2,)),
        ),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", COMPILED)
def test_compiled_shapes(shape: str) -> None:
    """Compiled, over very many ways to run and more rows; a flow is compiled once, so few flows."""
    recipe = COMPILED[shape]
    for round_ in range(4):
        inputs: dict[str, list[Any]] = {
            f"in{i}": random_rows(10 * round_ + i, 200) for i in range(len(recipe.sources))
        }
        seeds = range(12 * round_, 12 * round_ + 12)
        testing.assert_same(
            recipe.build(compile="auto"),
            inputs,
            seeds=seeds,
            compile=("auto",),
            options=any_options,
        )
