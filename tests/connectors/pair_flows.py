"""Twelve small flows over rows (time, key, n), one for each kind of operator, with an output ``out`` each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import thalweg as tw


class Tick(NamedTuple):
    ts: tw.Timestamp
    key: str
    n: int


class Out(NamedTuple):
    ts: tw.Timestamp
    key: str
    n: int


class Both(NamedTuple):
    key: str
    first: int
    second: int


class Best(NamedTuple):
    key: str
    best: list[int]


@tw.state
class Sum:
    total: int = 0


@tw.state
class Quiet:
    n: int = 0
    due: tw.Timer = None


SECOND: Final = 1_000_000


def doubled(row: Tick) -> Out:
    return Out(row.ts, row.key + "ü", 2 * row.n)


def is_odd(row: Tick) -> bool:
    return row.n % 2 == 1


def is_even(row: Tick) -> bool:
    return row.n % 2 == 0


def added(state: Sum, row: Tick) -> Out:
    state.total += row.n
    return Out(row.ts, row.key, state.total)


def both(left: Tick, right: Tick) -> Both:
    return Both(left.key, left.n, right.n)


def best(row: Any) -> Best:
    return Best(row.key, [one.n for one in row.best])


def heard(state: Quiet, row: Tick) -> None:
    state.n += row.n
    state.due = row.ts + 7 * SECOND


def told(state: Quiet, key: str, time: int) -> Both:
    return Both(key, state.n, time)


def divided(row: Tick) -> Out:
    return Out(row.ts, row.key, 100 // (row.n % 3))


def _flow(name: str, **how: Any) -> tuple[tw.Flow, tw.Stream[Tick]]:
    flow = tw.Flow(name)
    return flow, flow.source("a", Tick, order_by="ts", lateness="1 hour", **how)


def _map() -> tw.Flow:
    flow, rows = _flow("map")
    rows.map(doubled).sink("out")
    return flow


def _filter() -> tw.Flow:
    flow, rows = _flow("filter")
    rows.filter(is_odd).sink("out")
    return flow


def _sum() -> tw.Flow:
    flow, rows = _flow("sum")
    rows.key_by("key").process(added, state=Sum).sink("out")
    return flow


def _window() -> tw.Flow:
    flow, rows = _flow("window")
    rows.key_by("key").window("10 seconds", n=tw.agg.sum("n"), many=tw.agg.count()).sink("out")
    return flow


def _sessions() -> tw.Flow:
    flow, rows = _flow("sessions")
    rows.key_by("key").sessions("5 seconds", n=tw.agg.sum("n")).sink("out")
    return flow


def _join() -> tw.Flow:
    flow, rows = _flow("join")
    more = flow.source("b", Tick, order_by="ts", lateness="1 hour")
    near = "3 seconds"
    rows.join(more, both, on="key", before=near, after=near).sink("out")
    return flow


def _dedupe() -> tw.Flow:
    flow, rows = _flow("dedupe")
    rows.dedupe("key", within="20 seconds").sink("out")
    return flow


def _union() -> tw.Flow:
    flow, rows = _flow("union")
    even = rows.filter(is_even, name="even")
    rows.filter(is_odd, name="odd").union(even).sink("out")
    return flow


def _top() -> tw.Flow:
    flow, rows = _flow("top")
    tops = rows.key_by("key").window("30 seconds", best=tw.agg.top_k(2, by="n"))
    tops.map(best).sink("out")
    return flow


def _timer() -> tw.Flow:
    flow, rows = _flow("timer")
    rows.key_by("key").process(heard, state=Quiet, on_timer=told).sink("out")
    return flow


def _reject() -> tw.Flow:
    flow, rows = _flow("reject")
    good = rows.map(divided, errors="reject")
    good.sink("out")
    good.rejected.sink("bad")
    return flow


def _by_key() -> tw.Flow:
    flow, rows = _flow("order-key", order="key")
    rows.key_by("key").process(added, state=Sum).sink("out")
    return flow


FLOWS: Final[dict[str, Callable[[], tw.Flow]]] = {
    "map": _map, "filter": _filter, "sum": _sum, "window": _window, "sessions": _sessions, "join": _join,
    "dedupe": _dedupe, "union": _union, "top": _top, "timer": _timer, "reject": _reject, "order=key": _by_key,
}  # fmt: skip
