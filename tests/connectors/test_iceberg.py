"""Iceberg tables as outputs: each batch once, whoever else writes."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.connectors import kit
from tests.connectors.kit import EVERY, SHAPED, Every, Pair, Shaped, node, plain, table

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors import once
from thalweg.flow.records import Schema

pytest.importorskip("pyiceberg", reason="needs the package pyiceberg")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Place:
    """A catalog in a file of SQLite, and its tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.properties = {
            "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}",
        }  # fmt: skip

    def target(self, name: str = "n.t", **options: Any) -> Any:
        return tw.to_iceberg("c", name, properties=self.properties, **options)

    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("c", **self.properties)

    def rows(self, record: type = Pair, name: str = "n.t") -> list[Any]:
        """The rows in the order of their first field."""
        wanted = Schema.of(record).arrow
        found = self.catalog().load_table(name).scan().to_arrow().select(wanted.names).cast(wanted)
        return sorted(Chunk.from_arrow(Schema.of(record), found).rows(), key=lambda row: row[0])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def pairs(*rows: tuple[str, int]) -> pa.Table:
    return table(Pair, [Pair(*row) for row in rows])


def test_every_type_comes_back(place: Place) -> None:
    """A row of every type, with None, the ends of numbers and years, and any text; later times are refused."""
    last = tw.timestamp("9999-12-31T23:59:59.999999")
    rows = [row._replace(at=last) if row.at is not None and row.at > last else row for row in EVERY]
    writer = place.target().open(node(Every), "q")
    with pytest.raises(tw.DataError, match="batch 0, row 3: at is outside the years 1 to 9999"):
        writer.write(0, table(Every, EVERY))
    writer.write(0, table(Every, rows))
    assert plain(place.rows(Every)) == plain(rows)
    for name, key in (("n.s", None), ("n.k", ["key"])):
        writer = place.target(name, key=key).open(node(Shaped), "q")
        for batch in range(1 if key is None else 2):
            writer.write(batch, table(Shaped, SHAPED))
        found = place.catalog().load_table(name).scan().to_arrow()
        assert sorted(kit.taken(found, Shaped), key=lambda row: row.key) == SHAPED
    with pytest.raises(tw.BuildError, match=r"wait: timedelta \| None; make it a float"):
        place.target("n.w").check(node(kit.Spans))
    writer = place.target("n.b", key=["day", "total"]).open(node(Day), "q")
    days = [Day(datetime.date(one, 1, 1), Decimal(one), one) for one in (1, 2026)]
    writer.write(0, table(Day, days))
    writer.write(1, table(Day, [days[0]._replace(n=5)]))
    found = place.catalog().load_table("n.b").scan().to_arrow()
    assert sorted(kit.taken(found, Day)) == [days[0]._replace(n=5), days[1]]


class Day(NamedTuple):
    day: datetime.date
    total: tw.Money
    n: int


def test_a_batch_counts_once(place: Place) -> None:
    """The last batch may come again, also from a new process; snapshots may expire."""
    target = place.target()
    first = target.open(node(Pair), "q")
    first.write(0, pairs(("a", 1)))
    first.write(3, pairs(("b", 2)))
    first.write(3, pairs(("b", 2)))
    again = target.open(node(Pair), "q")
    again.write(3, pairs(("b", 2)))
    again.write(4, pairs(("c", 3)))
    target.open(node(Pair), "another").write(0, pairs(("d", 4)))
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


@pytest.mark.parametrize("key", [None, "name"])
def test_a_second_writer_is_fenced(
    place: Place, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two the one ends that comes later, also if the other commits between its look and its commit."""
    target = place.target(key=key)
    old, new = (target.open(node(Pair), "q") for _ in range(2))
    old.write(0, pairs(("a", 1)))
    new.write(0, pairs(("a", 1)))
    is_new = once.Numbers.is_new

    def then_the_other(self: Any, batch: int, found: Any) -> bool:
        monkeypatch.setattr(once.Numbers, "is_new", is_new)
        answer = is_new(self, batch, found)
        new.write(batch, pairs(("b", 2)))
        return answer

    monkeypatch.setattr(once.Numbers, "is_new", then_the_other)
    with pytest.raises(tw.EnvironmentProblem, match="another process writes the same batches"):
        old.write(1, pairs(("b", 2)))
    assert place.rows() == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("key", [None, "name"])
def test_commits_of_others_are_no_obstacle(
    place: Place, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of others between reading the table and our own: the batch is written behind it."""
    writer = place.target(key=key).open(node(Pair), "q")
    is_new = once.Numbers.is_new

    def then_others(self: Any, batch: int, found: Any) -> bool:
        monkeypatch.setattr(once.Numbers, "is_new", is_new)
        place.catalog().load_table("n.t").append(pairs(("a", 0), ("z", 9)))
        return is_new(self, batch, found)

    monkeypatch.setattr(once.Numbers, "is_new", then_others)
    writer.write(0, pairs(("a", 1), ("b", 2)))
    added = [("a", 0), ("a", 1), ("b", 2), ("z", 9)]
    assert sorted(place.rows()) == (added if key is None else [("a", 1), ("b", 2), ("z", 9)])
    assert "commit.retry.num-retries" not in place.catalog().load_table("n.t").properties


def test_a_commit_whose_answer_was_lost_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this writer itself committed is no other's, and is not written again."""
    from pyiceberg.exceptions import CommitStateUnknownException

    writer: Any = place.target().open(node(Pair), "q")
    writer.write(0, pairs(("a", 1)))
    tried, lost = writer._try, [True]

    def loses(batch: int, rows: Any) -> None:
        tried(batch, rows)
        if lost:
            lost.pop()
            writer._numbers.note(batch - 1)
            raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(writer, "_try", loses)
    writer.write(1, pairs(("b", 2)))
    writer.write(2, pairs(("c", 3)))
    assert place.rows() == [("a", 1), ("b", 2), ("c", 3)]


def test_upsert_leaves_the_last_row_of_a_key(place: Place) -> None:
    writer = place.target(key=["name"]).open(node(Pair), "q")
    writer.write(0, pairs(("a", 1), ("b", 1), ("a", 2)))
    writer.write(1, pairs(("c", 1), ("c", 2), ("b", 3)))
    writer.write(2, pairs(("c", 2)))
    writer.write(3, pairs(("d", 2)))
    assert place.rows() == [("a", 2), ("b", 3), ("c", 2), ("d", 2)]


class Three(NamedTuple):
    name: str | None
    n: float
    x: int


def test_what_does_not_fit_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """All fields that do not fit are named; a key of a kind that tells no rows apart; a table that is not there."""
    place.target().open(node(Pair), "q")
    with pytest.raises(tw.BuildError) as caught:
        place.target().open(node(Three), "q")
    for said in ("name may not be null", "n is int64, the field double", "no column x"):
        assert said in str(caught.value)
    for key, said in (
        ("n", "n is float; expected"),
        ("name", "and not Optional"),
        ("y", "no field 'y'"),
    ):
        with pytest.raises(tw.BuildError, match=said):
            place.target(key=key).check(node(Three))
    with pytest.raises(tw.BuildError, match="there is no such table; create=True makes it"):
        place.target("n.none", create=False).open(node(Pair), "q")
    nowhere = {"type": "sql", "uri": "sqlite:////proc/none/x.db", "warehouse": "file:///proc/none"}
    with pytest.raises(tw.EnvironmentProblem, match=r"iceberg:c/n\.t cannot be reached"):
        tw.to_iceberg("c", "n.t", properties=nowhere).open(node(Pair), "q")
    assert "sqlite" not in repr(tw.to_iceberg("c", "n.t", properties=nowhere))
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(tw.EnvironmentProblem, match=r"pip install 'thalweg\[iceberg\]'"):
        place.target().open(node(Pair), "q")


def test_a_run_writes_its_rows(place: Place) -> None:
    flow = tw.Flow("copied")
    flow.source("in", Pair).sink("out")
    rows = [Pair(f"k{n}", n) for n in range(1000)]
    tw.run(flow, {"in": rows}, {"out": place.target()})
    assert sorted(place.rows(), key=lambda row: row.n) == rows


@pytest.mark.merge
def test_killed_at_random(place: Place, tmp_path: Path) -> None:
    """kill -9 of a writing process at random points, again and again: the table is as after an undisturbed run."""
    made = f"tw.to_iceberg('c', 'n.t', properties={place.properties!r})"
    assert kit.run_killed(made, tmp_path, kills=3) >= 2
    assert sorted(place.rows()) == sorted(kit.all_rows())
