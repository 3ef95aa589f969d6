"""kill -9 of the driver and all its workers at seeded moments: nothing is lost, doubled or out of order.

The moments are found by watching the files that a batch leaves, so that kills fall where they could do harm:
when the batch is only planned, when state was written and no output, between the sinks and the commit record,
and between the commit record and Spark's own commit.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import kill_driver as driver
import psutil
import pytest
import witness
from _pytest.mark.structures import ParameterSet

import thalweg
from thalweg.checkpoint.paths import resolve
from thalweg.checkpoint.record import latest

pytestmark = pytest.mark.spark

#: What appears in which order during batch n; a kill waits for one of them to appear anew.
MOMENTS = {
    "planned": "ckpt/spark/offsets/{}",
    "state": "ckpt/thalweg/state/{}",
    "first sink": "out/late/batch={}",
    "a sink": "out/numbered/batch={}",
    "last sink": "out/by_due/batch={}",
    "committed": "ckpt/thalweg/commits/{}.json",
    "logged": "ckpt/spark/commits/{}",
}
DEADLINE_S = 600.0


#: Of a driver's process, those that are to be killed.
Victims = Callable[[psutil.Process], list[psutil.Process]]


def jvm_of(driver: psutil.Process) -> list[psutil.Process]:
    """Spark's JVM."""
    return driver.children()[:1]


def workers_of(driver: psutil.Process) -> list[psutil.Process]:
    """The Python workers, which the daemon has forked that the JVM has started."""
    daemons = [one for jvm in driver.children() for one in jvm.children()]
    return [one for daemon in daemons for one in daemon.children()]


class Run:
    """The driver as a process.

    Args:
        folder: for output and checkpoint.
        source: the input.
        master: Spark's.
        threads: of each slot.
        locality: how keys are routed.
        program: the driver's file.
        moments: what a kill may wait for.
    """

    def __init__(
        self,
        folder: Path,
        source: Path,
        master: str = "local[2]",
        threads: int = 1,
        locality: str = "off",
        program: str = driver.__file__,
        moments: Mapping[str, str] = MOMENTS,
    ) -> None:
        self.folder = folder
        self.source = source
        self.master = master
        self.threads = threads
        self.locality = locality
        self.program = program
        self.moments = moments
        self.kills = 0

    @contextlib.contextmanager
    def process(self, slots: int | str, end: str) -> Iterator[subprocess.Popen[bytes]]:
        """A driver in a session of its own; whatever is left of it at the end is killed."""
        places = [self.source, self.folder / "out", self.folder / "ckpt"]
        how = [slots, end, self.master, self.threads, self.locality]
        command = [sys.executable, self.program, *map(str, [*places, *how])]
        with (self.folder / "stderr.txt").open("ab") as log:
            started = subprocess.Popen(
                command, start_new_session=True, stdout=log, stderr=log, env=environment()
            )
        try:
            yield started
        finally:
            kill_tree(started)

    def to_the_end(self, slots: int | str, end: str) -> None:
        """Runs until all input is processed."""
        with self.process(slots, end) as running:
            code = running.wait(DEADLINE_S)
        assert code == 0, (self.folder / "stderr.txt").read_text()[-3000:]

    def killed(
        self,
        rng: random.Random,
        *,
        tear_log: bool,
        moment: str | None = None,
        slots: int | str | None = None,
        later_s: float = 0.0,
        victims: Victims | None = None,
    ) -> bool:
        """Runs up to a random moment and kills; False when all input was processed before.

        Args:
            rng: chooses the moment and the number of slots where they are not given.
            tear_log: whether to remove the newest entry of Spark's commit log, too.
            moment: one of the run's.
            slots: the number of slots of the run, or how they change.
            later_s: the kill comes up to so many seconds behind the moment.
            victims: which of the driver's processes are killed; the driver must then end by itself. None: all.
        """
        moment = moment or rng.choice([*self.moments, "some time"])
        with self.process(slots or rng.choice((1, 2, 3)), "keep") as running:
            reached = self._wait_for(moment, rng, running)
            if reached and later_s:
                time.sleep(rng.random() * later_s)
            if reached and victims is not None:
                reached = self._bereaved(running, victims)
        self.kills += reached
        if reached and tear_log:
            forget_newest_commit(self.folder / "ckpt" / "spark" / "commits")
        return reached

    def _bereaved(self, running: subprocess.Popen[bytes], victims: Victims) -> bool:
        """Kills some processes of the driver; whether it ended for that, having said who died."""
        for one in victims(psutil.Process(running.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        code = running.wait(DEADLINE_S)
        told = (self.folder / "stderr.txt").read_text()
        assert code in (0, 1), told[-3000:]
        if code:
            assert "was ended by SIGKILL" in told, told[-3000:]
            assert "goes on with batch" in told, told[-3000:]
        return code == 1

    def _wait_for(self, moment: str, rng: random.Random, running: subprocess.Popen[bytes]) -> bool:
        seen = {name: self.newest(name) for name in self.moments}
        later = rng.choice((1, 1, 2))
        deadline = time.monotonic() + DEADLINE_S
        chance = None
        while running.poll() is None:
            assert time.monotonic() < deadline, f"{moment} did not come"
            if moment == "some time":
                # Up to four seconds after the first sign of life.
                if chance is None and self.newest("planned") > seen["planned"]:
                    chance = time.monotonic() + rng.random() * 4
                if chance is not None and time.monotonic() > chance:
                    return True
            elif self.newest(moment) >= seen[moment] + later:
                return True
            time.sleep(0.001)
        return False

    def newest(self, moment: str) -> int:
        """The newest batch of which a moment was reached; -1 before the first."""
        pattern = self.folder / self.moments[moment]
        before, _, after = pattern.name.partition("{}")
        names = os.listdir(pattern.parent) if pattern.parent.is_dir() else []
        numbers = [
            name[len(before) : len(name) - len(after)]
            for name in names
            if name.startswith(before) and name.endswith(after)
        ]
        return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def environment() -> dict[str, str]:
    """The environment of a process that must import the Thalweg that is tested here."""
    path = [str(Path(thalweg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kills the driver, its JVM and its Python workers, which have groups of their own."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, f"still there after kill -9: {alive}"


def forget_newest_commit(folder: Path) -> None:
    """Removes the newest entry of Spark's commit log with its checksum, as a crash could have."""
    entries = [int(one.name) for one in folder.glob("*") if one.name.isdecimal()]
    if entries:
        (folder / f"{max(entries)}").unlink()
        (folder / f".{max(entries)}.crc").unlink(missing_ok=True)


def kill_and_compare(
    folder: Path,
    seed: int,
    kills: int,
    *,
    files: int,
    keep: bool,
    threads: int = 1,
    locality: str = "off",
    victims: Victims | None = None,
) -> int:
    """Kills so often, then compares output and state with the reference; gives the number of inputs needed.

    Args:
        folder: for input, output and checkpoints.
        seed: of the input and of all choices.
        kills: how many; when all input was processed before, the rest falls on a new run of the same input.
        files: one a batch.
        threads: of each slot.
        locality: how keys are routed, "restless" for other tables in every batch.
        victims: which processes are killed; None: the driver with all of them.
        keep: whether to compare also before the end of the input, when rows wait and sessions are open.
    """
    rng = random.Random(seed)
    rows = driver.make_rows(seed, 250 * files)
    driver.write_files(folder / "in", rows, files)
    done = runs = 0
    while done < kills:
        run = Run(folder / f"run{runs}", folder / "in", threads=threads, locality=locality)
        run.folder.mkdir()
        while done + run.kills < kills and run.killed(
            rng, tear_log=rng.random() < 0.4, victims=victims
        ):
            pass
        if keep:
            run.to_the_end(rng.choice((1, 2)), "keep")
            witness.compare(run.folder / "out", run.folder / "ckpt", rows, end=False)
        run.to_the_end(rng.choice((1, 2)), "drain")
        witness.compare(run.folder / "out", run.folder / "ckpt", rows, end=True)
        done, runs = done + run.kills, runs + 1
    return runs


def _seeds(first: int, *others: int) -> list[ParameterSet]:
    """Each takes some minutes: all but one are for runs that may take hours."""
    return [
        pytest.param(first),
        *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in others),
    ]


@pytest.mark.merge
def test_a_kill(tmp_path: Path) -> None:
    """One kill amid the batches: output and state are those of the reference runner."""
    kill_and_compare(tmp_path, 7, 1, files=3, keep=False)


@pytest.mark.slow
def test_three_kills(tmp_path: Path) -> None:
    """Three kills at seeded moments: output and state are those of the reference runner."""
    kill_and_compare(tmp_path, 7, 3, files=4, keep=False)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", _seeds(100, 200, 300, 400, 500, 600))
def test_many_kills(tmp_path: Path, seed: int) -> None:
    """Four kills a seed, with other numbers of slots each time and torn commit logs."""
    kill_and_compare(tmp_path, seed, 4, files=8, keep=True)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", _seeds(700, 800, 900))
def test_many_kills_of_threads(tmp_path: Path, seed: int) -> None:
    """The same with two threads a slot."""
    kill_and_compare(tmp_path, seed, 4, files=8, keep=True, threads=2)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", _seeds(1_000, 1_100, 1_200))
def test_many_kills_amid_moves(tmp_path: Path, seed: int) -> None:
    """The same while keys are pinned, moved and set free in every batch, with other numbers of slots at each start."""
    kill_and_compare(tmp_path, seed, 4, files=8, keep=True, locality="restless")
    fs, root = resolve(str(tmp_path / "run0" / "ckpt" / "thalweg"))
    newest = latest(fs, root)
    assert newest is not None and newest.extra["routing"] > 3
    assert any(unit >= 128 for chains in newest.chains.values() for unit in chains)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(
    ("victims", "seed"),
    [
        pytest.param(jvm_of, 1_300, id="jvm"),
        pytest.param(workers_of, 1_400, id="workers"),
        pytest.param(jvm_of, 1_500, id="jvm 2", marks=pytest.mark.exhaustive),
        pytest.param(workers_of, 1_600, id="workers 2", marks=pytest.mark.exhaustive),
    ],
)
def test_kills_of_a_part(tmp_path: Path, victims: Victims, seed: int) -> None:
    """Only Spark's JVM, or only its Python workers: the driver ends and says who died; a restart is exact."""
    kill_and_compare(tmp_path, seed, 2, files=4, keep=False, victims=victims)
