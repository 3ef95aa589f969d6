"""Operators with driver loops of their own, stepped in hundreds of random orders, with queues from one row up."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import thalweg as tw
from thalweg.engine.coroutines.frame import Growth, NetworkOperator, PortNetwork, State
from thalweg.flow.loops.body import Body
from thalweg.flow.operators.coroutines import Control, Input, Output, Push, Queue
from thalweg.flow.operators.functions import Function

SCHEDULES = range(200)


class Made:
    """A network made by hand: ``add`` takes a coroutine function and what it is called with, in order."""

    def __init__(self, **options: Any) -> None:
        self.out: dict[str, list[Any]] = {}
        self.net = PortNetwork(leave=self._leave, **options)
        self.operators: dict[str, NetworkOperator] = {}

    def _leave(self, push: Push[Any]) -> None:
        self.out.setdefault(push.output.name, []).append(push.row)

    def add(self, function: Any, *arguments: Any, name: str = "") -> NetworkOperator:
        label = name or function.__name__
        inputs = [one for one in arguments if isinstance(one, (Input, Control))]
        outputs = [one for one in arguments if isinstance(one, Output)]
        made = Function.of(function, label, coroutine=True)
        body = Body(label, made, lambda: function(*arguments), inputs, outputs)
        self.operators[label] = self.net.add(body, [one.queue for one in inputs], outputs)
        return self.operators[label]

    def source(self, name: str, rows: Sequence[Any], queue: Queue[Any]) -> None:
        async def source(out: Output[Any]) -> None:
            for row in rows:
                await out.push(row)

        self.add(source, Output(name, [queue]), name=name)

    def run(self, seed: int | None = None) -> dict[str, list[Any]]:
        chooser = random.Random(seed)
        self.net.run(self._checked(chooser.choice if seed is not None else lambda ready: ready[0]))
        self.net.validate()
        return self.out

    def _checked(
        self, pick: Callable[[Sequence[NetworkOperator]], NetworkOperator]
    ) -> Callable[[Sequence[NetworkOperator]], NetworkOperator]:
        def checked(ready: Sequence[NetworkOperator]) -> NetworkOperator:
            self.net.validate()
            return pick(ready)

        return checked


async def barrier(views: Input[int], sales: Input[int], out: Output[tuple[int, int]]) -> None:
    while await tw.wait_for_all(views, sales):
        await out.push((views.pop(), sales.pop()))


async def by_time(first: Input[Any], second: Input[Any], out: Output[Any]) -> None:
    """Merges by the rows' first field: an input is read when no other can bring an earlier row."""
    ports = [first, second]
    while True:
        open_ = [port for port in ports if not (port.is_closed and not len(port))]
        if not open_:
            return
        if await tw.wait_for_all(*open_):
            await out.push(min(open_, key=lambda port: port.peek()[0]).pop())


async def either(first: Input[int], second: Input[int], out: Output[int]) -> None:
    while ports := await tw.wait_for_any(first, second):
        await out.push(ports[0].pop())


async def join(left: Input[Any], right: Input[Any], out: Output[Any]) -> None:
    """All pairs of equal keys, in whatever order the sides come."""
    seen: tuple[list[Any], list[Any]] = ([], [])
    while ports := await tw.wait_for_any(left, right):
        for port in ports:
            side = 0 if port is left else 1
            row = port.pop()
            seen[side].append(row)
            for other in seen[1 - side]:
                if other[0] == row[0]:
                    pair = (row, other) if port is left else (other, row)
                    await out.push(pair)


def two(function: Any, a: Sequence[Any], b: Sequence[Any], seed: int, capacity: int) -> Made:
    made = Made(quantum=random.Random(seed).choice([1, 2, 1000]))
    first, second = Queue[Any]("first", capacity), Queue[Any]("second", capacity)
    made.source("a", a, first)
    made.source("b", b, second)
    made.add(function, Input(first), Input(second), Output("out"))
    made.run(seed)
    return made


@pytest.mark.parametrize("seed", SCHEDULES)
def test_barrier(seed: int) -> None:
    """The n-th row of each input is paired, whatever the schedule, the quantum and the queues; nobody is stuck."""
    made = two(barrier, range(9), range(100, 106), seed, 1 + seed % 3)
    assert made.out["out"] == [(i, 100 + i) for i in range(6)]
    assert made.net.completed


@pytest.mark.parametrize("seed", SCHEDULES)
def test_union_by_time(seed: int) -> None:
    """The merged order is that of the rows, whatever the schedule."""
    a, b = [(1, "a"), (4, "a"), (4, "A"), (9, "a")], [(2, "b"), (4, "b"), (5, "b")]
    made = two(by_time, a, b, seed, 1 + seed % 3)
    assert made.out["out"] == sorted([*a, *b], key=lambda row: row[0])


@pytest.mark.parametrize("seed", SCHEDULES)
def test_union_as_they_come(seed: int) -> None:
    """Without times the schedule shows, but each input's rows stay in order and none is lost."""
    out = two(either, range(7), range(100, 103), seed, 1 + seed % 3).out["out"]
    assert [row for row in out if row < 100] == list(range(7))
    assert [row for row in out if row >= 100] == [100, 101, 102]


@pytest.mark.parametrize("seed", SCHEDULES)
def test_join(seed: int) -> None:
    """The same pairs, whatever the schedule."""
    a, b = [(1, "a"), (2, "b"), (1, "c")], [(1, "x"), (3, "y"), (1, "z"), (2, "w")]
    out = two(join, a, b, seed, 1 + seed % 3).out["out"]
    assert sorted(out) == sorted((one, two) for one in a for two in b if one[0] == two[0])


def alone(function: Any, *, quantum: int = 1000) -> tuple[Made, Input[int], Output[Any]]:
    made = Made(quantum=quantum)
    port, out = Input(Queue[int]("rows")), Output[Any]("out")
    made.add(function, port, out, name="alone")
    return made, port, out


def test_wait_for_numbers() -> None:
    """``{port: n}`` waits for n rows; what a closed port holds beyond them stays readable."""

    async def tens(rows: Input[int], out: Output[Any]) -> None:
        while await tw.wait_for_all({rows: 3}):
            await out.push(rows.pop(3))
        await out.push(["left", *rows.pop(len(rows))])

    made, port, _ = alone(tens)
    for row in range(8):
        made.net.put(port.queue, row)
    made.run()
    assert made.out["out"] == [[0, 1, 2], [3, 4, 5]]
    made.net.close(port.queue)
    assert made.run()["out"][-1] == ["left", 6, 7]


def test_closed_port_that_holds_enough() -> None:
    """A wait is blocked, not over, while a closed port holds enough and an open one does not; then it goes on."""
    made = Made()
    full, open_ = Queue[int]("full"), Queue[int]("open")
    made.add(barrier, Input(full), Input(open_), Output("out"))
    made.net.put(full, 1)
    made.net.close(full)
    made.run()
    assert made.operators["barrier"].state is State.READ_BLOCKED
    assert made.net.waiting() == {"barrier": ("open",)}
    made.net.put(open_, 2)
    assert made.run()["out"] == [(1, 2)]
    assert made.net.completed


def test_idle_input_is_named() -> None:
    """Of three inputs of a barrier the one that brings nothing is named, also when the others' queues may not grow."""

    async def three(a: Input[int], b: Input[int], c: Input[int], out: Output[Any]) -> None:
        while await tw.wait_for_all(a, b, c):
            await out.push((a.pop(), b.pop(), c.pop()))

    made = Made(max_rows=4)
    queues = [Queue[int](name, 2) for name in "abc"]
    made.source("sa", range(50), queues[0])
    made.add(three, *map(Input, queues), Output("out"))
    made.net.put(queues[1], 1)
    with pytest.raises(tw.OperatorError, match=r"input 'a' holds 4 rows.*\n?.*its idle input c"):
        made.run()
    assert made.net.waiting()["three"] == ("c",)


def test_artificial_deadlock() -> None:
    """One producer feeds both sides of a barrier, one of them only after many rows: the smaller queue grows."""

    async def uneven(out: Output[int], late: Output[int]) -> None:
        for i in range(6):
            await out.push(i)
        for i in range(6):
            await late.push(i)

    for seed in range(50):
        made = Made()
        first, second = Queue[int]("first", 1), Queue[int]("second", 1)
        made.add(uneven, Output("to first", [first]), Output("to second", [second]))
        made.add(barrier, Input(first), Input(second), Output("out"))
        assert made.run(seed)["out"] == [(i, i) for i in range(6)]
        assert made.net.growths == [Growth("first", 2), Growth("first", 4), Growth("first", 8)]


def test_smallest_queue_grows() -> None:
    """Of two full queues whose readers wait elsewhere the smaller one grows."""
    made = Made()
    queues = {name: Queue[int](name, size) for name, size in (("a", 4), ("b", 2), ("c", 1))}

    async def three(a: Input[int], b: Input[int], c: Input[int], out: Output[int]) -> None:
        while await tw.wait_for_all(a, b, c):
            await out.push(a.pop() + b.pop() + c.pop())

    made.source("sa", range(9), queues["a"])
    made.source("sb", range(3), queues["b"])
    made.add(three, *map(Input, queues.values()), Output("out"))
    made.run()
    assert made.net.growths == [Growth("b", 4), Growth("a", 8), Growth("a", 16)]
    assert made.net.waiting() == {"three": ("c",)}


def test_completed_operator_abandons_its_inputs() -> None:
    """Who writes to an operator that has returned goes on: its rows are dropped and counted."""

    async def first_only(rows: Input[int], out: Output[int]) -> None:
        await tw.wait_for_all(rows)
        await out.push(rows.pop())

    made = Made()
    queue = Queue[int]("rows", 1)
    made.source("many", range(10), queue)
    made.add(first_only, Input(queue), Output("out"))
    assert made.run()["out"] == [0]
    assert made.net.completed
    assert queue.dropped + len(queue.rows) == 9


def test_fan_out_waits_for_the_slower_reader() -> None:
    """A row goes to all readers at once, in order, or waits."""

    async def copy(rows: Input[int], out: Output[int]) -> None:
        while await tw.wait_for_all(rows):
            await out.push(rows.pop())

    for seed in range(50):
        made = Made(quantum=1)
        queues = [Queue[int]("x", 1), Queue[int]("y", 3)]

        async def source(out: Output[int]) -> None:
            for i in range(8):
                await out.push(i)

        made.add(source, Output("s", queues))
        made.add(copy, Input(queues[0]), Output("x"), name="x")
        made.add(copy, Input(queues[1]), Output("y"), name="y")
        assert made.run(seed) == {"x": list(range(8)), "y": list(range(8))}
        assert all(queue.capacity in (1, 3) for queue in queues)


def test_stop_without_draining() -> None:
    """Waits answer that it is over, and a push that waits for room goes through: all driver loops end."""
    made = Made()
    queue, never = Queue[int]("rows", 1), Queue[int]("never", 1)

    async def endless(out: Output[int]) -> None:
        n = 0
        while await out.push(n):
            n += 1

    made.add(endless, Output("numbers", [queue]))
    made.add(barrier, Input(queue), Input(never), Output("out"))
    source = made.operators["endless"]
    made.net.step(source)
    assert source.state is State.WRITE_BLOCKED
    made.net.stop(drain=False)
    made.net.run(lambda ready: ready[-1])
    assert made.net.completed
    assert len(queue.rows) == 2


def test_stop_with_draining() -> None:
    """An operator without inputs ends, and the others read what is left."""
    made = Made(quantum=10)
    queue = Queue[int]("rows", 100)

    async def endless(out: Output[int]) -> None:
        n = 0
        while await out.push(n):
            n += 1

    async def total(rows: Input[int], out: Output[int]) -> None:
        count = 0
        while await tw.wait_for_all(rows):
            count += 1 + 0 * rows.pop()
        await out.push(count)

    made.add(endless, Output("numbers", [queue]))
    made.add(total, Input(queue), Output("out"))
    made.net.step(made.operators["endless"])
    made.net.stop(drain=True)
    assert made.run()["out"] == [11]


def test_preempted_by_quantum() -> None:
    """An operator that always can go on still lets others come to their turn."""
    order = []

    def source(name: str) -> Any:
        async def source(out: Output[int]) -> None:
            for i in range(4):
                order.append(name)
                await out.push(i)

        return source

    made = Made(quantum=1)
    made.add(source("a"), Output("a"), name="a")
    made.add(source("b"), Output("b"), name="b")
    made.run()
    assert order == ["a", "a", "b", "b", "a", "b", "a", "b"]


async def foreign(rows: Input[int], out: Output[int]) -> None:
    await asyncio.sleep(0)


async def sleeps(rows: Input[int], out: Output[int]) -> None:
    await asyncio.sleep(0.01)


async def has_a_timeout(rows: Input[int], out: Output[int]) -> None:
    async with asyncio.timeout(1):
        await tw.wait_for_all(rows)


async def not_awaited(rows: Input[int], out: Output[int]) -> None:
    out.push(1)
    await tw.wait_for_all(rows)


async def not_awaited_at_the_end(rows: Input[int], out: Output[int]) -> None:
    out.push(1)


async def forgot_await(rows: Input[int], out: Output[int]) -> None:
    while tw.wait_for_all(rows):
        await out.push(rows.pop())


async def ignores_the_answer(rows: Input[int], out: Output[int]) -> None:
    while True:
        await tw.wait_for_all(rows)


async def other_port(rows: Input[int], out: Output[int]) -> None:
    await tw.wait_for_any(Input(Queue[int]("elsewhere")))


async def waits_for_control(rows: Input[int], out: Output[int]) -> None:
    await tw.wait_for_all(Control(Queue[int]("rule")))  # type: ignore[arg-type]


async def waits_for_nothing(rows: Input[int], out: Output[int]) -> None:
    await tw.wait_for_all()


async def waits_for_none(rows: Input[int], out: Output[int]) -> None:
    await tw.wait_for_all({rows: 0})


async def reads_too_much(rows: Input[int], out: Output[int]) -> None:
    rows.pop(3)


async def awaits_twice(rows: Input[int], out: Output[int]) -> None:
    push = out.push(1)
    await push
    await push


async def raises(rows: Input[int], out: Output[int]) -> None:
    raise ZeroDivisionError("nothing to share")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (foreign, "nothing of asyncio"),
        (sleeps, r"no running event loop\n.*raised at line \d+\n  there is no asyncio here"),
        (has_a_timeout, r"no running event loop\n.*raised at line \d+\n  there is no asyncio here"),
        (not_awaited, r"a push to 'out' at line \d+ is not awaited.*write await out.push\(row\)"),
        (not_awaited_at_the_end, r"a push to 'out' at line \d+ is not awaited"),
        (forgot_await, "a wait needs await"),
        (ignores_the_answer, "it goes on and on"),
        (other_port, "'elsewhere'.* is not one of its ports"),
        (waits_for_control, "'rule' is a control port"),
        (waits_for_nothing, "needs at least one input port"),
        (waits_for_none, "wait for 1 row or more on 'rows', not 0"),
        (reads_too_much, "3 rows cannot be taken"),
        (awaits_twice, "awaited twice"),
        (raises, "ZeroDivisionError: nothing to share"),
    ],
)
def test_mistakes(function: Any, message: str) -> None:
    """Each is one clear error that names operator, function, file and line; none hangs."""
    made, port, _ = alone(function)
    made.net.close(port.queue)
    with pytest.raises(tw.OperatorError, match=message) as caught:
        made.run()
    assert "operator 'alone'" in str(caught.value)
    assert f"test_coroutines.py:{inspect.getsourcelines(function)[1]}" in str(caught.value)


def test_close_runs_finally_blocks() -> None:
    """A coroutine that is ended where it stands cleans up; one that awaits there is an error."""
    said = []

    async def tidy(rows: Input[int], out: Output[int]) -> None:
        try:
            await tw.wait_for_all(rows)
        finally:
            said.append("closed")

    async def stubborn(rows: Input[int], out: Output[int]) -> None:
        try:
            await tw.wait_for_all(rows)
        finally:
            await out.push(1)

    made, _, _ = alone(tidy)
    made.run()
    made.net.abort()
    assert said == ["closed"]
    made, _, _ = alone(stubborn)
    made.run()
    with pytest.raises(tw.OperatorError, match="coroutine ignored GeneratorExit"):
        made.net.abort()


def test_ports_read() -> None:
    """``peek``, ``pop``, ``len`` and ``is_closed`` look at what is there, and go no further."""
    queue = Queue[int]("rows")
    port = Input(queue)
    queue.rows.extend([5, 6, 7])
    assert (port.peek(), port.peek(2), len(port)) == (5, 7, 3)
    assert (port.pop(), port.pop(2), port.pop(0)) == (5, [6, 7], [])
    with pytest.raises(IndexError, match=r"Input\('rows', 0 rows\): there is no row at 0"):
        port.peek()
    queue.closed = True
    assert port.is_closed
    assert repr(Control(queue)) == "Control('rows', 0 rows, closed)"


def test_impossible_transition() -> None:
    """A completed operator cannot be stepped."""

    async def nothing(rows: Input[int], out: Output[int]) -> None:
        return

    made, _, _ = alone(nothing)
    made.run()
    with pytest.raises(RuntimeError, match=r"alone \(completed\) cannot become running"):
        made.net.step(made.operators["alone"])
