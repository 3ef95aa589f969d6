"""Several flows in one engine: outputs of serial runs, classes, flows that come, go and fail while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from tests.unit.engine_kit import bounded, no_thread_left  # noqa: F401

import thalweg as tw
from thalweg import scheduling
from thalweg.errors import (
    BuildError,
    DataError,
    EnvironmentProblem,
    SchedulingError,
    ThalwegError,
)
from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.lockfree.rings import mpmc_pop
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.memory import Memory
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.memory.reserve import Ranges, Reserve
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: int
    key: int
    value: int


class Sum(NamedTuple):
    key: int
    total: int


@tw.state
class Total:
    total: int = 0


def doubled(row: Row) -> Row:
    return Row(row.ts, row.key, 2 * row.value)


def running_sum(state: Total, row: Row) -> Sum:
    state.total += row.value
    return Sum(row.key, state.total)


def flow_of(name: str) -> tw.Flow:
    """A stateless, a keyed and a stateful operator, and a branch."""
    flow = tw.Flow(name)
    rows = flow.source("in", Row, order_by="ts").map(doubled)
    rows.key_by("key").process(running_sum, state=Total, name="sums").sink("sums")
    rows.filter(lambda row: row.value % 3 == 0, name="thirds").sink("thirds")
    return flow


def rows_of(seed: int, count: int = 2_000) -> list[Row]:
    return [Row(i, (i * seed) % 11, i + seed) for i in range(count)]


NAMES = ["urgent", "background", "third"]
INPUTS = {name: {"in": rows_of(seed)} for seed, name in enumerate(NAMES, 1)}
SINKS = ("sums", "thirds")
EXPECTED = {name: tw.run(flow_of(name), INPUTS[name], threading="manual") for name in NAMES}
POLICIES: dict[str, Any] = {
    "free list": None,
    "pick": scheduling.CurrentThroughput(),
    "pick in Python": scheduling.LastInPipeline(),
    "rounds": scheduling.MultiClass(
        {0: scheduling.FirstComeFirstServed(), 1: scheduling.HighestRate()}, period_s=0.002
    ),
    "own": scheduling.by(lambda op, view: -op.priority_class, period_s=0.002),
}


def same(result: tw.embedded.Result, name: str) -> bool:
    return all(result.rows(sink) == EXPECTED[name].rows(sink) for sink in SINKS)


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("chunk_rows", [None, 37])
def test_outputs_are_those_of_serial_runs(policy: Any, chunk_rows: int | None) -> None:
    results = bounded(
        lambda: tw.run(
            [flow_of(name) for name in NAMES], INPUTS, policy=policy, threads=3,
            classes={"background": 1, "third": 1}, chunk_rows=chunk_rows,
        )
    )  # fmt: skip
    assert list(results) == NAMES
    for name in NAMES:
        assert same(results[name], name)
        assert results[name].counts == EXPECTED[name].counts


@pytest.mark.usefixtures("no_thread_left")
def test_dedicated_threads() -> None:
    results = bounded(
        lambda: tw.run([flow_of(name) for name in NAMES], INPUTS, threading="dedicated")
    )
    assert all(same(results[name], name) for name in NAMES)


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_flows_come_and_go_while_one_runs(policy: Any) -> None:
    """One flow runs on for all the time; the places of those that are gone are used again."""
    source = tw.push_source()
    long = tw.Flow("long")
    long.source("in", Row).map(doubled).sink("out")
    pushed = rows_of(5, 300)

    def run() -> list[Row]:
        with tw.start(threads=2, policy=policy, reserve=Reserve(operators=40, ports=40)) as running:
            first = running.add(long, {"in": source}, priority_class=1)
            for number in range(12):
                source.push(*pushed[25 * number : 25 * number + 25])
                name = NAMES[number % 3]
                stops = number % 4 == 3
                # What is to be stopped must not end before that.
                endless = tw.push_source()
                endless.push(*INPUTS[name]["in"][:25])
                given = {"in": endless} if stops else INPUTS[name]
                one = running.add(flow_of(name), given, priority_class=number % 2)
                if stops:
                    one.stop()
                    assert not one.is_active and one.exception is None
                    with pytest.raises(ThalwegError, match=f"flow '{name}' was stopped"):
                        one.result()
                else:
                    assert same(one.result(), name)
                assert first.is_active
            source.close()
            return first.result().rows("out")

    assert bounded(run) == [doubled(row) for row in pushed]


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_flow_that_fails_ends_alone(policy: Any) -> None:
    def fails(row: Row) -> Row:
        return Row(row.ts, row.key, row.value // (row.value - 700))

    def fails_keyed(state: Total, row: Row) -> Sum:
        return Sum(row.key, row.value // (row.value - 1_300))

    def run() -> None:
        with tw.start(threads=2, policy=policy) as running:
            good = [running.add(flow_of(name), INPUTS[name]) for name in NAMES]
            stateless, keyed = tw.Flow("stateless"), tw.Flow("keyed")
            stateless.source("in", Row).map(fails).sink("out")
            rows = keyed.source("in", Row).map(doubled)
            rows.key_by("key").process(fails_keyed, state=Total).sink("out")
            bad = [
                running.add(flow, {"in": rows_of(2)}, chunk_rows=20) for flow in (stateless, keyed)
            ]
            for one, function in zip(bad, ("fails", "fails_keyed"), strict=True):
                with pytest.raises(DataError, match=function):
                    one.result()
                assert isinstance(one.exception, DataError)
            assert all(same(one.result(), one.name) for one in good)
            # Their places are free again.
            again = running.add(flow_of("stateless"), INPUTS["urgent"])
            assert same(again.result(), "urgent")

    bounded(run)


@pytest.mark.usefixtures("no_thread_left")
def test_the_first_failure_ends_a_run_of_several() -> None:
    def fails(row: Row) -> Row:
        raise ValueError("no")

    def endless() -> Iterator[Row]:
        while True:
            yield Row(0, 0, 0)

    bad, good = tw.Flow("bad"), tw.Flow("good")
    bad.source("in", Row).map(fails).sink("out")
    good.source("in", Row).map(doubled).sink("out")
    given = {"bad": {"in": rows_of(1)}, "good": {"in": endless()}}
    with pytest.raises(DataError, match="fails"):
        bounded(lambda: tw.run([good, bad], given, {"good": {"out": tw.each(lambda row: None)}}))


@pytest.mark.usefixtures("no_thread_left")
def test_the_end_of_inputs_by_hand() -> None:
    """What has come runs through, and the result has it all."""
    source, seen = tw.push_source(), threading.Event()
    flow = tw.Flow("live")
    flow.source("in", Row).map(doubled).sink("out")
    flow.source("other", Row).sink("seen")

    def run() -> list[Row]:
        with tw.start(threads=2) as running:
            one = running.add(
                flow,
                {"in": [Row(0, 0, 1)], "other": source},
                {"seen": tw.each(lambda row: seen.set())},
            )
            source.push(Row(0, 0, 1))
            assert seen.wait(60)
            with pytest.raises(TimeoutError, match="flow 'live'"):
                one.result(0.0)
            one.end()
            return one.result().rows("out")

    assert bounded(run) == [Row(0, 0, 2)]


@pytest.mark.usefixtures("no_thread_left")
def test_policy_and_threads_change_while_flows_run() -> None:
    def run() -> None:
        with tw.start(threads=8) as running:
            runs = [running.add(flow_of(name), INPUTS[name], chunk_rows=20) for name in NAMES]
            for policy in [*POLICIES.values(), None]:
                for count in (1, 8, 2):
                    running.set_threads(count)
                    running.policy = policy
                    assert running.policy is policy
            assert all(same(one.result(), one.name) for one in runs)

    bounded(run)


@pytest.mark.usefixtures("no_thread_left")
def test_a_class_without_a_policy_ends_the_run() -> None:
    policy = scheduling.MultiClass({0: scheduling.FirstComeFirstServed()})
    flows, given = [flow_of(name) for name in NAMES], INPUTS
    with pytest.raises(
        SchedulingError, match=r"flow (urgent|background|third) is of class 3\n.*\[0\]"
    ):
        bounded(lambda: tw.run(flows, given, policy=policy, classes=dict.fromkeys(NAMES, 3)))


def fan_out(name: str) -> tw.Flow:
    flow = tw.Flow(name)
    rows = flow.source("in", Row, order_by="ts").map(doubled, name="trunk")
    for branch in ("left", "right"):
        rows.map(doubled, name=branch).sink(f"to {branch}")
    return flow


@pytest.mark.usefixtures("no_thread_left")
def test_a_policy_that_does_not_suit_a_flow_is_refused_before_others_suffer() -> None:
    """Neither the flow nor the policy comes in; what runs goes on."""
    source = tw.push_source()
    line = tw.Flow("line")
    line.source("in", Row, order_by="ts").map(doubled).sink("out")
    with tw.start(threads=2, policy=scheduling.Chain()) as running:
        first = running.add(line, {"in": source})
        with pytest.raises(SchedulingError, match="policy Chain"):
            running.add(fan_out("forked"), INPUTS["urgent"])
        assert list(running.flows) == ["line"]
        running.policy = scheduling.MultiClass({0: scheduling.FirstComeFirstServed()})
        with pytest.raises(SchedulingError, match="class 5"):
            running.add(flow_of("late"), INPUTS["urgent"], priority_class=5)
        second = running.add(fan_out("forked"), INPUTS["urgent"])
        with pytest.raises(SchedulingError, match="policy Chain"):
            running.policy = scheduling.Chain()
        with pytest.raises(SchedulingError, match="no idea"):
            running.policy = scheduling.by(lambda operator, view: {}["no idea"])
        assert isinstance(running.policy, scheduling.MultiClass)
        source.push(Row(1, 1, 1))
        source.close()
        assert bounded(first.result).rows("out") == [Row(1, 1, 2)]
        assert len(bounded(second.result).rows("to left")) == len(INPUTS["urgent"]["in"])


@pytest.mark.usefixtures("no_thread_left")
def test_a_policy_that_fails_later_ends_all() -> None:
    """The next flow is told why."""
    failing = scheduling.by(lambda operator, view: 1 // (operator.worklist < 1))
    with tw.start(threads=1, policy=failing) as running:
        run = running.add(flow_of("one"), INPUTS["urgent"])
        with pytest.raises(SchedulingError, match="ZeroDivisionError"):
            bounded(run.result)
        with pytest.raises(BuildError, match=r"all flows have ended here.*ZeroDivisionError"):
            running.add(flow_of("two"), INPUTS["urgent"])


def test_more_flows_than_usual() -> None:
    flows = []
    for number in range(70):
        flow = tw.Flow(f"flow {number}")
        flow.source("in", Row, order_by="ts").map(doubled).sink("out")
        flows.append(flow)
    results = bounded(
        lambda: tw.run(flows, {one.name: {"in": [Row(1, 1, 1)]} for one in flows}, threads=2)
    )
    assert all(one.rows("out") == [Row(1, 1, 2)] for one in results.values())


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "two"])
def test_numbers_of_threads_that_are_none(count: Any) -> None:
    with tw.start(threads=2) as running, pytest.raises(BuildError, match="threads: expected"):
        running.set_threads(count)


@pytest.mark.parametrize("value", [-1, 1.0, True, "high"])
def test_classes_that_are_none(value: Any) -> None:
    with tw.start(threads=2) as running, pytest.raises(BuildError, match="a priority class is"):
        running.add(flow_of("one"), INPUTS["urgent"], priority_class=value)


def test_wrong_arguments() -> None:
    one, two = flow_of("one"), flow_of("two")
    given = {"one": INPUTS["urgent"], "two": INPUTS["urgent"]}
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: tw.run([], {}), "no flows"),
        (lambda: tw.run([one, flow_of("one")], given), "two flows are named 'one'"),
        (lambda: tw.run([one, two], {**given, "three": {}}), "inputs: there is no flow 'three'"),
        (lambda: tw.run([one, two], {"one": given["one"]}), "source 'in'"),
        (lambda: tw.run([one, two], given, classes={"tow": 1}), "classes: there is no flow 'tow'"),
        (
            lambda: tw.run([one, two], given, classes={"two": "low"}),
            "a priority class is an int",
        ),  # type: ignore[dict-item]
        (lambda: tw.run([one, two], given, {"one": {"x": tw.each(print)}}), "'x'"),
        (lambda: tw.run([one, two], given, threading="manual"), "manual"),  # type: ignore[call-overload]
        (lambda: tw.run([one, 3], given), "expected tw.Flows"),  # type: ignore[list-item]
        (lambda: tw.run(one, given["one"], classes={"one": 1}), "classes= needs several flows"),  # type: ignore[call-overload]
        (lambda: tw.start(threading="manual"), "manual"),  # type: ignore[arg-type]
    ]
    for call, message in cases:
        with pytest.raises(BuildError, match=message):
            call()


@pytest.mark.usefixtures("no_thread_left")
def test_a_name_that_runs_and_flows_that_were_stopped() -> None:
    source = tw.push_source()
    running = tw.start(threads=1)
    running.add(flow_of("one"), {"in": source})
    with pytest.raises(BuildError, match="a flow 'one' runs already"):
        running.add(flow_of("one"), INPUTS["urgent"])
    bounded(running.stop)
    with pytest.raises(BuildError, match="were stopped"):
        running.add(flow_of("two"), INPUTS["urgent"])


@pytest.mark.usefixtures("no_thread_left")
def test_a_flow_that_is_stopped_before_it_begins() -> None:
    """It never does, says so, and its name is free again."""
    with tw.start(threads=2) as running:
        run = running.prepare(flow_of("one"), INPUTS["urgent"])
        assert run.is_active
        run.stop()
        assert not run.is_active and run.wait() and run.exception is None
        with pytest.raises(ThalwegError, match="was stopped before its end"):
            run.result()
        running.begin()
        other = running.add(flow_of("one"), INPUTS["urgent"])
        bounded(other.result)
        never = running.prepare(flow_of("two"), INPUTS["urgent"])
    with pytest.raises(ThalwegError, match="was stopped before its end"):
        never.result()


def test_a_long_flow_fits() -> None:
    """Streams that nobody reads, two of each operator, take no room."""
    flow = tw.Flow("long")
    rows = flow.source("in", Row, order_by="ts")
    for number in range(100):
        # No more doublings than an int has bits for.
        if number < 50:
            rows = rows.map(doubled, name=f"double {number}")
        else:
            rows = rows.filter(lambda row: row.value > 0, name=f"pass {number}")
        if number % 10 == 0:
            rows.sink(f"at {number}")
    rows.sink("end")
    with tw.start(threads=2) as running:
        result = running.add(flow, {"in": [Row(1, 2, 1)]}).result()
    assert [row.value for row in result.rows("at 10")] == [2**11]


@pytest.mark.parametrize(
    ("room", "count", "what"),
    [
        ({"operators": 12}, 4, "operators than are left of the 12"),
        ({"ports": 5}, 2, "ports than are left of the 5"),
        ({"flows": 1}, 1, "flows than are left of the 1"),
        ({"words": 3_000}, 2, "words than are left of the 3000"),
        ({"handles": 1_000}, 2, "handles than are left of the 1000"),
        ({"widest": 0}, 0, "widest"),
        ({"refs": 0}, 0, "refs"),
        ({"clocks": 0}, 0, "clocks"),
    ],
)
@pytest.mark.usefixtures("no_thread_left")
def test_no_room_for_one_more_flow(room: dict[str, int], count: int, what: str) -> None:
    """It says what is missing, and takes nothing: when the others are gone there is room again."""

    def line(number: int) -> tw.Flow:
        flow = tw.Flow(f"line {number}")
        flow.source("in", Row).map(doubled).map(doubled, name="again").sink("out")
        return flow

    def run() -> None:
        with tw.start(options=Options(threads=1), reserve=Reserve(**room)) as running:
            for number in range(count):
                running.add(line(number), {"in": tw.push_source()})
            with pytest.raises(EnvironmentProblem, match=what):
                running.add(line(count), {"in": tw.push_source()})
            for one in running.flows.values():
                one.stop()
            for number in range(5, 5 + count):
                running.add(line(number), {"in": tw.push_source()})

    bounded(run)


@pytest.mark.parametrize("own_threads", [True, False])
def test_who_sleeps_for_an_operator_alone(own_threads: bool) -> None:
    """A thread of an operator's own is woken for that operator only; workers of all sleep in one place."""
    specs = [
        at.OpSpec("ingress", at.INGRESS, capacity=4),
        at.OpSpec("a", at.STATEFUL, [(0, 0)], capacity=4, limit=1, own_thread=own_threads),
        at.OpSpec("b", at.STATEFUL, [(1, 0)], capacity=4, limit=1, own_thread=own_threads),
    ]
    reserve = Reserve.exactly([specs, specs], workers=1, refs=1, clocks=1)
    memory = Memory(workers=1, reserve=reserve)
    mem = memory.mem
    placed = [memory.add(specs, rows_limit=10) for _ in range(2)]
    places = [int(mem[op_at(mem, op) + at.PARK]) for op in (1, 2, 4, 5)]
    fixed = [int(mem[worker_at(mem, w) + at.FIXED]) for w in range(int(mem[at.MAX_WORKERS]))]
    listed = [int(mpmc_pop(mem, int(mem[at.FREE_OPS]))) for _ in range(5)]
    if own_threads:
        assert len(set(places)) == 4 and 0 not in places
        assert fixed == [EMPTY, 1, 2, 4, 5] and listed == [EMPTY] * 5
        memory.remove(placed[0])
        assert mem[worker_at(mem, 1) + at.FIXED] == EMPTY, "it must not run what comes in its place"
        assert memory.reclaim(idle=True) == 0
        memory.add(specs, rows_limit=10)
        assert mem[worker_at(mem, 1) + at.FIXED] == 1 and mem[op_at(mem, 1) + at.OWNER] == 2
    else:
        assert set(places) == {0} and fixed == [EMPTY]
        assert listed == [1, 2, 4, 5, EMPTY]


def test_ranges_are_joined_again() -> None:
    ranges = Ranges(3, 10)
    taken = [ranges.take(count) for count in (4, 3, 3)]
    assert taken == [3, 7, 10] and ranges.take(1) == EMPTY
    for first, count in ((7, 3), (3, 4), (10, 3)):
        ranges.give(first, count)
    assert ranges.take(10) == 3


def test_a_memory_gives_the_same_places_again() -> None:
    """After each flow is gone, all that it had is there for the next one."""
    specs = [
        at.OpSpec("ingress", at.INGRESS, capacity=4),
        at.OpSpec("a", at.STATELESS, [(0, 0)], capacity=4),
        at.OpSpec("b", at.KEYED, [(1, 0)], capacity=4, partitions=3),
        at.OpSpec("c", at.STATEFUL, [(2, 0), (1, 0)], capacity=4, limit=1),
    ]
    memory = Memory(workers=2, reserve=Reserve.exactly([specs, specs], workers=2, refs=1, clocks=1))
    handles = memory.handles_with(specs)
    passes = [int(worker_at(memory.mem, w)) + at.PASSES for w in range(2)]
    for turn in range(3):
        one, two = (memory.add(specs, rows_limit=10) for _ in range(2))
        assert (one.first, two.first) == (0, 4) and two.first_port == 4
        with pytest.raises(EnvironmentProblem):
            memory.add(specs, rows_limit=10)
        memory.remove(one)
        memory.remove(two)
        if turn:
            assert memory.reclaim() == 2, "a worker may still know of them"
            memory.mem[passes[0]] += 1
            assert memory.reclaim() == 2, "the other may, too"
            memory.mem[passes[1]] += 1
        else:
            memory.mem[passes] = 1
        assert memory.reclaim() == 0
    assert memory.handles_with(specs) == memory.mem[at.HANDLE_COUNT] >= handles
