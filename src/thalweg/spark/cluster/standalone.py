"""A standalone Spark cluster on this machine, from the Spark that pip installed: one master and some workers.

For tests, demonstrations and measurements: what passes between executors passes between processes here, over the
loopback device. Where the system has more than one loopback address (Linux), each worker has its own, and so is a
host of its own to Spark.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark

from thalweg.errors import EnvironmentProblem
from thalweg.spark.cluster.java import prepare_java

_LOOPBACK: Final = "127.0.0.1"
_MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
#: Enough for a process that hands out work and does none.
_DAEMON_MEMORY: Final = "256m"
_DAEMON_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_START_S: Final = 60.0
_STOP_S: Final = 20.0
_LOOK_S: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    Attributes:
        master: what ``tw.spark.session(master=…)`` takes.
        hosts: of the workers, one each.
        settings: of a session on this cluster, for ``tw.spark.session(conf=…)``: one executor a worker.
        folder: logs and work folders; gone when the cluster is.
        processes: the master, and the workers in the order in which they were started.
    """

    master: str
    hosts: tuple[str, ...]
    settings: dict[str, str]
    folder: Path
    processes: list[subprocess.Popen[bytes]]
    _page: str
    _worker: Callable[[int], subprocess.Popen[bytes]]

    def add_worker(self, machine: int) -> int:
        """Starts one more worker, whose executor joins a session that runs.

        Args:
            machine: where, by its number in ``machines``.

        Returns:
            Its place in ``processes``.

        Raises:
            EnvironmentProblem: it ended or did not answer in time.
        """
        alive = self._alive()
        place = len(self.processes)
        self.processes.append(self._worker(machine))
        _wait_for(self.folder, self.processes, self._page, workers=alive + 1, watched=place)
        return place

    def kill_worker(self, place: int) -> None:
        """Kills a worker and its executor, as a machine that fails does (SIGKILL), and waits until the master knows.

        Args:
            place: in ``processes``.
        """
        alive, limit = self._alive(), time.monotonic() + _STOP_S
        family = _family(self.processes[place].pid)
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(family, timeout=_STOP_S)
        self.processes[place].poll()
        while self._alive() >= alive and time.monotonic() < limit:
            time.sleep(_LOOK_S)

    def _alive(self) -> int:
        status = _status(self._page)
        return 0 if status is None else int(status["aliveworkers"])


@dataclasses.dataclass(frozen=True, slots=True)
class Machines:
    """Where the processes of a cluster run.

    Attributes:
        driver: the address of this process and of the master.
        workers: the address of each worker.
        enter: by worker, what its command is put behind, such as a program that enters a network of its own.
    """

    driver: str
    workers: tuple[str, ...]
    enter: tuple[tuple[str, ...], ...]

    @classmethod
    def here(cls, workers: int) -> Machines:
        """This machine with its loopback addresses."""
        hosts = tuple(worker_host(i) for i in range(workers))
        return cls(_LOOPBACK, hosts, ((),) * workers)


@contextlib.contextmanager
def standalone(
    *, workers: int = 2, cores: int = 1, memory: str = "1g", machines: Machines | None = None
) -> Iterator[Cluster]:
    """A cluster that lasts as long as the block, also when SIGTERM ends it; a session must be stopped inside.

    Args:
        workers: each has one executor; they are on the first of the machines.
        cores: of each worker.
        memory: of each worker's executor, as Spark writes it.
        machines: of as many workers or more; None: the loopback device.

    Raises:
        EnvironmentProblem: a process ended or did not answer in time; with the end of its log.
        JavaNotFound: there is no Java.
    """
    prepare_java()
    folder = Path(tempfile.mkdtemp(prefix="thalweg-cluster-"))
    started: list[subprocess.Popen[bytes]] = []
    with _terminated():
        try:
            places = Machines.here(workers) if machines is None else machines
            yield from _running(folder, started, places, workers, cores, memory)
        finally:
            _stop(started)
            shutil.rmtree(folder, ignore_errors=True)


def _running(
    folder: Path,
    started: list[subprocess.Popen[bytes]],
    machines: Machines,
    workers: int,
    cores: int,
    memory: str,
) -> Iterator[Cluster]:
    """Starts the processes, which are added to ``started``, and gives the cluster."""
    port, page = free_port(machines.driver), free_port(machines.driver)
    url = f"http://{machines.driver}:{page}/json/"
    started.append(_master(folder, machines.driver, port, page))
    status = _wait_for(folder, started, url, workers=0)

    def worker(machine: int) -> subprocess.Popen[bytes]:
        name = f"worker-{len(started) - 1}"
        return _worker(folder, name, machines, machine, cores, memory, status["url"])

    for machine in range(workers):
        started.append(worker(machine))
    _wait_for(folder, started, url, workers=workers)
    settings = _settings(folder, machines.driver, cores, memory)
    hosts = machines.workers[:workers]
    yield Cluster(status["url"], hosts, settings, folder, started, url, worker)


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends the block as an exception would, where it would have ended the process."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _master(folder: Path, host: str, port: int, page: int) -> subprocess.Popen[bytes]:
    arguments = ["--host", host, "--port", str(port), "--webui-port", str(page)]
    return _daemon(folder, "master", host, (), _MASTER_CLASS, *arguments)


def _worker(
    folder: Path, name: str, machines: Machines, machine: int, cores: int, memory: str, master: str
) -> subprocess.Popen[bytes]:
    host, enter = machines.workers[machine], machines.enter[machine]
    work = folder / name
    resources = ["--cores", str(cores), "--memory", memory, "--work-dir", str(work)]
    places = ["--host", host, "--port", "0", "--webui-port", "0"]
    return _daemon(folder, work.name, host, enter, _WORKER_CLASS, *places, *resources, master)


def _settings(folder: Path, driver: str, cores: int, memory: str) -> dict[str, str]:
    """A driver that is seen at its address only, and one executor a worker with all its cores."""
    return {
        "spark.driver.host": driver,
        "spark.driver.bindAddress": driver,
        "spark.executor.cores": str(cores),
        "spark.executor.memory": memory,
        "spark.local.dir": str(folder / "driver"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.executorEnv.PYTHONPATH": _python_path(),
    }


def _python_path() -> str:
    """Where executors find this very library, installed or not."""
    home = str(Path(__file__).resolve().parents[3])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([home, *(one for one in known if one and one != home)])


def _daemon(
    folder: Path, name: str, host: str, enter: Sequence[str], java_class: str, *arguments: str
) -> subprocess.Popen[bytes]:
    """A process of Spark's own, with its output in a log. Spark's script becomes that process, so ids are right."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / f"{name}-local"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": _python_path(),
    }
    command = [*enter, str(home / "bin" / "spark-class"), java_class, *arguments]
    with _log(folder, name).open("wb") as log:
        # A session of its own: Ctrl-C is for the driver, which ends the cluster last.
        return subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def _log(folder: Path, name: str) -> Path:
    return folder / f"{name}.log"


def _wait_for(
    folder: Path,
    started: list[subprocess.Popen[bytes]],
    page: str,
    *,
    workers: int,
    watched: int = 0,
) -> dict[str, Any]:
    """What the master says of itself once so many workers are registered.

    Args:
        folder: for the logs.
        started: the processes.
        page: of the master.
        workers: as many are waited for.
        watched: from this process on none may end; those before may have been killed.

    Raises:
        EnvironmentProblem: a process ended, or it took too long.
    """
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        for number, process in enumerate(started):
            if number >= watched and process.poll() is not None:
                raise _not_started(folder, number, f"ended with exit code {process.returncode}")
        status = _status(page)
        if status is not None and status["aliveworkers"] >= workers:
            return status
        time.sleep(_LOOK_S)
    raise _not_started(folder, len(started) - 1, f"was not ready after {_START_S:.0f} s")


def _status(page: str) -> dict[str, Any] | None:
    """The master's page as data; None while there is none."""
    try:
        with urllib.request.urlopen(page, timeout=5) as answer:
            status: dict[str, Any] = json.load(answer)
    except (OSError, urllib.error.URLError, ValueError):
        return None
    return status


def _not_started(folder: Path, number: int, what: str) -> EnvironmentProblem:
    name = "master" if number == 0 else f"worker-{number - 1}"
    lines = _log(folder, name).read_text(errors="replace").splitlines()[-4:]
    said = "".join(f"\n  {line[:200]}" for line in lines)
    return EnvironmentProblem(f"a standalone Spark cluster: its {name} {what}.{said}")


def _stop(started: list[subprocess.Popen[bytes]]) -> None:
    """Ends workers, their executors, and the master, by their ids."""
    family = [one for process in started for one in _family(process.pid)]
    for process in reversed(started):
        process.terminate()
    _, alive = psutil.wait_procs(family, timeout=_STOP_S)
    for one in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    for process in started:
        process.wait()


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def worker_host(number: int) -> str:
    """The loopback address of a worker: one of its own where the system has so many, else the common one."""
    own = f"127.0.0.{number + 1}"
    try:
        free_port(own)
    except OSError:
        return _LOOPBACK
    return own


def free_port(host: str) -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
