"""Controllers of thread levels on random curves: they settle, on a good level, stay there, and find the next one."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sizes import sized
from tests.unit.elasticity_kit import (
    Host,
    Throughput,
    amdahl,
    best_of,
    costs,
    linear,
    period,
    plateau,
    scalability,
    tent,
)

from thalweg.elasticity import Limits, ThreadLevels, Utilization

#: Periods within which a level is found.
SETTLED = 14
#: Periods for which a deviation may be noise, and the one that shows that it is not.
NOTICED = 6
_COMMON: dict[str, Any] = {"deadline": None, "derandomize": True, "database": None}
exact = settings(max_examples=sized(400), **_COMMON)


def curves(maximum: int) -> st.SearchStrategy[Throughput]:
    """Rising, flat from some level on, falling from some level on, and only falling."""
    levels = st.integers(1, maximum)
    return st.one_of(
        st.builds(linear),
        st.builds(plateau, levels),
        st.builds(amdahl, st.floats(0.0, 1.0)),
        st.builds(scalability, st.floats(0.0, 0.3), st.floats(1e-5, 0.05)),
        st.builds(tent, levels, st.floats(0.0, 1.0)),
        st.builds(costs, st.floats(0.01, 3.0)),
    )


limits_and_curve = st.integers(1, 64).flatmap(
    lambda maximum: st.tuples(
        st.builds(Limits, st.integers(1, min(maximum, 4)), st.just(maximum)), curves(maximum)
    )
)


def started(limits: Limits) -> Host:
    """A host at its minimum."""
    controller = ThreadLevels()
    controller.start(limits)
    return Host(controller, level=limits.minimum)


@exact
@given(limits_and_curve)
def test_settles_on_a_good_level(case: tuple[Limits, Throughput]) -> None:
    """Within 14 periods, where throughput is at least 95 % of the best level's; then nothing moves."""
    limits, curve = case
    host = started(limits)
    level = host.run(curve, SETTLED)
    assert host.run(curve, 40) == level
    assert set(host.levels[SETTLED:]) == {level}
    assert curve(level) >= 0.95 * best_of(curve, limits.minimum, limits.maximum)


@exact
@given(
    st.integers(2, 64).flatmap(lambda top: st.tuples(st.just(top), curves(top))),
    st.floats(0.0, 0.08),
    st.integers(0, 2**32),
)
def test_noise_moves_nothing(case: tuple[int, Throughput], noise: float, seed: int) -> None:
    """Up to 8 % of noise: after 14 periods the level stays what it is."""
    maximum, curve = case
    controller = ThreadLevels()
    controller.start(Limits(1, maximum))
    host = Host(controller, noise=noise, seed=seed)
    level = host.run(curve, SETTLED)
    host.run(curve, 60)
    assert set(host.levels[SETTLED:]) == {level}


@exact
@given(st.integers(2, 16), st.data(), st.floats(0.0, 0.08), st.integers(0, 2**32))
def test_good_in_noise(maximum: int, data: st.DataObject, noise: float, seed: int) -> None:
    """Where a thread more adds what the first one gave, up to some level, noise of 8 % costs at most an eighth."""
    curve = plateau(data.draw(st.integers(1, maximum)))
    controller = ThreadLevels()
    controller.start(Limits(1, maximum))
    level = Host(controller, noise=noise, seed=seed).run(curve, SETTLED)
    assert curve(level) >= 0.875 * best_of(curve, 1, maximum)


@exact
@given(st.integers(1, 64), st.floats(0.08, 3.0), st.floats(0.0, 0.02), st.integers(0, 2**32))
def test_stays_where_parallelism_only_costs(
    maximum: int, share: float, noise: float, seed: int
) -> None:
    """At the minimum, after one look at the level above."""
    controller = ThreadLevels()
    controller.start(Limits(1, maximum))
    host = Host(controller, noise=noise, seed=seed)
    host.run(costs(share), 60)
    assert set(host.levels[:2]) <= {1, 2}
    assert set(host.levels[SETTLED:]) == {1}


@exact
@given(
    st.integers(2, 64).flatmap(lambda top: st.tuples(st.just(top), curves(top), curves(top))),
    st.floats(0.1, 10),
)
# Ten threads give nothing, and so say nothing of how throughput falls below five.
@example((10, linear(), tent(3, 1.0)), 1.0)
def test_finds_the_level_of_another_load(
    case: tuple[int, Throughput, Throughput], factor: float
) -> None:
    """After a change that shows at the present level, the level of the new load is found as the first one was."""
    maximum, before, curve = case
    host = started(Limits(1, maximum))
    level = host.run(before, SETTLED + 6)

    def after(threads: int) -> float:
        return factor * curve(threads)

    less, more = sorted((before(level), after(level)))
    found = host.run(after, NOTICED + SETTLED)
    assert host.run(after, 20) == found
    if more > 1.21 * less:
        assert after(found) >= 0.95 * best_of(after, 1, maximum)
    elif more < 1.19 * less:
        assert found == level


@exact
@given(st.integers(2, 64).flatmap(lambda top: st.tuples(st.just(top), curves(top), curves(top))))
def test_finds_the_level_of_a_load_that_changes_during_the_search(
    case: tuple[int, Throughput, Throughput],
) -> None:
    """Whenever the load changes, the search ends, and within the limits."""
    maximum, before, curve = case
    host = started(Limits(1, maximum))
    host.run(before, 4)
    level = host.run(lambda threads: 0.2 * curve(threads), 2 * SETTLED + NOTICED)
    assert host.run(lambda threads: 0.2 * curve(threads), 20) == level
    assert all(1 <= one <= maximum for one in host.levels)


@exact
@given(st.integers(1, 32), st.floats(0.1, 40.0), st.integers(1, 32))
def test_utilization_settles(maximum: int, work: float, level: int) -> None:
    """A given amount of work, in threads: the level that has it done stays, and none is more than one away."""
    controller = Utilization()
    controller.start(Limits(1, maximum))
    levels = []
    level = min(level, maximum)
    for _ in range(80):
        share = min(work / level, 1.0)
        found = controller.decide(period(level, 0, utilizations=(share,) * level))
        level = found[0].target if found else level
        levels.append(level)
    assert len(set(levels[40:])) == 1
    assert min(work, maximum) <= level + 1e-9 or level == maximum
    assert level == 1 or work / (level - 1) > 0.9
