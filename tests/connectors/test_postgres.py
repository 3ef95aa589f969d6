"""Tables of PostgreSQL as outputs: each batch once, whatever happens to server, writer and rows."""

from __future__ import annotations

import datetime
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.connectors import kit, postgres_server
from tests.connectors.kit import (
    EVERY,
    SHAPED,
    SPANS,
    Every,
    Inner,
    Pair,
    Shaped,
    Spans,
    node,
    plain,
    table,
)
from tests.connectors.postgres_server import Server

import thalweg as tw

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server.running() as one:
        yield one


@pytest.fixture
def name() -> str:
    """A table of the test's own."""
    return f"t{next(_numbers)}"


def pairs(*rows: tuple[str, int]) -> pa.Table:
    return table(Pair, [Pair(*row) for row in rows])


def rows_of(server: Server, name: str) -> list[Any]:
    return server.query(f"select name, n from {name} order by n, name")


_BACK = """
select key, number, share, flag, text, "group", data,
       (extract(epoch from at) * 1000000)::bigint, due, many::text, "inner"::text from {} order by key
"""


def _every(row: tuple[Any, ...]) -> Every:
    *first, many, inner = row
    return Every(*first, json.loads(many), inner and Inner(**json.loads(inner)))


@pytest.mark.parametrize("key", [None, "key"])
def test_every_type_comes_back(server: Server, name: str, key: str | None) -> None:
    """A row of every type, with None, the ends of numbers and times, and any text; in both modes."""
    writer = tw.to_postgres(server.dsn, name, key=key).open(node(Every), "q")
    writer.write(0, table(Every, EVERY))
    writer.close()
    found = [_every(row) for row in server.query(_BACK.format(name))]
    assert plain(found) == plain(EVERY)
    for more, record, rows in (("s", Shaped, SHAPED), ("w", Spans, SPANS)):
        writer = tw.to_postgres(server.dsn, name + more, key=key).open(node(record), "q")
        writer.write(0, table(record, rows))
        writer.close()
        wanted = [row[:-1] for row in rows]  # the lists are compared where they are read
        names = ", ".join(record._fields[:-1])
        found = server.query(f"select {names} from {name}{more} order by key")
        assert [tuple(row) for row in found] == wanted


class Paid(NamedTuple):
    day: datetime.date
    wait: datetime.timedelta
    total: tw.Money
    at: datetime.datetime
    more: dict[str, Any] | None


def test_columns_of_the_users(server: Server, name: str) -> None:
    """Columns that hold the values are filled, those that would round them are named; values are keys."""
    day, wait, total = datetime.date(2026, 1, 31), datetime.timedelta(days=1), Decimal("12.34")
    at = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    rows = [Paid(day, wait, total, at, {"a": 1}), Paid(day, wait, -total, at, None)]
    server.query(
        f"create table {name} (day date, wait interval(6), total numeric, at timestamptz(6), more json,"
        " primary key (day, wait, total))"
    )
    target = tw.to_postgres(server.dsn, name, key=["day", "wait", "total"])
    writer = target.open(node(Paid), "q")
    writer.write(0, table(Paid, [*rows, rows[0]._replace(more={})]))
    writer.write(1, table(Paid, [rows[1]._replace(more={"b": []})]))
    writer.close()
    found = server.query(f"select day, wait, total, more from {name} order by total")
    assert found == [(day, wait, -total, {"b": []}), (day, wait, total, {})]
    server.query(
        f"create table {name}r (day timestamp, wait interval second(0), total numeric(9, 1),"
        " at timestamptz(3), more text)"
    )
    with pytest.raises(tw.BuildError) as caught:
        tw.to_postgres(server.dsn, f"{name}r").open(node(Paid), "q")
    for said in (
        "day is timestamp without time zone, the field date", "wait is interval second(0), the field timedelta",
        "total is numeric(9,1), the field Decimal(18, 2)", "at is timestamp(3) with time zone, the field datetime",
        "more is text, the field json | None",
    ):  # fmt: skip
        assert said in str(caught.value)
    server.query(
        f"create table {name}n (day date, wait interval, total numeric(4, 2), at timestamptz, more jsonb)"
    )
    writer = tw.to_postgres(server.dsn, f"{name}n").open(node(Paid), "q")
    for row, said in (
        (rows[0]._replace(total=Decimal(100)), "numeric field overflow"),
        (rows[0]._replace(more={"a": float("nan")}), "json"),
        (rows[0]._replace(more={"a": "\0"}), "Unicode"),
    ):
        with pytest.raises(tw.DataError, match=f"row 1 is refused: .*{said}"):
            writer.write(0, table(Paid, [rows[0], row]))
    writer.close()
    with pytest.raises(tw.BuildError, match=r"more is json \| None; expected one of"):
        tw.to_postgres("host=h", "t", key="more").check(node(Paid))


def test_a_batch_counts_once(server: Server, name: str) -> None:
    """The last batch may come again, also from a new process; each query counts for itself."""
    target = tw.to_postgres(server.dsn, name)
    first = target.open(node(Pair), "q1")
    first.write(0, pairs(("a", 1)))
    first.write(3, pairs(("b", 2)))
    first.write(3, pairs(("b", 2)))
    again = target.open(node(Pair), "q1")
    again.write(3, pairs(("b", 2)))
    again.write(4, pairs(("c", 3)))
    other = target.open(node(Pair), "q2")
    other.write(0, pairs(("d", 4)))
    assert rows_of(server, name) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    for one in (first, again, other):
        one.close()
        one.close()


def test_a_second_writer_is_fenced(server: Server, name: str) -> None:
    """Of two that write the same batches one goes on and the other ends, also when both try at the same time."""
    target = tw.to_postgres(server.dsn, name)
    old, new = (target.open(node(Pair), f"fenced {name}") for _ in range(2))
    old.write(0, pairs(("a", 1)))
    new.write(0, pairs(("a", 1)))
    failed = []

    def go_on(writer: Any) -> None:
        try:
            for batch in range(1, 20):
                writer.write(batch, pairs(("b", batch)))
        except tw.EnvironmentProblem as error:
            failed.append(str(error))

    threads = [threading.Thread(target=go_on, args=[one]) for one in (old, new)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(failed) == 1 and "another process writes the same batches: before batch" in failed[0]
    assert rows_of(server, name) == [("a", 1), *(("b", n) for n in range(1, 20))]
    late = target.open(node(Pair), f"fenced {name}")
    with pytest.raises(
        tw.EnvironmentProblem, match="it has batch 19 of this query already, and batch 3"
    ):
        late.write(3, pairs(("b", 3)))
    for writer in (old, new, late):
        writer.close()


def test_upsert_leaves_the_last_row_of_a_key(server: Server, name: str) -> None:
    """In a batch the last row counts, over batches the last batch; a record that is all key stays one row."""
    writer = tw.to_postgres(server.dsn, name, key="name").open(node(Pair), "q")
    writer.write(0, pairs(("a", 1), ("b", 1), ("a", 2)))
    writer.write(1, pairs(("c", 1), ("c", 2), ("b", 3)))
    assert rows_of(server, name) == [("a", 2), ("c", 2), ("b", 3)]
    both = tw.to_postgres(server.dsn, f"{name}b", key=["name", "n"]).open(node(Pair), "q")
    both.write(0, pairs(("a", 1), ("a", 1), ("a", 2)))
    both.write(1, pairs(("a", 1)))
    assert rows_of(server, f"{name}b") == [("a", 1), ("a", 2)]
    writer.close()
    both.close()


def test_a_table_of_the_users(server: Server) -> None:
    """With a schema, names in upper case, narrower columns, and columns that fill themselves."""
    server.query('create schema "Sch"')
    server.query(
        'create table "Sch"."Tab" (id serial primary key, name varchar(5) unique, n int not null,'
        " made timestamptz default now())"
    )
    target = tw.to_postgres(server.dsn, "Sch.Tab", key="name", create=False)
    writer = target.open(node(Pair), "q")
    writer.write(0, pairs(("ä", 2**31 - 1), ("b", 1)))
    assert server.query('select name, n from "Sch"."Tab" order by id') == [
        ("ä", 2**31 - 1),
        ("b", 1),
    ]
    assert server.query('select count(*) from "Sch".thalweg_batches') == [(1,)]
    with pytest.raises(
        tw.DataError,
        match=r"batch 1, row 2 is refused: .*out of range.*\n  row: name='c', n=2147483648",
    ):
        writer.write(1, pairs(("a", 1), ("b", 1), ("c", 2**31), ("d", 1)))
    with pytest.raises(tw.DataError, match=r"row 1 is refused: .*too long"):
        writer.write(1, pairs(("a", 1), ("abcdef", 1)))
    writer.write(1, pairs(("ä", 5)))
    writer.close()
    assert server.query('select n from "Sch"."Tab" order by id') == [(5,), (1,)]


class Texts(NamedTuple):
    text: str
    shares: list[float]


def test_a_row_that_is_refused_is_named(server: Server, name: str) -> None:
    """A NUL in a text, a number that JSON has not, a time before all calendars, a key that is there already."""
    writer = tw.to_postgres(server.dsn, name).open(node(Texts), "q")
    with pytest.raises(
        tw.DataError,
        match=r"sink 'out': postgresql://127.*, row 1 is refused: .*0x00.*\n  row: text='a\\x00b'",
    ):
        writer.write(0, table(Texts, [Texts("a", []), Texts("a\0b", [])]))
    with pytest.raises(tw.DataError, match=r"row 1 is refused: .*JSON"):
        writer.write(0, table(Texts, [Texts("a", []), Texts("b", [float("nan")])]))
    writer.write(0, table(Texts, [Texts("a", [])]))
    writer.close()
    writer = tw.to_postgres(server.dsn, f"{name}e").open(node(Every), "q")
    for at in (-(2**63), -(2**62)):
        with pytest.raises(tw.DataError, match=r"row 1 is refused: .*out of range"):
            writer.write(0, table(Every, [EVERY[0], EVERY[1]._replace(at=at)]))
    writer.close()
    server.query(f"create table {name}u (name text, n bigint unique)")
    writer = tw.to_postgres(server.dsn, f"{name}u").open(node(Pair), "q")
    with pytest.raises(tw.DataError, match=r"row 3 is refused: .*duplicate key"):
        writer.write(0, pairs(*((f"k{n}", n % 3) for n in range(100))))
    assert rows_of(server, f"{name}u") == []
    writer.close()


def test_a_table_that_does_not_fit_is_refused(server: Server, name: str) -> None:
    """All columns that do not fit are named; a key without an index, and a table that is not there."""
    server.query(f"create table {name} (n text, name text not null, extra int not null)")
    with pytest.raises(tw.BuildError) as caught:
        tw.to_postgres(server.dsn, name).open(node(Pair), "q")
    for said in ("column n is text, the field int", "has a column extra that is not null"):
        assert said in str(caught.value)
    server.query(f"create table {name}k (name text, n bigint)")
    with pytest.raises(tw.BuildError, match=f"create unique index on {name}k \\(name\\)"):
        tw.to_postgres(server.dsn, f"{name}k", key="name").open(node(Pair), "q")
    with pytest.raises(tw.BuildError, match="there is no such table; create=True makes it"):
        tw.to_postgres(server.dsn, f"{name}none", create=False).open(node(Pair), "q")


class Odd(NamedTuple):
    share: float
    group: str | None
    datas: list[bytes]


def test_a_record_that_does_not_fit_is_refused() -> None:
    for key, said in (
        ("share", "share is float; expected"),
        ("group", "and not Optional"),
        ("x", "no field 'x'"),
    ):
        with pytest.raises(tw.BuildError, match=said):
            tw.to_postgres("host=h", "t", key=key).check(node(Odd if key == "datas" else _Without))
    with pytest.raises(tw.BuildError, match="JSON cannot hold the bytes in datas"):
        tw.to_postgres("host=h", "t").check(node(Odd))


class _Without(NamedTuple):
    share: float
    group: str | None


@pytest.mark.merge
def test_the_server_restarts_in_mid_batch(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the server before, in and after a batch: it is tried again, and counts once."""
    writer = tw.to_postgres(server.dsn, name).open(node(Pair), "q")
    writer.write(0, pairs(("a", 0)))
    server.stop()
    again = threading.Timer(0.3, server.start)
    again.start()
    writer.write(1, pairs(("a", 1)))
    again.join()
    filled = writer._table.fill  # type: ignore[attr-defined]

    def fill(connection: Any, parts: Any) -> None:
        filled(connection, parts)
        monkeypatch.undo()
        server.stop()
        server.start()

    monkeypatch.setattr(writer._table, "fill", fill)  # type: ignore[attr-defined]
    writer.write(2, pairs(("a", 2)))
    writer.close()
    assert rows_of(server, name) == [("a", 0), ("a", 1), ("a", 2)]


def test_a_commit_whose_answer_was_lost_counts(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this writer itself committed is no other's, and is not written again."""
    import psycopg

    writer: Any = tw.to_postgres(server.dsn, name).open(node(Pair), "q")
    tried, lost = writer._try, [True]

    def loses(batch: int, rows: Any) -> None:
        tried(batch, rows)
        if lost:
            lost.pop()
            writer.close()
            writer._numbers.note(batch - 1)
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    writer.write(0, pairs(("a", 1)))
    monkeypatch.setattr(writer, "_try", loses)
    writer.write(1, pairs(("b", 2)))
    writer.write(2, pairs(("c", 3)))
    writer.close()
    assert rows_of(server, name) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_server_that_cannot_be_reached(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Waiting is said at once; the error has the place and no password; what no patience helps fails."""
    with pytest.raises(
        tw.EnvironmentProblem,
        match=r"(?s)postgresql://127.0.0.1:1/db/t has not answered for .* patience=",
    ) as caught:
        tw.to_postgres("postgresql://u:hidden@127.0.0.1:1/db", "t", patience="0.1 seconds").open(
            node(Pair), "q"
        )
    assert "hidden" not in str(caught.value)
    flow = tw.Flow("unreachable")
    flow.source("in", Pair).sink("out")
    for given in (
        tw.postgres("host=127.0.0.1 port=1", "t", patience="0.1 seconds"),
        tw.postgres_changes("host=127.0.0.1 port=1", "p", slot="s", patience="0.1 seconds"),
    ):
        with pytest.raises(tw.EnvironmentProblem, match=r"127.0.0.1:1/.* has not answered"):
            tw.run(flow, {"in": given})
    assert all("is waited for 0 s more" in one.message for one in caplog.records)
    assert len(caplog.records) == 3  # said with the first try, not when patience is over
    nowhere = server.dsn.replace("/postgres", "/nowhere")
    with pytest.raises(
        tw.EnvironmentProblem, match=r'written: .*"nowhere" does not exist'
    ) as caught:
        tw.to_postgres(nowhere, "t").open(node(Pair), "q")
    assert "hidden" not in str(caught.value)
    with pytest.raises(tw.BuildError, match="the address cannot be read") as built:
        tw.to_postgres("password=hidden secret", "t").open(node(Pair), "q")
    assert "hidden" not in str(built.value) and built.value.__suppress_context__


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://u:p@h:1/d?sslmode=require", "h:1/d"),
        ("postgres:///d", "local/d"),
        ("host=h port=5 dbname=d password='a b' user=u", "h:5/d"),
        ("dbname=d password=x", "local/d"),
        ("postgresql://u:p@a:1,b:2/d", "a:1,b:2/d"),
    ],
)
def test_the_place_has_no_password(dsn: str, shown: str) -> None:
    target = tw.to_postgres(dsn, "t")
    assert target.place == f"postgresql://{shown}/t"
    assert "password" not in repr(target) and ":p@" not in repr(target)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(tw.EnvironmentProblem, match=r"pip install 'thalweg\[postgres\]'"):
        tw.to_postgres("host=h", "t").open(node(Pair), "q")


def test_a_run_writes_its_rows(server: Server, name: str) -> None:
    """Through ``tw.run``; one without rows makes the table."""
    flow = tw.Flow("copied")
    flow.source("in", Pair).sink("out")
    rows = [Pair(f"k{n}", n) for n in range(1000)]
    tw.run(flow, {"in": []}, {"out": tw.to_postgres(server.dsn, name)})
    assert rows_of(server, name) == []
    tw.run(flow, {"in": rows}, {"out": tw.to_postgres(server.dsn, name)})
    assert rows_of(server, name) == rows


@pytest.mark.merge
@pytest.mark.parametrize("key", ["", "name"])
def test_killed_at_random(server: Server, name: str, tmp_path: Path, key: str) -> None:
    """kill -9 of a writing process at random points, again and again: the table is as after an undisturbed run."""
    made = f"tw.to_postgres({server.dsn!r}, {name!r}, key={key or None!r})"
    assert kit.run_killed(made, tmp_path, kills=5) >= 3
    found = rows_of(server, name)
    assert sorted(found) == (sorted(kit.last_rows().items()) if key else sorted(kit.all_rows()))


@pytest.mark.merge
def test_the_benchmark(server: Server, tmp_path: Path) -> None:
    """``thalweg bench tables`` measures each way and leaves no tables."""
    from thalweg_lab.measure import LabReport
    from thalweg_lab.tables import Tables

    from thalweg.printing import Terminal

    pytest.importorskip("deltalake")
    report = LabReport("tables", tmp_path, Terminal(quiet=True))
    report.finish(Tables(report, rows=3000, repeats=1, dsn=server.dsn).all())
    [rows] = json.loads((tmp_path / "tables.json").read_text()).values()
    assert len(rows) == 6 and all(row["rows/s"] > 0 for row in rows)
    assert server.query("select 1 from pg_tables where tablename like 'thalweg_bench%'") == []
