"""Compiled keyed operators give what their functions give in Python: outputs, timers, states, rejected rows."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg import times
from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.compiler.keyed.operator import CompiledKeyed, check_keyed, keyed_kernel
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.errors import OperatorError
from thalweg.flow.failures import reason_of, shorten
from thalweg.flow.records import Category, Schema, Timer, Timestamp
from thalweg.flow.state_class import drop, state, state_spec
from thalweg.times import NEVER


class Event(NamedTuple):
    ts: Timestamp
    user: int
    name: str
    kind: Category
    n: int | None
    v: float


class Out(NamedTuple):
    user: int
    pages: int
    flag: bool


class Texts(NamedTuple):
    name: str
    kind: Category
    other: str | None
    total: float


@state
class Open:
    timer: Timer
    pages: int = 0
    carted: bool = False
    kind: Category = "none"
    total: float = 0.0


GAP = 10


def track(open: Open, e: Event) -> None:
    open.pages += 1
    open.carted |= e.kind == "cart"
    open.kind = e.kind if e.v > 0 else "neg"
    open.total += e.v
    open.timer = e.ts + GAP


def close(open: Open, user: int, time: Timestamp) -> Out:
    return Out(user, open.pages, open.carted or open.kind == "neg")


def arm(open: Open, e: Event) -> Out | None:
    """Timers in the past, now, and none."""
    open.pages += 1
    open.timer = e.ts + (e.n or 0) * 5
    if e.v < 0:
        open.timer = times.NEVER
    return Out(e.user, open.pages, True) if e.kind == "cart" else None


def ring(open: Open, user: int, time: Timestamp) -> Out | None:
    """Arms itself again: later, at once (clamped), or no more."""
    open.pages -= 1
    if open.pages % 3 != 0:
        open.timer = time + 4 if open.pages % 2 else time - 9
    return Out(user, open.pages, False) if open.pages % 4 else None


def expand(open: Open, e: Event) -> Any:
    """Yields, fails half way, drops."""
    for i in range(open.pages + 3):
        open.pages += 1
        yield Out(e.user, 100 // (open.pages - 7), i > 1)
    open.timer = e.ts + 3
    if open.pages > 12:
        drop(open)


def expire(open: Open, user: int, time: Timestamp) -> Any:
    yield Out(user, open.pages, True)
    if open.pages == 6:
        open.pages = 1 // (open.pages - 6)
    yield Out(user, time, False)


def bump(open: Open, by: float) -> int:
    open.total = open.total * 0.5 + by
    open.pages += 1
    return open.pages


def texts(open: Open, e: Event) -> Texts | None:
    open.timer = e.ts + 2 * (e.n or 1)
    if bump(open, e.v) % 2:
        return None
    return Texts(e.name, e.kind, e.name if e.v > 0 else None, total=open.total)


def texts_end(open: Open, key: tuple[str, str], time: Timestamp) -> Texts:
    name, kind = key
    return Texts(key[0], kind, name if open.pages > 2 else None, open.pages)


def mean(open: Open, e: Event) -> Out:
    open.pages += 1
    open.total += e.v
    return Out(open.pages, 0, open.total / open.pages > 0.5)


def optional_end(open: Open, n: int | None, time: Timestamp) -> Out:
    return Out(-1 if n is None else n * 2, open.pages, n is None)


def float_end(open: Open, v: float, time: Timestamp) -> Texts | None:
    return None if v > 2 else Out(time, open.pages, v == 0)  # type: ignore[return-value]


EVENTS = Schema.of(Event)


def spec(process: Any, on_timer: Any, fields: tuple[str, ...], out: Any = Out) -> KeyedSpec:
    key = KeySpec(tuple(EVENTS.field(name) for name in fields))
    return KeyedSpec(
        process.__name__, process, on_timer, state_spec(Open), EVENTS, key, out and Schema.of(out)
    )


SPECS = [
    spec(track, close, ("user",)),
    spec(arm, ring, ("user",)),
    spec(expand, expire, ("user",)),
    spec(texts, texts_end, ("name", "kind"), Texts),
    spec(mean, None, ()),
    spec(track, None, ("user", "name")),
    spec(track, optional_end, ("n",)),
    spec(track, float_end, ("v",)),
    spec(arm, lambda open, time: Out(7, time, True), ()),
    spec(track, None, ("kind",), None),
]


class Reference:
    """The semantics on plain Python objects, one key after the other."""

    def __init__(self, spec: KeyedSpec) -> None:
        self.spec = spec
        self.states: dict[Any, Any] = {}
        self.outputs: list[Any] = []
        self.rejected: list[Any] = []
        self.disarmed = 0

    def process(
        self, rows: list[Any], keys: list[Any], clock: int, *, timed: bool, ending: bool
    ) -> None:
        for place, (key, row) in enumerate(zip(keys, rows, strict=True)):
            if timed:
                self.fire(key, row.ts, ending=ending)
            before = self.states.get(key)
            state = self.copy(before) if before is not None else self.spec.state.new()
            try:
                made = self.call(self.spec.process, state, row)
            except Exception as error:
                self.rejected.append((place, reason_of(error), shorten(row)))
                continue
            self.outputs += [(place, 0, "", one) for one in made]
            self.keep(key, state, row.ts if timed and self.spec.on_timer else None)
        if timed:
            for key in list(self.states):
                self.fire(key, clock, ending=ending)

    def fire(self, key: Any, limit: int, *, ending: bool) -> None:
        on_timer = self.spec.on_timer
        while on_timer and key in self.states and self.states[key].timer < limit:
            state = self.copy(self.states[key])
            time, state.timer = state.timer, NEVER
            given = (key,) if self.spec.key.fields else ()
            try:
                made = self.call(on_timer, state, *given, time)
            except Exception as error:
                self.rejected.append((-1, reason_of(error), f"key {key!r}"))
                del self.states[key]
                continue
            self.outputs += [(-1, time, repr(key), one) for one in made]
            if ending and state.timer != NEVER:
                self.disarmed += 1
                state.timer = NEVER
            if state.timer == NEVER:
                del self.states[key]
            else:
                self.keep(key, state, time + 1)

    def call(self, function: Any, state: Any, *args: Any) -> list[Any]:
        result = function(state, *args)
        if self.spec.out is None:
            assert result is None
            made = []
        elif hasattr(result, "__next__"):
            made = [self.spec.out.coerce(one) for one in result]
        else:
            made = [] if result is None else [self.spec.out.coerce(result)]
        self.spec.state.values(state)
        return made

    def copy(self, state: Any) -> Any:
        return self.spec.state.restore(self.spec.state.values(state))

    def keep(self, key: Any, state: Any, least: int | None) -> None:
        if getattr(state, "_drop", False):
            self.states.pop(key, None)
            return
        state = self.copy(state)
        if least is not None:
            state.timer = max(state.timer, least)
        self.states[key] = state


events = st.builds(
    Event,
    ts=st.integers(0, 60),
    user=st.integers(0, 3) | st.integers(-(2**62), 2**62),
    name=st.sampled_from(["", "a", "b\0c", "đ"]),
    kind=st.sampled_from(["cart", "view", ""]),
    n=st.none() | st.integers(-2, 3),
    v=st.sampled_from([0.0, -0.0, 1.5, -2.0, 3.25, float("nan")]),
)
inputs = st.lists(events, max_size=60).map(lambda rows: sorted(rows, key=lambda row: row.ts))
quick = settings(derandomize=True, deadline=None, max_examples=25, database=None)


def step(
    operator: CompiledKeyed, rows: list[Any], clock: int, *, timed: bool, ending: bool
) -> tuple[list[Any], list[Any], int]:
    """One chunk through a compiled operator: outputs as the reference notes them."""
    chunk = Chunk.from_rows(EVENTS, rows)
    keys = [chunk.column(field.name) for field in operator.spec.key.fields]
    moments = np.array([row.ts for row in rows], np.int64) if timed else None
    result = operator.process(chunk, keys, moments, clock, ending=ending)
    out = operator.spec.out
    count = len(result.source)
    made = Chunk(out, result.columns, count).rows() if out else [()] * count
    fired = int((result.source < 0).sum())
    names = iter(operator.spec.key.python_keys(result.timer_keys, fired))
    outputs = [
        (source, time if source < 0 else 0, repr(next(names)) if source < 0 else "", one)
        for source, time, one in zip(
            result.source.tolist(), result.time.tolist(), made, strict=True
        )
    ]
    rejected = [(one.row, one.reason, one.value) for one in result.rejected]
    return outputs, rejected, result.disarmed


def states(operator: CompiledKeyed) -> dict[str, str]:
    """Key -> state as text, of all tables."""
    found = {}
    for table in operator.tables.values():
        entries = np.flatnonzero(table.flags[: table.count] & 1)
        keys = operator.spec.key.python_keys(table.key_columns(entries), len(entries))
        batch = table.snapshot()
        first = len(operator.spec.key.fields)
        fields = [batch.column(i).to_pylist() for i in range(first, batch.num_columns - 1)]
        found |= {repr(k): repr(v) for k, v in zip(keys, zip(*fields, strict=True), strict=True)}
    return found


def ordered(outputs: list[Any]) -> str:
    return repr(sorted(outputs, key=lambda one: one[:3]))


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.name}-{'-'.join(s.key.names)}")
def test_operators_agree_with_python(spec: KeyedSpec) -> None:
    """Outputs, their places and times, states, rejected rows and disarmed timers, for any cuts of the input."""
    make = keyed_kernel(spec, buckets=4, reject=True)

    @quick
    @given(inputs, st.lists(st.integers(0, 60), max_size=4), st.booleans())
    def holds(rows: list[Any], cuts: list[int], lagging: bool) -> None:
        operator, reference = make(), Reference(spec)
        ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
        for start, end in zip([0, *ends], [*ends, len(rows)], strict=True):
            part, ending = rows[start:end], start == len(rows)
            clock = NEVER if ending else rows[end - 1].ts - 2 * lagging if end else 0
            compare(operator, reference, part, clock, ending=ending)

    holds()


def compare(
    operator: CompiledKeyed, reference: Reference, part: list[Any], clock: int, *, ending: bool
) -> None:
    chunk = Chunk.from_rows(EVENTS, part)
    columns = [chunk.column(field.name) for field in operator.spec.key.fields]
    keys = operator.spec.key.python_keys(columns, len(part))
    outputs, rejected, disarmed = step(operator, part, clock, timed=True, ending=ending)
    reference.outputs, reference.rejected, reference.disarmed = [], [], 0
    reference.process(part, keys, clock, timed=True, ending=ending)
    assert ordered(outputs) == ordered(reference.outputs)
    assert sorted(rejected) == sorted(reference.rejected)
    assert disarmed == reference.disarmed
    values = operator.spec.state.values
    assert states(operator) == {repr(k): repr(values(s)) for k, s in reference.states.items()}


def test_without_times_no_timer_fires() -> None:
    """A flow without order_by: rows only; what a state says of its timer is kept."""
    rows = [Event(9 - i, i % 2, "a", "cart", 1, 1.0) for i in range(8)]
    operator, reference = keyed_kernel(SPECS[0], buckets=4, reject=True)(), Reference(SPECS[0])
    outputs, _, _ = step(operator, rows, NEVER, timed=False, ending=False)
    reference.process(rows, [row.user for row in rows], NEVER, timed=False, ending=False)
    assert outputs == reference.outputs == []
    values = state_spec(Open).values
    assert states(operator) == {repr(k): repr(values(s)) for k, s in reference.states.items()}


def test_outputs_beyond_the_buffers_come_once_and_in_order() -> None:
    """One row with thousands of outputs: the buffers grow and the state is as after one call."""

    def burst(open: Open, e: Event) -> Any:
        for i in range(open.pages, open.pages + 5000):
            open.pages += 1
            yield Out(e.user, i, True)

    made = keyed_kernel(spec(burst, None, ("user",)), buckets=4, reject=False)()
    rows = [Event(0, user, "a", "", 1, 1.0) for user in (1, 2, 1)]
    outputs, _, _ = step(made, rows, 0, timed=True, ending=False)
    of_one = [one.pages for _, _, _, one in outputs if one.user == 1]
    assert of_one == list(range(10000))
    assert len(outputs) == 15000


def test_many_keys_grow_the_tables() -> None:
    """Ten thousand new keys in one chunk, with and without text keys."""
    rows = [Event(1, i, f"n{i}", "cart", 1, 1.0) for i in range(10_000)]
    for one in (SPECS[0], spec(track, texts_end, ("name", "kind"), Texts)):
        operator = keyed_kernel(one, buckets=8, reject=False)()
        step(operator, rows, 0, timed=True, ending=False)
        assert sum(len(table) for table in operator.tables.values()) == 10_000
        outputs, _, _ = step(operator, [], NEVER, timed=True, ending=True)
        assert len(outputs) == 10_000


def test_errors_name_the_key_when_a_timer_fails() -> None:
    """errors="fail": on_timer's error tells key and time."""
    failing = spec(track, lambda o, u, t: Out(1 // (u - 5), 0, True), ("user",))
    operator = keyed_kernel(failing, buckets=4, reject=False)()
    step(operator, [Event(3, 5, "a", "", 1, 1.0)], 3, timed=True, ending=False)
    with pytest.raises(OperatorError, match="key 5") as caught:
        step(operator, [], NEVER, timed=True, ending=True)
    assert "ZeroDivisionError: integer division or modulo by zero" in str(caught.value)


@state
class Other:
    timer: Timer
    label: list[bytes] = []


@state
class Sum:
    timer: Timer
    total: float = 0.0


def none_timer(s: Sum, e: Event) -> None:
    s.timer = None


def int_total(s: Sum, e: Event) -> Texts:
    s.total = 0
    return Texts(e.name, e.kind, None, -s.total)


def int_total_fine(s: Sum, e: Event) -> Texts:
    if e.n is None:
        s.total = 0
    s.total += e.v
    return Texts(e.name, e.kind, None, s.total)


def narrows(s: Sum, e: Event) -> None:
    s.timer = e.ts / 2


def returns(s: Sum, e: Event) -> Out:
    return Out(e.user, s.total, True)


def chained(s: Sum, e: Event) -> Out | None:
    return Out(1, 2, True) if 0 < count(s) < 3 else None


def count(s: Sum) -> int:
    s.total += 1.0
    return 1


@pytest.mark.parametrize(
    ("function", "cls", "part"),
    [
        (none_timer, Sum, "tw.NEVER"),
        (int_total, Sum, "assign a float"),
        (narrows, Sum, "Sum.timer is int, got a float"),
        (returns, Sum, "Out.pages is int, got a float"),
        (lambda s, e: None, Other, "state Other.label"),
        (lambda s: None, Sum, "takes 1 arguments"),
        (chained, Sum, "assign its result first"),
    ],
)
def test_refusals(function: Any, cls: Any, part: str) -> None:
    """Found without compiling, with the reason."""
    out = Texts if function is int_total else Out
    key = KeySpec((EVENTS.field("user"),))
    made = KeyedSpec("it", function, None, state_spec(cls), EVENTS, key, Schema.of(out))
    compiled, reason = check_keyed(made)
    assert not compiled
    assert part in reason


def test_an_int_may_reset_a_float_field() -> None:
    """``total = 0`` before ``total += x`` cannot be told from ``total = 0.0``."""
    key = KeySpec((EVENTS.field("user"),))
    made = KeyedSpec("it", int_total_fine, None, state_spec(Sum), EVENTS, key, Schema.of(Texts))
    assert check_keyed(made) == (True, "")
