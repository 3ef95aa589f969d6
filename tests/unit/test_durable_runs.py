"""Runs on a checkpoint: every crash repeats what was planned, and what cannot be right is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connectors.toy import ToyLog
from tests.property.durable_kit import Crash, Crashes, Database

import thalweg as tw
from thalweg import testing
from thalweg.checkpoint import record as records
from thalweg.checkpoint.inspect import describe, read_state
from thalweg.checkpoint.paths import resolve
from thalweg.embedded.durable import inputs as durable_inputs
from thalweg.embedded.durable import reading
from thalweg.spark.checkpoint.store import Store


class Sale(NamedTuple):
    ts: tw.Timestamp
    shop: str
    amount: int


@tw.state
class Total:
    n: int = 0
    total: int = 0


def running(state: Total, row: Sale) -> Sale:
    state.n += 1
    state.total += row.amount
    return Sale(row.ts, f"{row.shop}{state.n}", state.total)


def make_flow(name: str = "sales", **options: Any) -> tw.Flow:
    flow = tw.Flow(name, compile="never")
    sales = flow.source("sales", Sale, order_by="ts", lateness=5, epoch_unit="us", **options)
    sales.key_by("shop").process(running, state=Total, name="sums").sink("sums")
    sales.late.sink("late")
    return flow


def make_rows(count: int, first: int = 0) -> list[Sale]:
    return [
        Sale(i * 2 - (i * 7) % 11, "aébc"[i % 4] if i % 9 else "", i)
        for i in range(first, first + count)
    ]


@contextlib.contextmanager
def rounds_of(rows: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "ROUND_ROWS", rows)
        yield


def latest(checkpoint: Path) -> records.CommitRecord:
    found = records.latest(*resolve(f"{checkpoint}/thalweg"))
    assert found is not None
    return found


def write_csv(path: Path, rows: list[Any], mtime: int) -> None:
    lines = [f"{row[0]},{row[1]},{row[2]}" for row in rows]
    path.write_text("\n".join(["ts,shop,amount", *lines]) + "\n")
    os.utime(path, (mtime, mtime))


def all_files(folder: Path) -> list[Any]:
    """The rows of an output folder, batch after batch."""
    names = sorted(folder.glob("batch=*/*"), key=lambda one: int(one.parent.name[6:]))
    return [tuple(row.values()) for one in names for row in pq.read_table(one).to_pylist()]


# -- crashes --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_point(tmp_path: Path) -> None:
    """A crash at any point of a run, then a start with other chunks: each row once, in order, all counts right."""
    inputs = {"sales": make_rows(24)}
    expected = testing.reference(make_flow(), inputs)
    crashes = Crashes()
    point = 0
    with crashes.installed():
        while True:
            point += 1
            checkpoint = tmp_path / str(point)
            sinks = {"sums": Database(crashes), "late": Database(crashes)}
            crashes.after(point)
            with rounds_of(8), contextlib.suppress(Crash):
                tw.run(make_flow(), inputs, sinks, checkpoint=checkpoint, every=0, chunk_rows=7)
            crashed = crashes.passed >= point
            crashes.after(0)
            if crashed and not (checkpoint.exists() and _is_finished(checkpoint)):
                with rounds_of(21):
                    tw.run(make_flow(), inputs, sinks, checkpoint=checkpoint, every=0, chunk_rows=4)
            for name, sink in sinks.items():
                assert sink.rows == expected.sinks[name], (point, name)
            assert latest(checkpoint).counters["sums"]["in"] == expected.counts["sums"]["in"]
            if not crashed:
                break
    assert point > 25


def _is_finished(checkpoint: Path) -> bool:
    found = records.latest(*resolve(f"{checkpoint}/thalweg"))
    return found is not None and found.finished


def test_planned_rows_only(tmp_path: Path) -> None:
    """A batch that sinks may have seen has the same rows again, also where more have come; the rest follows."""
    crashes = Crashes()
    sink = Database(crashes)
    rows = make_rows(50)
    with crashes.installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.embedded.durable.outputs.DurableOutputs.write", _raise)
        with pytest.raises(Crash):
            tw.run(
                make_flow(),
                {"sales": rows[:20]},
                {"sums": sink},
                checkpoint=tmp_path / "ck",
                end="keep",
            )
    tw.run(
        make_flow(),
        {"sales": rows},
        {"sums": sink},
        checkpoint=tmp_path / "ck",
        end="keep",
        every=0,
    )
    assert latest(tmp_path / "ck").batch == 1
    whole = Database(crashes)
    tw.run(
        make_flow(),
        {"sales": rows[:20]},
        {"sums": whole},
        checkpoint=tmp_path / "other",
        end="keep",
    )
    assert sink.batches[0] == whole.batches[0]


def _raise(*_: Any) -> None:
    raise Crash


# -- inputs ---------------------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    """Files go on in the middle of one, by rows; a file that has come since is read behind them, one that was read
    whole is not read again, and rejected rows count once."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = make_rows(90)
    write_csv(folder / "a.csv", rows[:40], 100)
    write_csv(folder / "b.csv", [*rows[40:50], (5, "x", "none"), *rows[50:70]], 200)

    def run(stop_after: int, **options: Any) -> None:
        crashes = Crashes()
        crashes.after(stop_after)
        flow = make_flow(errors="reject")
        source: Any = tw.files(folder, "csv")
        with crashes.installed(), rounds_of(7), contextlib.suppress(Crash):
            tw.run(
                flow,
                {"sales": source},
                {"sums": sink},
                checkpoint=tmp_path / "ck",
                every=0,
                **options,
            )

    sink = Database(Crashes())
    for stop_after, chunk_rows in ((17, 3), (40, 5), (33, 4), (0, 6)):
        run(stop_after, chunk_rows=chunk_rows, end="keep")
    write_csv(folder / "c.csv", rows[70:], 50)
    run(0)
    expected = testing.reference(make_flow(), {"sales": rows})
    assert sink.rows == expected.sinks["sums"]
    assert latest(tmp_path / "ck").counters["sales"]["rejected"] == 1
    assert latest(tmp_path / "ck").finished


def test_changed_file(tmp_path: Path) -> None:
    """A file that is not what it was when it was half read is named, and nothing more is committed."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "a.csv", make_rows(30), 100)
    crashes = Crashes()
    crashes.after(40)
    given = {"sales": tw.files(folder, "csv")}
    with crashes.installed(), rounds_of(5), pytest.raises(Crash):
        tw.run(make_flow(), given, checkpoint=tmp_path / "ck", every=0, chunk_rows=5)
    before = latest(tmp_path / "ck")
    write_csv(folder / "a.csv", make_rows(31), 101)
    with pytest.raises(tw.DataError, match=r"a\.csv"):
        tw.run(make_flow(), given, checkpoint=tmp_path / "ck")
    (folder / "a.csv").unlink()
    write_csv(folder / "b.csv", make_rows(3), 100)
    with pytest.raises(tw.DataError, match="bring it back"):
        tw.run(make_flow(), given, checkpoint=tmp_path / "ck")
    assert latest(tmp_path / "ck") == before


def test_shorter_list(tmp_path: Path) -> None:
    """Rows that lie in memory must still be there, or it is said how many there were."""
    rows = make_rows(30)
    tw.run(make_flow(), {"sales": rows}, checkpoint=tmp_path / "ck", end="keep")
    with pytest.raises(tw.DataError, match="behind row 30"):
        tw.run(make_flow(), {"sales": rows[:10]}, checkpoint=tmp_path / "ck")
    with pytest.raises(tw.CheckpointMismatch, match="a table or list"):
        tw.run(make_flow(), {"sales": tw.files(__file__, "text")}, checkpoint=tmp_path / "ck")


def test_two_inputs_without_time(tmp_path: Path) -> None:
    """Sources without event time are read one after the other, as in a plain run, through all restarts."""
    flow = tw.Flow("pair", compile="never")
    one = flow.source("one", Sale)
    one.union(flow.source("two", Sale), name="both").sink("out")
    inputs = {"one": make_rows(25), "two": make_rows(25, 100)}
    crashes = Crashes()
    sink = Database(crashes)
    with crashes.installed(), rounds_of(6):
        for after in (9, 20, 31, 8, 0):
            crashes.after(after)
            with contextlib.suppress(Crash):
                tw.run(
                    flow, inputs, {"out": sink}, checkpoint=tmp_path / "ck", every=0, chunk_rows=4
                )
    assert sink.rows == [*inputs["one"], *inputs["two"]]


@pytest.mark.parametrize("given", ["iterator", "tcp", "push", "reader"])
def test_what_cannot_be_read_again(given: str, tmp_path: Path) -> None:
    """Such inputs are refused by name, and nothing is written."""
    table = pa.table({"ts": [1], "shop": ["a"], "amount": [1]})
    made: Any = {
        "iterator": iter(make_rows(3)),
        "tcp": tw.tcp_lines("localhost", 1, "json"),
        "push": tw.push_source(),
        "reader": table.to_reader(),
    }[given]
    with pytest.raises(tw.BuildError, match=r"input .sales.: .*cannot be read again"):
        tw.run(make_flow(), {"sales": made}, checkpoint=tmp_path / "ck")
    assert not (tmp_path / "ck").exists()


class Number(NamedTuple):
    n: int
    lane: int


@pytest.mark.parametrize("follow", [False, True])
def test_log(follow: bool, tmp_path: Path) -> None:
    """A log goes on at its positions by lane; one that is followed is read until the run is ended."""
    flow = tw.Flow("log", compile="never")
    flow.source("log", Number).sink("out")
    crashes = Crashes()
    sink = Database(crashes)
    with crashes.installed(), rounds_of(9), tw.start(threads=1) as running:
        for after in (12, 25, 0):
            crashes.after(after)
            log = ToyLog((30, 12), follow)
            run = running.add(
                flow, {"log": log}, {"out": sink}, checkpoint=tmp_path / "ck", every=0
            )
            if follow and not after:
                _wait_for(lambda: len(sink.rows) == 42)
                run.end()
            with contextlib.suppress(Crash):
                run.result(30)
    for lane, many in enumerate((30, 12)):
        assert [row.n for row in sink.rows if row.lane == lane] == list(range(many))
    assert latest(tmp_path / "ck").finished != follow


def test_a_list_that_ends_beside_a_log(tmp_path: Path) -> None:
    """An input that is over holds back no live one, and is over after a restart, too."""
    flow = tw.Flow("beside", compile="never")
    listed = flow.source("listed", Number, order_by="n")
    listed.union(flow.source("log", Number, order_by="n"), name="both").sink("out")
    rows = [Number(n, 9) for n in range(0, 10, 3)]
    crashes = Crashes()
    sink = Database(crashes)
    with rounds_of(4), tw.start(threads=1) as running:
        for many in (20, 35):
            given = {"listed": rows, "log": ToyLog((many,), follow=True)}
            run = running.add(flow, given, {"out": sink}, checkpoint=tmp_path / "ck", every=0)
            # The row of the newest time waits for others of that time.
            _wait_for(lambda many=many: len(sink.rows) >= many - 1 + len(rows))
            run.end()
            run.result(30)
    given = {"listed": rows, "log": ToyLog((35,))}
    tw.run(flow, given, {"out": sink}, checkpoint=tmp_path / "ck")
    numbers = [Number(n, 0) for n in range(35)]
    expected = testing.reference(flow, {"listed": rows, "log": numbers})
    assert sink.rows == expected.sinks["out"]
    assert latest(tmp_path / "ck").finished


def _wait_for(what: Any) -> None:
    for _ in range(3000):
        if what():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


# -- outputs --------------------------------------------------------------------------------------------------


def test_files_out(tmp_path: Path) -> None:
    """tw.to_files becomes a folder with a file for each batch, as on Spark; repeats replace a batch's file."""
    crashes = Crashes()
    rows = make_rows(60)
    out = tmp_path / "out.parquet"
    with crashes.installed(), rounds_of(11):
        for after in (12, 9, 14, 0):
            crashes.after(after)
            with contextlib.suppress(Crash):
                tw.run(
                    make_flow(), {"sales": rows}, {"sums": tw.to_files(out)},
                    checkpoint=tmp_path / "ck", every=0, chunk_rows=6,
                )  # fmt: skip
    expected = testing.reference(make_flow(), {"sales": rows}).sinks["sums"]
    assert [row[1:] for row in all_files(out)] == [row[1:] for row in expected]
    with pytest.raises(tw.CheckpointError, match="already has"):
        tw.run(
            make_flow(), {"sales": rows}, {"sums": tw.to_files(out)}, checkpoint=tmp_path / "new"
        )
    inside = tmp_path / "ck" / "out.csv"
    with pytest.raises(tw.BuildError, match="lies in the folder"):
        tw.run(
            make_flow(), {"sales": rows}, {"sums": tw.to_files(inside)}, checkpoint=tmp_path / "ck"
        )


def test_other_sinks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Functions get each batch behind its plan, and it is said that they may get one again; collected rows are those
    of the run."""
    rows, seen = make_rows(40), []
    first = tw.run(
        make_flow(), {"sales": rows[:20]}, {"late": tw.each(seen.append)}, checkpoint=tmp_path / "ck", end="keep"
    )  # fmt: skip
    assert "'late': tw.each(...) does not know batches" in caplog.text
    then = tw.run(
        make_flow(), {"sales": rows}, {"late": tw.each(seen.append)}, checkpoint=tmp_path / "ck"
    )
    expected = testing.reference(make_flow(), {"sales": rows})
    assert first.rows("sums") + then.rows("sums") == expected.sinks["sums"]
    assert seen == expected.sinks["late"]
    assert then.counts["sums"]["in"] == expected.counts["sums"]["in"]
    assert then.progress.rows_in == 20


# -- refusals, and what others see ------------------------------------------------------------------------------


def test_refusals(tmp_path: Path) -> None:
    """Another flow, a finished checkpoint, one in use, one of Spark's, and arguments that do not go with it."""
    rows, ck = {"sales": make_rows(10)}, tmp_path / "ck"
    tw.run(make_flow(), rows, checkpoint=ck, end="keep")
    with pytest.raises(tw.CheckpointMismatch, match="the checkpoint has sales, the flow has other"):
        tw.run(make_flow("other"), rows, checkpoint=ck)
    inside = tw.each(lambda _: tw.run(make_flow(), rows, checkpoint=ck))
    with pytest.raises(tw.ThalwegError, match="in use"):
        tw.run(make_flow(), {"sales": make_rows(20)}, {"sums": inside}, checkpoint=ck, end="keep")
    with pytest.raises(tw.CheckpointError, match="of a run in one process"):
        Store.open(str(ck))
    tw.run(make_flow(), {"sales": make_rows(20)}, checkpoint=ck)
    with pytest.raises(tw.CheckpointError, match=r'is finished.*\n.*end="keep"'):
        tw.run(make_flow(), {"sales": make_rows(21)}, checkpoint=ck)
    for wrong in ({"slots": 2}, {"threads": "auto"}, {"threading": "dedicated"}):
        with pytest.raises(tw.BuildError, match="leave out"):
            tw.run(make_flow(), rows, checkpoint=ck, **wrong)  # type: ignore[call-overload]
    with pytest.raises(tw.BuildError, match="needs checkpoint="):
        tw.run(make_flow(), rows, every="1 s")
    with pytest.raises(tw.BuildError, match="not a duration"):
        tw.run(make_flow(), rows, checkpoint=ck, every="soon")


def test_a_restart_behind_the_last_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Over a finished checkpoint inputs without further rows give nothing, which is said; more, or another flow, is
    refused."""
    folder, ck = tmp_path / "in", tmp_path / "ck"
    folder.mkdir()
    (folder / "1.csv").write_text("n,lane\n1,0\n")
    flow, other = tw.Flow("log", compile="never"), tw.Flow("log", compile="never")
    flow.source("log", Number, order_by="n").sink("out")
    rows = other.source("log", Number, order_by="n")
    rows.sink("out")
    rows.key_by("lane").aggregate(n=tw.agg.count()).sink("counts")
    for given in ({"log": ToyLog((30,))}, {"log": [Number(0, 1)]}, {"log": tw.files(folder)}):
        place = ck / type(given["log"]).__name__
        first = tw.run(flow, given, checkpoint=place)
        records = sorted(place.rglob("thalweg/*/*"))
        for _ in range(2):
            caplog.clear()
            again = tw.run(flow, given, checkpoint=place)
            assert (again.rows("out"), again.counts) == ([], first.counts)
            assert "nothing to do" in caplog.text
        assert sorted(place.rglob("thalweg/*/*")) == records
        with pytest.raises(tw.CheckpointError, match="is finished"):
            tw.run(other, given, checkpoint=place)
    (folder / "2.csv").write_text((folder / "1.csv").read_text())
    for more in ({"log": ToyLog((31,))}, {"log": [Number(0, 1)] * 2}, {"log": tw.files(folder)}):
        with pytest.raises(tw.CheckpointError, match="is finished"):
            tw.run(flow, more, checkpoint=ck / type(more["log"]).__name__)
    with pytest.raises(tw.CheckpointError, match="is finished"):  # it may have more later
        tw.run(flow, {"log": ToyLog((30,), follow=True)}, checkpoint=ck / "ToyLog")


def test_hosts_that_cannot_take_over(tmp_path: Path) -> None:
    """Neither host goes on where the other has planned a batch, or where only the other knows the places."""
    log, ck = {"log": ToyLog((30,))}, tmp_path / "ck"
    flow = tw.Flow("log", compile="never")
    flow.source("log", Number).sink("out")
    tw.run(flow, log, checkpoint=ck, end="keep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.embedded.durable.outputs.DurableOutputs.write", _raise)
        with pytest.raises(Crash):
            tw.run(flow, {"log": ToyLog((40,))}, checkpoint=ck, end="keep")
    with pytest.raises(tw.CheckpointError, match="has planned batch 1"):
        Store.open(str(ck), sources=["log"], logs=["log"])
    assert not (ck / "spark").exists()
    tw.run(flow, {"log": ToyLog((40,))}, checkpoint=ck, end="keep")
    with pytest.raises(tw.CheckpointError, match="of a run in one process"):
        Store.open(str(ck), sources=["log"], logs=[])
    Store.open(str(ck), sources=["log"], logs=["log"]).lease.give_back()
    assert sorted(os.listdir(ck / "spark" / "offsets")) == ["0", "1"]
    # From here on as if Spark had run the last batch.
    record = latest(ck)
    extra = {name: said for name, said in record.extra.items() if name != "inputs"}
    records.write(*resolve(f"{ck}/thalweg"), dataclasses.replace(record, extra=extra))
    (ck / "spark" / "commits" / "1").rename(ck / "aside")
    with pytest.raises(tw.CheckpointError, match="Spark has planned batch 1"):
        tw.run(flow, {"log": ToyLog((40,))}, checkpoint=ck)
    (ck / "aside").rename(ck / "spark" / "commits" / "1")
    offsets = ck / "spark" / "offsets" / "1"
    whole = offsets.read_text()
    (ck / "spark" / "sources" / "0").mkdir(parents=True)
    (ck / "spark" / "sources" / "0" / "0").write_text("v1")
    offsets.write_text(whole.replace('{"0":40}', '{"logOffset":0}'))
    with pytest.raises(tw.CheckpointError, match="was no log on Spark"):
        tw.run(flow, {"log": ToyLog((40,))}, checkpoint=ck)
    offsets.write_text(whole)
    result = tw.run(flow, {"log": ToyLog((50,))}, checkpoint=ck)
    assert [row.n for row in result.rows("out")] == list(range(40, 50))


def test_state_can_be_looked_at(tmp_path: Path) -> None:
    """What shows checkpoints shows this one: batch, counts and state by key."""
    rows = make_rows(40)
    tw.run(make_flow(), {"sales": rows}, checkpoint=tmp_path / "ck", end="keep")
    info = describe(str(tmp_path / "ck"))
    assert (info.flow, info.batch, info.finished) == ("sales", 0, False)
    state = read_state(str(tmp_path / "ck"), "sums").to_pylist()
    waiting = read_state(str(tmp_path / "ck"), "sales").num_rows
    late = info.operators[0].counters["late"]
    assert sum(one["n"] for one in state) + waiting + late == len(rows)


def test_beside_others(tmp_path: Path) -> None:
    """A live flow of tw.start commits while it runs; end() leaves the checkpoint open, and another run goes on."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = make_rows(40)
    write_csv(folder / "a.csv", rows[:20], 100)
    got = threading.Event()
    seen: list[Any] = []

    def take(batch: pa.RecordBatch) -> None:
        seen.extend(batch.to_pylist())
        got.set()

    with pytest.MonkeyPatch.context() as patch, tw.start(threads=1) as running:
        patch.setattr(durable_inputs, "_LOOK_S", 0.0)
        run = running.add(
            make_flow(), {"sales": tw.files(folder, "csv", follow=True)}, {"sums": take},
            checkpoint=tmp_path / "ck", every=0,
        )  # fmt: skip
        assert got.wait(30)
        run.end()
        assert run.result(30).counts["sales"]["in"] == 20
    assert not latest(tmp_path / "ck").finished
    write_csv(folder / "b.csv", rows[20:], 200)
    tw.run(
        make_flow(), {"sales": tw.files(folder, "csv")}, {"sums": take}, checkpoint=tmp_path / "ck"
    )
    expected = testing.reference(make_flow(), {"sales": rows}).sinks["sums"]
    assert [one["shop"] for one in seen] == [row.shop for row in expected]


def test_an_output_that_moves_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A checkpoint that goes on with another place says both, once; the same place, however written, says nothing."""
    (tmp_path / "in").mkdir()
    rows = make_rows(9)

    def go(place: Path, count: int) -> None:
        write_csv(tmp_path / "in" / f"{count}.csv", rows[count - 3 : count], count)
        outputs = {"sums": tw.to_files(place, "csv")}
        inputs = {"sales": tw.files(tmp_path / "in")}
        tw.run(make_flow(), inputs, outputs, checkpoint=tmp_path / "ckpt", end="keep")

    go(tmp_path / "one.csv", 3)
    go(tmp_path / "in" / ".." / "one.csv", 6)
    assert "from here on" not in caplog.text
    for _ in range(2):
        go(tmp_path / "two.csv", 9)
    said = f"sink 'sums': the checkpoint has written to {tmp_path}/one.csv until now"
    assert caplog.text.count(said) == caplog.text.count("from here on") == 1
    assert f"writes to {tmp_path}/two.csv;" in caplog.text
