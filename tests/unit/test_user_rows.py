"""Records that are dataclasses and TypedDicts, and fields of Python's own types: exact from input to output."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.checkpoint.manifest import Manifest, ManifestField, ManifestSource
from thalweg.engine.build import functions_of, prepare, verdicts
from thalweg.flow.fields.shapes import ValueShape
from thalweg.flow.records import Schema
from thalweg.plan.plan import make_plan
from thalweg.spark.tasks.pickling import pickled_plan
from thalweg.time_texts import Unfit

NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Line(TypedDict):
    price: tw.Money
    day: dt.date


@dataclass(frozen=True, slots=True)
class Order:
    id: int
    at: dt.datetime
    day: dt.date | None
    wait: dt.timedelta
    total: tw.Money
    lines: list[Line]
    tags: dict[str, Any] | None
    rate: Decimal = Decimal("1.5")
    first: Line | None = None


ORDERS = [
    Order(
        1,
        NEW_YEAR,
        dt.date(1960, 2, 29),
        dt.timedelta(days=-1, microseconds=5),
        Decimal("-1.50"),
        [{"price": Decimal("9999999999999999.99"), "day": dt.date(9999, 12, 31)}],
        {"ä": [1, {"b": None}], "c": 1.5},
        Decimal("0.000001"),
        {"price": Decimal("3.00"), "day": dt.date(1, 1, 1)},
    ),
    Order(2, NEW_YEAR + dt.timedelta(hours=1), None, dt.timedelta(0), Decimal(0), [], None),
    Order(
        3,
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.date(1970, 1, 1),
        dt.timedelta(days=400),
        Decimal("0.01"),
        [],
        {},
    ),
]


def passed(orders: Any, record: Any = Order, **source: Any) -> tuple[list[Any], list[str]]:
    """The rows that fit, and why others do not."""
    flow = tw.Flow("orders")
    stream = flow.source("orders", record, errors="reject", **source)
    stream.sink("out")
    stream.rejected.sink("bad")
    result = tw.run(flow, {"orders": orders})
    return result.rows("out"), [row.reason for row in result.rows("bad")]


def test_there_and_back(tmp_path: Path) -> None:
    """Rows of every output are read back as they were, and so are objects, dicts, tuples and tables."""
    rows, bad = passed(ORDERS)
    assert (rows, bad) == (ORDERS, []) and {*map(type, rows)} == {Order}
    for name in ("o.jsonl", "o.parquet"):
        flow = tw.Flow("orders")
        flow.source("orders", Order).sink("out")
        tw.run(flow, {"orders": ORDERS}, {"out": tw.to_files(tmp_path / name)})
        assert passed(tw.files(tmp_path / name)) == (ORDERS, []), name
    flow = tw.Flow("orders")
    flow.source("orders", Order).sink("out")
    table = tw.run(flow, {"orders": ORDERS}).sinks["out"]
    kinds = ["int64", "timestamp[us, tz=UTC]", "date32[day]", "duration[us]", "decimal128(18, 2)"]
    assert [*map(str, table.schema.types)][:5] == kinds
    as_tuples = [tuple(getattr(one, f.name) for f in dataclasses.fields(one)) for one in ORDERS]
    as_dicts = [{f.name: getattr(one, f.name) for f in dataclasses.fields(one)} for one in ORDERS]
    mixed = [ORDERS[0], as_dicts[1], as_tuples[2]]
    for given in (table, as_tuples, as_dicts, mixed, iter(ORDERS)):
        assert passed(given) == (ORDERS, [])
        assert (
            isinstance(given, Iterator)
            or tw.testing.reference(flow, {"orders": given}).sinks["out"] == ORDERS
        )
    seen: list[Any] = []
    tw.run(flow, {"orders": ORDERS}, {"out": tw.each(seen.append)})
    assert seen == ORDERS


class Cells(NamedTuple):
    at: dt.datetime | None
    day: dt.date | None
    wait: dt.timedelta | None
    total: Annotated[Decimal, tw.decimal(6, 3)] | None
    any: Any


def test_cells(tmp_path: Path) -> None:
    """CSV is written as it is read; texts in rows, too; the fast way and the slow way give the same."""
    rows = [
        Cells(
            NEW_YEAR,
            dt.date(2026, 1, 2),
            dt.timedelta(hours=25, microseconds=7),
            Decimal("-12.345"),
            {"a": 'b,"'},
        ),
        Cells(None, None, None, None, None),
    ]
    path = tmp_path / "c.csv"
    flow = tw.Flow("cells")
    flow.source("cells", Cells).sink("out")
    tw.run(flow, {"cells": rows}, {"out": tw.to_files(path)})
    assert passed(tw.files(path), Cells) == (rows, [])
    path.write_text(
        path.read_text() + "x,2026-01-02,PT1S,1,[]\n"
    )  # a row that does not fit: cell by cell
    found, bad = passed(tw.files(path), Cells)
    assert found == rows and "at: expected datetime | None, got 'x'" in bad[0]
    texts = [
        ("2026-01-01", "2026-01-02", "1 day, 1:00:00.000007", " -12.345", {"a": 'b,"'}),
        (None,) * 5,
    ]
    assert passed(texts, Cells) == (rows, [])


def test_what_does_not_fit(tmp_path: Path) -> None:
    """It is refused by name with what to do, in Python and in files alike."""
    good: dict[str, Any] = {
        "id": 1, "at": NEW_YEAR, "day": None, "wait": "PT1S", "total": "1.50", "lines": [], "tags": None, "rate": 2,
    }  # fmt: skip
    wrong = [
        ("at", dt.datetime(2026, 1, 1), "Order.at: .*it has no zone"),
        ("at", 5, "Order.at: expected datetime, got int 5 .*tw.Timestamp"),
        ("at", None, "Order.at: expected datetime, got None"),
        ("day", NEW_YEAR, r"Order.day: expected date.*write .date\(\)"),
        ("day", "2026-02-30", "Order.day: expected date | None, got str '2026-02-30'"),
        ("wait", 3, r"Order.wait: .*write timedelta\(microseconds=x\)"),
        ("wait", "soon", "Order.wait: .*not a duration like PT1H30M"),
        ("total", 1.5, r"Order.total: expected Decimal\(18, 2\), got float.*Decimal\(str\(x\)\)"),
        ("total", "1.505", "Order.total: .*more than 2 digits behind the point"),
        ("total", Decimal("1e16"), "Order.total: .*17 digits in front of the point, and 16 fit"),
        ("total", Decimal("nan"), "Order.total: .*not a number with digits"),
        ("tags", {1, 2}, "Order.tags: .*no JSON value"),
        ("lines", [{"price": 1}], "Line.day: is missing|day is missing"),
    ]
    rows = [{**good, name: value} for name, value, _ in wrong]
    found, bad = passed(rows)
    assert not found
    for reason, (_, _, said) in zip(bad, wrong, strict=True):
        assert re.search(said, reason), (reason, said)
    path = tmp_path / "o.jsonl"
    head = '{"id": 1, "at": "2026-01-01", "wait": "PT1S", "rate": 1, "lines": [], '
    path.write_text(
        head
        + '"total": 1.10}\n'
        + head
        + '"total": 1.105}\n'
        + head
        + '"total": 1, "day": 5}\n'
        + head
        + '"total": true}\n'
    )
    found, bad = passed(tw.files(path))
    assert [one.total for one in found] == [Decimal("1.10")]
    assert (
        "more than 2 digits" in bad[0]
        and "day: expected date | None, got 5" in bad[1]
        and len(bad) == 3
    )


def test_columns_of_arrow() -> None:
    """What is exactly a value is taken from every type that can hold it; the rest are bad rows, or refused types."""

    class Days(NamedTuple):
        x: dt.date

    class Waits(NamedTuple):
        x: dt.timedelta

    class Sums(NamedTuple):
        x: tw.Money

    class Moments(NamedTuple):
        x: dt.datetime

    midnight = 86_400_000
    ns = pa.array([1000, 1001]).view(pa.duration("ns"))
    cases: list[tuple[Any, Any, list[Any], int]] = [
        (Days, pa.array([midnight, midnight + 1]).view(pa.date64()), [dt.date(1970, 1, 2)], 1),
        (Days, pa.array([2**30], pa.int32()).view(pa.date32()), [], 1),
        (Waits, ns, [dt.timedelta(microseconds=1)], 1),
        (Waits, pa.array([2, 2**62]).view(pa.duration("s")), [dt.timedelta(seconds=2)], 1),
        (Sums, pa.array([Decimal("1.100"), Decimal("1.101")]), [Decimal("1.10")], 1),
        (Sums, pa.array([7, 2**62]), [Decimal(7)], 1),
        (Sums, pa.array([Decimal("1.1"), None], pa.decimal256(40, 1)), [Decimal("1.1")], 1),
        (Moments, pa.array([0, 2**62]), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)], 1),
    ]
    for record, array, good, bad in cases:
        rows, reasons = passed(pa.table({"x": array}), record)
        assert [row.x for row in rows] == good and len(reasons) == bad, (record, reasons)
    for record, array in (
        (Days, pa.array([0])),
        (Waits, pa.array([0])),
        (Sums, pa.array([1.5])),
        (Sums, pa.array(["1"])),
    ):
        with pytest.raises(tw.SchemaError, match=r"column x is .*, but .*\.x is"):
            passed(pa.table({"x": array}), record)


# -- functions -------------------------------------------------------------------------------------------


@dataclass
class Click:
    user: str
    n: int
    at: dt.datetime
    page: str | None = None
    _: KW_ONLY
    seen: bool = False


class Said(TypedDict):
    user: str
    n: int
    at: dt.datetime


@tw.state
class Total:
    n: int = 0


def compiled_replace(row: Click) -> Click:
    return dataclasses.replace(row, n=row.n + 1, user=row.user.upper())


def compiled_object(row: Click) -> Click:
    return Click(user=row.user, n=row.n * 2, seen=row.n > 1, at=row.at)


def compiled_dict(row: Click) -> Said:
    return {"user": row.user, "n": row.n, "at": row.at}


def compiled_call(row: Said) -> Said:
    return Said(at=row["at"], n=row["n"] - 1, user=row["user"])


def compiled_spread(row: Said) -> Said | None:
    return {**row, "n": row["n"] + 1} if row["n"] < 100 else None


def compiled_state(state: Total, row: Click) -> Click:
    state.n += row.n
    return Click(user=row.user, n=state.n, at=row.at, page=row.page)


def compiled_later(row: Click) -> bool:
    return row.at >= row.at and not row.seen


class Plain(NamedTuple):
    user: str
    n: int


def compiled_tuple(row: Said) -> Plain:
    return Plain(row["user"], row["n"])


def compiled_namedtuple_replace(row: Plain) -> Plain:
    return row._replace(n=row.n + 3)


def interpreted_mutation(row: Click) -> Click:
    row.n += 1
    return row


def interpreted_unpacking(row: Click) -> Plain:
    user, *_ = dataclasses.astuple(row)
    return Plain(user, 1)


def clicks_flow(compile: Any) -> tw.Flow:
    flow = tw.Flow("clicks", compile=compile)
    clicks = flow.source("clicks", Click, order_by="at")
    objects = clicks.map(compiled_replace).map(compiled_object).filter(compiled_later)
    objects.sink("objects")
    clicks.map(interpreted_mutation).map(interpreted_unpacking).sink("plain")
    said = clicks.map(compiled_dict).map(compiled_call).map(compiled_spread)
    said.sink("said")
    said.map(compiled_tuple).map(compiled_namedtuple_replace).sink("tuples")
    clicks.key_by("user").process(compiled_state, state=Total).sink("totals")
    clicks.key_by(lambda row: row.at.date(), into=dt.date).sessions(
        "1 hour", of_session, name="by_day"
    ).sink("days")
    clicks.key_by("at").window("1 day", n=tw.agg.sum("n"), last=tw.agg.max("at")).sink("windows")
    clicks.join(clicks, pair, on="user", within="1 hour").sink("pairs")
    flow.operator("looped", looped, rows=clicks).sink("looped")
    clicks.split(lambda row: "few" if row.n < 2 else "many", ["few", "many"]).few.sink("few")
    clicks.key_by("user").dedupe().sink("first")
    return flow


def of_session(key: dt.date, start: int, end: int, rows: list[Click]) -> Said:
    assert type(key) is dt.date and type(rows[0]) is Click
    return {"user": str(key), "n": len(rows), "at": rows[-1].at}


def pair(left: Click, right: Click) -> Click | None:
    return None if left is right else dataclasses.replace(left, n=left.n * 10 + right.n)


async def looped(rows: tw.Input[Click], out: tw.Output[Said]) -> None:
    while await tw.wait_for_all(rows):
        row = rows.pop()
        await out.push({"user": row.user, "n": row.n, "at": row.at})


CLICKS = [
    Click(user, n, NEW_YEAR + dt.timedelta(minutes=20 * n), page)
    for n, (user, page) in enumerate([("a", None), ("ä", "x"), ("a", ""), ("", "y"), ("a", "z")])
]


def test_functions_get_and_give_the_users_classes() -> None:
    """Every verb gives functions instances, takes what they give, and equals the reference in pieces of any size."""
    expected = tw.testing.reference(clicks_flow("never"), {"clicks": CLICKS}).sinks
    assert {*map(type, expected["objects"])} == {Click} and {*map(type, expected["said"])} == {dict}
    assert expected["totals"][-1] == Click("a", 6, CLICKS[-1].at, "z")
    assert expected["days"][0] == {"user": "2026-01-01", "n": 5, "at": CLICKS[-1].at}
    assert expected["windows"][0].at == CLICKS[0].at and expected["looped"][1]["user"] == "ä"
    for compile in ("never", "auto"):
        for rows in (1, 2, 1000):
            flow = clicks_flow(compile)
            assert tw.testing.run(flow, {"clicks": CLICKS}, chunk_rows=rows).sinks == expected
    again = pickle.loads(pickle.dumps(Schema.of(Click)))
    assert again == Schema.of(Click) and again.user == Schema.of(Click).user


def test_a_plan_travels() -> None:
    """Functions are adapted anew where a plan arrives, and know their file."""
    plan = pickle.loads(pickled_plan(prepare(make_plan(clicks_flow("never"))))).plan
    node = next(one for one in plan.nodes if one.name == "interpreted_unpacking")
    assert node.function.call(Schema.of(Click).make(("a", 1, 5, None, False))) == ("a", 1)
    assert node.function.where.startswith("interpreted_unpacking (test_user_rows.py:")


def test_a_manifest_of_defaults() -> None:
    """What a checkpoint says of a record holds no value that its JSON has not."""
    assert [one.default for one in map(ManifestField.of, Schema.of(Order).fields)][-2:] == [
        None,
        None,
    ]
    assert Manifest(
        "f", "1", {}, {"s": ManifestSource(tuple(map(ManifestField.of, Schema.of(Order).fields)))}
    ).encode()


def test_what_is_compiled() -> None:
    """Functions whose names say so are compiled, as those of NamedTuples would be."""
    prepared = prepare(make_plan(clicks_flow("auto")))
    found = verdicts(prepared)
    for node in prepared.plan.nodes:
        for role, function in functions_of(node):
            if function.name.startswith(("compiled", "interpreted")) and role != "key":
                wanted = function.name.startswith("compiled")
                assert found[node.index].compiled == wanted, (
                    function.name,
                    found[node.index].reason,
                )


def gives_too_much(row: Said) -> Said:
    made: Any = {**row, "more": 1}
    return made  # type: ignore[no-any-return]


def gives_another_class(row: Said) -> Click:
    made: Any = Plain("a", 1)
    return made  # type: ignore[no-any-return]


def gives_a_naive_time(row: Said) -> Said:
    return {**row, "at": dt.datetime(2026, 1, 1)}


def test_what_functions_give_and_must_not() -> None:
    """It is told with the record and the field; the row is rejected, or ends the run."""
    for function, said in (
        (gives_too_much, "Said has no field 'more'; it has user, n, at"),
        (gives_another_class, r"expected Click\(.*\), got Plain"),
        (gives_a_naive_time, "Said.at: expected datetime, got datetime .*it has no zone"),
    ):
        flow = tw.Flow("wrong")
        flow.source("said", Said).map(function, errors="reject").rejected.sink("bad")  # type: ignore[arg-type]
        rows = [{"user": "a", "n": 1, "at": NEW_YEAR}]
        bad = tw.run(flow, {"said": rows}).rows("bad")
        assert re.search(said, bad[0].reason), bad[0].reason
        assert tw.testing.reference(flow, {"said": rows}).sinks["bad"] == bad


# -- classes that are no records ---------------------------------------------------------------------------


@dataclass
class HasClassVar:
    x: int
    y: ClassVar[int] = 1


@dataclass
class HasInitVar:
    x: int
    y: InitVar[int] = 1


@dataclass
class HasPostInit:
    x: int

    def __post_init__(self) -> None:
        self.x += 1


@dataclass
class HasNoInit:
    x: int = field(init=False, default=1)


@dataclass(init=False)
class HasOwnInit:
    x: int

    def __init__(self) -> None:
        self.x = 1


class IsPartial(TypedDict, total=False):
    x: int


class LacksOne(TypedDict):
    x: NotRequired[int]


class HasTime(NamedTuple):
    x: dt.time


class HasSet(NamedTuple):
    x: set[int]


Odd = TypedDict("Odd", {"start id": int})


def test_classes_that_are_refused() -> None:
    """Each says which field it is, and what to write instead."""
    refused: dict[str, Any] = {
        "HasClassVar.y is a ClassVar.*constant of the module": HasClassVar,
        "HasInitVar.y is a InitVar": HasInitVar,
        "HasPostInit has a __post_init__.*in a function": HasPostInit,
        r"HasNoInit.x is field\(init=False\)": HasNoInit,
        "HasOwnInit has an __init__ of its own": HasOwnInit,
        r"IsPartial may lack x.*write x: ... \| None": IsPartial,
        "LacksOne may lack x": LacksOne,
        "use a timedelta since midnight": HasTime,
        "HasSet.x is of type set.*use a list": HasSet,
        r"Odd has a key 'start id'.*names=\{field: 'start id'\}": Odd,
    }
    for said, record in refused.items():
        with pytest.raises(tw.SchemaError, match=said):
            tw.Flow("f").source("x", record)
    for made, said in (
        (lambda: tw.decimal(19, 2), "from 1 to 18.*use str"),
        (lambda: tw.decimal(3, 4), "scale is a number from 0 to precision"),
        (
            lambda: Schema.of(NamedTuple("X", [("x", Annotated[int, tw.decimal(3, 1)])])),
            "goes with Decimal",
        ),
    ):
        with pytest.raises(tw.SchemaError, match=said):
            made()


def test_states_keep_plain_values() -> None:
    """A state's field of such a type is refused with what to use."""
    refused: dict[Any, str] = {
        dt.datetime: "use tw.Timestamp, with tw.timestamp",
        dt.date: "use int",
        Decimal: "use int, with the value in its smallest unit",
        Click | None: "records that are NamedTuples",
        list[Said]: "records that are NamedTuples",
    }
    for kind, said in refused.items():
        with pytest.raises(tw.SchemaError, match=said):
            tw.state(
                type(
                    "Kept", (), {"__annotations__": {"x": kind}, "x": None, "__module__": __name__}
                )
            )


def test_aggregates_of_shapes() -> None:
    """Sums and extremes keep the type; what has no meaning is refused."""

    class Row(NamedTuple):
        ts: tw.Timestamp
        pay: tw.Money
        wait: dt.timedelta | None
        day: dt.date
        note: dict[str, int]

    rows = [
        Row(0, Decimal("1.10"), None, dt.date(2026, 1, 2), {}),
        Row(1, Decimal("2.05"), dt.timedelta(1), dt.date(2026, 1, 1), {}),
    ]
    for compile in ("never", "auto"):
        flow = tw.Flow("sums", compile=compile)  # type: ignore[arg-type]
        made = flow.source("rows", Row, order_by="ts").window(
            "1 s",
            pay=tw.agg.sum("pay"),
            wait=tw.agg.sum("wait"),
            day=tw.agg.min("day"),
            most=tw.agg.max("pay"),
        )
        made.sink("out")
        (row,) = tw.run(flow, {"rows": rows}).rows("out")
        assert row[2:] == (Decimal("3.15"), dt.timedelta(1), dt.date(2026, 1, 1), Decimal("2.05"))
    for aggregate in (
        tw.agg.mean("pay"),
        tw.agg.sum("day"),
        tw.agg.max("note"),
        tw.agg.mean("wait"),
    ):
        with pytest.raises(
            tw.BuildError,
            match=r"operator 'window': x: (mean gives a float|(sum|max) cannot compute)",
        ):
            tw.Flow("f").source("rows", Row, order_by="ts").window("1 s", x=aggregate)


def test_shapes_to_words_and_back() -> None:
    """Words of nulls, slices and the ends of ranges are those of the values."""
    money = ValueShape("Decimal", 18, 2)
    words = pa.array([10**18 - 1, None, 1 - 10**18, 0])
    assert money.words(money.array(words)).equals(words)
    assert money.words(money.array(words).slice(1, 2)).equals(words.slice(1, 2))
    span = ValueShape("timedelta")
    generator = np.random.default_rng(7)
    for word in [0, 1, -1, 2**62, *generator.integers(-(10**15), 10**15, 200).tolist()]:
        assert span.read(span.text(word)) == word == span.inward(span.outward(word))
        assert span.read(str(span.outward(word))) == word
    texts: list[tuple[Callable[[str], Any], str]] = [
        (span.read, "PT"),
        (span.read, ""),
        (money.read, "0x1"),
        (money.read, "1e9999"),
    ]
    for read, text in texts:
        with pytest.raises(Unfit):
            read(text)
