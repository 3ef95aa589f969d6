"""Delta tables as inputs: a snapshot, and then what each version appends."""

from __future__ import annotations

import datetime
import glob
import logging
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from tests.connectors.kit import EVERY, SHAPED, Every, Pair, Shaped, node, plain, table
from tests.connectors.toy import ToyTarget

import thalweg as tw
from thalweg.connectors.delta import versions

deltalake = pytest.importorskip("deltalake", reason="needs the package deltalake")


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def append(place: str, *rows: tuple[str, int], **options: Any) -> None:
    rows_ = table(Pair, [Pair(*row) for row in rows])
    deltalake.write_deltalake(place, rows_, mode=options.pop("mode", "append"), **options)


def read(log: Any, record: type = Pair, **source: Any) -> list[Any]:
    """The rows that a run reads that ends."""
    flow = tw.Flow("read")
    flow.source("in", record, **source).sink("out")
    return list(tw.run(flow, {"in": log}).rows("out"))


def numbers(rows: list[Any]) -> list[int]:
    return [row.n for row in rows]


def test_every_type_comes_back(place: str) -> None:
    """What a sink wrote a source reads: a row of every type."""
    tw.to_delta(place).open(node(Every), "q").write(0, table(Every, EVERY))
    assert plain(read(tw.delta(place, follow=False), Every)) == plain(EVERY)
    for shaped in (tw.to_delta(f"{place}s"), tw.to_delta(f"{place}d", partition_by="day")):
        shaped.open(node(Shaped), "q").write(0, table(Shaped, SHAPED))
        found = read(tw.delta(shaped.path, follow=False), Shaped)
        assert sorted(found, key=lambda row: row.key) == SHAPED


class Parted(NamedTuple):
    day: str | None
    hour: int
    ok: bool
    at: tw.Timestamp
    n: int


@pytest.mark.parametrize("start", ["snapshot", "earliest"])
@pytest.mark.parametrize("through", ["folder", "store"])
def test_partition_columns_come_back(
    place: str, start: Any, through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in no file: of the snapshot and of versions, through the folder and through the package's store."""
    rows = [Parted("ü =/%", 1, True, 5, 0), Parted(None, -1, False, -(10**15) - 1, 1)]
    by = ["day", "hour", "ok", "at"]
    deltalake.write_deltalake(place, table(Parted, rows), partition_by=by)
    if through == "store":
        from deltalake.fs import DeltaStorageHandler

        store = pafs.PyFileSystem(DeltaStorageHandler(place, {}))
        monkeypatch.setattr(versions, "_files", lambda path, storage: (store, ""))
    found = read(tw.delta(place, follow=False, start=start), Parted)
    assert sorted(found, key=lambda row: row.n) == rows


@pytest.mark.parametrize("max_rows", [None, 1, 3])
def test_versions_come_in_their_order(place: str, max_rows: int | None) -> None:
    """From the first, from a version, from a time and from the snapshot on, whatever is read at once."""
    for n in range(6):
        append(place, *[("a", 10 * n + k) for k in range(3)])
        if n == 2:
            between = datetime.datetime.fromtimestamp(time.time() + 0.002, datetime.UTC)
            time.sleep(0.01)
    rows = [10 * n + k for n in range(6) for k in range(3)]
    for start, wanted in (
        ("earliest", rows),
        (4, rows[12:]),
        (between, rows[9:]),
        (between.isoformat(), rows[9:]),
        ("snapshot", rows),
        ("1970-01-01", rows),
        ("2970-01-01", []),
        ("latest", []),
    ):
        log = tw.delta(place, follow=False, start=start, max_rows=max_rows)
        assert numbers(read(log)) == wanted, start


def test_positions_cut_anywhere(place: str) -> None:
    """Reading in rounds of any size gives what one round gives, and the same rows for the same positions again."""
    for n in range(4):
        for_day = [(f"d{k}", 10 * n + k) for k in range(3)]
        append(place, *for_day, partition_by=["name"])
    for start in ("snapshot", "earliest", 2):
        reader = tw.delta(place, start=start).open()
        source = tw.Flow("x")
        source.source("in", Pair).sink("out")
        from thalweg.plan.plan import make_plan

        [given] = make_plan(source).sources

        def rows(begin: Any, end: Any, reader: Any = reader, given: Any = given) -> list[Any]:
            from thalweg.connectors.contracts import never

            feed = reader.read(given, begin, end, 2, never())
            return [row for chunk, _ in feed for row in chunk.rows()]

        begin = reader.begin()
        end = reader.end(begin)
        whole = rows(begin, end)
        assert len(whole) == (6 if start == 2 else 12)
        for many in (1, 2, 5, 100):
            at, parts = begin, []
            while at != end:
                upto = reader.upto(at, end, many)
                assert upto != at
                assert rows(at, upto) == rows(at, upto)
                parts += rows(at, upto)
                at = upto
            assert parts == whole


def test_a_table_is_followed(place: str) -> None:
    """What others append while the run goes on is read; compaction adds nothing."""
    append(place, ("a", 0))
    append(place, ("a", 1))
    flow = tw.Flow("read")
    flow.source("in", Pair).sink("out")
    target = ToyTarget()

    def wait_for(rows: list[int]) -> None:
        deadline = time.monotonic() + 60
        while [row["n"] for row in target.rows] != rows and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [row["n"] for row in target.rows] == rows

    with tw.start(threads=1) as running:
        run = running.add(flow, {"in": tw.delta(place)}, {"out": target})
        wait_for([0, 1])
        deltalake.DeltaTable(place).optimize.compact()
        append(place, ("a", 2))
        wait_for([0, 1, 2])
        run.stop()


def test_versions_that_change_rows(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """They end the run by name, or are left out and said; the snapshot has what they left."""
    append(place, ("a", 0), ("b", 1))
    deltalake.DeltaTable(place).delete("n = 0")
    append(place, ("c", 2))
    with pytest.raises(
        tw.DataError, match=r"version 1 changes rows .*\(DELETE, 1 file\(s\) removed\)"
    ):
        read(tw.delta(place, follow=False, start="earliest"))
    with caplog.at_level(logging.WARNING):
        found = read(tw.delta(place, follow=False, start="earliest", on_change="skip"))
    assert numbers(found) == [0, 1, 2]
    target = ToyTarget()
    flow = tw.Flow("read")
    flow.source("in", Pair).sink("out")
    with tw.start(threads=1) as running:
        run = running.add(flow, {"in": tw.delta(place, start="earliest")}, {"out": target})
        with pytest.raises(tw.DataError, match="version 1 changes rows"):
            run.result()
    assert [one.message for one in caplog.records if "version 1 is skipped: DELETE" in one.message]
    assert sorted(numbers(read(tw.delta(place, follow=False)))) == [1, 2]
    assert numbers(read(tw.delta(place, follow=False, start=2))) == [2]


def test_what_is_not_there_any_more(place: str) -> None:
    """A file that VACUUM took, a version that the log has lost, a table that was made anew."""
    append(place, ("a", 0))
    append(place, ("a", 1))
    append(place, ("b", 2), mode="overwrite")
    deltalake.DeltaTable(place).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(
        tw.DataError, match=r"source 'in': delta:.*version 0 has a file .*VACUUM removed it"
    ):
        read(tw.delta(place, follow=False, start="earliest"))
    deltalake.DeltaTable(place).create_checkpoint()
    for one in sorted(glob.glob(f"{place}/_delta_log/*.json"))[:2]:
        os.unlink(one)
    with pytest.raises(
        tw.DataError, match="does not have version 0 any more: it begins with version 2"
    ):
        read(tw.delta(place, follow=False, start="earliest"))
    with pytest.raises(tw.DataError, match="does not have version 1 any more"):
        read(tw.delta(place, follow=False, start="1970-01-01"))
    assert numbers(read(tw.delta(place, follow=False))) == [2]
    with pytest.raises(
        tw.DataError, match=r"newest version is \d, .* version 8: the table was made anew"
    ):
        tw.delta(place).open().end({"table": "8.0"})


class Wide(NamedTuple):
    name: str
    n: int
    more: str | None


def test_columns_that_come_later_are_null_before(place: str) -> None:
    append(place, ("a", 0))
    deltalake.DeltaTable(place).alter.add_columns([deltalake.Field("more", "string")])
    deltalake.write_deltalake(place, table(Wide, [Wide("b", 1, "x")]), mode="append")
    found = read(tw.delta(place, follow=False, start="earliest"), Wide)
    assert found == [Wide("a", 0, None), Wide("b", 1, "x")]


class Must(NamedTuple):
    name: str
    n: int


def test_rows_and_columns_that_do_not_fit(place: str) -> None:
    """A row is named by version, file and number, or rejected; a column that is missing is named."""
    loose = pa.table({"name": ["a", None, "c"], "n": [1, 2, 3]})
    deltalake.write_deltalake(place, loose)
    with pytest.raises(tw.DataError, match=r"delta:.*version 0 file part-.*parquet row 1"):
        read(tw.delta(place, follow=False), Must)
    assert numbers(read(tw.delta(place, follow=False), Must, errors="reject")) == [1, 3]
    with pytest.raises(tw.DataError, match="column more missing"):
        read(tw.delta(place, follow=False), Wide)


def test_arguments_that_cannot_be_meant(place: str) -> None:
    for options, said in (
        ({"start": "first"}, "start: expected 'snapshot', 'earliest'"),
        ({"start": -1}, "start: expected"),
        ({"on_change": "no"}, "one of fail, skip"),
        ({"max_rows": 0}, "max_rows"),
        ({"follow": 1}, "follow"),
    ):
        with pytest.raises(tw.BuildError, match=said):
            tw.delta(place, **options)
    with pytest.raises(tw.EnvironmentProblem, match="there is no Delta table"):
        read(tw.delta(place, follow=False))
    assert "hidden" not in repr(tw.delta(place, storage_options={"secret": "hidden"}))


def test_a_version_that_is_far_ahead(place: str) -> None:
    """A start behind the next version is refused with the newest one; the next one itself is where a log goes on."""
    append(place, ("a", 1))
    with pytest.raises(tw.BuildError, match=r"start=99: its newest version is 0; give .* up to 1,"):
        read(tw.delta(place, follow=False, start=99))
    assert len(read(tw.delta(place, follow=False, start=1))) == 0
