"""Replicas by congestion (Sahin & Gedik, section 4.2), and threads and replicas together."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.unit.elasticity_kit import PERIOD_NS, Pipeline, Stage

import thalweg as tw
from thalweg.elasticity import (
    Combined,
    Limits,
    OperatorSample,
    Replicas,
    Sample,
    Suggestion,
    ThreadLevels,
    Utilization,
)

MICRO = 1_000.0


def operator(index: int, blocked: float, readers: float, **more: Any) -> OperatorSample:
    """An operator whose input, and whose readers' inputs, were full for such shares."""
    base = OperatorSample(
        index=index, name=f"op{index}", replicable=True, replicas=1, max_replicas=4, tuples=1000,
        busy_ns=0, cost_ns=MICRO, write_blocked=blocked, output_blocked=readers,
    )  # fmt: skip
    busy_ns = PERIOD_NS * more.get("replicas", 1)
    return dataclasses.replace(base, **{"busy_ns": busy_ns, **more})


def sample(*operators: OperatorSample, **more: Any) -> Sample:
    """A period of these operators."""
    base = Sample(
        now_ns=0, period_ns=PERIOD_NS, threads=4, tuples=sum(one.tuples for one in operators),
        operators=operators,
    )  # fmt: skip
    return dataclasses.replace(base, **more)


def started(**parameters: Any) -> Replicas:
    """The controller of a flow with up to eight threads."""
    controller = Replicas(**parameters)
    controller.start(Limits(1, 8))
    return controller


def targets(found: tuple[Suggestion, ...]) -> dict[int | None, int]:
    """By operator, the replicas it should have."""
    assert all(one.what == "replicas" and one.reason for one in found)
    return {one.operator: one.target for one in found}


BOTTLENECKS = {
    "congested, readers not": ([operator(0, 0.5, 0.0)], {0: 2}),
    "at the threshold": ([operator(0, 0.01, 0.0099)], {0: 2}),
    "not congested": ([operator(0, 0.0099, 0.0)], {}),
    "held up by its reader": ([operator(0, 0.9, 0.01), operator(1, 0.01, 0.0)], {1: 2}),
    "the most congested of several": ([operator(0, 0.2, 0.0), operator(1, 0.3, 0.0)], {1: 2}),
    "the earliest of equals": ([operator(0, 0.2, 0.0), operator(1, 0.2, 0.0)], {0: 2}),
    "not replicable": ([operator(0, 0.9, 0.0, replicable=False)], {}),
    "replicated: one more": ([operator(0, 0.9, 0.0, replicas=3)], {0: 4}),
    "as many as are allowed": ([operator(0, 0.9, 0.0, replicas=4)], {}),
    "no more than threads": ([operator(0, 0.9, 0.0, replicas=8, max_replicas=99)], {}),
    "replicas that wait for threads": ([operator(0, 0.9, 0.0, busy_ns=6 * PERIOD_NS // 10)], {}),
    "full, so the next one": (
        [operator(0, 0.9, 0.0, replicas=4), operator(1, 0.1, 0.0)],
        {1: 2},
    ),
}


@pytest.mark.parametrize("case", BOTTLENECKS)
def test_bottlenecks(case: str) -> None:
    """Algorithm 9: a bottleneck's input is congested and its readers' are not; it gets one more."""
    operators, expected = BOTTLENECKS[case]
    assert targets(started().decide(sample(*operators))) == expected


def test_a_period_of_change_teaches_nothing() -> None:
    """Nothing is concluded from a period in which a change was under way."""
    assert started().decide(sample(operator(0, 0.9, 0.0), whole=False)) == ()


def test_keeps_a_replica_that_gains() -> None:
    """Ten per cent more throughput are worth it, and the next one is asked for at once."""
    controller = started()
    controller.decide(sample(operator(0, 0.9, 0.0)))
    after = sample(operator(0, 0.9, 0.0, replicas=2, tuples=1100))
    assert targets(controller.decide(after)) == {0: 3}


def test_keeps_a_replica_that_moved_the_bottleneck() -> None:
    """No more throughput, but the operator is not what holds it up any more."""
    controller = started()
    controller.decide(sample(operator(0, 0.9, 0.9), operator(1, 0.9, 0.0)))
    after = sample(operator(0, 0.9, 0.0), operator(1, 0.0, 0.0, replicas=2))
    assert targets(controller.decide(after)) == {0: 2}
    assert controller.blacklisted() == frozenset()


def test_takes_back_and_blacklists_what_gains_nothing() -> None:
    """An operator that waits for a device is left alone for a number of periods; another one is not."""
    controller = started(ban_periods=5)
    waits = operator(0, 0.9, 0.0)
    assert targets(controller.decide(sample(waits))) == {0: 2}
    more = dataclasses.replace(waits, replicas=2, tuples=1040)
    assert targets(controller.decide(sample(more))) == {0: 1}
    assert controller.blacklisted() == {0}
    assert targets(controller.decide(sample(waits, operator(1, 0.1, 0.0)))) == {1: 2}
    controller.decide(sample(waits, operator(1, 0.0, 0.0, replicas=2, tuples=2000)))
    for _ in range(2):
        assert controller.decide(sample(waits)) == ()
    assert targets(controller.decide(sample(waits))) == {0: 2}


def test_blacklisted_until_its_cost_changes() -> None:
    """Another cost a tuple is another operator."""
    controller = started()
    controller.decide(sample(operator(0, 0.9, 0.0)))
    controller.decide(sample(operator(0, 0.9, 0.0, replicas=2)))
    assert controller.decide(sample(operator(0, 0.9, 0.0, cost_ns=1.2 * MICRO))) == ()
    assert targets(controller.decide(sample(operator(0, 0.9, 0.0, cost_ns=1.3 * MICRO)))) == {0: 2}


def test_gives_a_replica_time() -> None:
    """It is judged after as many periods as it is given."""
    controller = started(trial_periods=3)
    controller.decide(sample(operator(0, 0.9, 0.0)))
    more = sample(operator(0, 0.9, 0.0, replicas=2))
    assert not controller.settled
    assert controller.decide(more) == controller.decide(more) == ()
    assert targets(controller.decide(more)) == {0: 1}
    assert controller.settled


def test_refused() -> None:
    """What the host refuses is not asked for again for some time."""
    controller = started(ban_periods=3)
    blocked = sample(operator(0, 0.9, 0.0))
    (found,) = controller.decide(blocked)
    controller.refused(found, "no")
    assert controller.decide(blocked) == controller.decide(blocked) == ()
    assert targets(controller.decide(blocked)) == {0: 2}


def test_each_ban_is_twice_as_long() -> None:
    """What gained nothing again and again is asked for ever more rarely."""
    controller = started(ban_periods=3)
    blocked = sample(operator(0, 0.9, 0.0))
    for periods in (3, 6, 12):
        (found,) = controller.decide(blocked)
        controller.refused(found, "no")
        assert [controller.decide(blocked) for _ in range(periods - 1)] == [()] * (periods - 1)


def idle(replicas: int, busy: float) -> Sample:
    """An operator that keeps so many threads busy."""
    return sample(operator(0, 0.0, 0.0, replicas=replicas, busy_ns=round(busy * PERIOD_NS)))


@pytest.mark.parametrize(
    ("replicas", "busy", "expected"),
    [(4, 2.0, {0: 3}), (4, 2.1, {}), (2, 0.69, {0: 1}), (2, 0.7, {}), (1, 0.0, {})],
)
def test_takes_what_has_little_to_do(replicas: int, busy: float, expected: dict[int, int]) -> None:
    """One less where those left would be busy for less than 0.7 of the time, three periods in a row."""
    controller = started()
    few = idle(replicas, busy)
    assert controller.decide(few) == controller.decide(few) == ()
    assert targets(controller.decide(few)) == expected


def test_one_busy_period_keeps_the_replicas() -> None:
    """The periods of little to do have to be in a row; without any, nothing is ever taken."""
    controller = started()
    for busy in (0.1, 0.1, 2.0, 0.1, 0.1):
        assert controller.decide(idle(2, busy)) == ()
    assert targets(controller.decide(idle(2, 0.1))) == {0: 1}
    never = started(calm_periods=0)
    assert all(never.decide(idle(2, 0.1)) == () for _ in range(9))


def test_does_not_take_again_what_was_missed() -> None:
    """If the operator becomes a bottleneck without it, it keeps the replica from then on."""
    controller = started()
    for _ in range(3):
        found = controller.decide(idle(2, 0.5))
    assert targets(found) == {0: 1}
    assert targets(controller.decide(sample(operator(0, 0.5, 0.0)))) == {0: 2}
    assert all(controller.decide(idle(2, 0.5)) == () for _ in range(10))


@pytest.mark.parametrize("wrong", [{"congestion": 1.5}, {"ban_periods": 0}, {"calm_periods": -1}])
def test_parameters_are_checked(wrong: dict[str, Any]) -> None:
    """What makes no sense is refused, by name."""
    with pytest.raises(tw.BuildError, match=f"Replicas: {next(iter(wrong))}"):
        Replicas(**wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Combined(Replicas(), ThreadLevels()), "threads must be .* not Replicas"),
        (lambda: Combined(replicas=ThreadLevels()), "replicas must be .* not ThreadLevels"),
        (lambda: Combined(replicas=Utilization()), "replicas must be .* not Utilization"),
        (lambda: Combined(Combined()), "threads must be .* not Combined"),
        (lambda: Combined(ThreadLevels), "threads must be .* not the class ThreadLevels"),  # type: ignore[arg-type]
        (lambda: Combined(replicas=4), "replicas must be .* not int"),  # type: ignore[arg-type]
    ],
)
def test_roles_are_checked(make: Any, message: str) -> None:
    """With what was meant: one of threads, then one of replicas."""
    with pytest.raises(tw.BuildError, match=rf"(?s){message}.*expected: Combined\(threads="):
        make()


# --- together -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [None, Utilization()], ids=["throughput", "utilization"])
@pytest.mark.parametrize("cost_us", [1, 20, 40, 80, 100])
def test_one_busy_operator(cost_us: float, threads: Utilization | None) -> None:
    """A chain with one busy operator: throughput holds while its cost rises, until the cores are used up
    (Sahin & Gedik, Fig. 9)."""
    stages = [Stage(10 * MICRO), Stage(cost_us * MICRO), Stage(10 * MICRO)]
    pipeline = Pipeline(stages)
    controller = Combined(threads)
    controller.start(Limits(1, 12))
    pipeline.run(controller, 150)
    assert pipeline.rate >= 0.9 * best_rate([10, cost_us, 10], 12)
    assert pipeline.run(controller, 40) == []


def test_two_busy_operators_take_turns() -> None:
    """Each gets replicas until nothing is congested (Sahin & Gedik, Fig. 10)."""
    stages = [Stage(20 * MICRO), Stage(60 * MICRO), Stage(60 * MICRO), Stage(20 * MICRO)]
    pipeline = Pipeline(stages, source=50_000)
    controller = Combined(Utilization())
    controller.start(Limits(1, 12))
    done = pipeline.run(controller, 100)
    assert pipeline.rate == 50_000
    turns = [one.operator for one in done if one.what == "replicas"]
    assert turns[:4] == [2, 1, 2, 1]
    assert pipeline.run(controller, 40) == []


@pytest.mark.parametrize("threads", [None, Utilization()], ids=["throughput", "utilization"])
def test_a_device_gets_no_threads(threads: Utilization | None) -> None:
    """An operator that waits for a device ends with one replica, blacklisted."""
    pipeline = Pipeline([Stage(10 * MICRO), Stage(90 * MICRO, device=True), Stage(10 * MICRO)])
    controller = Combined(threads, Replicas(ban_periods=1000))
    controller.start(Limits(1, 12))
    pipeline.run(controller, 60)
    assert pipeline.stages[1].replicas == 1
    assert pipeline.run(controller, 40) == []


def test_shrinks_when_the_load_does() -> None:
    """With a fifth of the input, threads and replicas go back."""
    pipeline = Pipeline([Stage(10 * MICRO), Stage(80 * MICRO), Stage(10 * MICRO)], source=100_000)
    controller = Combined(Utilization())
    controller.start(Limits(1, 12))
    pipeline.run(controller, 100)
    threads, replicas = pipeline.threads, pipeline.stages[1].replicas
    pipeline.source = 20_000
    pipeline.run(controller, 100)
    assert pipeline.threads < threads
    assert pipeline.stages[1].replicas < replicas
    assert pipeline.rate == 20_000


def test_threads_come_first() -> None:
    """One change a period, and none of replicas while the thread level moves."""
    pipeline = Pipeline([Stage(10 * MICRO), Stage(80 * MICRO)])
    controller = Combined()
    controller.start(Limits(1, 4))
    kinds = []
    for _ in range(20):
        found = controller.decide(pipeline.sample())
        assert len(found) <= 1
        kinds += [one.what for one in found]
        pipeline.apply(found)
    first = kinds.index("replicas")
    assert first >= 2 and set(kinds[:first]) == {"threads"}
    assert kinds[first + 1] == "threads"


def test_settled_when_both_are() -> None:
    """A trial of a replica is not settled, whatever the threads."""
    controller = Combined(Utilization(), Replicas())
    controller.start(Limits(1, 8))
    busy = (0.93,) * 4
    (found,) = controller.decide(sample(operator(0, 0.9, 0.0), utilizations=busy))
    assert not controller.settled
    controller.refused(found, "no")
    assert controller.settled


def test_inputs_are_looked_at_as_often_as_the_eager_one_needs() -> None:
    """Levels are found without them; of congestion from 1 % on a share must be exact to less."""
    replicas = Replicas()
    assert replicas.looks * replicas.congestion >= 5
    assert ThreadLevels().looks == Utilization().looks < replicas.looks
    assert Combined().looks == Combined(Utilization(), Replicas()).looks == replicas.looks


def best_rate(costs_us: list[float], threads: int) -> float:
    """The most that so many threads can do, with any replicas."""
    return min(threads * 1e6 / sum(costs_us), 1e9)
