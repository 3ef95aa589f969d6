"""Delta tables as outputs: each batch once, whoever else writes."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.connectors import kit
from tests.connectors.kit import EVERY, Every, Pair, node, plain, table

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors import once
from thalweg.connectors.delta import tables
from thalweg.flow.records import Schema

deltalake = pytest.importorskip("deltalake", reason="needs the package deltalake")


def rows_of(path: Any, record: type = Pair) -> list[Any]:
    """The rows of a table in the order of its first field."""
    found = deltalake.DeltaTable(path).to_pyarrow_table()
    wanted = Schema.of(record).arrow
    found = found.select(wanted.names).cast(wanted)
    return sorted(Chunk.from_arrow(Schema.of(record), found).rows(), key=lambda row: row[0])


def pairs(*rows: tuple[str, int]) -> pa.Table:
    return table(Pair, [Pair(*row) for row in rows])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "table"


def test_every_type_comes_back(place: Path) -> None:
    """A row of every type, with None, the ends of numbers and times, and any text; in both modes."""
    for at, target in enumerate(
        (tw.to_delta(str(place)), tw.to_delta(f"{place}2", mode="upsert", key="key"))
    ):
        writer = target.open(node(Every), "q")
        writer.write(0, table(Every, EVERY))
        assert plain(rows_of(target.path, Every)) == plain(EVERY), at
    for key in (["total", "day"], ["at", "total"]):
        shaped = f"{place}{key[0]}"
        target = tw.to_delta(shaped, mode="upsert", key=key)
        writer = target.open(node(Sum), "q")
        for batch in (0, 1):
            writer.write(batch, table(Sum, SUMS))
        assert sorted(kit.taken(tw.delta(shaped, follow=False), Sum)) == sorted(SUMS)


class Sum(NamedTuple):
    total: tw.Money
    day: datetime.date
    at: datetime.datetime


SUMS = [
    Sum(Decimal(total), datetime.date(*day), datetime.datetime(*day, tzinfo=datetime.UTC))
    for total in ("-0.01", "1.50")
    for day in ((1, 1, 1), (2026, 1, 31))
]


def test_decimals_and_durations(place: Path) -> None:
    """A wider column takes Decimals; those that it cannot hold are named. What Delta has not is refused in time."""
    for target, record, said in (
        (tw.to_delta(str(place)), kit.Spans, r"wait: timedelta \| None; make it a float"),
        (tw.to_delta(str(place), partition_by="total"), Sum, r"total is Decimal\(18, 2\); expected one of"),
        (tw.to_delta(str(place), mode="upsert", key="more"), kit.Bill, r"more is json"),
    ):  # fmt: skip
        with pytest.raises(tw.BuildError, match=said):
            target.check(node(record))
    assert not place.exists()
    rows = table(Sum, SUMS)
    for digits, scale, said in (
        (38, 4, ""),
        (38, 1, "total is decimal128"),
        (4, 3, "batch 0, row"),
    ):
        there, total = f"{place}{digits}{scale}", pa.decimal128(digits, scale)
        columns = [pa.array([], total), *(one.slice(0, 0) for one in rows.columns[1:])]
        deltalake.write_deltalake(there, pa.table(columns, names=rows.column_names))
        big = table(Sum, [*SUMS, SUMS[0]._replace(total=Decimal(123456))])
        if said:
            with pytest.raises((tw.BuildError, tw.DataError), match=said):
                tw.to_delta(there).open(node(Sum), "q").write(0, big)
        else:
            tw.to_delta(there).open(node(Sum), "q").write(0, big)
            assert len(kit.taken(tw.delta(there, follow=False), Sum)) == len(SUMS) + 1
    parted = f"{place}p"
    deltalake.write_deltalake(parted, rows.slice(2), partition_by=["total"])
    with pytest.raises(tw.BuildError, match="is partitioned by total, a Decimal"):
        tw.to_delta(parted).open(node(Sum), "q")
    assert kit.taken(tw.delta(parted, follow=False), Sum) == SUMS[2:]


def test_a_batch_counts_once(place: Path) -> None:
    """The last batch may come again, also from a new process; a run's rows are those of its batches."""
    target = tw.to_delta(str(place), partition_by="name")
    first = target.open(node(Pair), "q")
    first.write(0, pairs(("a", 1)))
    first.write(3, pairs(("b", 2)))
    first.write(3, pairs(("b", 2)))
    again = target.open(node(Pair), "q")
    again.write(3, pairs(("b", 2)))
    again.write(4, pairs(("c", 3)))
    assert rows_of(place) == [("a", 1), ("b", 2), ("c", 3)]
    assert deltalake.DeltaTable(place).metadata().partition_columns == ["name"]
    other = target.open(node(Pair), "another")
    other.write(0, pairs(("d", 4)))
    assert len(rows_of(place)) == 4


def test_a_second_writer_is_fenced(place: Path) -> None:
    """Of two that write the same batches one goes on and the other ends; and so does one that comes too late."""
    target = tw.to_delta(str(place))
    old, new = (target.open(node(Pair), "q") for _ in range(2))
    old.write(0, pairs(("a", 1)))
    new.write(0, pairs(("a", 1)))
    new.write(1, pairs(("b", 2)))
    with pytest.raises(
        tw.EnvironmentProblem, match="another process writes the same batches: before batch 1"
    ):
        old.write(1, pairs(("b", 2)))
    with pytest.raises(
        tw.EnvironmentProblem, match="it has batch 1 of this query already, and batch 0"
    ):
        target.open(node(Pair), "q").write(0, pairs(("a", 1)))
    assert rows_of(place) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_commit_itself_fences(place: Path, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that both found the batch missing: the protocol refuses the second commit, and the next try says why."""
    target = tw.to_delta(str(place), mode=mode, key="name" if mode == "upsert" else ())
    old, new = (target.open(node(Pair), "q") for _ in range(2))
    is_new = once.Numbers.is_new

    def then_the_other(self: Any, batch: int, found: Any) -> bool:
        monkeypatch.setattr(once.Numbers, "is_new", is_new)
        answer = is_new(self, batch, found)
        new.write(batch, pairs(("a", 1)))
        return answer

    monkeypatch.setattr(once.Numbers, "is_new", then_the_other)
    with pytest.raises(tw.EnvironmentProblem, match="another process writes the same batches"):
        old.write(0, pairs(("a", 1)))
    assert rows_of(place) == [("a", 1)]


def test_a_commit_whose_answer_was_lost_counts(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this writer itself committed is no other's."""
    writer = tw.to_delta(str(place)).open(node(Pair), "q")
    write = deltalake.write_deltalake
    lost = [True]

    def loses(*args: Any, **options: Any) -> None:
        write(*args, **options)
        if lost.pop():
            raise deltalake.exceptions.CommitFailedError("no answer")

    writer.write(0, pairs(("a", 1)))
    monkeypatch.setattr(deltalake, "write_deltalake", loses)
    writer.write(1, pairs(("b", 2)))
    lost.append(False)
    writer.write(2, pairs(("c", 3)))
    assert rows_of(place) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_commits_of_others_are_no_obstacle(
    place: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of others between reading the table and our own: appended to, or merged into what they left."""
    target = tw.to_delta(str(place), mode=mode, key="name" if mode == "upsert" else ())
    writer = target.open(node(Pair), "q")
    is_new = once.Numbers.is_new

    def then_others(self: Any, batch: int, found: Any) -> bool:
        monkeypatch.setattr(once.Numbers, "is_new", is_new)
        deltalake.write_deltalake(place, pairs(("a", 0), ("z", 9)), mode="append")
        return is_new(self, batch, found)

    monkeypatch.setattr(once.Numbers, "is_new", then_others)
    writer.write(0, pairs(("a", 1), ("b", 2)))
    added = [("a", 0), ("a", 1), ("b", 2), ("z", 9)]
    assert sorted(rows_of(place)) == (added if mode == "append" else [("a", 1), ("b", 2), ("z", 9)])


def test_upsert_leaves_the_last_row_of_a_key(place: Path) -> None:
    """In a batch the last row counts, over batches the last batch; the table's other columns stay."""
    target = tw.to_delta(str(place), mode="upsert", key=["name"])
    writer = target.open(node(Pair), "q")
    writer.write(0, pairs(("a", 1), ("b", 1), ("a", 2)))
    deltalake.DeltaTable(place).alter.add_columns([deltalake.Field("more", "string")])
    writer.write(1, pairs(("c", 1), ("c", 2), ("b", 3)))
    assert rows_of(place) == [("a", 2), ("b", 3), ("c", 2)]


def test_other_columns_are_null(place: Path) -> None:
    """A column that others add while a run appends is null in its rows; one that may not be null ends it."""
    writer = tw.to_delta(str(place)).open(node(Pair), "q")
    writer.write(0, pairs(("a", 1)))
    deltalake.DeltaTable(place).alter.add_columns([deltalake.Field("more", "string")])
    writer.write(1, pairs(("b", 2)))
    assert deltalake.DeltaTable(place).to_pyarrow_table().column("more").null_count == 2


class Three(NamedTuple):
    name: str | None
    n: float
    x: int


def test_a_table_that_does_not_fit_is_refused(place: Path) -> None:
    """Its schema is not changed: the fields that do not fit are named, all of them."""
    tw.to_delta(str(place)).open(node(Pair), "q")
    with pytest.raises(tw.BuildError) as caught:
        tw.to_delta(str(place)).open(node(Three), "q")
    for said in ("name may not be null", "n is int64, the field double", "no column x"):
        assert said in str(caught.value)
    with pytest.raises(tw.BuildError, match=r"partitioned by \(\), and partition_by says \(name\)"):
        tw.to_delta(str(place), partition_by="name").open(node(Pair), "q")


class Odd(NamedTuple):
    share: float
    group: str | None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition_by": "share"}, "partition_by: share is float; expected one of int, str"),
        ({"partition_by": "what"}, "has no field 'what'"),
        (
            {"mode": "upsert", "key": "group"},
            r"group is str \| None; expected .*, and not Optional",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_refused(place: Path, options: Any, said: str) -> None:
    with pytest.raises(tw.BuildError, match=said):
        tw.to_delta(str(place), **options).check(node(Odd))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "merge"}, "one of append, upsert"),
        ({"mode": "upsert"}, "go together"),
        ({"key": "n"}, "go together"),
        ({"partition_by": ["a", "a"]}, "each field once"),
    ],
)
def test_arguments_that_cannot_be_meant(options: Any, said: str) -> None:
    with pytest.raises(tw.BuildError, match=said):
        tw.to_delta("x", **options)


def test_rows_that_do_not_fit_are_named(place: Path) -> None:
    """An empty text where Delta gives null back; a number too large for the table; a row that breaks a constraint."""
    writer = tw.to_delta(str(place), partition_by="name").open(node(Pair), "q")
    with pytest.raises(
        tw.DataError, match="batch 0, row 1: the partition column name is an empty text"
    ):
        writer.write(0, pairs(("a", 1), ("", 2)))
    small = pa.schema([pa.field("name", pa.string(), False), pa.field("n", pa.int32(), False)])
    deltalake.DeltaTable.create(f"{place}2", schema=small)
    writer = tw.to_delta(f"{place}2").open(node(Pair), "q")
    with pytest.raises(tw.DataError, match=r"batch 0, row 1: .*2147483648.*\n  row: name='b'"):
        writer.write(0, pairs(("a", 2**31 - 1), ("b", 2**31)))
    deltalake.DeltaTable(f"{place}2").alter.add_constraint({"pos": "n > 0"})
    with pytest.raises(tw.DataError, match="breaks a constraint"):
        writer.write(0, pairs(("a", 1), ("b", -1)))
    writer.write(0, pairs(("a", 1)))
    assert rows_of(f"{place}2") == [("a", 1)]


def test_a_place_that_cannot_be_written(place: Path) -> None:
    place.write_text("a file")
    with pytest.raises(tw.EnvironmentProblem, match=r"delta:.* cannot be"):
        tw.to_delta(str(place / "x")).open(node(Pair), "q")


def test_without_the_package(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(tw.EnvironmentProblem, match=r"pip install 'thalweg\[delta\]'"):
        tw.to_delta(str(place)).open(node(Pair), "q")


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(tw.to_delta("x", storage_options={"secret": "hidden"}))


def copied() -> tw.Flow:
    flow = tw.Flow("copied")
    flow.source("in", Pair).sink("out")
    return flow


def test_a_run_writes_its_rows(place: Path) -> None:
    """Through ``tw.run``: all rows, in few versions; one without rows makes the table."""
    rows = [Pair(f"k{n}", n) for n in range(1000)]
    tw.run(copied(), {"in": []}, {"out": tw.to_delta(str(place))})
    assert rows_of(place) == []
    tw.run(copied(), {"in": rows}, {"out": tw.to_delta(str(place))})
    assert sorted(rows_of(place), key=lambda row: row.n) == rows


def test_many_files_are_mentioned(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from thalweg.connectors.delta import target

    monkeypatch.setattr(target, "MANY_FILES", 3)
    monkeypatch.setattr(target, "_LOOK_BATCHES", 2)
    writer = tw.to_delta(str(place)).open(node(Pair), "q")
    for batch in range(6):
        writer.write(batch, pairs(("a", 1)))
    assert [one.message for one in caplog.records if "has 4 files" in one.message]
    assert len(caplog.records) == 1


def test_a_table_is_opened_anew_now_and_then(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What deltalake adds up of the versions that it has seen is let go; no batch is lost or doubled by it, nor read so."""
    opened = []
    make = deltalake.DeltaTable

    class Counting(make):  # type: ignore[misc,valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            opened.append(args)
            super().__init__(*args, **options)

    monkeypatch.setattr(tables, "REOPEN_VERSIONS", 4)
    writer = tw.to_delta(str(place)).open(node(Pair), "q")
    reader = tw.delta(str(place)).open()
    monkeypatch.setattr(deltalake, "DeltaTable", Counting)
    at = reader.begin()
    for batch in range(12):
        for _ in range(2):  # as after a crash
            writer.write(batch, pairs(("a", batch)))
        assert reader.end(at) != at
        at = reader.end(at)
    assert 4 <= len(opened) <= 8
    assert sorted(rows_of(place)) == [("a", batch) for batch in range(12)]


@pytest.mark.merge
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_killed_at_random(tmp_path: Path, place: Path, mode: str) -> None:
    """kill -9 of a writing process at random points, again and again: the table is as after an undisturbed run."""
    options = ", mode='upsert', key='name'" if mode == "upsert" else ""
    assert kit.run_killed(f"tw.to_delta({str(place)!r}{options})", tmp_path, kills=5) >= 3
    found = rows_of(place)
    assert sorted(found) == (
        sorted(kit.all_rows()) if mode == "append" else sorted(kit.last_rows().items())
    )


def test_rows_in_their_order(tmp_path: Path) -> None:
    """A batch of many parts, as a run gathers it, is one file in its order."""
    place = str(tmp_path / "table")
    rows = [Pair("a", n) for n in range(700)]
    parts = pa.concat_tables([table(Pair, rows[at : at + 10]) for at in range(0, 700, 10)])
    tw.to_delta(place).open(node(Pair), "q").write(0, parts)
    flow = tw.Flow("back")
    flow.source("in", Pair).sink("out")
    assert tw.run(flow, {"in": tw.delta(place, follow=False)}).rows("out") == rows
