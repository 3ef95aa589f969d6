"""Runs of the synthetic workload on a standalone cluster: rows, seconds, bytes between executors, CPU time.

Runs in a process of its own, in a network of its own where cards can be had: ``python -m thalweg_lab.caneill_runs``
takes a :class:`Job` as JSON and prints what :func:`run` gives.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import psutil

import thalweg
from thalweg import datagen
from thalweg.checkpoint.routing_files import save_table
from thalweg.locality import Online
from thalweg_lab import network
from thalweg_lab.caneill_flow import COUNTING, local_table, make_flow, worst_table

if TYPE_CHECKING:
    from thalweg.spark import Query

#: Keys of each of the two fields.
KEYS: Final = 1_000
#: Batches in front that only warm up.
WARM_UP: Final = 2
#: Rows a batch at most, where the padding is small.
_MOST_ROWS: Final = 50_000
_EXECUTOR_MEMORY: Final = "1g"
#: The collector that a JVM takes where it sees one core. What executors do with a row is so little code that it is soon
#: compiled, and fast then.
_EXECUTOR_JVM: Final = "-XX:+UseSerialGC"
_STOP_S: Final = 30.0


class CaneillSetting(NamedTuple):
    """What is measured together: its ways take turns.

    Attributes:
        ways: "hashed", "table", "worst", "counting", "online".
        padding: bytes a tuple.
        batch_mb: about so large is a batch.
        locality: share of the tuples whose keys are partners.
        gbit_s: of each executor's network card, each way; None: not limited.
        batches: measured ones of a run.
        repeats: runs of each way.
        beside: the padding is made by the first operator, so that only the hop between the operators carries it, as
            where each server of the paper has a source; else the one source task makes it, and the hop before that
            carries it too.
        by_batch: the ways take turns batch by batch, by queries of the same executors, and each batch is a run: what
            executors do at one time and not at another, as compiling, befalls all ways alike.
    """

    ways: tuple[str, ...]
    padding: int
    batch_mb: float
    locality: float = 0.8
    gbit_s: float | None = None
    batches: int = 5
    repeats: int = 1
    beside: bool = True
    by_batch: bool = False


class Job(NamedTuple):
    """Settings for one cluster.

    Attributes:
        workers: each has an executor of one core and a slot.
        settings: one after the other.
    """

    workers: int
    settings: tuple[CaneillSetting, ...]


class Batch(NamedTuple):
    """A measured batch.

    Attributes:
        rows: tuples.
        wall_s: from its begin to its commit record.
        local, remote: bytes that the second operator's slots read from their own executor and from others; None where
            Spark's numbers came too late.
        stay: the share of tuples between the operators that stayed in their slot.
        moved: keys that get another slot behind it.
        before: bytes that the first operator's slots read from other executors, from the source; as above.
    """

    rows: int
    wall_s: float
    local: int | None
    remote: int | None
    stay: float
    moved: int
    before: int | None

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Batch:
        """What a query's progress says of a batch; in one slot, where nothing is exchanged, all tuples stay."""
        said = progress["locality"] or {"remote_bytes": [], "stay": 1.0, "keys_moved": 0}
        between: tuple[int | None, int | None] = (None, None)
        before = None
        if len(said["remote_bytes"]) > 1:
            between = said["local_bytes"][1], said["remote_bytes"][1]
            before = said["remote_bytes"][0]
        stay, moved = said["stay"], said["keys_moved"]
        return cls(progress["rows"], progress["batch_s"], *between, stay, moved, before)


class MeasuredRun(NamedTuple):
    """A run: its measured batches, and the CPU time of driver, executors and their Python during them, s."""

    batches: tuple[Batch, ...]
    cpu_s: float

    @property
    def rows_per_s(self) -> float:
        """Of the median batch."""
        return statistics.median(one.rows / one.wall_s for one in self.batches)

    @property
    def best_per_s(self) -> float:
        """Rows a second of the fastest batch, which other programs disturbed least."""
        return max(one.rows / one.wall_s for one in self.batches)

    @property
    def cpu_us(self) -> float:
        """A tuple."""
        return 1e6 * self.cpu_s / sum(one.rows for one in self.batches)

    @property
    def remote_bytes(self) -> float:
        """A tuple, between the two operators."""
        known = [one for one in self.batches if one.remote is not None]
        return sum(one.remote or 0 for one in known) / max(sum(one.rows for one in known), 1)

    @property
    def before_bytes(self) -> float:
        """A tuple, from the source to other executors."""
        known = [one for one in self.batches if one.before is not None]
        return sum(one.before or 0 for one in known) / max(sum(one.rows for one in known), 1)

    @property
    def remote_share(self) -> float:
        """Of the bytes between the two operators."""
        both = [(one.local or 0, one.remote or 0) for one in self.batches]
        return sum(remote for _, remote in both) / max(sum(map(sum, both)), 1)


#: By way, its runs.
Found = dict[str, list[MeasuredRun]]


def in_a_process(job: Job) -> Iterator[Found]:
    """What :func:`run` finds in a process of its own, setting by setting.

    Raises:
        RuntimeError: with what the process said, where it failed.
    """
    homes = [str(Path(one).resolve().parents[1]) for one in (thalweg.__file__, __file__)]
    paths = os.pathsep.join([*homes, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", __name__, json.dumps(job)]
    if network.is_possible():
        command = network.own_network(command)
    environment = os.environ | {"PYTHONPATH": paths}
    with tempfile.TemporaryFile("w+") as wrong:
        for line in _lines_of(command, environment, wrong):
            found = json.loads(line)
            yield {way: [_run_of(*one) for one in runs] for way, runs in found.items()}


def _lines_of(
    command: Sequence[str], environment: Mapping[str, str], wrong: IO[str]
) -> Iterator[str]:
    """What a process writes, as it comes; when this one is interrupted, it may end what it started first."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=wrong, text=True, env=environment) as child:
        assert child.stdout is not None
        try:
            yield from child.stdout
        except BaseException:
            # Ctrl-C has reached it as well.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_STOP_S)
            child.terminate()
            raise
    if child.returncode:
        wrong.seek(0)
        raise RuntimeError(f"the cluster's runs failed:\n{wrong.read()[-4_000:]}")


def _run_of(batches: Sequence[Sequence[Any]], cpu_s: float) -> MeasuredRun:
    return MeasuredRun(tuple(Batch(*one) for one in batches), cpu_s)


def _job_of(workers: int, settings: Sequence[Sequence[Any]]) -> Job:
    return Job(workers, tuple(CaneillSetting(*one) for one in settings))


def run(job: Job) -> Iterator[Found]:
    """Starts a cluster and measures the settings, one after the other; with cards where the process has a network."""
    from thalweg import spark as ts
    from thalweg.spark.cluster.session import LIGHT_JVM
    from thalweg.spark.cluster.standalone import standalone

    with contextlib.ExitStack() as stack:
        cards = stack.enter_context(network.network(job.workers)) if _is_alone() else None
        machines = None if cards is None else cards.machines
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thalweg-bench-")))
        cluster = stack.enter_context(
            standalone(workers=job.workers, memory=_EXECUTOR_MEMORY, machines=machines)
        )
        java = {
            # A young driver would spend more on its second compiler than on the batches.
            "spark.driver.extraJavaOptions": LIGHT_JVM,
            "spark.executor.extraJavaOptions": _EXECUTOR_JVM,
        }
        session = ts.session(cluster.master, conf={**cluster.settings, **java})
        stack.callback(session.stop)
        for number, setting in enumerate(job.settings):
            if cards is not None:
                cards.limit(setting.gbit_s)
            place = folder / str(number)
            measuring = _Measuring(setting, job.workers, place)
            if number == 0:
                measuring.warm_up()
            yield measuring.all()
            shutil.rmtree(place)


def _is_alone() -> bool:
    """Whether this process has a network of its own: nothing in it is up."""
    return not any(one.isup for one in psutil.net_if_stats().values())


class _Measuring:
    """The runs of a setting, over the same files.

    Args:
        setting: what is measured.
        slots: as many as workers.
        folder: for files, tables and checkpoints.
    """

    def __init__(self, setting: CaneillSetting, slots: int, folder: Path) -> None:
        self._setting = setting
        self._slots = slots
        self._folder = folder
        self._routings: dict[str, Any] = {
            "hashed": "off",
            "table": str(folder / "table.json"),
            "worst": str(folder / "worst.json"),
            "counting": COUNTING,
            "online": Online(every=max(setting.batches // 3, 1), drop=None, imbalance=None),
        }
        files = WARM_UP + setting.batches
        rows = files * min(int(setting.batch_mb * 1e6 / (setting.padding + 16)), _MOST_ROWS)
        brought = 0 if setting.beside else setting.padding
        pairs = datagen.key_pairs(rows, KEYS, locality=setting.locality, padding=brought)
        self._files = datagen.write_files(pairs, folder / "made", rows=rows, files=files)
        save_table(self._routings["table"], local_table(KEYS, slots))
        save_table(self._routings["worst"], worst_table(KEYS, slots))

    def all(self) -> Found:
        """Every way as often as wanted, in turn; there and back again, since young processes get faster."""
        setting = self._setting
        if setting.by_batch:
            with contextlib.ExitStack() as stack:
                fed = {way: stack.enter_context(self._fed(way)) for way in setting.ways}
                turns = [[file] for file in self._files[WARM_UP:]]
                return self._in_turn(lambda way, turn: fed[way].run(turns[turn]), len(turns))
        return self._in_turn(self._run, setting.repeats)

    def _in_turn(self, run: Callable[[str, int], MeasuredRun], turns: int) -> Found:
        found: Found = {way: [] for way in self._setting.ways}
        for turn in range(turns):
            for way in self._setting.ways[:: -1 if turn % 2 else 1]:
                found[way].append(run(way, turn))
        return found

    def warm_up(self) -> None:
        """A run that is not counted: the compilers of young executors work for long."""
        self._run(self._setting.ways[0])

    def _run(self, way: str, turn: int = 0) -> MeasuredRun:
        with self._fed(way) as fed:
            return fed.run(self._files[WARM_UP:])

    @contextlib.contextmanager
    def _fed(self, way: str) -> Iterator[_Fed]:
        """A query of a way that has warmed up."""
        from thalweg import spark as ts

        folder = Path(tempfile.mkdtemp(prefix=f"{way}-", dir=self._folder))
        given = folder / "in"
        given.mkdir()
        source = ts.files(str(given), format="parquet", max_files_per_trigger=1)
        made = self._setting.padding if self._setting.beside else 0
        query = ts.start(
            make_flow(made), {"pairs": source}, {}, checkpoint=str(folder / "checkpoint"), slots=self._slots,
            locality=self._routings[way],
        )  # fmt: skip
        try:
            fed = _Fed(query, given)
            fed.run(self._files[:WARM_UP])
            yield fed
        finally:
            query.stop()


class _Fed:
    """A query, and the folder whose files it reads.

    Args:
        query: it takes a file a batch.
        given: the folder.
    """

    def __init__(self, query: Query, given: Path) -> None:
        self._query = query
        self._given = given

    def run(self, files: Sequence[Path]) -> MeasuredRun:
        """Gives it files, and waits until it has taken them."""
        before = _cpu_s()
        for file in files:
            os.link(file, self._given / file.name)
        self._query.process_all_available()
        cpu_s = _cpu_s() - before
        batches = [Batch.of(one) for one in self._query.recent_progress if one["rows"]]
        return MeasuredRun(tuple(batches[-len(files) :]), cpu_s)


def _cpu_s() -> float:
    """The CPU time so far of this process, of all that it started, and of what they started and that has ended."""
    here = psutil.Process()
    total = 0.0
    for one in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    for ran in run(_job_of(*json.loads(sys.argv[1]))):
        print(json.dumps(ran), flush=True)
