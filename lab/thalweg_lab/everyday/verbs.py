"""Verbs of Thalweg that keep text, rows or sketches by key, each with the plain loop that does the same.

A key is an int here, and text in :mod:`thalweg_lab.everyday.verbs_text`: this very file under another name.
"""

import bisect
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import thalweg as tw
from thalweg_lab.everyday.functions import Everyday

KEYS = "text" if __name__.endswith("_text") else "int"
if TYPE_CHECKING:
    Key = int
else:
    Key = str if KEYS == "text" else int

#: Windows are so long, microseconds, and rolling ones have so many rows.
HOURS: Final = 12 * 3_600_000_000
ROWS: Final = 20
BEST: Final = 5
LAST: Final = 1_000


class Tick(NamedTuple):
    ts: tw.Timestamp
    symbol: Key
    venue: str
    price: float
    is_quote: bool


def is_quote(tick: Tick) -> bool:
    return tick.is_quote


def is_trade(tick: Tick) -> bool:
    return not tick.is_quote


class Priced(NamedTuple):
    ts: tw.Timestamp
    symbol: Key
    price: float
    venue: str | None
    quote: float | None


def priced(trade: Tick, quote: Tick | None) -> Priced:
    if quote is None:
        return Priced(trade.ts, trade.symbol, trade.price, None, None)
    return Priced(trade.ts, trade.symbol, trade.price, quote.venue, quote.price)


# -- the plain loops ----------------------------------------------------------------------------------------


class Window(NamedTuple):
    symbol: Key
    start: int
    end: int
    v: Any


class Rolling(NamedTuple):
    ts: int
    symbol: Key
    venue: str
    price: float
    is_quote: bool
    v: int


def loop_windows(
    init: Callable[[], Any],
    step: Callable[[Any, Tick], Any],
    result: Callable[[Any], Any],
    rows: Iterable[Tick],
) -> list[Window]:
    """Tumbling windows: states by key, all given when the first row of a later window comes."""
    out: list[Window] = []
    states: dict[Any, Any] = {}
    end = 0
    for row in rows:
        if row.ts >= end:
            out += [
                Window(key, end - HOURS, end, result(one)) for key, one in sorted(states.items())
            ]
            states, end = {}, (row.ts // HOURS + 1) * HOURS
        state = states.get(row.symbol)
        if state is None:
            state = states[row.symbol] = init()
        step(state, row)
    out += [Window(key, end - HOURS, end, result(one)) for key, one in sorted(states.items())]
    return out


def put_in_order(best: list[Tick], row: Tick) -> None:
    """Keeps the best rows and those that are as good as the last of them."""
    if len(best) >= BEST and row.price < best[-1].price:
        return
    best.append(row)
    best.sort(key=lambda one: one.price, reverse=True)
    while len(best) > BEST and best[-1].price != best[BEST - 1].price:
        best.pop()


def loop_rolling(rows: Iterable[Tick]) -> list[Rolling]:
    """Rows with the number of different venues among the last of their key."""
    held: dict[Any, deque[str]] = {}
    out = []
    for row in rows:
        last = held.get(row.symbol)
        if last is None:
            last = held[row.symbol] = deque(maxlen=ROWS)
        last.append(row.venue)
        out.append(Rolling(*row, len(set(last))))
    return out


def loop_backward(rows: Iterable[Tick]) -> list[Priced]:
    """Each trade with the last quote before it."""
    quotes: dict[Any, Tick] = {}
    out = []
    for row in rows:
        if row.is_quote:
            quotes[row.symbol] = row
        else:
            out.append(priced(row, quotes.get(row.symbol)))
    return out


def loop_forward(rows: Iterable[Tick]) -> list[Priced]:
    """Each trade with the next quote behind it, at that quote."""
    waiting: dict[Any, list[Tick]] = {}
    out: list[Priced] = []
    for row in rows:
        if not row.is_quote:
            waiting.setdefault(row.symbol, []).append(row)
        elif row.symbol in waiting:
            out += [priced(one, row) for one in waiting.pop(row.symbol)]
    for _, left in sorted(waiting.items()):
        out += [priced(one, None) for one in left]
    return out


def loop_nearest(rows: Iterable[Tick]) -> list[Priced]:
    """Each trade with the quote nearest in time, of all rows at once: in the order of the trades."""
    rows = list(rows)
    quotes: dict[Any, list[Tick]] = {}
    times: dict[Any, list[int]] = {}
    for row in rows:
        if row.is_quote:
            quotes.setdefault(row.symbol, []).append(row)
            times.setdefault(row.symbol, []).append(row.ts)
    return [priced(row, _nearest(row, quotes, times)) for row in rows if not row.is_quote]


def _nearest(row: Tick, quotes: dict[Any, list[Tick]], times: dict[Any, list[int]]) -> Tick | None:
    mine = times.get(row.symbol)
    if mine is None:
        return None
    at = bisect.bisect(mine, row.ts)
    if at == len(mine) or (at and row.ts - mine[at - 1] <= mine[at] - row.ts):
        at -= 1
    return quotes[row.symbol][at]


# -- the verbs ----------------------------------------------------------------------------------------------


def _window(
    title: str,
    aggregate: Callable[[], tw.agg.Aggregate],
    init: Callable[[], Any],
    step: Callable[[Any, Tick], Any],
    result: Callable[[Any], Any],
    check: str = "start",
    *,
    exact: bool = True,
) -> Everyday:
    return Everyday(
        title,
        Tick,
        lambda rows: rows.key_by("symbol").window("12 hours", v=aggregate()),
        lambda rows: loop_windows(init, step, result, rows),
        check,
        None,
        exact,
    )


def _asof(title: str, direction: Any, loop: Callable[[Iterable[Tick]], list[Any]]) -> Everyday:
    return Everyday(
        title,
        Tick,
        lambda rows: rows.filter(is_trade, name="trades").join_asof(
            rows.filter(is_quote, name="quotes"), priced, on="symbol", direction=direction
        ),
        loop,
        "price",
        None,
        # The plain loop over all rows gives the nearest in the order of the trades.
        direction != "nearest",
    )


def _sketch() -> Any:
    import datasketches

    return datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)


def _digest() -> Any:
    import datasketches

    return datasketches.tdigest_double(200)


EVERYDAY: Final = {
    "distinct": _window(
        "window: different texts",
        lambda: tw.agg.count_distinct("venue"),
        set,
        lambda seen, row: seen.add(row.venue),
        len,
        "v",
    ),
    "collect": _window(
        "window: the last 1,000 texts",
        lambda: tw.agg.collect("venue", last=LAST),
        list,
        lambda held, row: held.append(row.venue),
        lambda held: held[-LAST:],
        exact=False,
    ),
    "ties": _window(
        "window: top 5 rows with ties",
        lambda: tw.agg.top_k(BEST, "price", ties=True),
        list,
        put_in_order,
        lambda best: best,
        exact=False,
    ),
    "hll": _window(
        "window: about how many texts (HyperLogLog)",
        lambda: tw.agg.approx_count_distinct("venue"),
        _sketch,
        lambda sketch, row: sketch.update(row.venue),
        lambda sketch: round(sketch.get_estimate()),
    ),
    "quantile": _window(
        "window: the median (t-digest)",
        lambda: tw.agg.approx_quantile("price", 0.5),
        _digest,
        lambda digest, row: digest.update(row.price),
        lambda digest: digest.get_quantile(0.5),
    ),
    "rolling": Everyday(
        "rolling: different texts of 20 rows",
        Tick,
        lambda rows: rows.key_by("symbol").rolling(rows=ROWS, v=tw.agg.count_distinct("venue")),
        loop_rolling,
        "v",
        None,
    ),
    "backward": _asof("the last quote before a trade", "backward", loop_backward),
    "forward": _asof("the next quote behind a trade", "forward", loop_forward),
    "nearest": _asof("the quote nearest to a trade", "nearest", loop_nearest),
}


def flow_of(name: str) -> tw.Flow:
    """A flow of one of these verbs, from source ``rows`` to sink ``out``."""
    one = EVERYDAY[name]
    flow = tw.Flow(f"everyday_{name}")
    one.build(flow.source("rows", one.row, order_by="ts")).sink("out")
    return flow
