"""join_asof and lookup: which row each gets, by a plain definition; ties, limits, nulls, functions, refusals."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing


class Left(NamedTuple):
    ts: int
    key: str | None
    n: int


class Right(NamedTuple):
    ts: int
    key: str | None
    price: float
    note: str | None


class Out(NamedTuple):
    n: int
    price: float
    note: str | None


def flow_of(build: Callable[[tw.Stream, tw.Stream], tw.Stream], *, right_first: bool) -> tw.Flow:
    flow = tw.Flow("asof")
    order = (
        [("right", Right), ("left", Left)] if right_first else [("left", Left), ("right", Right)]
    )
    made: dict[str, Any] = {name: flow.source(name, one, order_by="ts") for name, one in order}
    build(made["left"], made["right"]).sink("out")
    return flow


def random_sides(seed: int, count: int = 40) -> dict[str, list[Any]]:
    chooser = random.Random(seed)
    keys = ["", "ä", "key", None]

    def times() -> list[int]:
        return sorted(chooser.randrange(count) for _ in range(count))

    lefts = [Left(ts, chooser.choice(keys), n) for n, ts in enumerate(times())]
    rights = [
        Right(ts, chooser.choice(keys), n - 0.5, chooser.choice([None, "", f"ß{n}"]))
        for n, ts in enumerate(times())
    ]
    return {"left": lefts, "right": rights}


def match(
    left: Left, rights: Sequence[Right], direction: str, within: int | None, *, right_first: bool
) -> Right | None:
    """By definition: the last row before it, the next behind it, or the nearer of both, as far as there is one."""
    mine = [one for one in rights if one.key == left.key and left.key is not None]
    before = [one for one in mine if one.ts < left.ts or (right_first and one.ts == left.ts)]
    after = [one for one in mine if one not in before]
    candidates = before[-1:] * (direction != "forward") + after[:1] * (direction != "backward")
    near = [one for one in candidates if within is None or abs(one.ts - left.ts) <= within]
    return min(near, key=lambda one: abs(one.ts - left.ts), default=None)


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("right_first", [True, False])
def test_by_definition(direction: Any, right_first: bool) -> None:
    """Each left row comes out once with its match; both engines, all cuts and the reference agree."""
    for within in (None, 0, 1, 5):
        inputs = random_sides(within or 9)
        flow = flow_of(
            lambda left, right, within=within: left.join_asof(  # type: ignore[misc]
                right, on="key", direction=direction, within=within
            ),
            right_first=right_first,
        )
        expected = []
        for left in inputs["left"]:
            one = match(left, inputs["right"], direction, within, right_first=right_first)
            expected.append(
                (*left, *((one.ts, one.price, one.note) if one else (None, None, None)))
            )
        found = [tuple(row) for row in tw.run(flow, inputs).rows("out")]
        assert sorted(found, key=lambda row: row[2]) == expected
        if direction == "backward":
            assert found == expected
        testing.assert_same(flow, inputs, seeds=range(2), compile=("auto", "never"))


def test_lookup_with_a_function() -> None:
    """A function gets None before the first row of a key; None from it leaves the row out; later rows replace.

    Its records may have None where that is declared, in machine code, too.
    """

    def priced(left: Left, right: Right | None) -> Out | None:
        if right is None:
            return None if left.n == 1 else Out(left.n, -1.0, None)
        return Out(left.n, right.price * 2, right.note)

    inputs = {
        "left": [
            Left(1, "a", 0),
            Left(2, "b", 1),
            Left(5, "a", 2),
            Left(9, "a", 3),
            Left(9, None, 4),
        ],
        "right": [Right(3, "a", 1.0, "first"), Right(9, "a", 2.0, None), Right(9, None, 5.0, "")],
    }
    flow = flow_of(lambda left, right: left.lookup(right, priced, on="key"), right_first=True)
    assert "priced (" in flow.explain()
    assert "interpreted" not in flow.explain()
    expected = [Out(0, -1.0, None), Out(2, 2.0, "first"), Out(3, 4.0, None), Out(4, -1.0, None)]
    result = tw.run(flow, inputs)
    assert result.rows("out") == expected
    testing.assert_same(flow, inputs, seeds=range(2))


def test_state_is_bounded() -> None:
    """A look-up has one row a key, however many came; the nearest keeps one, too, the next none."""
    inputs = random_sides(3)
    for direction, most in (("backward", 1), ("nearest", 1), ("forward", 0)):
        flow = flow_of(
            lambda left, right, direction=direction: left.join_asof(  # type: ignore[misc]
                right, on="key", direction=direction
            ),
            right_first=True,
        )
        states = testing.run(flow, {**inputs, "left": []}).states["join_asof"]
        held = [len(one.right) if hasattr(one, "right") else 1 for one in states.values()]
        assert sum(held) == 3 * most, direction


def test_a_function_that_raises_is_named() -> None:
    """By its own name and place."""

    def fails(left: Left, right: Right | None) -> Out:
        return Out(left.n // 0, 0.0, None)

    flow = flow_of(lambda left, right: left.lookup(right, fails, on="key"), right_first=True)
    with pytest.raises(tw.OperatorError, match="ZeroDivisionError") as caught:
        tw.run(flow, {"left": [Left(1, "a", 0)], "right": []})
    assert "function: fails in" in str(caught.value)


def test_refused() -> None:
    """Directions, limits and keys that cannot be."""
    refused: list[tuple[dict[str, Any], str]] = [
        ({"direction": "backwards"}, "direction: expected one of backward, forward, nearest"),
        ({"within": -1}, "within must not be negative"),
        ({"on": "kye"}, "kye"),
        ({"on": {"n": "price"}}, "a key is a plain value, of one type on both sides"),
    ]
    for how, message in refused:
        with pytest.raises(tw.BuildError, match=message):
            flow_of(
                lambda left, right, how=how: left.join_asof(right, **{"on": "key", **how}),  # type: ignore[misc]
                right_first=True,
            )
