"""What mypy says of flows: each line that ends with ``# error: CODE`` is refused so, no other line is."""

import dataclasses
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, assert_type

import pyarrow as pa

import thalweg as tw


class Flight(NamedTuple):
    ts: tw.Timestamp
    tail: str


class Visit(NamedTuple):
    tail: str
    times: int


@tw.state
class Seen:
    timer: tw.Timer
    count: int = 0


def visit(seen: Seen, flight: Flight) -> Visit | None:
    return Visit(flight.tail, seen.count)


def several(seen: Seen, flight: Flight) -> Iterator[Visit]:
    yield Visit(flight.tail, seen.count)


def note(seen: Seen, flight: Flight) -> None:
    seen.count += 1


def close(seen: Seen, tail: str, time: int) -> Visit:
    return Visit(tail, seen.count)


def closing(seen: Seen, tail: str, time: int) -> Iterator[Visit]:
    yield Visit(tail, seen.count)


def of_window(tail: str, start: int, end: int, rows: list[Flight]) -> Visit:
    return Visit(tail, len(rows))


def letters(flight: Flight) -> list[Visit]:
    return [Visit(letter, 1) for letter in flight.tail]


def tail_of(flight: Flight) -> str:
    return flight.tail


def pair(flight: Flight, visit: Visit) -> Visit:
    return Visit(flight.tail, visit.times)


def or_none(flight: Flight, visit: Visit | None) -> Visit:
    return Visit(flight.tail, visit.times if visit else 0)


class Most:
    slice_ns = 1_000
    window_ns = 1_000

    def pick_function(self) -> tw.scheduling.Pick:
        return lambda view, worker: int(view.worklist.argmax())


flow = tw.Flow("types")
flights = flow.source("flights", Flight, order_by="ts")
assert_type(flights, tw.Stream[Flight])
assert_type(flow.source("any", pa.schema([])), tw.Stream[Any])
assert_type(flights.late, tw.Stream[Flight])
assert_type(flights.rejected, tw.Stream[tw.Rejected])
assert_type(flights.filter(lambda a: a.tail != ""), tw.Stream[Flight])
assert_type(flights.order_by("ts"), tw.Stream[Flight])
assert_type(flights.map(lambda a: Visit(a.tail, 1)), tw.Stream[Visit])
assert_type(flights.map(lambda a: (a.tail, 1), into=Visit), tw.Stream[Visit])
assert_type(flights.flat_map(letters), tw.Stream[Visit])
assert_type(flights.process(several, state=Seen), tw.Stream[Visit])
assert_type(flights.window("1 hour", n=tw.agg.count()), tw.Stream[Any])

by_tail = flights.key_by("tail")
assert_type(by_tail, tw.KeyedStream[Flight, Any])
assert_type(flights.key_by(tail_of), tw.KeyedStream[Flight, str])
by_text = flights.key_by(tail_of)
visits = by_tail.process(visit, state=Seen)
assert_type(visits, tw.Stream[Visit])
assert_type(by_tail.process(several, state=Seen), tw.Stream[Visit])
assert_type(by_tail.process(note, state=Seen, on_timer=close), tw.Stream[Visit])
assert_type(by_tail.process(visit, state=Seen, on_timer=closing), tw.Stream[Visit])
assert_type(by_tail.process(several, state=Seen, on_timer=close), tw.Stream[Visit])
assert_type(by_tail.process(note, state=Seen, on_timer=closing), tw.Stream[Visit])
assert_type(by_tail.window("1 hour", of_window), tw.Stream[Visit])
assert_type(by_tail.sessions("1 hour", of_window), tw.Stream[Visit])
assert_type(flights.dedupe("tail").conflicts, tw.Stream[Flight])

assert_type(flights.join(visits, pair, on="tail", within=0), tw.Stream[Visit])
assert_type(flights.join(visits, or_none, on="tail", within=0, how="left"), tw.Stream[Visit])
assert_type(flights.join(visits, on="tail", within=0), tw.Stream[Any])
assert_type(flights.zip(visits, pair, timeout=0).pairs, tw.Stream[Visit])
assert_type(flights.zip(visits, pair, timeout=0).right_over, tw.Stream[Visit])
assert_type(flights.gate(visits, lambda v: v.times > 0).passed, tw.Stream[Flight])
assert_type(flights.throttle(1, "1 s").excess, tw.Stream[Flight])
assert_type(flights.split(lambda a: a.tail, ["a", "b"]).a, tw.Stream[Flight])
assert_type(flights.union(flights), tw.Stream[Flight])
assert_type(flow.barrier(pair, a=flights, b=visits), tw.Stream[Visit])
assert_type(flow.barrier(pair, by_time=True, a=flights, b=visits).matched, tw.Stream[Visit])
assert_type(Seen(timer=tw.NEVER, count=3).count, int)

tw.run(flow, {}, {"out": tw.each(print), "more": lambda batch: None}, policy=Most())
tw.files(Path("a"))
tw.files([Path("a"), "b"])
tw.spark.files(Path("a"), format="csv")

flights.filter(lambda a: a.nope)  # error: attr-defined
flights.map(lambda a: Visit(a.nope, 1))  # error: attr-defined
flights.map(lambda a: a).filter(lambda a: a.nope)  # error: attr-defined
flights.map(lambda a: (a.nope, 1), into=Visit)  # error: attr-defined
visits.filter(lambda v: v.ts > 0)  # error: attr-defined
flights.key_by(lambda a: a.nope)  # error: attr-defined
flights.join(visits, lambda a, v: Visit(v.ts, 1), on=[], within=0)  # error: attr-defined
flights.gate(visits, lambda v: v.ts)  # error: attr-defined
flights.union(visits)  # error: arg-type
visits.process(visit, state=Seen)  # error: arg-type
by_tail.process(visit, state=Visit)  # error: arg-type
by_text.process(note, state=Seen, on_timer=lambda s, k, t: Visit(k.x, t))  # error: attr-defined
flights.map(lambda a: a, compile="sometimes")  # error: call-overload
tw.run(flow, {}, {"out": 5})  # error: dict-item
tw.run(flow, {}, policy="fast")  # error: call-overload
tw.Flow("x", errors="ignore")  # error: arg-type
tw.files(5)  # error: arg-type


@dataclasses.dataclass(frozen=True)
class Order:
    at: datetime
    total: tw.Money


class Told(TypedDict):
    at: datetime
    total: float


def tell(order: Order) -> Told:
    return {"at": order.at, "total": float(order.total)}


def of_orders(key: Any, start: int, end: int, rows: list[Order]) -> Told:
    return tell(rows[0])


orders = flow.source("orders", Order, order_by="at", names={"at": "ordered at"})
assert_type(orders, tw.Stream[Order])
assert_type(orders.map(tell), tw.Stream[Told])
assert_type(flow.source("told", Told), tw.Stream[Told])
assert_type(orders.window("1 hour", of_orders), tw.Stream[Told])
orders.filter(lambda order: order.total > 3 and order.none)  # error: attr-defined
flow.source("orders2", Order, epoch_unit="min")  # error: call-overload
