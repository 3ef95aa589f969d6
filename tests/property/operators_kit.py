"""A fixed set of operators, and random flows and random data made of them.

All operators read and give one record, so any of them fits behind any other. The functions are fixed and stand at
module level (compiled ones are compiled once); a flow is a *recipe*, plain data that Hypothesis can shrink and
whose text is enough to build it again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from tests.property import aggregates_kit as aggregates
from tests.property import async_kit as calls
from tests.property import coroutines_kit as loops
from tests.property import timers_kit as timers
from tests.property import user_rows_kit as users
from tests.property.events import Event

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import make_plan

# -- stateless -------------------------------------------------------------------------------------------


def scale(row: Event) -> Event:
    return Event(
        row.ts, row.key, row.name, row.tag, row.value, row.maybe, row.amount * 3 - 7, row.lane
    )


def jitter(row: Event) -> Event:
    """Other times, up to 8 units off, so that a field and the event time differ."""
    ts = row.ts + (row.amount * 5 + row.key) % 9
    return Event(ts, row.key, row.name, row.tag, row.value, row.maybe, row.amount, row.lane)


def odd_only(row: Event) -> Event | None:
    if row.amount % 2 == 0:
        return None
    return Event(row.ts, row.key + 1, row.name, row.tag, row.value, row.maybe, row.amount, row.lane)


def not_third(row: Event) -> bool:
    return row.amount % 3 != 0


def is_tagged(row: Event) -> bool:
    return row.tag == "red" or row.maybe is not None


def repeat(row: Event) -> Iterator[Event]:
    """None, one or two rows."""
    for i in range(row.amount % 3):
        yield Event(
            row.ts, row.key + i, row.name, row.tag, row.value, row.maybe, row.amount + i, row.lane
        )


def repeat_or_fail(row: Event) -> Iterator[Event]:
    """Two rows; raises behind the first one for some."""
    yield row
    if row.amount % 5 == 1:
        raise ValueError(f"amount {row.amount}")
    yield Event(row.ts, row.key, row.name, row.tag, row.value, None, row.amount + 1, row.lane)


def fail_some(row: Event) -> Event:
    if row.amount % 4 == 3:
        raise ValueError(f"amount {row.amount}")
    return Event(
        row.ts, row.key, row.name, row.tag, row.value, row.maybe, 100 // (row.amount % 5), row.lane
    )


def speaks(row: Event) -> bool:
    return row.name[:1] not in ("a", "é") or len(row.name.strip("b")) > 1


def spell(row: Event) -> Event:
    """Another name; for some rows the same one."""
    head, _, rest = row.name.partition("b")
    name = row.name if row.amount % 3 == 0 else f"{rest}{head.upper()}{row.amount % 7:02d}"[-6:]
    return Event(row.ts, row.key, name, row.tag, row.value, row.maybe, len(name), row.lane)


def add_ten(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index("amount")
    return batch.set_column(place, batch.schema.field(place), pc.add(batch.column("amount"), 10))


def even_twice(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    amounts = batch.column("amount").to_pylist()
    rows = [i for i, amount in enumerate(amounts) for _ in range(0 if amount % 2 else 2)]
    return batch.take(pa.array(rows, pa.int64())), rows


def batch_or_fail(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 4 in batch.column("amount").to_pylist():
        raise ValueError("four")
    return batch


def from_rejected(row: tw.Rejected) -> Event:
    size = len(row.row)
    return Event(size, size % 3, row.operator, "rejected", 0.5, None, len(row.reason), 0)


def from_window(row: Any) -> Event:
    return Event(
        row.start, row.n % 4, "window", "red", row.end - row.start + 0.5, row.n, row.total, 0
    )


# -- keys ------------------------------------------------------------------------------------------------


def parity(row: Event) -> int:
    return row.amount % 2


def first_letter(row: Event) -> str:
    return row.name[:1]


def key_or_fail(row: Event) -> int:
    if row.amount % 6 == 5:
        raise KeyError(row.amount)
    return row.key % 2


KEYS: tuple[tuple[Any, ...], ...] = (
    ("key",),
    ("name",),
    ("tag",),
    ("value",),
    ("maybe",),
    ("key", "tag"),
    ("value", "maybe", "name"),
    (parity,),
    (first_letter,),
)


# -- keyed -----------------------------------------------------------------------------------------------


@tw.state
class Total:
    n: int = 0
    total: int = 0


def running(state: Total, row: Event) -> Event:
    state.n += 1
    state.total += row.amount
    return Event(
        row.ts, row.key, row.name, row.tag, row.value, row.maybe, state.total % 1000, row.lane
    )


def greet(state: Total, row: Event) -> Event | None:
    """Names of rows and of what came before."""
    state.n += 1
    if row.name.startswith(("b", "qu")) and state.n % 2:
        return None
    name = "ab" if row.name == "" else row.name.replace("a", f"{state.n}")[:8]
    return Event(row.ts, row.key, name, row.tag, row.value, row.maybe, state.n, row.lane)


def every_third(state: Total, row: Event) -> Event | None:
    """Drops its state with every third row."""
    state.n += 1
    state.total += row.amount
    if state.n < 3:
        return None
    tw.drop(state)
    return Event(
        row.ts, row.key, row.name, row.tag, row.value, state.n, state.total % 100, row.lane
    )


def before_and_after(state: Total, row: Event) -> Iterator[Event]:
    """Two rows, and nothing for some."""
    if row.amount % 4 != 2:
        yield Event(row.ts, row.key, row.name, row.tag, row.value, state.n, row.amount, row.lane)
        state.n += 1
        yield Event(row.ts, row.key, row.name, row.tag, row.value, state.n, row.amount, row.lane)


@tw.state
class Kept:
    n: int = 0
    name: str = ""
    last: float | None = None
    recent: collections.deque[int] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=3)
    )
    seen: dict[int, int] = dataclasses.field(default_factory=dict)
    best: list[tuple[int, float]] = []


def count_or_fail(state: Kept, row: Event) -> Event:
    """Changes all that its state holds before it raises."""
    before = state.name
    state.n += 1
    state.name = row.name
    state.recent.append(row.amount)
    state.seen[row.amount % 4] = state.seen.get(row.amount % 4, 0) + 1 // (row.amount % 5 + 1)
    state.best = sorted([*state.best, (row.amount, row.value)], reverse=True)[:3]
    state.last = None if row.amount % 6 == 1 else row.value + (state.last or 0.0)
    if len(state.seen) > 3:
        del state.seen[row.amount % 4]
    total = sum(state.recent) + sum(k * v for k, v in state.seen.items()) + state.best[-1][0]
    state.n += 1 // (row.amount % 4)
    return Event(row.ts, row.key, before, row.tag, row.value, state.n, total % 50, row.lane)


@tw.state
class Timed:
    timer: tw.Timer
    n: int = 0
    amount: int = 0
    last: tw.Timestamp = 0


def track(state: Timed, row: Event) -> None:
    state.n += 1
    state.amount += row.amount
    state.last = row.ts
    state.timer = row.ts + 6


def gone_quiet(state: Timed, key: Any, time: tw.Timestamp) -> Event:
    return Event(time, state.n, "quiet", "blue", 1.5, None, state.amount % 100, 0)


def pass_and_arm(state: Timed, row: Event) -> Event | None:
    """Arms into the past for some rows: the timer comes as soon as it may."""
    state.n += 1
    state.amount = row.amount
    state.timer = row.ts - 3 if row.amount % 2 else row.ts + row.amount % 5
    return row if row.amount % 3 else None


def tick_again(state: Timed, key: Any, time: tw.Timestamp) -> Iterator[Event]:
    """Arms itself again a few times, gives none to two rows, drops itself for some."""
    for i in range(state.n % 3):
        yield Event(time, i, "tick", "red", -1.5, state.n, state.amount, 0)
    state.n += 1
    if state.n < 6:
        state.timer = time + 4 - state.n % 2 * 4
    if state.amount % 7 == 6:
        tw.drop(state)


def arm_each(state: Timed, row: Event) -> Iterator[Event]:
    """Disarms for some rows, drops its state for some."""
    state.n += 1
    state.amount = row.amount
    if row.amount % 5 == 4:
        tw.drop(state)
    else:
        state.timer = tw.NEVER if row.amount % 5 == 3 else row.ts + 5
    yield row


def alarm_or_fail(state: Timed, key: Any, time: tw.Timestamp) -> Event | None:
    """Raises for some keys."""
    if state.amount % 3 == 1:
        raise ValueError(f"alarm {state.amount}")
    if state.amount % 3 == 2:
        return None
    state.n += 7
    state.timer = time + 2 if state.n < 20 else tw.NEVER
    return Event(time, state.n, "alarm", "red", 2.5, None, state.amount, 0)


# The same for one state without key.


def all_quiet(state: Timed, time: tw.Timestamp) -> Event:
    return Event(time, state.n, "all quiet", "blue", 1.5, None, state.amount % 100, 0)


# -- windows ---------------------------------------------------------------------------------------------


def summary(key: Any, start: tw.Timestamp, end: tw.Timestamp, rows: list[Event]) -> Event:
    last = rows[-1]
    return Event(
        start,
        len(rows),
        last.name,
        last.tag,
        last.value,
        last.maybe,
        sum(r.amount for r in rows) % 99,
        0,
    )


def two_best(
    key: Any, start: tw.Timestamp, end: tw.Timestamp, rows: list[Event]
) -> Iterator[Event]:
    for row in sorted(rows, key=lambda one: -one.amount)[:2]:
        yield row._replace(ts=end)


def best_of(row: Any) -> Iterator[Event]:
    yield from row.best


#: What a source says of its lanes: there are none; they count from their first row; all of them; one more that is
#: silent; nothing, so that they are those of the whole input.
LANES: dict[str, Any] = {
    "": None,
    "arrival": "arrival",
    "all": (1, 0),
    "silent": (0, 1, 2),
    "whole": None,
}

AGGREGATES = {
    "n": tw.agg.count(),
    "total": tw.agg.sum("amount"),
}


# -- recipes ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SourceStep:
    """A source; ``lateness`` None for one without event time, ``lanes`` one of :data:`LANES`."""

    lateness: int | None
    lanes: str = ""
    reject: bool = False
    idle: bool = False


@dataclasses.dataclass(frozen=True)
class Step:
    """One operator: what, on which streams (by number), with which parameter and key."""

    op: str
    inputs: tuple[int, ...]
    param: int = 0
    key: int = 0


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A flow as data. ``sinks`` are the streams with a sink beside those that nobody reads."""

    sources: tuple[SourceStep, ...]
    steps: tuple[Step, ...]
    sinks: tuple[int, ...] = ()
    ordered: bool = True

    def build(
        self,
        *,
        compile: Any = "never",
        name: str = "random",
        regions: random.Random | None = None,
    ) -> tw.Flow:
        """The flow, with sources ``in0``, ``in1``, ... and a sink ``s<n>`` for stream n.

        ``regions`` draws which operators are run by which threads; without it the run says it.
        """
        flow = tw.Flow(name, compile=compile)
        region = drawn_regions(flow, regions)
        streams: list[tw.Stream] = []
        for number, source in enumerate(self.sources):
            streams.append(
                flow.source(
                    f"in{number}",
                    Event,
                    order_by=None if source.lateness is None else "ts",
                    lateness=source.lateness or 0,
                    lane="lane" if source.lanes else None,
                    lanes=LANES[source.lanes],
                    idle="10 seconds" if source.idle else None,
                    errors="reject" if source.reject else "fail",
                )
            )
        for number, step in enumerate(self.steps):
            inputs = [streams[i] for i in step.inputs]
            with next(region):
                streams.append(OPERATORS[step.op].make(inputs, step, f"op{number}"))
        read = {i for step in self.steps if step.op not in SIDES for i in step.inputs}
        for number, stream in enumerate(streams):
            if number not in read or number in self.sinks:
                with next(region):
                    stream.sink(f"s{number}", ordered=self.ordered)
        return flow


def drawn_regions(
    flow: tw.Flow, chooser: random.Random | None
) -> Iterator[contextlib.AbstractContextManager[None]]:
    """For one operator after the other a block to define it in."""
    models: tuple[Any, ...] = ("manual", "manual", "dedicated", "dynamic", None)
    while True:
        model = chooser.choice(models) if chooser is not None else None
        yield contextlib.nullcontext() if model is None else flow.threading(model)


@dataclasses.dataclass(frozen=True)
class Operator:
    """How a step becomes an operator; ``timed``: it needs event time; ``grows``: it may give more rows."""

    make: Callable[[Sequence[tw.Stream], Step, str], tw.Stream]
    timed: bool = False
    grows: bool = False
    inputs: int = 1


def _map(function: Any, errors: Any = None) -> Operator:
    return Operator(lambda on, step, name: on[0].map(function, name=name, errors=errors))


def _flat(function: Any, errors: Any = None) -> Operator:
    return Operator(
        lambda on, step, name: on[0].flat_map(function, name=name, errors=errors), grows=True
    )


def _batches(function: Any, errors: Any = None, *, grows: bool = False) -> Operator:
    return Operator(
        lambda on, step, name: on[0].map_batches(function, name=name, errors=errors), grows=grows
    )


def _keyed_stream(stream: tw.Stream, step: Step) -> tw.KeyedStream:
    return stream.key_by(*KEYS[step.key % len(KEYS)], buckets=(128, 4, 1)[step.param % 3])


def _keyed(
    function: Any, state: Any, on_timer: Any = None, errors: Any = None, *, grows: bool = False
) -> Operator:
    def make(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
        keyed = _keyed_stream(on[0], step)
        return keyed.process(
            function, state=state, on_timer=on_timer, name=name, errors=errors, into=Event
        )

    return Operator(make, timed=on_timer is not None, grows=grows)


def _process(function: Any, state: Any, on_timer: Any = None) -> Operator:
    def make(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
        return on[0].process(function, state=state, on_timer=on_timer, name=name, into=Event)

    return Operator(make, timed=on_timer is not None)


def _failing_key(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    keyed = on[0].key_by(key_or_fail, buckets=8)
    return keyed.process(count_or_fail, state=Kept, name=name, errors="reject")


SIZES: tuple[tuple[int, int | None, int], ...] = (
    (5, None, 0),
    (10, 5, 0),
    (7, 3, 2),
    (1, None, -4),
)


def _tumbling(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    size, every, start = SIZES[step.param % len(SIZES)]
    made = _keyed_stream(on[0], step).window(
        size, every=every, start=start, name=name, **AGGREGATES
    )
    return made.map(from_window, name=f"{name}_out")


#: Keys and aggregates of all types; what depends on the order of rows cannot be split.
PARTS = {
    **AGGREGATES,
    "least": tw.agg.min("value"),
    "most": tw.agg.max("value"),
    "maybe_least": tw.agg.min("maybe"),
    "maybe_most": tw.agg.max("maybe"),
    "some": tw.agg.sum("maybe"),
    "first_name": tw.agg.min("name"),
    "last_tag": tw.agg.max("tag"),
}


def from_parts(row: Any) -> Event:
    text = f"{row.maybe_least} {row.maybe_most} {row.some} {row.first_name}"
    value = row.least if row.least == row.least else row.most
    return Event(row.start, row.n % 4, text, row.last_tag, value, row.n, row.total, 0)


def _partial_window(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    size, every, start = SIZES[step.param % len(SIZES)]
    keys = [one for one in KEYS if not callable(one[0])]
    keyed = on[0].key_by(
        *keys[step.key % len(keys)], buckets=(128, 4, 1)[step.param % 3], grouping="partial"
    )
    made = keyed.window(size, every=every, start=start, name=name, **PARTS)
    return made.map(from_parts, name=f"{name}_out")


def _whole_window(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    size, every, start = SIZES[step.param % len(SIZES)]
    function = two_best if step.key % 2 else summary
    return on[0].window(size, function, every=every, start=start, name=name)


def _window_function(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    size, every, start = SIZES[step.param % len(SIZES)]
    function = two_best if step.param % 2 else summary
    return _keyed_stream(on[0], step).window(size, function, every=every, start=start, name=name)


def _sessions(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    keyed = _keyed_stream(on[0], step)
    if step.param % 2:
        return keyed.sessions(step.param % 7, summary, name=name)
    return keyed.sessions(step.param % 7, name=name, **AGGREGATES).map(
        from_window, name=f"{name}_out"
    )


def _top_k(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    made = _keyed_stream(on[0], step).window(
        9, best=tw.agg.top_k(2, by="amount"), least=tw.agg.min("maybe"), name=name
    )
    return made.flat_map(best_of, name=f"{name}_out")


def _dedupe(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    return on[0].dedupe(*KEYS[step.key % len(KEYS)], name=name)


def _dedupe_within(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    made = on[0].dedupe(*KEYS[step.key % len(KEYS)], within=step.param % 6, name=name)
    return made.union(made.conflicts, name=f"{name}_all") if step.param % 2 else made


def _rejected(on: Sequence[tw.Stream], step: Step, name: str) -> tw.Stream:
    return on[0].rejected.map(from_rejected, name=name)


OPERATORS: dict[str, Operator] = {
    "scale": _map(scale),
    "jitter": _map(jitter),
    "odd_only": _map(odd_only),
    "fail_some": _map(fail_some, "reject"),
    "not_third": Operator(lambda on, step, name: on[0].filter(not_third, name=name)),
    "is_tagged": Operator(lambda on, step, name: on[0].filter(is_tagged, name=name)),
    "spell": _map(spell),
    "speaks": Operator(lambda on, step, name: on[0].filter(speaks, name=name)),
    "through_classes": Operator(users.through_classes),
    "by_worth": Operator(users.by_worth),
    "repeat": _flat(repeat),
    "repeat_or_fail": _flat(repeat_or_fail, "reject"),
    "add_ten": _batches(add_ten),
    "even_twice": _batches(even_twice, grows=True),
    "batch_or_fail": _batches(batch_or_fail, "reject"),
    "asked": Operator(calls.make_asked),
    "asked_service": Operator(calls.make_service),
    "running": _keyed(running, Total),
    "greet": _keyed(greet, Total),
    "every_third": _keyed(every_third, Total),
    "before_and_after": _keyed(before_and_after, Total, grows=True),
    "count_or_fail": _keyed(count_or_fail, Kept, errors="reject"),
    "failing_key": Operator(_failing_key),
    "quiet": _keyed(track, Timed, gone_quiet),
    "ticking": _keyed(pass_and_arm, Timed, tick_again, grows=True),
    "alarms": _keyed(arm_each, Timed, alarm_or_fail, "reject"),
    "several_timers": Operator(timers.make_several, timed=True, grows=True),
    "count_all": _process(running, Total),
    "all_quiet": _process(track, Timed, all_quiet),
    "window": Operator(_tumbling, timed=True, grows=True),
    "window_of_parts": Operator(_partial_window, timed=True, grows=True),
    "window_all": Operator(_whole_window, timed=True, grows=True),
    "window_function": Operator(_window_function, timed=True, grows=True),
    "sessions": Operator(_sessions, timed=True),
    "top_k": Operator(_top_k, timed=True),
    **{
        name: Operator(make, timed=timed, grows=name == "aggregates_window")
        for name, (make, timed) in aggregates.operators(_keyed_stream).items()
    },
    "dedupe": Operator(_dedupe),
    "dedupe_within": Operator(_dedupe_within, timed=True),
    "order_by": Operator(
        lambda on, step, name: on[0].order_by("ts", lateness=step.param % 8, name=name)
    ),
    "union": Operator(lambda on, step, name: on[0].union(*on[1:], name=name), inputs=2, grows=True),
    "barrier": Operator(loops.make(loops.barrier, "a", "b"), inputs=2, grows=True),
    "in_turn": Operator(loops.make(loops.in_turn, "b", "a"), inputs=2, grows=True),
    "steered": Operator(loops.make(loops.steered, "rows", "rule"), inputs=2, grows=True),
    "merged": Operator(
        lambda on, step, name: on[0].flow.operator(name, loops.merged, streams=list(on)),
        inputs=2,
        grows=True,
    ),
    "join": Operator(loops.make_join, timed=True, inputs=2, grows=True),
    "asof": Operator(loops.make_asof, timed=True, inputs=2),
    "zip": Operator(loops.make_zip, timed=True, inputs=2, grows=True),
    "throttle": Operator(loops.make_throttle, timed=True),
    "delay": Operator(lambda on, step, name: on[0].delay(step.param, name=name), timed=True),
    "by_three": Operator(loops.make(loops.by_three, "rows")),
    "first_rows": Operator(loops.make(loops.first_rows, "rows")),
    "parted": Operator(lambda on, step, name: loops.make_parted(on[0], name), grows=True),
    "looped": Operator(loops.make_looped, inputs=2, grows=True),
    "late": Operator(lambda on, step, name: on[0].late),
    "rejected": Operator(_rejected),
}
#: Steps that read a side output of their input's operator, not its rows.
SIDES = {"late", "rejected"}
#: Operators whose rejected stream is worth reading, and those whose late stream is.
REJECTING = {
    "fail_some", "repeat_or_fail", "batch_or_fail", "count_or_fail", "failing_key", "alarms", "asked_service",
    "source",
}  # fmt: skip
ORDERING = {"source", "order_by"}

#: At most so many operators that multiply rows in a flow.
_GROWING = 3


@dataclasses.dataclass(frozen=True)
class _Made:
    """What the strategy knows of a stream: its time domain (0: none), its origin, what made it."""

    domain: int
    origin: tuple[str, int]
    op: str


@st.composite
def recipes(
    draw: st.DrawFn,
    *,
    timed: bool = True,
    max_steps: int = 8,
    mixed: bool = True,
    rejecting: bool = True,
    looped: bool = True,
) -> Recipe:
    """Random flows: one to three sources, fan-out, unions, chains of keyed operators.

    Args:
        draw: given by Hypothesis.
        timed: whether the sources have event time.
        max_steps: the most operators.
        mixed: whether streams without common time may be merged (the order then depends on batch cuts).
        rejecting: whether sources may reject rows.
        looped: whether there may be loops of feedback.
    """
    often = st.just(False) if not rejecting else _RARELY
    lateness = st.sampled_from((0, 0, 3, 12)) if timed else st.none()
    lanes = st.sampled_from(("", "", "", *LANES)) if timed else st.just("")
    sources = tuple(
        SourceStep(draw(lateness), draw(lanes), draw(often))
        for _ in range(draw(st.sampled_from((1, 1, 2, 3))))
    )
    made = [
        _Made(number + 1 if timed else 0, ("source", number), "source")
        for number in range(len(sources))
    ]
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, max_steps))):
        step = _draw_step(draw, made, steps, mixed, looped)
        if step is not None:
            steps.append(step)
            _add(made, step, len(made))
    recipe = Recipe(sources, tuple(steps), tuple(draw(st.lists(_STREAM, max_size=3))))
    if mixed and testing.depends_on_cuts(make_plan(recipe.build())):
        # When late rows of lanes leave follows the watermark, and such a flow's order what comes first.
        plain = [dataclasses.replace(one, lanes=one.lanes and "arrival") for one in sources]
        return dataclasses.replace(recipe, sources=tuple(plain))
    return recipe


_RARELY = st.sampled_from((False, False, False, True))
_STREAM = st.integers(0, 8)


def _draw_step(
    draw: st.DrawFn, made: list[_Made], steps: Sequence[Step], mixed: bool, looped: bool
) -> Step | None:
    """A step that fits what there is; None when the drawn operator does not."""
    last = len(made) - 1
    on = draw(st.sampled_from((last, last, draw(st.integers(0, last)))))
    one = made[on]
    growing = sum(OPERATORS[step.op].grows for step in steps) >= _GROWING
    fits = [
        name
        for name, operator in OPERATORS.items()
        if not (operator.timed and not one.domain)
        and not (operator.grows and growing)
        and (looped or name != "looped")
        and (name != "rejected" or one.op in REJECTING)
        and (name != "late" or (one.op in ORDERING and one.domain))
        and (name != "order_by" or one.op != "order_by")
    ]
    op = draw(st.sampled_from(fits))
    inputs = [on]
    if OPERATORS[op].inputs > 1:
        others = [i for i, two in enumerate(made) if _can_merge(one, two, mixed)]
        most = 2 if op in ("union", "merged") else 1
        inputs += draw(st.lists(st.sampled_from(others), min_size=1, max_size=most))
    return Step(op, tuple(inputs), draw(st.integers(0, 11)), draw(st.integers(0, len(KEYS) - 1)))


def _can_merge(one: _Made, two: _Made, mixed: bool) -> bool:
    if one.domain and two.domain:
        # Streams of two sources share a watermark; behind an order_by only its own.
        return one.domain == two.domain or (one.domain < 100 and two.domain < 100)
    if one.domain or two.domain:
        return False
    # Rows that a source rejects have no place between those that it takes (docs/order.md).
    apart = one.origin != two.origin and "rejected" in (one.origin[0], two.origin[0])
    return not apart and (mixed or one.origin == two.origin)


def _add(made: list[_Made], step: Step, number: int) -> None:
    one = made[step.inputs[0]]
    if step.op == "order_by":
        made.append(_Made(100 + number, one.origin, "order_by"))
    elif step.op in SIDES:
        at_gate = step.op == "late" or one.op == "source"
        origin = (
            (step.op, step.inputs[0]) if at_gate and one.op == "source" else ("domain", one.domain)
        )
        made.append(_Made(0, origin if one.domain else (step.op, step.inputs[0]), step.op))
    else:
        origins = {made[i].origin for i in step.inputs}
        origin = one.origin if len(origins) == 1 else ("mixed", number)
        made.append(_Made(one.domain, origin, step.op))


# -- data ------------------------------------------------------------------------------------------------

_TIMES = st.one_of(
    st.integers(0, 30), st.integers(0, 30), st.integers(-20, 60), st.sampled_from((-(2**60), 2**60))
)
_EVENTS = st.builds(
    Event,
    ts=_TIMES,
    key=st.sampled_from((0, 1, 2, -1)),
    name=st.sampled_from(("a", "b", "ab", "", "é")),
    tag=st.sampled_from(("red", "blue")),
    value=st.sampled_from((0.0, -0.0, 1.5, float("nan"), float("inf"), -2.0)),
    maybe=st.sampled_from((None, 0, 1)),
    amount=st.integers(0, 12),
    lane=st.sampled_from((0, 1)),
)
#: A row that fits no record, for sources that reject.
BAD = (1, "not a number")


@st.composite
def rows_for(draw: st.DrawFn, recipe: Recipe, *, max_rows: int = 25) -> dict[str, list[Any]]:
    """Random rows for each source: out of order, with ties, duplicates and late ones."""
    inputs: dict[str, list[Any]] = {}
    for number, source in enumerate(recipe.sources):
        rows: list[Any] = draw(st.lists(_EVENTS, max_size=max_rows))
        if rows and draw(st.booleans()):
            rows.sort(key=lambda row: row.ts // 6)
        if source.reject:
            for place in draw(st.lists(st.integers(0, len(rows)), max_size=2)):
                rows.insert(place, BAD)
        inputs[f"in{number}"] = rows
    return inputs


def random_rows(seed: int, count: int) -> list[Event]:
    """Rows without Hypothesis, as many as wanted: out of order, with ties and rows that come late."""
    chooser = random.Random(seed)
    pick = chooser.choice
    return [
        Event(
            ts=place // 2 + chooser.randint(-9, 3),
            key=chooser.randint(0, 5),
            name=pick(("a", "b", "ab", "", "é")),
            tag=pick(("red", "blue", "green")),
            value=pick((0.0, -0.0, 1.5, float("nan"), -2.0)),
            maybe=pick((None, 0, 1)),
            amount=chooser.randint(0, 12),
            lane=chooser.randint(0, 1),
        )
        for place in range(count)
    ]


def idle_rows(seed: int) -> list[Event]:
    """Rows in order of time, with long pauses; some keys come again after one, others stay silent for ever."""
    rows = sorted(random_rows(seed, 24), key=lambda row: row.ts)
    return [
        row._replace(ts=row.ts + place // 6 * 40, key=row.key % 3 if place % 2 else row.key + 10 * (place // 6))
        for place, row in enumerate(rows)
    ]  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, **options: Any) -> tuple[Recipe, dict[str, list[Any]]]:
    """A recipe with rows for it."""
    recipe = draw(recipes(**options))
    return recipe, draw(rows_for(recipe))
