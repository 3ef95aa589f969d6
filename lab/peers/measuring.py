"""Runs a candidate in a fresh process, and measures its process tree from outside."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from common import tree_cpu_s

HERE = Path(__file__).resolve().parent


SAMPLE_S = 0.1


@dataclass(frozen=True)
class Candidate:
    """A program to measure."""

    name: str
    label: str
    #: modules it needs; when one is missing the candidate counts as not installed
    needs: tuple[str, ...]
    #: what one comparison is called in the tables; empty for what is none
    baseline: str = ""
    ours: bool = False
    #: rows it gets at most: more would take minutes
    most_rows: int = sys.maxsize

    @property
    def program(self) -> Path:
        return HERE / f"q4_{self.name}.py"


@dataclass
class PeerRun:
    """What one run of a candidate came to; the units are in the names."""

    candidate: str
    label: str
    status: str
    rows: int = 0
    wall_s: float = math.nan
    cpu_s: float = math.nan
    startup_cpu_s: float = math.nan
    steady_cpu_s: float = math.nan
    peak_rss_mb: float = math.nan
    load_before: float = math.nan
    answer: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def net(self) -> float:
        """Rows a CPU-second of the work; NaN when it took less than the clock can tell."""
        return self.rows / self.steady_cpu_s if self.steady_cpu_s >= 0.02 else math.nan

    @property
    def gross(self) -> float:
        """Rows a CPU-second of everything."""
        return self.rows / self.cpu_s if self.cpu_s > 0 else math.nan


def missing_modules(python: str, needs: Iterable[str]) -> list[str]:
    """Those of the modules that an interpreter does not find."""
    code = (
        "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if not u.find_spec(n)])"
    )
    done = subprocess.run([python, "-c", code, *needs], capture_output=True, text=True, check=True)
    return done.stdout.split()


def measure(candidate: Candidate, python: str, data: Path, timeout_s: float) -> PeerRun:
    """Runs a candidate once in a fresh process."""
    run = PeerRun(candidate.name, candidate.label, "failed", load_before=os.getloadavg()[0])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        command = [python, str(candidate.program), str(data)]
        child = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        code = watch(child, run, started + timeout_s)
        run.wall_s = time.monotonic() - started
        out.seek(0)
        err.seek(0)
        lines = [line for line in out.read().decode().splitlines() if line.startswith("{")]
        tail = err.read().decode(errors="replace").strip().splitlines()
    if code is None:
        run.error = f"took more than {timeout_s:.0f} s"
    elif code or not lines:
        run.error = tail[-1] if tail else f"exit status {code}"
    else:
        found = json.loads(lines[-1])
        run.status, run.rows = "done", found["rows"]
        run.startup_cpu_s = found["phases"]["startup_cpu_s"]
        run.steady_cpu_s = found["phases"]["steady_cpu_s"]
        run.answer = {k: found[k] for k in ("sessions", "abandoned", "average_pages")}
    return run


def watch(child: subprocess.Popen[bytes], run: PeerRun, deadline: float) -> int | None:
    """Samples a process tree until it ends; its exit status, None when the time was up."""
    process = psutil.Process(child.pid)
    peak = cpu = 0.0
    timed_out = False
    while True:
        pid, status, usage = os.wait4(child.pid, 0 if timed_out else os.WNOHANG)
        if pid:
            break
        with contextlib.suppress(psutil.NoSuchProcess):
            cpu = max(cpu, tree_cpu_s(process))
            peak = max(peak, tree_rss(process))
        if time.monotonic() > deadline:
            timed_out = True
            kill_tree(process)
        else:
            time.sleep(SAMPLE_S)
    child.returncode = os.waitstatus_to_exitcode(status)
    # The kernel's sum lacks children that nobody waited for (a JVM), the samples lack the last moment.
    run.cpu_s = max(cpu, usage.ru_utime + usage.ru_stime)
    run.peak_rss_mb = peak / 1e6
    return None if timed_out else child.returncode


def kill_tree(process: psutil.Process) -> None:
    for one in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def tree_rss(process: psutil.Process) -> int:
    """Resident bytes of a process and its descendants; shared pages count in each."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
