"""Thread levels by throughput, rule by rule (Schneider & Wu, section 4.2), and by utilization (Sahin & Gedik, 4.1)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.elasticity_kit import Host, costs, period, plateau

import thalweg as tw
from thalweg.elasticity import Limits, Suggestion, ThreadLevels, Utilization
from thalweg.elasticity.curve import Curve
from thalweg.elasticity.work import Weights

#: One period: the level, and its throughput.
Step = tuple[int, float]


def last_target(
    steps: list[Step], *, maximum: int = 64, cpu: float | None = None, **more: Any
) -> int:
    """Where a controller goes after these periods, whatever it suggested before."""
    controller = ThreadLevels(**more)
    controller.start(Limits(1, maximum))
    target = 0
    for level, throughput in steps:
        found = controller.decide(period(level, throughput, cpu_share=cpu))
        target = found[0].target if found else level
    return target


RULES: dict[str, tuple[list[Step], int]] = {
    "1: a trend from below, and above is not trusted: up": ([(1, 100), (2, 110)], 4),
    "1: the trend has to be more than 5 %": ([(4, 1), (1, 100), (2, 105)], 1),
    "2: a trend towards above: up": ([(1, 100), (2, 200), (4, 150), (3, 220), (2, 200)], 3),
    "2: no trend towards above: no move": ([(1, 100), (2, 200), (4, 150), (3, 205), (2, 200)], 2),
    "3: at the minimum, above not trusted: up": ([(1, 100)], 2),
    "3: at the minimum, above trusted and no better: no move": ([(1, 100), (2, 80), (1, 100)], 1),
    "4: below is not trusted: down": ([(8, 100), (16, 90), (12, 95)], 8),
    "4: even where it is higher than above": ([(8, 100), (16, 80), (8, 100)], 4),
    "5: no trend from below: down": ([(1, 100), (2, 100)], 1),
    "5: throughput falls: down": ([(1, 100), (2, 200), (4, 120)], 3),
    "6: a trend from below and none to above: no move": (
        [(1, 100), (2, 200), (4, 120), (3, 150), (2, 200)],
        2,
    ),
}


@pytest.mark.parametrize("mode", ["credits", "paper"])
@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str, mode: Any) -> None:
    """The six rules of section 4.2.2."""
    steps, expected = RULES[rule]
    assert last_target(steps, change_in_load=mode) == expected


def test_a_small_trend_is_drawn_on() -> None:
    """What is too little from one level to the next may add up to the maximum; the paper does not look that far."""
    steps = [(1, 100.0), (2, 103.0)]
    assert last_target(steps) == 4
    assert last_target(steps, maximum=3) == 3
    assert last_target(steps, maximum=2) == 1
    assert last_target(steps, change_in_load="paper") == 1


def test_levels_double_and_then_halve_the_gap() -> None:
    """While it gets better, twice as many; after that half-way back, as far as a better level may lie there."""
    host = Host(started(ThreadLevels(), maximum=64))
    host.run(plateau(11), 12)
    assert host.levels[:6] == [1, 2, 4, 8, 16, 32]
    assert host.level in range(11, 17)
    assert all(level >= 11 or level <= 8 for level in host.levels[6:])


def test_a_level_stops_at_the_maximum() -> None:
    """The level above the maximum is out of range."""
    assert last_target([(1, 1.0), (2, 2.0), (4, 4.0)], maximum=6) == 6
    assert last_target([(1, 1.0), (2, 2.0), (4, 4.0), (6, 6.0)], maximum=6) == 6


def test_up_only_while_processors_are_free() -> None:
    """At 80 % in use the level rises, above it does not; falling is always allowed (section 4.2.3)."""
    assert last_target([(1, 100)], cpu=0.80) == 2
    assert last_target([(1, 100)], cpu=0.81) == 1
    assert last_target([(1, 100), (2, 90)], cpu=0.99) == 1


def test_goes_on_when_processors_are_free_again() -> None:
    """Held back is not settled: however long it took, the search goes on then."""
    controller = started(ThreadLevels(), maximum=8)
    for _ in range(40):
        assert controller.decide(period(1, 100, cpu_share=0.95)) == ()
    assert not controller.settled
    (found,) = controller.decide(period(1, 100, cpu_share=0.5))
    assert found.target == 2


def test_a_period_of_change_teaches_nothing() -> None:
    """What a period says in which a change was under way is left out (section 4.2.3)."""
    controller = started(ThreadLevels(), maximum=8)
    controller.decide(period(1, 100))
    assert controller.decide(period(2, 1, whole=False)) == ()
    (found,) = controller.decide(period(2, 200))
    assert found.target == 4


def test_minimum_and_stuck_threads() -> None:
    """Below the minimum it rises at once; each stuck thread raises the minimum, and with it the maximum."""
    controller = ThreadLevels()
    controller.start(Limits(3, 4))
    (found,) = controller.decide(period(1, 100))
    assert (found.current, found.target) == (1, 3)
    (found,) = controller.decide(period(3, 100, unsuspendable=1))
    assert found.target == 4 and "1 stuck" in found.reason
    (found,) = controller.decide(period(4, 100, unsuspendable=2))
    assert found.target == 5


def test_searches_below_when_threads_come_free() -> None:
    """A level that only stuck threads had forced up comes down after them."""
    host = Host(started(ThreadLevels(), maximum=4))
    curve = costs(0.5)
    assert host.run(curve, 3) == 1
    host.tell(period(1, curve(1), unsuspendable=2))
    assert host.level == 3
    for _ in range(14):
        host.tell(period(host.level, curve(host.level), unsuspendable=2))
    assert host.level == 3
    assert host.run(curve, 14) == 1


def test_a_refused_level_is_out_of_range() -> None:
    """It counts as one that gives nothing, so that others are tried, and it is not asked for again."""
    controller = started(ThreadLevels(), maximum=16)
    level, asked = 1, []
    for _ in range(30):
        for found in controller.decide(period(level, 100.0 * level)):
            asked.append(found.target)
            if found.target > 5:
                controller.refused(found, "five are all there are")
            else:
                level = found.target
    assert level == 5
    assert len(asked) == len(set(asked))


def test_noise_is_borne_for_as_long_as_there_are_credits() -> None:
    """Five periods in a row that are off by more than a fifth are noise, the sixth is another load."""
    host = settled_host(ThreadLevels(), 2)
    off = period(2, 1.3 * 2e6)
    for _ in range(5):
        host.tell(off)
    assert host.controller.settled
    host.tell(off)
    assert not host.controller.settled


@pytest.mark.parametrize("reconsiders", [False, True])
def test_noise_at_a_level_of_which_nothing_is_known(reconsiders: bool) -> None:
    """While credits are used up, a stuck thread or a change elsewhere brings it to a level that was never read."""
    controller = ThreadLevels(change_in_load="credits")
    controller.start(Limits(1, 2))
    for throughput in (1_000.0, 500.0):
        controller.decide(period(1, throughput, cpu_share=1.0))
    if reconsiders:
        controller.reconsider()
    else:
        controller.decide(period(1, 500.0, cpu_share=1.0, unsuspendable=1))
    for level in (2, 1, 2):
        controller.decide(period(level, 500.0, cpu_share=1.0, unsuspendable=not reconsiders))


def test_credits_come_back() -> None:
    """One period as before, and there are five again."""
    host = settled_host(ThreadLevels(), 2)
    for _ in range(4):
        for _ in range(5):
            host.tell(period(2, 1.3 * 2e6))
        host.tell(period(2, 2e6))
    assert host.controller.settled


@pytest.mark.parametrize(("factor", "searches"), [(1.10, False), (1.15, False), (1.30, True)])
@pytest.mark.parametrize("up", [True, False])
def test_steps_of_load(factor: float, searches: bool, up: bool) -> None:
    """A step of up to a fifth changes nothing; after a larger one the level is sought anew."""
    host = settled_host(ThreadLevels(), 2)
    factor = factor if up else 1 / factor
    for _ in range(6):
        host.tell(period(2, factor * 2e6))
    assert host.controller.settled == (not searches)


def test_the_paper_forgets_at_once() -> None:
    """Without credits a deviation of more than 5 % untrusts all levels, so that below is tried again (rule 4)."""
    host = settled_host(ThreadLevels(change_in_load="paper"), 2)
    host.tell(period(2, 1.04 * 2e6))
    assert host.level == 2
    host.tell(period(2, 1.06 * 2e6))
    assert host.level != 2


def test_a_known_load_is_recognized() -> None:
    """When a load comes back, its level is taken over with one change."""
    controller = started(ThreadLevels(), maximum=16)
    host = Host(controller)
    first = host.run(plateau(8), 20)

    def slow(level: int) -> float:
        return 0.3 * costs(0.3)(level)

    second = host.run(slow, 30)
    assert (first, second) == (8, 1)
    before = len(host.suggestions)
    assert host.run(plateau(8), 7) == 8
    assert len(host.suggestions) == before + 1
    assert "one seen before" in host.suggestions[-1].reason


def test_a_load_that_only_looks_known_is_searched_anew() -> None:
    """If the level of the load taken for the present one gives something else, the search begins after all."""
    controller = started(ThreadLevels(), maximum=16)
    host = Host(controller)
    host.run(plateau(8), 20)
    host.run(lambda level: 0.3 * costs(0.3)(level), 30)
    assert host.run(costs(0.2), 30) == 1
    assert 8 in host.levels[50:]


def test_what_was_seen_under_another_load_is_forgotten_on_the_way_back() -> None:
    """A level that gives something quite else than when it was last visited shows that the load changed meanwhile."""
    host = Host(started(ThreadLevels(), maximum=64))
    host.run(plateau(64), 4)
    assert host.level == 16
    assert host.run(lambda level: 1e5 * min(level, 32), 24) >= 31


def test_same_samples_same_suggestions() -> None:
    """A controller follows from its limits and samples: start() makes it as new."""
    controller = started(ThreadLevels(), maximum=64)

    def suggestions() -> list[Suggestion]:
        host = Host(controller, noise=0.08, seed=3)
        host.run(plateau(20), 40)
        host.run(plateau(5), 40)
        return host.suggestions

    first = suggestions()
    controller.start(Limits(1, 64))
    assert suggestions() == first


def test_reasons_have_the_numbers() -> None:
    """Who reads a reason sees what it follows from."""
    controller = started(ThreadLevels(), maximum=8)
    controller.decide(period(1, 1000))
    (found,) = controller.decide(period(2, 1900))
    assert found.reason == (
        "2 gave 1,900 tuples/s after 1 gave 1,000 tuples/s, and 4 may be better still"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitivity": -0.1}, {"sensitivity": True}, {"max_cpu_share": 80}, {"readings": 0},
        {"change_in_load": "never"}, {"noise_credits": 0.5}, {"remembered": -1},
    ],
)  # fmt: skip
def test_parameters_are_checked(wrong: dict[str, Any]) -> None:
    """What makes no sense is refused, by name."""
    with pytest.raises(tw.BuildError, match=f"ThreadLevels: {next(iter(wrong))}"):
        ThreadLevels(**wrong)


UTILIZATIONS = [
    (4, 0.96, {}, 5),
    (4, 0.95, {}, 4),
    (4, 0.90, {}, 4),
    (4, 0.60, {}, 3),
    (4, 0.89, {}, 4),  # of three, each would have 119 % to do
    (4, 0.89, {"steady": False}, 3),
    (1, 0.10, {}, 1),
    (8, 0.99, {}, 8),
    (4, 0.92, {"high": 0.91}, 5),
    (4, 0.99, {"max_cpu_share": 0.8}, 4),
]


@pytest.mark.parametrize(("level", "utilization", "parameters", "expected"), UTILIZATIONS)
def test_utilization(
    level: int, utilization: float, parameters: dict[str, Any], expected: int
) -> None:
    """One more above U_h, one less below U_l, within the limits (Sahin & Gedik, 4.1)."""
    controller = Utilization(**parameters)
    controller.start(Limits(1, 8))
    found = controller.decide(period(level, 0, utilizations=(utilization,) * level, cpu_share=0.9))
    assert (found[0].target if found else level) == expected
    assert controller.settled == (expected == level)


def test_utilization_of_several_periods() -> None:
    """With smoothing one busy period is not enough; a new level begins anew."""
    controller = Utilization(smoothing=0.2)
    controller.start(Limits(1, 8))

    def busy(level: int, share: float) -> tuple[Suggestion, ...]:
        return controller.decide(period(level, 0, utilizations=(share,)))

    assert busy(2, 0.90) == ()
    assert busy(2, 1.0) == ()
    assert busy(2, 1.0) == ()
    assert busy(2, 1.0) == ()
    assert busy(2, 1.0)[0].target == 3
    assert busy(3, 0.93) == ()


def test_utilization_heeds_limits() -> None:
    """A period of change teaches nothing; stuck threads raise the minimum."""
    controller = Utilization()
    controller.start(Limits(2, 4))
    assert controller.decide(period(2, 0, utilizations=(1.0,), whole=False)) == ()
    (found,) = controller.decide(period(2, 0, utilizations=(0.93,), unsuspendable=1))
    assert found.target == 3


@pytest.mark.parametrize("wrong", [{"low": 0.95}, {"smoothing": 0.0}, {"high": 2}])
def test_utilization_parameters_are_checked(wrong: dict[str, Any]) -> None:
    """U_l is below U_h, and all are shares."""
    with pytest.raises(tw.BuildError, match="Utilization"):
        Utilization(**wrong)


def started(controller: ThreadLevels, *, maximum: int) -> ThreadLevels:
    """The controller of a flow with levels from 1 up."""
    controller.start(Limits(1, maximum))
    return controller


def settled_host(controller: ThreadLevels, level: int) -> Host:
    """A host at rest at a level, with 1,000,000 tuples/s for each of its threads."""
    host = Host(started(controller, maximum=2 * level))
    assert host.run(plateau(level), 14) == level
    assert controller.settled
    return host


@pytest.mark.parametrize(("averaged", "expected"), [(True, 110.0), (False, 120.0)])
def test_a_level_is_worth_the_mean_of_its_readings(averaged: bool, expected: float) -> None:
    """Or in the paper's form the last of them."""
    curve = Curve(
        Limits(1, 8), Weights(by_cost=False), sensitivity=0.05, noisy_sensitivity=0.02, thrift=0.1,
        averaged=averaged,
    )  # fmt: skip
    for time, rate in enumerate((100.0, 110.0, 120.0)):
        curve.record(2, (rate,), time)
    assert curve.mean(2) == (expected,)


def test_so_many_loads_are_remembered() -> None:
    """The oldest is forgotten first."""
    controller = ThreadLevels(remembered=2)
    controller.start(Limits(1, 8))
    for level in (1, 2, 3):
        controller._curve.record(level, (1.0,), level)
        controller._kept = level
        controller._remember()
    assert [load.best for load in controller._loads] == [2, 3]
