"""Operators over dataclasses, TypedDicts and fields of Python's own types, between events and events."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

from tests.property.events import Event

import thalweg as tw

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True)
class Seen:
    at: dt.datetime
    worth: tw.Money
    event: Event
    key: int = 7


class Told(TypedDict):
    name: str
    key: int
    worth: tw.Money | None
    gone: dt.timedelta
    event: Event
    notes: dict[str, Any]


class Counted(NamedTuple):
    worth: tw.Money
    n: int
    event: Event


@tw.state
class Seens:
    n: int = 0


def see(row: Event) -> Seen:
    worth = Decimal(row.amount % 1000).scaleb(-2)
    return Seen(EPOCH + dt.timedelta(microseconds=row.ts % 10**12), worth, row, row.key)


def changed(row: Seen) -> Seen:
    return dataclasses.replace(row, key=row.key + 1)


def is_lasting(row: Seen) -> bool:
    return row.at >= row.at and row.key % 4 != 3


def tell(row: Seen) -> Iterator[Told]:
    gone = row.at - EPOCH
    worth = None if row.key == 2 else row.worth
    yield Told(
        name=row.event.name,
        key=row.key,
        worth=worth,
        gone=gone,
        event=row.event,
        notes={"k": [row.key]},
    )


def richer(row: Told) -> Told:
    return {**row, "key": row["key"] * 2}


def has_worth(row: Told) -> bool:
    return row["worth"] is not None or row["key"] > 3


def back(row: Told) -> Event:
    ts = row["gone"] // dt.timedelta(microseconds=1)
    amount = 0 if row["worth"] is None else int(row["worth"] * 100)
    return row["event"]._replace(ts=ts, key=row["key"] + row["notes"]["k"][0] % 2, amount=amount)


def count(state: Seens, row: Seen) -> Counted:
    state.n += 1
    return Counted(row.worth, state.n, row.event)


def counted(row: Counted) -> Event:
    return row.event._replace(amount=row.n, value=float(row.worth))


def through_classes(on: Sequence[tw.Stream[Any]], step: Any, name: str) -> tw.Stream[Any]:
    """There and back, by functions that are compiled and such that are not."""
    seen = on[0].map(see, name=f"{name}_see").map(changed, name=f"{name}_changed")
    told = seen.filter(is_lasting, name=f"{name}_lasting").flat_map(tell, name=f"{name}_tell")
    rich = told.map(richer, name=f"{name}_richer").filter(has_worth, name=f"{name}_worth")
    return rich.map(back, name=f"{name}_back")


def by_worth(on: Sequence[tw.Stream[Any]], step: Any, name: str) -> tw.Stream[Any]:
    """A key that is a Decimal, of rows that are objects."""
    seen = on[0].map(see, name=f"{name}_see")
    made = seen.key_by("worth").process(count, state=Seens, name=name)
    return made.map(counted, name=f"{name}_counted")
