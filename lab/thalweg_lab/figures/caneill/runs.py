"""Runs of the paper's application on a standalone cluster: rows, seconds, bytes between executors, CPU time.

A program that lives as long as figures ask it: ``python -m thalweg_lab.figures.caneill.runs`` reads a
:class:`CaneillSetting` a line as JSON, and prints what it finds, with what it does meanwhile. It has a network of
its own where cards can be had (:mod:`thalweg_lab.network`), so its machines are hosts of their own to Spark.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pyarrow.parquet

from thalweg import datagen
from thalweg.checkpoint.routing_files import save_table
from thalweg.locality import Online
from thalweg_lab import network
from thalweg_lab.figures.caneill.flow import (
    COUNTING,
    flight_pairs,
    local_table,
    make_flow,
    worst_table,
)
from thalweg_lab.figures.caneill.measured import (
    Batch,
    CaneillSetting,
    Found,
    MeasuredRun,
    network_of,
    setting_of,
)
from thalweg_lab.figures.caneill.troubles import befall

if TYPE_CHECKING:
    from thalweg.spark import Query
    from thalweg.spark.cluster.standalone import Cluster

#: Keys of each of the two fields.
KEYS: Final = 1_000
#: Machines at the switch; a cluster has a worker on the first of them.
MACHINES: Final = 4
#: Rows of the batch in front, which only warms up; and how often young executors are given it.
_WARM_ROWS, _WARM_UPS = 300, 5
_EXECUTOR_MEMORY: Final = "1g"
#: The collector that a JVM takes where it sees one core. What executors do with a row is so little code that it is soon
#: compiled, and fast then.
_EXECUTOR_JVM: Final = "-XX:+UseSerialGC"
#: How long executors that join or leave may take, s.
_JOIN_S: Final = 60.0


class Lab:
    """A cluster whose size changes from setting to setting, and a driver.

    Args:
        cluster: the processes.
        session: a Spark session on it.
        cards: of the machines; None: there is one network without limits.
        folder: for files, tables and checkpoints.
        say: told what is going on.
    """

    def __init__(
        self,
        cluster: Cluster,
        session: Any,
        cards: network.SwitchedMachines | None,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self.cluster, self.cards, self.folder, self.say = cluster, cards, folder, say
        self._session = session
        self._is_warm = False
        #: by machine, the place of its worker
        self._places = {machine: machine + 1 for machine in range(len(cluster.hosts))}

    def measure(self, setting: CaneillSetting) -> Found:
        """Measures a setting."""
        self.resize(setting.workers)
        place = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            measuring = _Measuring(self, setting, place)
            if not self._is_warm:
                measuring.warm_up()
                self._is_warm = True
            return measuring.all()
        finally:
            self.limit(None)
            shutil.rmtree(place)

    def limit(self, gbit_s: float | tuple[float | None, ...] | None) -> None:
        """The rate of the cards of the machines that have a worker."""
        if self.cards is not None:
            each = gbit_s if isinstance(gbit_s, tuple) else (gbit_s,) * MACHINES
            self.cards.limit([*each, *[None] * (MACHINES - len(each))])

    def resize(self, workers: int) -> None:
        """Starts or kills workers until there are so many."""
        while len(self._places) > workers:
            self.say(f"a worker goes, {workers} stay")
            self.kill(max(self._places))
        while len(self._places) < workers:
            self.say(f"a worker joins, {workers} there will be")
            # Its executor is young.
            self._is_warm = False
            self.add(min(set(range(MACHINES)) - set(self._places)))
        self.wait_for_executors()

    def add(self, machine: int) -> None:
        """A worker on a machine."""
        self._places[machine] = self.cluster.add_worker(machine)

    def kill(self, machine: int) -> None:
        """The worker of a machine and its executor end at once."""
        self.cluster.kill_worker(self._places.pop(machine))

    def wait_for_executors(self) -> None:
        """Until Spark knows as many executors as there are workers.

        Raises:
            RuntimeError: it takes too long.
        """
        context = self._session.sparkContext._jsc.sc()
        for _ in range(int(_JOIN_S / 0.1)):
            if context.getExecutorMemoryStatus().size() - 1 == len(self._places):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{len(self._places)} workers, but Spark has not as many executors")


class _Measuring:
    """The ways of a setting, over the same files.

    Args:
        lab: the cluster.
        setting: what is measured.
        folder: for files, tables and checkpoints.
    """

    def __init__(self, lab: Lab, setting: CaneillSetting, folder: Path) -> None:
        self._lab = lab
        self._setting = setting
        self._folder = folder
        self._routings: dict[str, Any] = {
            "hashed": "off",
            "table": str(folder / "table.json"),
            "worst": str(folder / "worst.json"),
            "counting": COUNTING,
            "online": Online(every=setting.every, drop=None, imbalance=None),
        }
        self._front = self._files("front", setting.counted or _WARM_ROWS, 1)
        self._measured = self._files("made", setting.batches * setting.batch_rows, setting.batches)
        if not setting.flights:
            save_table(self._routings["table"], local_table(KEYS, setting.workers))
            save_table(self._routings["worst"], worst_table(KEYS, setting.workers))

    def _files(self, name: str, rows: int, files: int) -> list[Path]:
        setting = self._setting
        if not setting.flights:
            brought = 0 if setting.beside else setting.padding
            pairs = datagen.key_pairs(
                rows, KEYS, locality=setting.locality, padding=brought, seed=len(name)
            )
            return datagen.write_files(pairs, self._folder / name, rows=rows, files=files)
        made = flight_pairs(rows, seed=len(name))
        (self._folder / name).mkdir()
        paths = [self._folder / name / f"{name}-{part}.parquet" for part in range(files)]
        for part, path in enumerate(paths):
            size = rows // files
            pyarrow.parquet.write_table(made.slice(part * size, size), path)
        return paths

    def all(self) -> Found:
        """Every way takes each batch, there and back again in turn: what disturbs one disturbs the others."""
        setting = self._setting
        found: dict[str, list[Batch]] = {way: [] for way in setting.ways}
        with contextlib.ExitStack() as stack:
            fed = {}
            for way in setting.ways:
                self._lab.say(f"{_told(setting)}: a query routed by {way} starts")
                fed[way] = stack.enter_context(self._fed(way))
            self._lab.limit(setting.gbit_s)
            stack.callback(self._lab.limit, None)
            for turn, file in enumerate(self._measured):
                self._lab.say(f"{_told(setting)}: batch {turn + 1} of {setting.batches}")
                for way in setting.ways[:: -1 if turn % 2 else 1]:
                    found[way] += fed[way].run([file])
        return {way: MeasuredRun(tuple(batches)) for way, batches in found.items()}

    def warm_up(self) -> None:
        """A query that is not counted: the compilers of young executors work for long."""
        self._lab.say("the executors' Python starts, code is compiled")
        with self._fed(self._setting.ways[0]) as fed:
            for turn in range(_WARM_UPS):
                fed.run(self._files(f"warm{'.' * turn}", _WARM_ROWS, 1))

    @contextlib.contextmanager
    def _fed(self, way: str) -> Iterator[Fed]:
        """A query of a way that has taken the batch in front."""
        from thalweg import spark as ts

        folder = Path(tempfile.mkdtemp(prefix=f"{way}-", dir=self._folder))
        given = folder / "in"
        given.mkdir()
        source = ts.files(str(given), format="parquet", max_files_per_trigger=1)
        made = self._setting.padding if self._setting.beside else 0
        query = ts.start(
            make_flow(made), {"pairs": source}, {}, checkpoint=str(folder / "checkpoint"),
            slots=self._setting.workers, locality=self._routings[way],
        )  # fmt: skip
        try:
            fed = Fed(query, given)
            fed.run(self._front)
            yield fed
        finally:
            query.stop()


class Fed:
    """A query, and the folder whose files it reads.

    Args:
        query: it takes a file a batch.
        given: the folder.
    """

    def __init__(self, query: Query, given: Path) -> None:
        self._query = query
        self._given = given
        self._taken = 0

    def run(self, files: Sequence[Path]) -> list[Batch]:
        """Gives it files one after the other, and waits until it has taken each."""
        return [self._take(file) for file in files]

    def _take(self, file: Path) -> Batch:
        before = cpu_s()
        # Files of several folders have the same names; a source takes new names only, in their order.
        os.link(file, self._given / f"{self._taken:06}-{file.name}")
        self._taken += 1
        self._query.process_all_available()
        progress = [one for one in self._query.recent_progress if one["rows"]]
        return Batch.of(progress[-1], cpu_s() - before)


def _told(setting: CaneillSetting) -> str:
    size = f"{setting.padding // 1_000} kB, {setting.locality:.0%}"
    return f"{setting.workers} workers, {size}, {network_of(setting.gbit_s)}"


def cpu_s() -> float:
    """The CPU time so far of this process, of all that it started, and of what they started and that has ended."""
    here = psutil.Process()
    total = 0.0
    for one in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


@contextlib.contextmanager
def open_lab(workers: int, say: Callable[[str], None]) -> Iterator[Lab]:
    """A cluster of so many workers to begin with; with cards where the process has a network of its own."""
    from thalweg import spark as ts
    from thalweg.spark.cluster.session import LIGHT_JVM
    from thalweg.spark.cluster.standalone import Machines, standalone

    with contextlib.ExitStack() as stack:
        cards = stack.enter_context(network.network(MACHINES)) if _is_alone() else None
        machines = Machines.here(MACHINES) if cards is None else cards.machines
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thalweg-bench-")))
        say(f"a master and {workers} workers start")
        cluster = stack.enter_context(
            standalone(workers=workers, memory=_EXECUTOR_MEMORY, machines=machines)
        )
        java = {
            # A young driver would spend more on its second compiler than on the batches.
            "spark.driver.extraJavaOptions": LIGHT_JVM,
            "spark.executor.extraJavaOptions": _EXECUTOR_JVM,
        }
        say("a driver starts")
        session = ts.session(cluster.master, conf={**cluster.settings, **java})
        stack.callback(session.stop)
        yield Lab(cluster, session, cards, folder, say)


def _is_alone() -> bool:
    """Whether this process has a network of its own: nothing in it is up."""
    return not any(one.isup for one in psutil.net_if_stats().values())


def _answer(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def main() -> None:
    """Answers settings, and names of troubles, until there are no more."""
    first = sys.stdin.readline()
    if not first:
        return
    workers = 3 if isinstance(json.loads(first), str) else setting_of(first).workers
    with open_lab(workers, lambda text: _answer(say=text)) as lab:
        for line in itertools.chain([first], sys.stdin):
            asked = json.loads(line)
            if isinstance(asked, str):
                place = Path(tempfile.mkdtemp(dir=lab.folder))
                _answer(found=befall(lab, asked, place / "run"))
            else:
                _answer(found=lab.measure(setting_of(line)))


if __name__ == "__main__":
    main()
