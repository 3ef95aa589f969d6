"""Each kind of change of a flow: its state is what it should be, or the start is refused with every byte as it was."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.unit.evolve_kit import StateChange, check_all

import thalweg as tw


class Sale(NamedTuple):
    ts: tw.Timestamp
    shop: str
    amount: int


class Seen(NamedTuple):
    shop: str
    value: float


ROWS = [Sale(10 * i, "ab"[i % 2], i + 1) for i in range(6)]
INPUTS = {"sales": ROWS, "more": ROWS, "orders": ROWS}


def state(fields: Mapping[str, tuple[Any, Any]], name: str = "Total", **options: Any) -> Any:
    """A state class of these fields: type and default."""
    body = {"__annotations__": {n: kind for n, (kind, _) in fields.items()}}
    made = type(name, (), {**body, **{n: default for n, (_, default) in fields.items()}})
    return tw.state(**options)(made) if options else tw.state(made)


N = {"n": (int, 0)}
N_TOTAL = {**N, "total": (int, 0)}


def counting(state: Any, row: Sale) -> Seen:
    state.n += 1
    if hasattr(state, "total"):
        state.total += row.amount
    if hasattr(state, "best"):
        state.best = {**state.best, row.shop: row.amount}
        state.last.append(row.amount)
    return Seen(row.shop, float(state.n))


def flow(
    cls: Any,
    *,
    name: str = "sums",
    key: tuple[str, ...] = ("shop",),
    fn: Any = counting,
    **options: Any,
) -> Any:
    """What makes a flow with one keyed operator."""

    def make() -> tw.Flow:
        made = tw.Flow("sales", compile="never", **options)
        sales = made.source("sales", Sale, order_by="ts")
        keyed: Any = sales.key_by(*key) if key else sales
        keyed.process(fn, state=cls, name=name).sink("out")
        return made

    return make


BEFORE = flow(state(N_TOTAL))


# -- state classes --------------------------------------------------------------------------------------------


def mean(old: Mapping[str, Any]) -> dict[str, Any]:
    return {"mean": old["total"] / old["n"]}


class OldTotal(NamedTuple):
    n: int
    total: int


@dataclasses.dataclass
class OldData:
    n: int
    total: int


OldState = state(N_TOTAL, "Before")


def of_class(old: OldTotal) -> dict[str, Any]:
    return {"n": old.n, "text": f"{old.total}é"}


def of_data(old: OldData) -> dict[str, Any]:
    return {"n": old.n, "text": str(old.total)}


def of_state(old: OldState) -> dict[str, Any]:  # type: ignore[valid-type]
    return {"n": old.n, "text": str(old.total)}  # type: ignore[attr-defined]


class Wrong(NamedTuple):
    n: int
    sum: int


def of_wrong(old: Wrong) -> dict[str, Any]:
    return {"n": old.sum}


def quiet(state: Any, row: Sale) -> Seen:
    return Seen(row.shop, 0.0)


TEXT = {**N, "text": (str, "")}
WITHOUT_B = state(N, migrate=lambda old: _without(old))


def _without(old: Mapping[str, Any]) -> Any:
    made = WITHOUT_B(n=old["n"])
    if old["total"] == 12:
        tw.drop(made)
    return made


# The totals are 1 + 3 + 5 and 2 + 4 + 6.
STATES = {
    "nothing": StateChange(BEFORE, flow(state(N_TOTAL), fn=quiet), {"sums": "same"}),
    "appended": StateChange(
        BEFORE,
        flow(state({**N_TOTAL, "far": (float, 0.5)})),
        {"sums": "appended"},
    ),
    "reordered and in between": StateChange(
        BEFORE,
        flow(state({"total": (int, 0), "new": (str, "x"), "n": (int, 0)})),
        {"sums": "converted"},
        {"sums": [("a", 9, "x", 3), ("b", 12, "x", 3)]},
    ),
    "int to float": StateChange(
        BEFORE,
        flow(state({"n": (int, 0), "total": (float, 0.0)})),
        {"sums": "converted"},
        {"sums": [("a", 3, 9.0), ("b", 3, 12.0)]},
    ),
    "may be None": StateChange(
        BEFORE,
        flow(state({"n": (int | None, 0), "total": (float | None, 0.0)})),
        {"sums": "converted"},
        {"sums": [("a", 3, 9.0), ("b", 3, 12.0)]},
    ),
    "removed": StateChange(
        BEFORE,
        flow(state(N)),
        refused=r"'sums', state field total: int would be lost; .*migrate=.*drop=\('sums',\).*--drop sums",
    ),
    "retyped": StateChange(
        BEFORE,
        flow(state({"n": (int, 0), "total": (str, "")})),
        refused="state field total: the checkpoint has int, the flow has str",
    ),
    "not None any more": StateChange(
        flow(state({"n": (int, 0), "total": (int | None, None)}), fn=quiet),
        flow(state(N_TOTAL)),
        refused=r"total: the checkpoint has int \| None, the flow has int",
    ),
    "another class": StateChange(
        BEFORE,
        flow(state(N_TOTAL, "Sum")),
        refused="state class: the checkpoint has Total, the flow has Sum",
    ),
    "another class with dict": StateChange(
        BEFORE,
        flow(state(N_TOTAL, "Sum", migrate=dict)),
        {"sums": "migrated"},
        {"sums": [("a", 3, 9), ("b", 3, 12)]},
    ),
    "migrated": StateChange(
        BEFORE,
        flow(state({"mean": (float, 0.0)}, migrate=mean), fn=quiet),
        {"sums": "migrated"},
        {"sums": [("a", 3.0), ("b", 4.0)]},
    ),
    "migrated of a NamedTuple": StateChange(
        BEFORE,
        flow(state(TEXT, migrate=of_class)),
        {"sums": "migrated"},
        {"sums": [("a", 3, "9é"), ("b", 3, "12é")]},
    ),
    "migrated of a dataclass": StateChange(
        BEFORE,
        flow(state(TEXT, migrate=of_data)),
        {"sums": "migrated"},
        {"sums": [("a", 3, "9"), ("b", 3, "12")]},
    ),
    "migrated of a state class": StateChange(
        BEFORE,
        flow(state(TEXT, migrate=of_state)),
        {"sums": "migrated"},
        {"sums": [("a", 3, "9"), ("b", 3, "12")]},
    ),
    "migrated of another class": StateChange(
        BEFORE,
        flow(state(N, migrate=of_wrong)),
        refused=r"has n: int, total: int, the flow has a migrate of Wrong \(n: int, sum: int\)",
    ),
    "a key dropped": StateChange(
        BEFORE,
        flow(WITHOUT_B),
        {"sums": "migrated"},
        {"sums": [("a", 3)]},
    ),
    "a function that raises": StateChange(
        flow(state(N_TOTAL), key=()),
        flow(state(N, migrate=lambda old: 1 // 0), key=()),
        refused=r"'sums': migrate fails: its state, \{'n': 6, 'total': 21\}: ZeroDivisionError",
    ),
    "a function that gives nothing": StateChange(
        BEFORE,
        flow(state(N, migrate=lambda old: None)),
        refused=r"key '[ab]', .*TypeError: expected a Total or a mapping .* got NoneType None; key '[ab]'",
    ),
    "a function that gives another type": StateChange(
        BEFORE,
        flow(state(N, migrate=lambda old: {"n": "three"})),
        refused="Total.n: expected int, got str 'three'",
    ),
    "a function that gives another field": StateChange(
        BEFORE, flow(state(N, migrate=lambda old: {"m": 1})), refused="Total has no field m"
    ),
    "containers": StateChange(
        flow(
            state(
                {
                    **N,
                    "best": (dict[str, int], {}),
                    "last": (collections.deque[int], collections.deque(maxlen=2)),
                }
            )
        ),
        flow(
            state(
                {"shown": (str, "")},
                migrate=lambda old: {"shown": f"{old['best']} {list(old['last'])}"},
            ),
            fn=quiet,
        ),
        {"sums": "migrated"},
        {"sums": [("a", "{'a': 5} [3, 5]"), ("b", "{'b': 6} [4, 6]")]},
    ),
    "a key field": StateChange(
        BEFORE,
        flow(state(N_TOTAL), key=("amount",)),
        refused="key field 1: the checkpoint has shop: str, the flow has amount: int",
    ),
    "a second key field": StateChange(
        BEFORE,
        flow(state(N_TOTAL), key=("shop", "amount")),
        refused="key field 2: the checkpoint has none, the flow has amount: int",
    ),
    "begun anew": StateChange(
        BEFORE,
        flow(state({"total": (str, "")}), fn=quiet),
        {"sums": "dropped"},
        {"sums": []},
        drop=("sums",),
    ),
}


@pytest.mark.slow
def test_states(tmp_path: Path) -> None:
    """Fields by name, by rules or by a function."""
    check_all(STATES, tmp_path, INPUTS)


def test_a_number_that_no_float_is(tmp_path: Path) -> None:
    """A value that would be another one is named, and refused."""
    for number in (2**53 + 1, 2**63 - 1, -(2**63) + 1):
        big = [Sale(0, "a", number), Sale(10, "a", 0)]
        for amount, refused in (
            (number, f"{number} is a number that a float cannot hold"),
            (7, ""),
        ):
            rows = [big[0]._replace(amount=amount), big[1]]
            change = StateChange(
                BEFORE,
                flow(state({"n": (int, 0), "total": (float, 0.0)})),
                state={} if refused else {"sums": [("a", 2, 7.0)]},
                refused=refused,
            )
            change.check(tmp_path / f"{number}{amount}", {"sales": rows})
