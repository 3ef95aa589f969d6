"""What nobody reads is not decoded: which fields a flow reads, and that its output is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg import testing
from thalweg.connectors.readers import parquet_files
from thalweg.engine.field_reads import fields_read
from thalweg.engine.narrow import narrowed
from thalweg.plan.plan import make_plan


class Row(NamedTuple):
    k: int
    a: int
    b: float
    c: str
    at: tw.Timestamp

    def twice(self) -> int:
        return 2 * self.a


class Out(NamedTuple):
    value: int


def by_field(row: Row) -> Out:
    return Out(row.a)


def in_a_helper(row: Row) -> Out:
    return by_field(row)


def by_method(row: Row) -> Out:
    return Out(row.twice())


def in_a_lambda(row: Row) -> Out:
    return Out((lambda: row.a)())


def by_name(row: Row) -> Out:
    return Out(getattr(row, "a"))  # noqa: B009


def in_locals(row: Row) -> Out:
    return Out(locals()["row"].a + row.k)


def changed(row: Row) -> Out:
    row = row._replace(a=1)
    return Out(row.a)


def several(row: Row) -> Iterator[Out]:
    for _ in range(2):
        yield Out(row.a if row.b > 0 else row.k)


def test_what_a_function_reads() -> None:
    """Single fields are found; whoever could do anything else with the row reads all."""
    assert fields_read(by_field, 0) == {"a"}
    assert fields_read(several, 0) == {"a", "b", "k"}
    # A method is no field, so the plan says: all.
    assert fields_read(by_method, 0) in (None, {"twice"})
    for function in (in_a_helper, in_a_lambda, by_name, in_locals, changed, Out, print):
        assert fields_read(function, 0) is None, function
    assert fields_read(lambda one, two: one + two.k, 1) == {"k"}


def flow_with(make: Callable[[tw.Stream[Row]], tw.Stream[Any]], **options: Any) -> tw.Flow:
    flow = tw.Flow("narrow", compile="never")
    make(flow.source("rows", Row, **options)).sink("out")
    return flow


def is_odd(row: Row) -> bool:
    return row.k % 2 == 1


def keep_late(rows: tw.Stream[Row]) -> tw.Stream[Any]:
    rows.late.sink("late")
    return rows.map(by_field)


TIMED: dict[str, Any] = {"order_by": "at", "lateness": "1 second"}
#: flow, options of its source, the fields that are read
FLOWS: list[tuple[Callable[[tw.Stream[Row]], tw.Stream[Any]], dict[str, Any], str]] = [
    (lambda rows: rows.map(by_field), {}, "a"),
    (lambda rows: rows.filter(is_odd).map(by_field), TIMED, "k a at"),
    (lambda rows: rows.flat_map(several), {}, "k a b"),
    (lambda rows: rows.key_by("k").window("1 second", n=tw.agg.count()), TIMED, "k at"),
    (lambda rows: rows.key_by("k").window("1 second", s=tw.agg.sum("b")), TIMED, "k b at"),
    (lambda rows: rows.order_by("at", lateness="1 second").map(by_field), {}, "a at"),
    (lambda rows: rows.map(lambda row: Out(1), into=Out), {}, "k"),
    (lambda rows: rows.filter(is_odd), {}, "k a b c at"),
    (lambda rows: rows.map(by_method), {}, "k a b c at"),
    (lambda rows: rows.map(in_a_helper), {}, "k a b c at"),
    (lambda rows: rows.union(rows.filter(is_odd)).map(by_field), {}, "k a b c at"),
    (keep_late, TIMED, "k a b c at"),
    (lambda rows: rows.map(by_field), {"errors": "reject"}, "k a b c at"),
    (lambda rows: rows.map(by_field, errors="reject"), {}, "k a b c at"),
]  # fmt: skip


def table(rows: int = 200) -> pa.Table:
    numbers = list(range(rows))
    return pa.table({
        "k": [n % 7 for n in numbers], "a": numbers, "b": [n / 3 for n in numbers],
        "c": [f"text {n}" for n in numbers],
        "at": pa.array([10_000 * (n - n % 3) for n in numbers], pa.timestamp("us", tz="UTC")),
    })  # fmt: skip


def test_fields_and_output(tmp_path: Path) -> None:
    """By flow: the fields that its plan keeps; its output is the reference's, from a table, Parquet and CSV."""
    given = table()
    pq.write_table(given, tmp_path / "rows.parquet")
    pa.csv.write_csv(given, tmp_path / "rows.csv")
    for make, options, fields in FLOWS:
        flow = flow_with(make, **options)
        kept = narrowed(make_plan(flow), {"rows"}).sources[0].record
        assert kept.names == tuple(fields.split()) and kept.name == "Row"
        expected = testing.reference(flow, {"rows": given}).rows("out")
        for one in (given, tw.files(tmp_path / "rows.parquet"), tw.files(tmp_path / "rows.csv")):
            assert tw.run(flow, {"rows": one}, chunk_rows=64).rows("out") == expected
        assert narrowed(make_plan(flow), ()).sources[0].record.names == Row._fields


def test_only_what_is_read_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred columns those of three fields are decoded, and what stands in the others does not matter."""
    fields = [f"f{number}" for number in range(100)]
    wide = NamedTuple("wide", [(name, int) for name in fields])  # type: ignore[misc]
    flow = tw.Flow("wide")
    rows = flow.source("rows", wide)
    rows.map(lambda row: Out(row.f3 + row.f50 * row.f99), into=Out).sink("out")
    columns: dict[str, Any] = {name: [1, 2, 3] for name in fields}
    columns |= {"f7": ["no", "number", None], "f8": [None, None, 1]}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    asked: list[list[str]] = []
    read = parquet_files.pq.ParquetFile.iter_batches

    def iter_batches(self: Any, *args: Any, columns: list[str], **more: Any) -> Any:
        asked.append(columns)
        return read(self, *args, columns=columns, **more)

    monkeypatch.setattr(parquet_files.pq.ParquetFile, "iter_batches", iter_batches)
    result = tw.run(flow, {"rows": tw.files(tmp_path / "rows.parquet")})
    assert [row.value for row in result.rows("out")] == [2, 6, 12]
    assert asked == [["f3", "f50", "f99"]]


def fails(row: Row) -> Out:
    return Out(row.a // (row.k - 3))


def test_an_error_shows_what_was_read() -> None:
    """A row in a message has the fields that were read, under the record's name."""
    with pytest.raises(tw.DataError, match=r"Row\(k=3, a=3\)"):
        tw.run(flow_with(lambda rows: rows.map(fails)), {"rows": table()})
