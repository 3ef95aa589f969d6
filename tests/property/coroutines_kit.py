"""Coroutine operators of the kit: what must outlive a wait they hold in ``@tw.state``, so they may start anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.property.events import Event

import thalweg as tw


async def barrier(a: tw.Input[Event], b: tw.Input[Event], out: tw.Output[Event]) -> None:
    """The n-th row of one with the n-th of the other; then what is left, the older first."""
    while await tw.wait_for_all(a, b):
        one, two = a.pop(), b.pop()
        await out.push(one._replace(amount=one.amount + two.amount, name=one.name + two.name))
    for port in (a, b):
        while len(port):
            await out.push(port.pop()._replace(tag="left"))


@tw.state
class Turn:
    n: int = 0
    last: str = ""


async def in_turn(
    a: tw.Input[Event], b: tw.Input[Event], turn: Turn, out: tw.Output[Event]
) -> None:
    """Whatever comes first; says at which port, how many wait, and what came before."""
    while ports := await tw.wait_for_any(a, b):
        row = ports[0].pop()
        turn.n += 1
        await out.push(row._replace(name=f"{turn.last}{ports[0].name}", amount=turn.n % 7))
        turn.last = row.name[:2]
    await out.push(Event(turn.n, 0, turn.last, "end", 0.0, None, turn.n, 0))


async def by_three(rows: tw.Input[Event], out: tw.Output[Event]) -> None:
    """Each third row, with the sum of three; what is left in the end has no sum."""
    while await tw.wait_for_all({rows: 3}):
        assert rows.peek(2).amount >= -1000
        three = rows.pop(3)
        await out.push(three[2]._replace(amount=sum(row.amount for row in three) % 50))
    while len(rows):
        await out.push(rows.pop()._replace(tag="left"))


async def first_rows(
    rows: tw.Input[Event], turn: Turn, out: tw.Output[Event], *, count: int = 5
) -> None:
    """The first rows only: it returns, and drops what still comes."""
    while turn.n < count and await tw.wait_for_all(rows):
        turn.n += 1
        await out.push(rows.pop())


@tw.state
class Latest:
    amount: int = 0


async def steered(
    rows: tw.Input[Event], rule: tw.Control[Event], latest: Latest, out: tw.Output[Event]
) -> None:
    """Rows with the last amount that came at the control port before."""
    while await tw.wait_for_all(rows):
        while len(rule):
            latest.amount = rule.pop().amount
        row = rows.pop()
        await out.push(row._replace(amount=latest.amount, key=row.key + row.amount % 2))


async def parted(
    rows: tw.Input[Event], low: tw.Output[Event], high: tw.Output[Event], rest: tw.Output[Event]
) -> None:
    """To one output or the other, some to both, and none of the rest."""
    while await tw.wait_for_all(rows):
        row = rows.pop()
        if row.amount % 3:
            await high.push(row._replace(tag="high"))
        if row.amount % 2:
            await low.push(row._replace(tag="low"))
            await high.push(row._replace(tag="again"))
    await rest.push(Event(3, 1, "rest", "rest", 0.5, 1, 1, 1))


async def stateless(rows: tw.Input[Event], low: tw.Output[Event], high: tw.Output[Event]) -> None:
    """None, one or several rows of each, by the row alone."""
    while await tw.wait_for_all(rows):
        row = rows.pop()
        for i in range(row.amount % 3):
            await high.push(row._replace(amount=row.amount + i))
            await low.push(row._replace(tag="low"))


async def three_by_key(rows: tw.Input[Event], out: tw.Output[Event]) -> None:
    while await tw.wait_for_all({rows: 3}):
        three = rows.pop(3)
        await out.push(three[2]._replace(amount=sum(row.amount for row in three) % 50))


async def turn_by_key(
    a: tw.Input[Event],
    b: tw.Input[Event],
    rule: tw.Control[Event],
    turn: Turn,
    out: tw.Output[Event],
    odd: tw.Output[Event],
) -> None:
    """As in_turn, for each key; a key is forgotten now and then."""
    while ports := await tw.wait_for_any(a, b):
        row = ports[0].pop()
        turn.n += 1 + sum(one.amount % 2 for one in rule.pop(len(rule)))
        await (odd if turn.n % 2 else out).push(row._replace(name=turn.last, amount=turn.n % 7))
        turn.last = row.name[:2]
        if turn.n % 5 == 4:
            tw.drop(turn)
        elif turn.n % 11 == 10:
            return


def make_stateless(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    low, high = streams[0].flow.operator(name, stateless, rows=streams[0], stateless=True)
    both: tw.Stream = high.union(low, name=f"{name}_all")
    return both


def make_three_by_key(streams: Sequence[tw.Stream], step: Any, name: str, key: Any) -> tw.Stream:
    rows = streams[0].key_by(*key, buckets=(128, 4, 1)[step.param % 3])
    out: tw.Stream = streams[0].flow.operator(name, three_by_key, rows=rows)
    return out


def make_barrier_by_key(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    """The n-th rows of a key; by fields of one type, of the same name or not."""
    one, two = (
        ("key", "key"),
        ("value", "value"),
        ("maybe", "key"),
        ("tag", "tag"),
        ("key", "lane"),
    )[step.key % 5]
    a, b = streams[0].key_by(one, buckets=8), streams[-1].key_by(two, buckets=8)
    out: tw.Stream = streams[0].flow.operator(name, barrier_by_key, a=a, b=b)
    return out


async def barrier_by_key(a: tw.Input[Event], b: tw.Input[Event], out: tw.Output[Event]) -> None:
    while await tw.wait_for_all(a, b):
        one, two = a.pop(), b.pop()
        await out.push(one._replace(amount=one.amount + two.amount, name=one.name + two.name))


def make_turn_by_key(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    a, b = (one.key_by("tag", "key", buckets=8) for one in (streams[0], streams[-1]))
    out, odd = streams[0].flow.operator(name, turn_by_key, a=a, b=b, rule=b)
    both: tw.Stream = odd.union(out, name=f"{name}_all")
    return both


async def merged(*streams: tw.Input[Event], out: tw.Output[Event]) -> None:
    """Any number of inputs."""
    while ports := await tw.wait_for_any(*streams):
        for port in ports:
            await out.push(port.pop()._replace(name=port.name[:9]))


def make_parted(rows: tw.Stream, name: str) -> tw.Stream:
    low, high, rest = rows.flow.operator(name, parted, rows=rows)
    both: tw.Stream = low.union(high, rest, name=f"{name}_all")
    return both


def both(left: Event, right: Event) -> Event:
    return left._replace(name=left.name + right.name, amount=left.amount - right.amount)


def odd_pairs(left: Event, right: Event) -> Event | None:
    return both(left, right) if left.amount % 2 else None


def odd_or_alone(left: Event | None, right: Event | None) -> Event | None:
    if left is None or right is None:
        one = left or right
        return one and one._replace(name=f"{one.name} {'left' if left else 'right'}")
    return odd_pairs(left, right)


def make_join(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    on: Any = ("key", "value", "maybe", ["tag", "lane"], {"key": "lane"})[step.key % 5]
    how: Any = ("inner", "outer", "left", "right")[(step.param + step.key) % 4]
    far: Any = {"within": step.param} if step.key % 2 else {"after": step.param}
    combine: Any = odd_pairs if how == "inner" else odd_or_alone
    return streams[0].join(streams[-1], combine, on=on, how=how, name=name, **far)


def make_asof(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    on: Any = ("key", "value", "maybe", ["tag", "lane"], {"key": "lane"})[step.key % 5]
    direction: Any = ("backward", "forward", "nearest")[step.param % 3]
    far: Any = {} if step.key % 2 else {"within": step.param}
    return streams[0].join_asof(
        streams[-1], odd_or_one, on=on, direction=direction, name=name, **far
    )


def odd_or_one(left: Event, right: Event | None) -> Event | None:
    """A row whose match is missing goes on as it is; some pairs are left out."""
    return left if right is None else odd_pairs(left, right)


def make_zip(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    made = streams[0].zip(streams[-1], both, timeout=step.param, name=name)
    out: tw.Stream = made.pairs.union(made.right_over, made.left_over, name=f"{name}_all")
    return out


def make_throttle(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    made = streams[0].throttle(1 + step.param % 3, 1 + step.key, name=name)
    out: tw.Stream = made.excess.union(made.passed, name=f"{name}_all")
    return out


async def sent_back(
    a: tw.Input[Event],
    b: tw.Input[Event],
    rule: tw.Control[Event],
    latest: Latest,
    out: tw.Output[Event],
    back: tw.Output[Event],
) -> None:
    """Rows of both with the sum of what was sent back; some twice, and every other to another operator, too."""
    while ports := await tw.wait_for_any(a, b):
        latest.amount = (latest.amount + sum(one.amount for one in rule.pop(len(rule)))) % 60
        row = ports[0].pop()
        for i in range(1 + row.key % 2):
            await out.push(row._replace(amount=row.amount + latest.amount, key=row.key + i))
            if row.amount % 2:
                await back.push(row._replace(tag="back"))


def is_small(row: Event) -> bool:
    return row.amount % 4 != 1


def make_looped(streams: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    """One loop of feedback in another; in between operators of several kinds and a stream from outside."""
    flow, other = streams[0].flow, streams[-1]
    near, far = (flow.feedback(f"{name}_{word}", Event) for word in ("near", "far"))
    head = flow.operator(f"{name}_head", sent_back, a=streams[0], b=other, rule=far)
    middle = head.out
    if step.param % 2:
        middle = middle.flat_map(doubled, name=f"{name}_doubled")
    if step.param % 3:
        middle = middle.key_by("key").process(counted, state=Latest, name=f"{name}_counted")
    tail = flow.operator(f"{name}_tail", sent_back, a=middle, b=head.back, rule=near)
    near.connect(tail.back.filter(is_small, name=f"{name}_small"))
    sent = tail.out if step.param % 4 else tail.out.union(head.back, name=f"{name}_both")
    far.connect(sent)
    ends = (
        lambda: tail.out,
        lambda: middle,
        lambda: tail.out.union(streams[0], name=f"{name}_outer"),
        lambda: sent.union(tail.out, name=f"{name}_outer"),
    )
    out: tw.Stream = ends[step.key % 4]()
    return out


def doubled(row: Event) -> Iterator[Event]:
    yield row
    if row.amount % 3 == 0:
        yield row._replace(amount=row.amount + 1)


def counted(latest: Latest, row: Event) -> Event | None:
    latest.amount += 1
    return row._replace(value=float(latest.amount)) if latest.amount % 5 else None


def make(function: Any, *names: str) -> Any:
    """How a step of the kit becomes this operator, its streams given by parameter."""

    def build(streams: Any, step: Any, name: str) -> Any:
        given = dict(zip(names, [*streams, *streams], strict=False))
        return streams[0].flow.operator(name, function, **given)

    return build
