"""What a field takes: values that Arrow could not hold are refused in words, never by Arrow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema


class Row(NamedTuple):
    n: int
    text: str


class Deep(NamedTuple):
    rows: list[Row]
    maybe: str | None


@tw.state
class Total:
    n: int = 0
    text: str = ""


BAD = [
    (Kind.INT, 2**63, "expected int, got 9223372036854775808, which does not fit 64 bits"),
    (Kind.INT, -(2**63) - 1, "does not fit 64 bits"),
    (Kind.TIMESTAMP, 10**400, "does not fit 64 bits"),
    (Kind.TIMER, 2**63, "does not fit 64 bits"),
    (Kind.INT, np.uint64(2**63), "does not fit 64 bits"),
    (Kind.FLOAT, 10**400, "int too large to convert to float"),
    (Kind.STR, "a\ud800", r"'a\\ud800' cannot be encoded as UTF-8"),
    (Kind.CATEGORY, "\udfff", "cannot be encoded as UTF-8"),
]


@pytest.mark.parametrize(("kind", "value", "said"), BAD)
def test_what_arrow_cannot_hold(kind: Kind, value: Any, said: str) -> None:
    """A TypeError that says why."""
    with pytest.raises(TypeError, match=said):
        FieldType(kind).coerce(value)


def test_what_fits_stays_itself() -> None:
    """The ends of the ranges pass, and plain texts and ints are not copied."""
    for number in (2**63 - 1, -(2**63), 0):
        assert FieldType(Kind.INT).coerce(number) is number
    assert FieldType(Kind.INT).coerce(np.int64(7)) == 7
    assert type(FieldType(Kind.INT).coerce(True)) is int
    for text in ("", "plain", "π 😀"):
        assert FieldType(Kind.STR).coerce(text) is text


NUMBERS = [0, -1, 2**63 - 1, 2**63, True, np.int64(3), 0.5, np.float64(1)]
TEXTS = ["a", "π", "\ud800", b"b", bytearray(b"c"), None]
TUPLES = [Row(1, "a"), Row(2**63, "b"), Row(1, "π"), Row(True, "c"), (1, "d"), [1]]
SOME = st.sampled_from([*NUMBERS, *TEXTS, *TUPLES, tuple.__new__(Row, (1,))])
KINDS = [FieldType(kind) for kind in Kind if kind not in (Kind.LIST, Kind.RECORD)]
ITEMS = st.sampled_from(
    [
        *KINDS,
        FieldType(Kind.INT, optional=True),
        FieldType(Kind.LIST, item=FieldType(Kind.INT)),
        FieldType(Kind.RECORD, record=Schema.of(Row)),
    ]
)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(item=ITEMS, values=st.lists(SOME, max_size=3) | SOME.map(lambda one: [one] * 3))
def test_lists_are_coerced_value_by_value(item: FieldType, values: list[Any]) -> None:
    """A list is what its values are coerced to one by one, of the same types, also where it is checked as a whole."""
    try:
        expected = [item.coerce(one) for one in values]
    except TypeError as error:
        expected = str(error)
    try:
        found = FieldType(Kind.LIST, item=item).coerce(values)
    except TypeError as error:
        found = str(error)
    assert repr(found) == repr(expected)
    assert found is not values


def test_lists_checked_as_a_whole() -> None:
    """Values that are what they should be are known without a look at each; those that could change are not."""
    rows = Schema.of(Row)
    assert FieldType(Kind.RECORD, record=rows).holds([Row(1, "a"), Row(-(2**63), "")])
    assert FieldType(Kind.FLOAT).holds([0.5, float("nan")])
    assert FieldType(Kind.INT).holds([])
    assert not FieldType(Kind.INT).holds([2**63])
    assert not FieldType(Kind.RECORD, record=Schema.of(Deep)).holds([Deep([], None)])


ROWS = [Row(1, "a"), Row(2, "b"), Row(3, "c"), Row(4, "d")]


def grown(row: Row) -> Row:
    return Row(10 ** (10 * row.n), "\ud800" if row.n == 3 else row.text)


def deep(row: Row) -> Deep:
    return Deep([Row(1, "fine"), Row(2, chr(0xD7FF + row.n))], None)


def remember(total: Total, row: Row) -> Row:
    total.n = total.n * 2**40 + row.n
    total.text = "\ud800" if row.n == 4 else row.text
    return Row(row.n, total.text if row.n != 4 else "")


def run(build: Any, rows: list[Any], errors: Any = "reject") -> tw.Result:
    flow = tw.Flow("bounds", errors=errors, compile="never")
    source = flow.source("rows", Row)
    source.rejected.sink("unfit")
    out = build(source)
    out.sink("out")
    if out is not source:
        out.rejected.sink("bad")
    return tw.run(flow, {"rows": rows})


def test_results_of_functions() -> None:
    """A result that does not fit is that row's failure: an OperatorError or a rejected row."""
    with pytest.raises(
        tw.OperatorError,
        match=r"Row\.n: expected int, got 100000000000000000000, which does not fit 64 bits",
    ):
        run(lambda s: s.map(grown), ROWS, "fail")
    result = run(lambda s: s.map(grown), ROWS)
    assert result.rows("out") == [Row(10**10, "a")]
    assert [one.row for one in result.rows("bad")] == [repr(one) for one in ROWS[1:]]
    result = run(lambda s: s.map(deep), ROWS)
    assert result.rows("out") == []
    reasons = [one.reason for one in result.rows("bad")]
    assert all("Deep.rows: Row.text: " in reason and "UTF-8" in reason for reason in reasons)
    assert len(reasons) == 4


def test_rows_of_the_input() -> None:
    """Rows that do not fit are the source's rejected rows, or stop the run as a DataError."""
    given = [Row(1, "a"), Row(2**63, "b"), Row(2, "\ud800"), {"n": 3, "text": "d"}]
    with pytest.raises(
        tw.DataError, match=r"row 1 does not fit Row: Row\.n: .* does not fit 64 bits"
    ):
        run(lambda s: s, given, "fail")
    result = run(lambda s: s, given)
    assert result.rows("out") == [Row(1, "a"), Row(3, "d")]
    reasons = [one.reason for one in result.rows("unfit")]
    assert "does not fit 64 bits" in reasons[0]
    assert "cannot be encoded as UTF-8" in reasons[1]
    assert result.rows("unfit")[1].row == r"Row(n=2, text='\ud800')"


def test_values_of_state() -> None:
    """State that does not fit leaves the state as it was before the row."""

    def by_text(stream: tw.Stream) -> tw.Stream:
        return stream.key_by(lambda row: "one", into=str).process(remember, state=Total)

    with pytest.raises(tw.OperatorError, match=r"Total\.n: .* does not fit 64 bits"):
        run(by_text, ROWS, "fail")
    result = run(by_text, ROWS)
    assert result.rows("out") == [Row(1, "a"), Row(2, "b")]
    assert ["64 bits" in x.reason for x in result.rows("bad")] == [True, True]
    result = run(by_text, [Row(1, "a"), Row(4, "d"), Row(2, "b")])
    assert result.rows("out") == [Row(1, "a"), Row(2, "b")]
    assert "Total.text: " in result.rows("bad")[0].reason
