"""Ten everyday functions as a user writes them, each with the plain loop that does the same.

A key is an int here, and text in :mod:`thalweg_lab.everyday.functions_text`: this very file under another name.
"""

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import thalweg as tw

KEYS = "text" if __name__.endswith("_text") else "int"
if TYPE_CHECKING:
    Key = int
else:
    Key = str if KEYS == "text" else int


class Line(NamedTuple):
    ts: tw.Timestamp
    host: Key
    text: str


class Body(NamedTuple):
    ts: tw.Timestamp
    customer: Key
    body: str


class Visit(NamedTuple):
    ts: tw.Timestamp
    user: Key
    url: str


class Reading(NamedTuple):
    ts: tw.Timestamp
    sensor: Key
    value: float


class Payment(NamedTuple):
    ts: tw.Timestamp
    card: Key
    country: str
    amount: float


class Event(NamedTuple):
    ts: tw.Timestamp
    id: Key
    amount: float


class Sale(NamedTuple):
    ts: tw.Timestamp
    currency: Key
    amount: float


class Place(NamedTuple):
    ts: tw.Timestamp
    phone: Key
    lat: float
    lon: float


# 1. A line of a web server's log, by a regular expression.
ACCESS = re.compile(r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+|-)$')


class Request(NamedTuple):
    ts: tw.Timestamp
    host: Key
    method: str
    path: str
    status: int
    size: int


def parse_line(line: Line) -> Request | None:
    found = ACCESS.match(line.text)
    if found is None:
        return None
    size = 0 if found[6] == "-" else int(found[6])
    return Request(line.ts, line.host, found[3], found[4], int(found[5]), size)


# 2. An order in JSON.
class Order(NamedTuple):
    ts: tw.Timestamp
    customer: Key
    item: str
    total: float


def parse_order(row: Body) -> Order:
    order = json.loads(row.body)
    return Order(row.ts, row.customer, order["item"], order["price"] * order["count"])


# 3. A URL in its plain form.
class Page(NamedTuple):
    ts: tw.Timestamp
    user: Key
    url: str


def normalise(visit: Visit) -> Page:
    url = visit.url.strip().lower()
    url = url.removeprefix("https://").removeprefix("http://").removeprefix("www.")
    cut = url.find("?")
    if cut >= 0:
        url = url[:cut]
    if url.endswith("/"):
        url = url[:-1]
    return Page(visit.ts, visit.user, url)


# 4. Mean and deviation of a sensor (Welford).
class Spread(NamedTuple):
    ts: tw.Timestamp
    sensor: Key
    mean: float
    deviation: float


@tw.state
class Moments:
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0


def spread(state: Moments, reading: Reading) -> Spread:
    state.count += 1
    off = reading.value - state.mean
    state.mean += off / state.count
    state.squares += off * (reading.value - state.mean)
    return Spread(reading.ts, reading.sensor, state.mean, math.sqrt(state.squares / state.count))


# 5. Each id once: a verb, no function.


# 6. A card in two countries within two hours.
class Alert(NamedTuple):
    ts: tw.Timestamp
    card: Key
    before: str
    country: str
    hops: int


@tw.state
class Card:
    country: str = ""
    seen: tw.Timestamp = 0
    hops: int = 0


def velocity(card: Card, payment: Payment) -> Alert | None:
    before, seen = card.country, card.seen
    card.country, card.seen = payment.country, payment.ts
    if before == "" or before == payment.country or payment.ts - seen > tw.hours(2):
        return None
    card.hops += 1
    return Alert(payment.ts, payment.card, before, payment.country, card.hops)


# 7. A rate from a table.
NAMES: Any = (
    ("EUR", "USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK") if KEYS == "text" else range(8)
)
RATES: dict[Key, float] = dict(
    zip(NAMES, (1.0, 0.92, 1.17, 0.0061, 1.05, 0.087, 0.086, 0.134), strict=True)
)


class Converted(NamedTuple):
    ts: tw.Timestamp
    currency: Key
    euros: float


def convert(sale: Sale) -> Converted | None:
    rate = RATES.get(sale.currency)
    if rate is None:
        return None
    return Converted(sale.ts, sale.currency, sale.amount * rate)


# 8. The geohash of a place, seven letters.
LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz"


class Hashed(NamedTuple):
    ts: tw.Timestamp
    phone: Key
    geohash: str


def geohash(place: Place) -> Hashed:
    south, north, west, east = -90.0, 90.0, -180.0, 180.0
    text = ""
    for letter in range(7):
        number = 0
        for bit in range(5):
            number *= 2
            if (5 * letter + bit) % 2 == 0:
                middle = (west + east) / 2
                if place.lon >= middle:
                    number += 1
                    west = middle
                else:
                    east = middle
            else:
                middle = (south + north) / 2
                if place.lat >= middle:
                    number += 1
                    south = middle
                else:
                    north = middle
        text += LETTERS[number]
    return Hashed(place.ts, place.phone, text)


# 9. The mean of a sensor's last twenty values.
class Average(NamedTuple):
    ts: tw.Timestamp
    sensor: Key
    mean: float


def recent_state() -> type:
    """The state of :func:`moving`; made when it is asked for, since a version without deques refuses the class."""

    @tw.state
    class Recent:
        last: deque[float] = deque(maxlen=20)  # noqa: RUF012 - tw.state copies it for each key

    return Recent


def moving(recent: Any, reading: Reading) -> Average:
    recent.last.append(reading.value)
    return Average(reading.ts, reading.sensor, sum(recent.last) / len(recent.last))


# 10. A sensor's five greatest values.
class Rank(NamedTuple):
    ts: tw.Timestamp
    sensor: Key
    value: float
    rank: int


@tw.state
class Best:
    values: list[float] = []  # noqa: RUF012 - tw.state copies it for each key


def top(best: Best, reading: Reading) -> Rank | None:
    if len(best.values) == 5 and reading.value <= best.values[-1]:
        return None
    best.values.append(reading.value)
    best.values.sort(reverse=True)
    del best.values[5:]
    return Rank(reading.ts, reading.sensor, reading.value, best.values.index(reading.value) + 1)


# The plain loops.
def loop_each(function: Callable[[Any], Any], rows: Iterable[Any]) -> list[Any]:
    """What a function gives for each row."""
    return [made for row in rows if (made := function(row)) is not None]


def loop_by_key(
    function: Callable[[Any, Any], Any], new: Callable[[], Any], place: int, rows: Iterable[Any]
) -> list[Any]:
    """What a function gives for each row and the state of its key."""
    states: dict[Any, Any] = {}
    out = []
    for row in rows:
        key = row[place]
        state = states.get(key)
        if state is None:
            state = states[key] = new()
        made = function(state, row)
        if made is not None:
            out.append(made)
    return out


def loop_dedupe(rows: Iterable[Event]) -> list[Event]:
    """The first row of each id."""
    seen = set()
    out = []
    for row in rows:
        if row.id not in seen:
            seen.add(row.id)
            out.append(row)
    return out


class PlainRecent:
    """The state of :func:`moving` in a plain loop."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=20)


class Everyday(NamedTuple):
    """One of the ten.

    Attributes:
        title: what it does, for a table.
        row: the record of its input; ``ts`` is first, the key second.
        build: from the input's stream to that of its output.
        loop: the same from rows to rows.
        check: the column of its output that is summed (of text: its length) to compare unordered outputs.
        step: (function, state class or None), for hosts that call it row by row; None where there is no function.
        exact: whether outputs are compared to the last bit and in their order.
    """

    title: str
    row: Any
    build: Callable[[tw.Stream[Any]], tw.Stream[Any]]
    loop: Callable[[Iterable[Any]], list[Any]]
    check: str
    step: tuple[Callable[..., Any], Callable[[], Any] | None] | None
    exact: bool = True


def _map(title: str, row: Any, function: Callable[[Any], Any], check: str) -> Everyday:
    return Everyday(
        title,
        row,
        lambda rows: rows.map(function),
        lambda rows: loop_each(function, rows),
        check,
        (function, None),
    )


def _keyed(
    title: str,
    row: Any,
    function: Callable[[Any, Any], Any],
    state: Callable[[], type],
    check: str,
    new: Callable[[], Any],
) -> Everyday:
    key = row._fields[1]
    return Everyday(
        title,
        row,
        lambda rows: rows.key_by(key).process(function, state=state()),
        lambda rows: loop_by_key(function, new, 1, rows),
        check,
        (function, new),
    )


EVERYDAY: Final = {
    "log": _map("parse a log line by a regular expression", Line, parse_line, "size"),
    "json": _map("parse JSON", Body, parse_order, "total"),
    "url": _map("normalise a URL by methods of str", Visit, normalise, "url"),
    "spread": _keyed(
        "mean and deviation per sensor", Reading, spread, lambda: Moments, "mean", Moments
    ),
    "dedupe": Everyday(
        "each id once", Event, lambda rows: rows.dedupe("id"), loop_dedupe, "amount", None
    ),
    "velocity": _keyed(
        "fraud: a card in two countries", Payment, velocity, lambda: Card, "hops", Card
    ),
    "lookup": _map("look up in a captured dict", Sale, convert, "euros"),
    "geohash": _map("text of a geohash", Place, geohash, "geohash"),
    "moving": _keyed(
        "moving average by deque(maxlen=20)", Reading, moving, recent_state, "mean", PlainRecent
    ),
    "top": _keyed("top 5 per key", Reading, top, lambda: Best, "value", Best),
}


def flow_of(name: str) -> tw.Flow:
    """A flow of one of the ten, from source ``rows`` to sink ``out``."""
    one = EVERYDAY[name]
    flow = tw.Flow(f"everyday_{name}")
    one.build(flow.source("rows", one.row)).sink("out")
    return flow
