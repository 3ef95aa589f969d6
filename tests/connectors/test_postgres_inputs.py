"""Tables of PostgreSQL, queries, and changes as inputs."""

from __future__ import annotations

import datetime
import itertools
import random
import re
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from tests.connectors import postgres_server
from tests.connectors.kit import (
    EVERY,
    SHAPED,
    SPANS,
    Bill,
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
from tests.connectors.toy import ToyTarget

import thalweg as tw
from thalweg.connectors.contracts import never
from thalweg.connectors.postgres.changes import lsn_of, lsn_text
from thalweg.plan.plan import make_plan

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server.running() as one:
        yield one


@pytest.fixture
def name(server: Server) -> Iterator[str]:
    """A table of the test's own, a publication of it, and a slot to read it."""
    made = f"t{next(_numbers)}"
    yield made
    for (slot,) in server.query("select slot_name from pg_replication_slots where not temporary"):
        server.query("select pg_drop_replication_slot(%s)", [slot])


def copied(record: type, **options: Any) -> tw.Flow:
    flow = tw.Flow("copied")
    flow.source("in", record, **options).sink("out")
    return flow


def read(log: Any, record: type = Pair, **options: Any) -> list[Any]:
    return list(tw.run(copied(record, **options), {"in": log}).rows("out"))


# -- rows ------------------------------------------------------------------------------------------------


def test_every_type_comes_back(server: Server, name: str) -> None:
    """What a sink wrote a source reads: a row of every type."""
    writer = tw.to_postgres(server.dsn, name).open(node(Every), "q")
    writer.write(0, table(Every, EVERY))
    writer.close()
    assert plain(read(tw.postgres(server.dsn, name, order_by="key"), Every)) == plain(EVERY)
    for more, record, rows in (("s", Shaped, SHAPED), ("w", Spans, SPANS)):
        for key in (None, "key"):
            made = f"{name}{more}{key or ''}"
            writer = tw.to_postgres(server.dsn, made, key=key).open(node(record), "q")
            writer.write(0, table(record, rows))
            writer.close()
            assert read(tw.postgres(server.dsn, made, order_by="key"), record) == rows


class Span(NamedTuple):
    n: int
    wait: datetime.timedelta
    total: tw.Money | None
    day: datetime.date
    more: Any
    bill: Bill | None


#: Intervals, numerics, dates, anything, and JSON of a bill, and what is said of them.
ODD = (
    ("'-1 day +02:00:00.5'", "1.5", "'2024-02-03'", "array[1, 2]", "null", ""),
    ("'00:00:00'", "12", "'0001-01-01'", "null::int[]", """'{"day": "2024-01-01", "total": 0.10}'""", ""),
    ("'0'", "0", "'2000-01-01'", "null", "'null'", ""),
    ("'1 month'", "1", "'2024-01-01'", "null", "null", "wait='1 mon' is no timedelta: it has months"),
    ("'1 day'", "1.005", "'2024-01-01'", "null", "null", "total='1.005' is no Decimal.*more than 2 digits"),
    ("'1 day'", "'NaN'", "'2024-01-01'", "null", "null", "total='NaN' is no Decimal.*not a number"),
    ("'1 day'", "1e16", "'2024-01-01'", "null", "null", "total=.*17 digits in front of the point"),
    ("'1 day'", "1", "'0044-03-15 BC'", "null", "null", "day='0044-03-15 BC' is no date"),
    ("'1 day'", "1", "'infinity'", "null", "null", "day='infinity' is no date"),
    ("'150000000 days'", "1", "'2024-01-01'", "null", "null", "wait=.*does not fit 64 bits"),
    ("'1 day'", "1", "'2024-01-01'", "null", """'{"day": "x", "total": 1}'""", "bill=.*day.*not a date"),
    ("'1 day'", "1", "'2024-01-01'", "null", """'{"day": 5, "total": 1}'""", "bill=.*day: expected date, got 5"),
    ("'1 day'", "1", "'2024-01-01'", "null", """'{"total": 1}'""", "bill=.*day is missing"),
)  # fmt: skip


def test_values_of_the_server_that_python_has_not(server: Server, name: str) -> None:
    """Each row that does not fit is named, the others come: from a query, and from changes."""
    rows = ODD
    server.query(
        f"create table {name} (n int primary key, wait interval, total numeric, day date, more int[], bill jsonb)"
    )
    server.query(f"create publication p{name} for table {name}")
    log = log_of(server, name)
    begin(log)
    for n, (*values, _) in enumerate(rows):
        server.query(f"insert into {name} values ({n}, {', '.join(values)})")
    good = [n for n, one in enumerate(rows) if not one[-1]]
    table_ = tw.postgres(server.dsn, name, order_by="n")
    found = read(table_, Span, errors="reject")
    assert [row.n for row in found] == good
    assert found[0][1:5] == (
        datetime.timedelta(days=-1, hours=2, seconds=0.5), Decimal("1.50"), datetime.date(2024, 2, 3), [1, 2]
    )  # fmt: skip
    assert found[1].bill == Bill(datetime.date(2024, 1, 1), Decimal("0.10"), None, None)
    changed = read(log, Change, errors="reject")
    assert [row.bill for row in changed] == [row.bill for row in found]
    assert [row[:-1] for row in changed] == [(row.n, row.wait, row.total, row.day) for row in found]
    flow = tw.Flow("rejected")
    source = flow.source("in", Span, errors="reject")
    source.sink("out")
    source.rejected.sink("bad")
    bad = tw.run(flow, {"in": table_}).rows("bad")
    said = [(n, one[-1]) for n, one in enumerate(rows) if one[-1]]
    assert len(bad) == len(said)
    for (n, wanted), one in zip(said, bad, strict=True):
        assert one.position.endswith(f"row {n}") and re.search(str(wanted), one.reason), one
        assert f"n={n}, " in one.row
    with pytest.raises(
        tw.BuildError, match=r"column day is date, but Wait.day is timedelta, which takes interval"
    ):
        read(table_, Wait)


class Change(NamedTuple):
    n: int
    wait: datetime.timedelta
    total: tw.Money | None
    day: datetime.date
    bill: Bill | None


class Wait(NamedTuple):
    day: datetime.timedelta


class Other(NamedTuple):
    day: tw.Timestamp
    small: int
    id: str
    share: float
    tags: list[str]


class One(NamedTuple):
    text: str | None


def test_types_of_the_server(server: Server, name: str) -> None:
    """Of queries, with types that no sink writes; a column of nulls alone; rows in their order."""
    query = (
        "select date '2024-02-03' + n as day, n::smallint as small, md5(n::text)::uuid as id, 1.25::numeric as share,"
        " array['a', 'b\"'] as tags from generate_series(0, 2) n;"
    )
    found = read(tw.postgres(server.dsn, query, order_by=["small"]), Other)
    day = tw.timestamp("2024-02-03")
    assert [row.day for row in found] == [day + n * tw.days(1) for n in range(3)]
    assert [(row.small, row.share, row.tags) for row in found] == [
        (n, 1.25, ["a", 'b"']) for n in range(3)
    ]
    assert found[0].id == "cfcd2084-95d5-65ef-66e7-dff9f98764da"
    nulls = "select nullif(n::text, '1') as text from generate_series(1, 3) n"
    assert read(tw.postgres(server.dsn, nulls), One) == [(None,), ("2",), ("3",)]


def test_many_rows(server: Server, name: str) -> None:
    """Parts and chunks end anywhere."""
    query = "select repeat('x' || chr(10), n % 50) as name, n from generate_series(1, 20000) n"
    found = read(tw.postgres(server.dsn, query, order_by="n"))
    assert found == [("x\n" * (n % 50), n) for n in range(1, 20001)]


class Wrong(NamedTuple):
    name: int
    n: int


def test_what_cannot_be_read(server: Server, name: str) -> None:
    """Columns and rows that do not fit are named, and so are errors of the server."""
    server.query(f"create table {name} (name text, n bigint)")
    server.query(f"insert into {name} values ('a', 1), (null, 2), ('c', 3)")
    log = tw.postgres(server.dsn, name, order_by="n")
    with pytest.raises(tw.DataError, match=r"source 'in'.*row 1.*name"):
        read(log)
    assert read(log, errors="reject") == [("a", 1), ("c", 3)]
    with pytest.raises(
        tw.BuildError, match=r"column name is text, but Wrong.name is int, which takes int8"
    ):
        read(log, Wrong)
    for asked, said in (
        (f"{name}x", "does not exist"),
        ("select 1 as n", "there is no column name"),
    ):
        with pytest.raises(tw.BuildError, match=said):
            read(tw.postgres(server.dsn, asked))
    with pytest.raises(tw.DataError, match="division by zero"):
        read(
            tw.postgres(
                server.dsn, "select 'a' as name, 1 / (n - n) as n from generate_series(1, 3) n"
            )
        )
    assert "hidden" not in repr(log)


# -- changes ---------------------------------------------------------------------------------------------


class Order(NamedTuple):
    id: int
    text: str | None


class Event(NamedTuple):
    op: str
    id: int | None
    before: Order | None
    after: Order | None


def publish(server: Server, name: str, identity: str = "full") -> str:
    server.query(f"create table {name} (id bigint primary key, text text)")
    server.query(f"alter table {name} replica identity {identity}")
    server.query(f"create publication p{name} for table {name}")
    return f"p{name}"


def log_of(server: Server, name: str, **options: Any) -> Any:
    options = {"slot": f"s{name}", "follow": False, **options}
    return tw.postgres_changes(server.dsn, f"p{name}", **options)


def begin(log: Any) -> None:
    """Makes the slot."""
    reader = log.open()
    reader.begin()
    reader.close()


def test_what_happened_to_rows(server: Server, name: str) -> None:
    """Inserts, updates, deletes and the emptying of a table, with the row before and after."""
    publish(server, name)
    log = log_of(server, name)
    begin(log)
    for text in (
        f"insert into {name} values (1, 'ä'), (2, null)", f"update {name} set text = 'b' where id = 1",
        f"delete from {name} where id = 2", f"truncate {name}",
    ):  # fmt: skip
        server.query(text)
    ä, b, two = Order(1, "ä"), Order(1, "b"), Order(2, None)
    wanted = [
        Event("insert", 1, None, ä), Event("insert", 2, None, two), Event("update", 1, ä, b),
        Event("delete", 2, two, None), Event("truncate", None, None, None),
    ]  # fmt: skip
    assert read(log, Event) == wanted
    assert read(log, Event) == wanted  # tw.run commits nothing
    read(log_of(server, name, confirm="read"), Event)


class Typed(NamedTuple):
    op: str
    lsn: int
    committed_at: tw.Timestamp
    number: int
    table: str
    id: int
    share: float
    data: bytes
    at: tw.Timestamp
    flag: bool
    inner: Inner | None


class After(NamedTuple):
    after: Shaped | None


def test_pythons_own_types_of_changes(server: Server, name: str) -> None:
    """What a sink writes comes as changes, alone and in the image of the row."""
    for more, record, rows in (("s", Shaped, SHAPED), ("w", Spans, SPANS)):
        made = f"{name}{more}"
        writer = tw.to_postgres(server.dsn, made).open(node(record), "q")
        server.query(f"create publication p{made} for table {made}")
        log = log_of(server, made)
        begin(log)
        writer.write(0, table(record, rows))
        writer.close()
        assert read(log, record) == rows
        if record is Shaped:
            assert [row.after for row in read(log, After)] == rows


def test_types_of_changes(server: Server, name: str) -> None:
    server.query(
        f"create table {name} (id bigint primary key, share float8, data bytea, at timestamptz,"
        ' flag bool, "inner" jsonb)'
    )
    server.query(f"create publication p{name} for table {name}")
    log = log_of(server, name)
    begin(log)
    server.query(
        f"insert into {name} values (%s, 'NaN', '\\x00ff', '1969-12-31 23:00:00.000001+00', true,"
        ' \'{"n": 1, "text": "ü"}\')',
        [2**63 - 1],
    )
    [row] = read(log, Typed)
    assert repr(row[5:]) == repr(
        (2**63 - 1, float("nan"), b"\x00\xff", -3_599_999_999, True, Inner(1, "ü"))
    )
    assert row.op == "insert" and row.number == 0 and row.table == f"public.{name}"
    assert abs(row.committed_at - time.time_ns() // 1000) < 60_000_000 and row.lsn > 0
    assert lsn_of(lsn_text(row.lsn)) == row.lsn


def test_transactions_come_whole_and_by_commit(server: Server, name: str) -> None:
    """Those that run at the same time come in the order of their commits; positions cut between any of them."""
    import psycopg

    publish(server, name)
    log = log_of(server, name)
    begin(log)
    draw, order = random.Random(5), []
    for turn in range(3):
        sessions = [psycopg.connect(server.dsn) for _ in range(3)]
        for k in range(3):
            for place, session in enumerate(sessions):
                session.execute(
                    f"insert into {name} values (%s, 'x')", [turn * 100 + place * 10 + k]
                )
        draw.shuffle(sessions)
        for session in sessions:
            ids = session.execute(f"select id from {name} where id >= %s order by id", [turn * 100])
            order += [row[0] for row in ids.fetchall() if row[0] not in order]
            session.commit()
            session.close()
        server.query("create table if not exists others (n int)")
        server.query("insert into others values (1)")
    assert [row.id for row in read(log, Order)] == order
    [source] = make_plan(copied(Order)).sources
    reader = log.open()

    def ids_of(start: Any, end: Any) -> list[int]:
        feed = reader.read(source, start, end, 2, never())
        return [row.id for chunk, _ in feed for row in chunk.rows()]

    first = reader.begin()
    end = reader.end(first)
    for many in (1, 7, 1000):
        at, parts = first, []
        while at != end:
            upto = reader.upto(at, end, many)
            again = ids_of(at, upto)
            assert ids_of(at, upto) == again
            parts += again
            assert upto != at
            at = upto
        assert parts == order
    reader.confirm(end)
    reader.close()
    assert read(log, Order) == []
    late = log.open()
    with pytest.raises(
        tw.DataError, match="was confirmed by another reader, or the slot was made anew"
    ):
        late.upto(first, end, 10)
    late.close()


@pytest.mark.merge
def test_changes_are_followed(server: Server, name: str) -> None:
    """What comes while the run goes on is read, also through a restart of the server; others' tables are no rows."""
    publish(server, name)
    server.query(f"create table {name}x (id bigint)")
    log = log_of(server, name, follow=True)
    begin(log)
    target = ToyTarget()

    def wait_for(ids: list[int]) -> None:
        deadline = time.monotonic() + 60
        while [row["id"] for row in target.rows] != ids and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [row["id"] for row in target.rows] == ids

    with tw.start(threads=1) as running:
        run = running.add(copied(Order), {"in": log}, {"out": target})
        server.query(f"insert into {name} values (1, 'a')")
        wait_for([1])
        server.query(f"insert into {name}x values (9)")
        server.query(f"insert into {name} values (2, 'a')")
        wait_for([1, 2])
        server.stop()
        server.start()
        server.query(f"insert into {name} values (3, 'a')")
        wait_for([1, 2, 3])
        run.stop()
    assert server.query("select count(*) from pg_replication_slots where temporary") == [(0,)]


def test_idle_positions_stay(server: Server, name: str) -> None:
    """Changes of others' tables move no position, and the next change of ours is found from the old one."""
    publish(server, name)
    server.query(f"create table {name}x (id bigint)")
    log = log_of(server, name)
    reader = log.open()
    at = reader.begin()
    for n in range(3):
        server.query(f"insert into {name}x values (%s)", [n])
        assert reader.end(at) == at
    server.query(f"insert into {name} values (1, 'a')")
    end = reader.end(at)
    assert end != at
    [source] = make_plan(copied(Order)).sources
    rows = [row for chunk, _ in reader.read(source, at, end, 10, never()) for row in chunk.rows()]
    assert rows == [(1, "a")]
    reader.close()


def test_large_values_that_did_not_change(server: Server, name: str) -> None:
    """They are not in the log, unless the table's identity is full: named, and rejected where that is asked."""
    for identity, wanted in (("default", []), ("full", [Order(2, None)])):
        table_ = f"{name}{identity[0]}"
        publish(server, table_, identity)
        server.query(f"alter table {table_} add more text")
        server.query(f"alter table {table_} alter text set storage external")
        log = log_of(server, table_)
        begin(log)
        server.query(f"insert into {table_} values (1, repeat('x', 9000))")
        server.query(f"update {table_} set more = 'y'")
        if wanted:
            assert [row.text for row in read(log, Order)] == ["x" * 9000] * 2
        else:
            with pytest.raises(tw.DataError, match=r"update of public.*REPLICA IDENTITY FULL"):
                read(log, Order)
            assert len(read(log, Order, errors="reject")) == 1


class Flat(NamedTuple):
    before: str


def test_what_is_refused(server: Server, name: str) -> None:
    publish(server, name)
    with pytest.raises(
        tw.BuildError, match=f"there is no publication p{name}x; make it: create publication"
    ):
        read(log_of(server, f"{name}x"), Order)
    with pytest.raises(tw.BuildError, match="there is no such slot; create=True makes it"):
        read(log_of(server, name, create=False), Order)
    with pytest.raises(
        tw.BuildError,
        match="field before is str; expected a record of the table's columns, or None",
    ):
        read(log_of(server, name), Flat)
    assert "hidden" not in repr(log_of(server, name))


def test_one_table_of_a_publication(server: Server, name: str) -> None:
    """Others of the publication are left out."""
    publish(server, name)
    server.query(f"create table {name}x (id bigint primary key, text text)")
    server.query(f"alter publication p{name} add table {name}x")
    log = log_of(server, name, table=name)
    begin(log)
    server.query(f"insert into {name}x values (1, 'x')")
    server.query(f"insert into {name} values (2, 'a')")
    assert read(log, Order) == [(2, "a")]
    assert len(read(log_of(server, name), Order)) == 2
