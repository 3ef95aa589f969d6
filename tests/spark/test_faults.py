"""What goes wrong around a query: its output is that of an undisturbed run, or the fault is named."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from test_kill import environment

import thalweg as tw
from thalweg.spark.checkpoint.store import Store

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


class Row(NamedTuple):
    ts: int
    key: int


class Numbered(NamedTuple):
    ts: int
    key: int
    n: int


@tw.state
class Count:
    n: int = 0


def number(count: Count, row: Row) -> Numbered:
    """A running number a key: a lost row leaves a gap, a doubled one a repetition."""
    count.n += 1
    return Numbered(row.ts, row.key, count.n)


class Case:
    """A flow over a folder, one file a batch, and a harm that its tasks do while the file ``harm`` is there.

    Attributes:
        out: the rows of each batch, as a sink keeps them that replaces a batch that comes again.
        arguments: of every start.
    """

    def __init__(self, folder: Path, harm: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self.harmful = folder / "harm"
        self.checkpoint = folder / "ck"
        self.out: dict[int, list[tuple[int, ...]]] = {}
        self.arguments: dict[str, Any] = {"trigger": "available_now"}
        self._harm = harm
        self._files = 0
        (folder / "in").mkdir(exist_ok=True)

    def put(self, files: int = 1) -> None:
        """More files, of four rows each."""
        for _ in range(files):
            path = self.folder / "in" / f"{self._files}.csv"
            rows = [(4 * self._files + i, i % 3) for i in range(4)]
            path.write_text("ts,key\n" + "".join(f"{ts},{key}\n" for ts, key in rows))
            os.utime(path, (1_700_000_000 + self._files,) * 2)
            self._files += 1

    def flow(self) -> tw.Flow:
        harm, harmful = self._harm, str(self.harmful)

        def pass_on(row: Row) -> Row:
            if os.path.exists(harmful):
                harm()
            return row

        flow = tw.Flow("faults", compile="never")
        rows = flow.source("rows", Row).map(pass_on).key_by("key").process(number, state=Count)
        rows.sink("out")
        return flow

    def keep(self, table: pa.Table, batch: int) -> None:
        self.out[batch] = list(zip(*table.to_pydict().values(), strict=True))

    def start(self, **more: Any) -> tw.spark.Query:
        files = tw.spark.files(str(self.folder / "in"), format="csv", max_files_per_trigger=1)
        sinks = {"out": tw.spark.foreach_table(self.keep)}
        arguments = {"checkpoint": str(self.checkpoint)} | self.arguments | more
        return tw.spark.start(self.flow(), {"rows": files}, sinks, **arguments)

    def run(self, **more: Any) -> tw.spark.Query:
        query = self.start(**more)
        query.await_termination()
        return query

    def refused(self, says: str, error: type[Exception] = tw.CheckpointError, **more: Any) -> str:
        """The text of what stops a run: short, without stacks."""
        with pytest.raises(error, match=says) as failed:
            self.run(**more)
        text = str(failed.value)
        assert len(text.splitlines()) <= 10, text
        for noise in ("\tat ", "java.", "Traceback", "Py4J"):
            assert noise not in text, text
        return text

    def check(self) -> None:
        """Every row once, and each key's numbers without a gap."""
        seen: dict[int, int] = {}
        expected = []
        for ts in range(4 * self._files):
            key = ts % 4 % 3
            seen[key] = seen.get(key, 0) + 1
            expected.append((ts, key, seen[key]))
        assert sorted(row for rows in self.out.values() for row in rows) == expected


# -- processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_worker(tmp_path: Path, number: signal.Signals) -> None:
    """The error says that a Python worker died, by which signal, and with which batch a restart goes on."""

    def die() -> None:
        os.kill(os.getpid(), number)

    case = Case(tmp_path, die)
    case.put()
    case.run()
    case.put(2)
    case.harmful.touch()
    text = case.refused(number.name, tw.EnvironmentProblem)
    assert "a Python worker of Spark (process " in text
    assert "batch 1" in text.splitlines()[0]
    assert text.endswith("it goes on with batch 1")
    case.harmful.unlink()
    case.run()
    case.check()


PROGRAM = """
    import sys
    from pathlib import Path
    import psutil
    import thalweg as tw
    import test_faults

    def die():
        psutil.Process().parent().parent().kill()  # the worker's daemon's JVM

    folder = Path(sys.argv[1])
    case = test_faults.Case(folder, die)
    case._files = 3
    tw.spark.session("local[2]")
    try:
        query = case.start()
        query.await_termination()
    except tw.ThalwegError as error:
        print(type(error).__name__, error)
        print("again", query.exception() is error, query.is_active)
        query.stop()
    print("out", case.out)
"""


@pytest.mark.slow
def test_a_killed_jvm(tmp_path: Path) -> None:
    """The driver says that Spark's JVM died and by which signal; another start goes on with the batch."""
    case = Case(tmp_path)
    case.put()
    case.run()
    case.put(2)
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    path = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), environment()["PYTHONPATH"]])
    }
    case.harmful.touch()
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", tmp_path],
        capture_output=True, text=True, timeout=300, env=environment() | path,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert "EnvironmentProblem flow 'faults': batch 1 failed: Spark's JVM (process " in told
    assert "was ended by SIGKILL" in told
    assert "it goes on with batch 1\nagain True False\nout {}" in told
    assert "ConnectionRefused" not in told, told
    case.harmful.unlink()
    case.run()
    case.check()


# -- disks -----------------------------------------------------------------------------------------------


def failing_sync(marker: str, number: int) -> Callable[[], None]:
    """Makes this process unable to write files as long as the marker is there."""

    def harm() -> None:
        real = os.fsync

        def fail(descriptor: int) -> None:
            if os.path.exists(marker):
                raise OSError(number, os.strerror(number))
            real(descriptor)

        os.fsync = fail

    return harm


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_in_a_task(tmp_path: Path, number: int) -> None:
    """A state file that cannot be written is named, with the reason; nothing half is left, and a restart goes on."""
    case = Case(tmp_path, failing_sync(str(tmp_path / "harm"), number))
    case.arguments["state"] = str(tmp_path / "state")
    case.put()
    case.run()
    case.put(2)
    case.harmful.touch()
    text = case.refused(os.strerror(number))
    assert f"{tmp_path}/state/state/1/" in text
    assert not list(tmp_path.rglob("*.tmp"))
    case.harmful.unlink()
    case.run()
    case.check()


def test_a_full_disk_at_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of the commit record, when the sinks have their rows: they are given to them again."""
    case = Case(tmp_path)
    case.put()
    case.run()
    case.put(2)
    real = os.link

    def fail(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    text = case.refused("The disk is full")
    assert f"{case.checkpoint}/thalweg/commits/1.json" in text
    assert not list(tmp_path.rglob("*.tmp"))
    assert sorted(case.out) == [0, 1]
    monkeypatch.setattr(os, "link", real)
    case.run()
    case.check()


# -- inputs and the clock --------------------------------------------------------------------------------


def test_a_file_that_is_gone_when_its_batch_runs_again(tmp_path: Path) -> None:
    """Spark would run the batch without it: the file is named, and with it the batch is whole."""

    def fail() -> None:
        raise ValueError("no")

    case = Case(tmp_path, fail)
    case.put(2)
    case.harmful.touch()
    case.refused("ValueError: no", tw.OperatorError)
    case.harmful.unlink()
    gone = tmp_path / "in" / "0.csv"
    gone.rename(tmp_path / "moved.csv")
    text = case.refused("batch 0 was planned with 1 file", tw.EnvironmentProblem)
    assert str(gone) in text
    assert not case.out
    (tmp_path / "moved.csv").rename(gone)
    case.run()
    case.check()


def test_an_input_folder_that_is_moved(tmp_path: Path) -> None:
    """Under a running query, which must not be drained then, and in front of a start: the folder is named."""
    case = Case(tmp_path)
    case.put(2)
    query = case.start(trigger=None)
    query.process_all_available()
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    for call in (query.process_all_available, query.drain):
        with pytest.raises(tw.EnvironmentProblem, match="was moved, deleted or unmounted"):
            call()
    query.stop()
    assert not query.finished
    assert str(tmp_path / "in") in case.refused("does not exist", tw.BuildError)
    (tmp_path / "elsewhere").rename(tmp_path / "in")
    case.put()
    case.run(end="drain")
    case.check()


def test_a_clock_that_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and commands that are older than what was seen, by a month, are taken all the same."""
    case = Case(tmp_path)
    case.put(2)
    query = case.start()
    query.tick(1)
    query.await_termination()
    month_s = 30 * 86_400
    back_s, real = time.time() - month_s, Store.command
    case.put()
    os.utime(tmp_path / "in" / "2.csv", (1_700_000_000 - month_s,) * 2)

    def late(store: Store, **content: Any) -> None:
        real(store, **content)
        for path in Path(store.root, "control").glob("*.json"):
            if path.stat().st_mtime > back_s + month_s / 2:
                os.utime(path, (back_s, back_s))

    monkeypatch.setattr(time, "time_ns", lambda: int(back_s * 1e9))
    monkeypatch.setattr(Store, "command", late)
    query = case.start()
    query.await_termination()
    query.drain()
    assert query.finished
    case.check()


# -- parts of the checkpoint -----------------------------------------------------------------------------


def test_parts_that_are_lost_or_old(tmp_path: Path) -> None:
    """Records, Spark's log or the state of another age: refused at the start; whole again, the query goes on."""
    case = Case(tmp_path)
    case.put(2)
    case.run()
    shutil.copytree(case.checkpoint, tmp_path / "older")
    case.put(2)
    case.run()
    shutil.copytree(case.checkpoint, tmp_path / "whole")
    case.put()
    spark, ours = case.checkpoint / "spark", case.checkpoint / "thalweg"
    harms: dict[str, Callable[[], None]] = {
        "3.json is missing": lambda: (ours / "commits" / "3.json").unlink(),
        "no commit record at all": lambda: shutil.rmtree(ours),
        "Spark starts anew, at batch 0": lambda: shutil.rmtree(spark),
        "Spark goes on with batch 2": lambda: replace(spark, tmp_path / "older" / "spark"),
        "state files are missing": lambda: shutil.rmtree(ours / "state"),
        "1.json|3.json is missing": lambda: replace(ours, tmp_path / "older" / "thalweg"),
    }
    for says, harm in harms.items():
        harm()
        case.refused(says)
        replace(case.checkpoint, tmp_path / "whole")
    case.run()
    case.check()
    # Both parts of one age are a checkpoint: its batches come again, and replace what they gave.
    replace(case.checkpoint, tmp_path / "older")
    case.run()
    case.check()


def replace(folder: Path, by: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def test_a_log_that_only_spark_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the batch, not the start, is refused, before anything is written."""
    case = Case(tmp_path)
    case.put(2)
    case.run()
    (case.checkpoint / "thalweg/commits/1.json").unlink()
    case.put()
    monkeypatch.setattr(
        "thalweg.spark.checkpoint.store.read_log", lambda _: pytest.fail("not here")
    )
    monkeypatch.setattr("thalweg.spark.checkpoint.store.folder_of", lambda _: None)
    case.refused("1.json is missing")
    assert sorted(case.out) == [0, 1]


@pytest.mark.short
def test_another_driver_commits_first(tmp_path: Path) -> None:
    """Where locks do not hold: a batch whose record another driver wrote meanwhile reaches no sink and no record."""
    root = tmp_path / "ck" / "thalweg"

    def overtake() -> None:
        mine = root / "commits" / "1.json"
        mine.write_text('{"attempt": "another", "format": 1}')

    case = Case(tmp_path, overtake)
    case.put()
    case.run()
    case.put()
    case.harmful.touch()
    text = case.refused("another query works on the checkpoint")
    assert "record of batch 1" in text
    assert sorted(case.out) == [0]
    assert b"another" in (root / "commits" / "1.json").read_bytes()
    case.harmful.unlink()
    (root / "commits" / "1.json").unlink()
    (root / "lock").unlink()
    case.run()
    case.check()
