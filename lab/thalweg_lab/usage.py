"""What a process has used: CPU time and memory, by itself or with all that it has started."""

from __future__ import annotations

import contextlib
import resource
import sys
import threading
import time
from pathlib import Path

import psutil


def peak_mb() -> float:
    """The greatest resident size of this process so far."""
    # Linux hands down the greatest size of the process that started this one; its own stands in its status.
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


class Tree:
    """This process and what it has started: the JVM, and Spark's workers."""

    def __init__(self) -> None:
        self._here = psutil.Process()
        self._peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu_s(self) -> float:
        """CPU seconds of all, those that ended included."""
        total = 0.0
        for one in self._all():
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
            total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        return total

    def peak_mb(self) -> float:
        """The greatest sum of resident sizes that was seen."""
        return self._peak / 1e6

    def _all(self) -> list[psutil.Process]:
        return [self._here, *self._here.children(recursive=True)]

    def _watch(self) -> None:
        while True:
            sizes = 0
            for one in self._all():
                try:
                    sizes += one.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self._peak = max(self._peak, sizes)
            time.sleep(0.1)
