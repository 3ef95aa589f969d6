"""What a flow refuses while it is built, and with which words; names and records that verbs give."""

# ruff: noqa: E501 (a refusal a line can be read as a table)
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.plan.plan import make_plan


class Row(NamedTuple):
    ts: tw.Timestamp
    key: int
    name: str
    tags: list[str]


class Other(NamedTuple):
    key: int


@tw.state
class Total:
    n: int = 0


@tw.state
class Timed:
    timer: tw.Timer
    n: int = 0


def same(row: Row) -> Row:
    return row


def silent(row: Row) -> None:
    return None


def unannotated(row):  # type: ignore[no-untyped-def]
    return row


def several(row: Row) -> Iterator[Row]:
    yield row


def two_arguments(row: Row, other: Row) -> Row:
    return row


async def later(row: Row) -> Row:
    return row


def number(row: Row) -> int:
    return row.key


def add(state: Total, row: Row) -> Row:
    return row


class Wide(NamedTuple):
    key: int
    more: int


def swapped(row: Row, state: Total) -> Row:
    return row


def late_state(key: int, state: Timed, time: int) -> Row | None:
    return None


def of_other(other: Wide) -> Row | None:
    return None


def of_other_gap(other: Wide) -> int:
    return 1


def add_first(state: Total) -> Row | None:
    return None


def of_int(n: int) -> bool:
    return n > 0


def part_of(row: Other) -> Other:
    return Other(row.key)


def arm(state: Timed, row: Row) -> Row | None:
    return None


def fire(state: Timed, key: int, time: int) -> Row | None:
    return None


def fire_other(state: Timed, key: int, time: int) -> Other:
    return Other(key)


def fire_without_key(state: Timed, time: int) -> Row | None:
    return None


def of_window(key: Any, start: int, end: int, rows: list[Row]) -> Other:
    return Other(len(rows))


Build = Callable[[tw.Flow, tw.Stream], object]
COUNT = {"n": tw.agg.count()}

#: (what is built, words that the message must have); where a function is at fault, its place is among them.
REFUSED: list[tuple[Build, str]] = [
    # sources
    (lambda f, s: f.source("in", Row), "two operators are called 'in' .* source .* so call it something else$"),
    (lambda f, s: f.source("x", Row, order_by="nothing"), "Row has no field 'nothing'; it has ts, key"),
    (lambda f, s: f.source("x", Row, order_by="name"), "'x': order_by='name' is str; .* Timestamp or an int"),
    (lambda f, s: f.source("x", Row, lane="nothing"), "Row has no field 'nothing'"),
    (lambda f, s: f.source("x", Row, arrival=["nothing"]), "Row has no field 'nothing'"),
    (lambda f, s: f.source("x", Row, lateness="1 second"), "source 'x': lateness needs order_by"),
    (lambda f, s: f.source("x", Row, order_by="ts", lateness="soon"), "source 'x': lateness: not a duration: 'soon'"),
    (lambda f, s: f.source("x", Row, order_by="key", lateness="1 second"), "source 'x': .* ordered by an int.* '1 second'"),
    (lambda f, s: f.source("x", Row, errors="ignore"), "errors: expected one of fail, reject, got 'ignore'"),
    (lambda f, s: f.source("x", dict), "a record is a typing.NamedTuple class, a dataclass, a TypedDict or a pyarrow.Schema, got"),
    # stateless
    (lambda f, s: s.map(5), "operator 'map': expected a function, got 5"),
    (lambda f, s: s.map(later), "operator 'map': later is async def; .* write def"),
    (lambda f, s: s.map(silent), r"operator 'silent': silent \(test_flow.py:\d+\) returns nothing"),
    (lambda f, s: s.map(unannotated), r"'unannotated': unannotated \(test_flow.py:\d+\) does not say .* into=Record"),
    (lambda f, s: s.map(several), r"'several': several \(test_flow.py:\d+\) gives several records .* use flat_map"),
    (lambda f, s: s.map(number), r"'number': number \(test_flow.py:\d+\)"),
    (lambda f, s: s.map(two_arguments), r"two_arguments \(test_flow.py:\d+\) is called with \(row\), .* two_arguments\(row"),
    (lambda f, s: s.map(same, compile="always"), "compile: expected one of auto, require, never, got 'always'"),
    (lambda f, s: s.map(same, errors="no"), "errors: expected one of fail, reject, got 'no'"),
    (lambda f, s: s.flat_map(same), r"'same': same \(test_flow.py:\d+\) gives one record .* Iterator\[R\], or use map"),
    (lambda f, s: s.filter(two_arguments), r"two_arguments \(test_flow.py:\d+\) is called with \(row\)"),
    (lambda f, s: s.map_batches(two_arguments), r"two_arguments \(test_flow.py:\d+\) is called with \(batch\)"),
    # keys
    (lambda f, s: s.key_by(), "key_by needs a field name, several, or a function"),
    (lambda f, s: s.key_by(["key"]), r"key_by: .* one by one, got \['key'\]; write key_by\(\"key\"\)$"),
    (lambda f, s: s.key_by(("key", "name")), r"write key_by\(\"key\", \"name\"\)$"),
    (lambda f, s: s.key_by("key", buckets=0), "key_by: buckets is a number from 1 to 65536, got 0"),
    (lambda f, s: s.key_by("key", buckets=True), "buckets is a number from 1 to 65536, got True"),
    (lambda f, s: s.key_by("nothing"), "Row has no field 'nothing'"),
    (lambda f, s: s.key_by("tags"), r"key_by: Row.tags is list\[str\]; a key is a plain value"),
    (lambda f, s: s.key_by("key", "key"), "key_by: a field is named twice"),
    (lambda f, s: s.key_by("key", number), "field names, or one function alone"),
    (lambda f, s: s.key_by(unannotated), r"key_by: unannotated \(test_flow.py:\d+\) does not say of which type"),
    (lambda f, s: s.key_by(lambda row: row.key), r"key_by: <lambda> \(test_flow.py:\d+\) does not say"),
    (lambda f, s: s.key_by(lambda row: row.key, into=dict), "cannot be <class 'dict'>"),
    # process
    (lambda f, s: s.key_by("key").process(lambda state, row: None, state=Total), r"<lambda> \(test_flow.py:\d+\) holds state .* name='...'"),
    (lambda f, s: s.key_by("key").process(add, state=Row), "operator 'add': state= wants a class declared with @tw.state, got .*Row"),
    (lambda f, s: s.key_by("key").process(add, state=Total(n=5)), r"'add': state= wants the class Total, got an instance .* write state=Total\. .* n: int = 5"),
    (lambda f, s: s.key_by("key").process(swapped, state=Total), r"swapped \(test_flow.py:\d+\) is called with \(state, row\), and its parameter 'row', in the place of state, is annotated Row, but the state is Total"),
    (lambda f, s: s.key_by("key").process(arm, state=Timed, on_timer=late_state), "parameter 'key', in the place of state, is annotated int"),
    (lambda f, s: s.map(of_other), r"of_other \(test_flow.py:\d+\) .* 'other', in the place of row, is annotated Wide, but the rows are Row, without 'more'; annotate it Row"),
    (lambda f, s: s.map(add_first), "'state', in the place of row, is annotated Total, which is a state class"),
    (lambda f, s: s.filter(of_int), "'n', in the place of row, is annotated int, but it is a Row"),
    (lambda f, s: s.key_by(of_other), "key_by.*'other', in the place of row, is annotated Wide"),
    (lambda f, s: s.key_by("key").sessions(of_other_gap, n=tw.agg.count()), "'other', in the place of row"),
    (lambda f, s: s.key_by("key").window("1 s", n=tw.agg.count(where=of_other_gap)), "'other', in the place of row"),
    (lambda f, s: s.map_batches(same), "'row', in the place of batch, is annotated Row, but it is a pyarrow.RecordBatch"),
    (lambda f, s: s.process(add, state=Total()), "'add': state= wants the class Total, got an instance of it"),
    (lambda f, s: s.key_by("key").process(same, state=Total), r"same \(test_flow.py:\d+\) is called with \(state, row\)"),
    (lambda f, s: s.key_by("key").process(arm, state=Timed), "'arm': state Timed has a timer, but there is no on_timer="),
    (lambda f, s: s.key_by("key").process(add, state=Total, on_timer=fire), r"'add': fire \(test_flow.py:\d+\) .* no timer; add a field timer: tw.Timer"),
    (lambda f, s: s.key_by("key").process(arm, state=Timed, on_timer=fire_without_key), r"fire_without_key \(test_flow.py:\d+\) is called with \(state, key, time\)"),
    (lambda f, s: s.process(arm, state=Timed, on_timer=fire), r"fire \(test_flow.py:\d+\) is called with \(state, time\)"),
    (lambda f, s: s.key_by("key").process(arm, state=Timed, on_timer=fire_other), r"'arm': process gives Row\(.*\), fire_other \(test_flow.py:\d+\) gives Other"),
    (lambda f, s: (s.process(add, state=Total), s.process(add, state=Total)), "two operators are called 'add' .* stateful .* give it another name"),
    (lambda f, s: f.source("x", Row).key_by("key").process(arm, state=Timed, on_timer=fire), "'arm' works by event time, .* order_by='<time field>'"),
    # windows, sessions, dedupe
    (lambda f, s: s.key_by("key").window("1 minute"), "'window': say what to compute, .* n=tw.agg.count"),
    (lambda f, s: s.window("0 s", **COUNT), "'window': size and every must be positive"),
    (lambda f, s: s.window(5, every=9, **COUNT), "'window': every is greater than size"),
    (lambda f, s: s.window(5, of_window, **COUNT), "'window': give a function or aggregates, not both"),
    (lambda f, s: s.window(5, same), r"same \(test_flow.py:\d+\) is called with \(key, start, end, rows\)"),
    (lambda f, s: s.window("soon", **COUNT), "'window': size: not a duration: 'soon'"),
    (lambda f, s: s.window(5, n=5), "'window': n= wants an aggregate such as .*, got 5"),
    (lambda f, s: s.window(5, total=tw.agg.sum("name")), "'window': total: sum needs a number, Row.name is str"),
    (lambda f, s: s.window(5, total=tw.agg.sum("nothing")), "Row has no field 'nothing'"),
    (lambda f, s: s.window(5, least=tw.agg.min("tags")), r"min cannot compare Row.tags"),
    (lambda f, s: s.key_by("key").window(5, key=tw.agg.count()), "'window': two output fields are called 'key'"),
    (lambda f, s: f.source("x", Row).window(5, **COUNT), "'window' works by event time"),
    (lambda f, s: s.key_by("key").sessions(-1, **COUNT), "'sessions': gap must not be negative, got -1"),
    (lambda f, s: f.source("x", Row).key_by("key").sessions(5, **COUNT), "'sessions' works by event time"),
    (lambda f, s: f.source("x", Row).dedupe("key", within=5), "'dedupe' works by event time"),
    (lambda f, s: tw.agg.top_k(0, by="key"), "top_k: k: expected a whole number from 1 on, got 0"),
    # unions, order_by, sinks
    (lambda f, s: f.union(), "union needs at least one stream"),
    (lambda f, s: s.union(tw.Flow("g").source("in", Row, order_by="ts")), "belong to Flow.'f'.* and Flow.'g'"),
    (lambda f, s: s.union(s.map(lambda row: Other(1), into=Other)), r"union: the records differ: Row\(.*\) and Other"),
    (lambda f, s: s.union(f.source("x", Row)), "union: one stream has event time .* give both sources order_by"),
    (lambda f, s: s.union(s.late), "union: one stream has event time"),
    (lambda f, s: s.order_by("name"), "order_by='name' is str"),
    (lambda f, s: s.order_by("ts", lateness="soon"), "'order_by_ts': lateness: not a duration"),
    (lambda f, s: (s.sink("out"), s.sink("out")), "two sinks are called .out"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "words"), REFUSED, ids=[f"{i}" for i in range(len(REFUSED))])
def test_refused(build: Build, words: str) -> None:
    """A wrong call raises at once, saying which operator and function, what was expected and what came."""
    flow = tw.Flow("f")
    source = flow.source("in", Row, order_by="ts")
    with pytest.raises((tw.BuildError, ValueError)) as caught:
        build(flow, source)
    text = str(caught.value)
    assert re.search(words, text, re.DOTALL), text
    assert isinstance(caught.value, tw.ThalwegError)
    assert len(text.splitlines()) <= 10


def test_a_parameter_may_be_a_part_of_the_row() -> None:
    """A record whose fields the rows have all fits them, as do unions, bases and no annotation."""
    flow = tw.Flow("f")
    source = flow.source("in", Row, order_by="ts")
    source.map(part_of).sink("part")
    source.map(lambda row: Other(row.key), into=Other).map(part_of).sink("plain")
    got = tw.run(flow, {"in": [Row(1, 2, "a", [])]})
    assert got["part"] == got["plain"] == [Other(2)]


@pytest.mark.parametrize("name", ["", "a/b", 5])
def test_names_of_flows(name: Any) -> None:
    """A flow's name is text without the separator of composites."""
    with pytest.raises(tw.BuildError, match="a flow's name is a non-empty text without '/'"):
        tw.Flow(name)


def test_line_of_the_function() -> None:
    """The line in a message is the function's own."""
    flow = tw.Flow("f")
    with pytest.raises(tw.BuildError, match=f"test_flow.py:{silent.__code__.co_firstlineno}"):
        flow.source("in", Row).map(silent)


def _missing_default() -> object:
    class State:
        n: int

    return tw.state(State)


def _wrong_default() -> object:
    class State:
        n: int = "no"  # type: ignore[assignment]

    return tw.state(State)


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (_missing_default, "state State.n has no default; write n: int = ..."),
        (_wrong_default, "the default of State.n: expected int, got str 'no'"),
    ],
)
def test_states_refused(declare: Callable[[], object], words: str) -> None:
    """A state class says how a new key starts, in its own types."""
    with pytest.raises(tw.SchemaError, match=re.escape(words)):
        declare()


def test_stateless_names_get_numbers() -> None:
    """Operators without state may share a name; later ones get a number. Sinks have names of their own."""
    flow = tw.Flow("f")
    source = flow.source("in", Row)
    source.map(same).map(same).map(same, name="same").sink("in")
    assert [node.name for node in flow.nodes] == ["in", "same", "same_2", "same_3", "in"]


def test_composites_prefix_names() -> None:
    """Operators made inside a composite are called after it; the prefix ends with it, also after an error."""

    def clean(stream: tw.Stream, *, depth: int) -> tw.Stream:
        inner = stream.map(same)
        return inner.apply(clean, name="inner", depth=depth - 1) if depth else inner

    flow = tw.Flow("f")
    source = flow.source("in", Row)
    source.apply(clean, depth=1).sink("out")
    with pytest.raises(ZeroDivisionError):
        source.apply(lambda stream: 1 / 0, name="broken")
    source.map(same).sink("plain")
    names = [node.name for node in flow.nodes]
    assert names == ["in", "clean/same", "clean/inner/same", "out", "same", "plain"]


def test_records_of_verbs() -> None:
    """Windows, sessions and dedupe say what they give; rejected streams carry tw.Rejected."""
    flow = tw.Flow("f")
    source = flow.source("in", Row, order_by="ts")
    keyed = source.key_by("key", "name")
    window = keyed.window("1 minute", n=tw.agg.count(), best=tw.agg.top_k(2, by="key"))
    assert window.schema.names == ("key", "name", "start", "end", "n", "best")
    assert str(window.schema.field("best").type) == "list[Row]"
    session = source.key_by(number).sessions(5, first=tw.agg.min("name"))
    assert session.schema.names == ("number", "start", "end", "first")
    deduped = source.dedupe("key", within=9)
    assert deduped.schema == deduped.conflicts.schema == source.schema
    assert source.rejected.schema.names == ("operator", "reason", "position", "row")
    assert source.late.schema == source.schema
    assert (source.late.time, source.rejected.time) == (None, None)


def test_arrow_schemas_are_records() -> None:
    """A pyarrow schema is as good as a NamedTuple."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    flow = tw.Flow("f")
    flow.source("in", schema).key_by("b").process(
        lambda state, row: row, state=Total, name="pass", into=schema
    ).sink("out")
    assert make_plan(flow).depth == 2
    assert str(flow.nodes[0].out) == "Row(a: int, b: str | None)"


def test_return_annotations() -> None:
    """Optional and iterator annotations say how many rows a function gives; into= stands in for them."""
    flow = tw.Flow("f")
    source = flow.source("in", Row, order_by="ts")
    op = source.key_by("key").process(arm, state=Timed, on_timer=fire)
    assert op.schema.names == source.schema.names
    assert source.flat_map(several).schema == source.schema
    assert source.map(unannotated, into=Row).schema == source.schema
    assert source.key_by("key").window(5, of_window).schema.names == ("key",)
