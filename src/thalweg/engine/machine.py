"""The processors that this process may use, and their total load.

In a container both are a matter of its control groups: the affinity says which processors, the quota how much time on
them. Schneider & Wu (section 4.2.3) take the use of the whole system from ``/proc/stat``; in a container with two of
64 processors that says nothing. Here a share is that of what may be used at most: the greatest of the share of time
in which the processors of the affinity were busy, and for each group with a quota the share of the quota that was
used. Version 1 and version 2 of control groups are read where they are usually mounted.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

import psutil

_PROC: Final = Path("/proc")
_GROUPS: Final = Path("/sys/fs/cgroup")
#: Of the numbers behind a processor in /proc/stat: idle and iowait are free; those behind steal are counted before.
_FREE: Final = slice(3, 5)
_ALL: Final = slice(0, 8)


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """A control group with a quota: so many processors' time, and where the time that was used is told."""

    quota: float
    usage: Path


class Machine:
    """What this process may use, as the operating system says now.

    Args:
        proc: where the system tells about processes, by default ``/proc``.
        groups: where control groups are mounted.
        affinity: the numbers of the processors; by default those that the system gives this process.
    """

    def __init__(
        self, *, proc: Path = _PROC, groups: Path = _GROUPS, affinity: Set[int] | None = None
    ) -> None:
        self._proc = proc
        self._affinity = affinity
        self._groups = [group for path in _own_groups(proc, groups) if (group := _group(path))]
        self._last: _Use | None = None

    def processors(self) -> int:
        """Logical processors that may be used at once: a quota of one and a half lets two run, at times."""
        quota = min((group.quota for group in self._groups), default=math.inf)
        count = len(self._processors())
        return max(1, math.ceil(quota)) if quota < count else count

    def share_in_use(self, now_ns: int) -> float | None:
        """How much of what may be used was in use since the last call, 0 to 1; None at the first, or if nobody knows.

        Args:
            now_ns: monotonic ns.
        """
        use = _Use(now_ns, self._busy(), tuple(_used_ns(group.usage) for group in self._groups))
        last, self._last = self._last, use
        if last is None or now_ns <= last.at_ns:
            return None
        shares = []
        busy, total = use.busy[0] - last.busy[0], use.busy[1] - last.busy[1]
        if total > 0:
            shares.append(busy / total)
        for group, before, after in zip(self._groups, last.used_ns, use.used_ns, strict=True):
            if before is not None and after is not None:
                shares.append((after - before) / (group.quota * (now_ns - last.at_ns)))
        return min(max(0.0, *shares), 1.0) if shares else None

    def _processors(self) -> Set[int]:
        if self._affinity is not None:
            return self._affinity
        if hasattr(os, "sched_getaffinity"):
            return os.sched_getaffinity(0)
        return set(range(os.cpu_count() or 1))

    def _busy(self) -> tuple[float, float]:
        """Time in which processors of the affinity were busy, and all their time, in the same unit; 0, 0: unknown."""
        try:
            lines = (self._proc / "stat").read_text().splitlines()
        except OSError:
            times = psutil.cpu_times()
            return sum(times) - times.idle, sum(times)
        names = {f"cpu{number}" for number in self._processors()}
        busy = total = 0
        for line in lines:
            name, *numbers = line.split()
            if name in names:
                times = [int(number) for number in numbers]
                total += sum(times[_ALL])
                busy += sum(times[_ALL]) - sum(times[_FREE])
        return busy, total


@dataclasses.dataclass(frozen=True, slots=True)
class _Use:
    """What was used up to a moment: of the processors, and of each group's quota."""

    at_ns: int
    busy: tuple[float, float]
    used_ns: tuple[int | None, ...]


def usable_processors() -> int:
    """Logical processors that this process may use: :meth:`Machine.processors`, looked at once a second."""
    return _processors_in(int(time.monotonic()))


@functools.lru_cache(maxsize=1)
def _processors_in(second: int) -> int:
    return Machine().processors()


def _own_groups(proc: Path, groups: Path) -> Iterator[Path]:
    """The folders of this process's groups that rule processors, each before the one that it is in."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if number == "0" and not controllers:
            roots = [groups, groups / "unified"]
        elif "cpu" in names:
            roots = [groups / controllers, groups / "cpu"]
        else:
            continue
        root = next((one for one in roots if one.is_dir()), None)
        if root is not None:
            yield from _upwards(root, path)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """A group and all that it is in. In a container only the part from its own group on can be seen: there the root is
    its group."""
    inner = root / path.strip("/")
    while inner != root:
        if inner.is_dir():
            yield inner
        inner = inner.parent
    yield root


def _group(path: Path) -> _Group | None:
    """The group in a folder, if it has a quota."""
    try:
        if (path / "cpu.max").exists():
            quota, period = (path / "cpu.max").read_text().split()
            usage = path / "cpu.stat"
        else:
            quota = (path / "cpu.cfs_quota_us").read_text()
            period = (path / "cpu.cfs_period_us").read_text()
            usage = _accounting(path)
        return _Group(int(quota) / int(period), usage) if int(quota) > 0 else None
    except (OSError, ValueError):
        return None  # "max", or a file system that has no such files


def _accounting(path: Path) -> Path:
    """Where version 1 tells the time used: with the quota, or in a hierarchy of its own with the same paths."""
    beside = path / "cpuacct.usage"
    if beside.exists():
        return beside
    return Path(*("cpuacct" if part == "cpu" else part for part in path.parts)) / "cpuacct.usage"


def _used_ns(path: Path) -> int | None:
    """Time on processors that a group used up to now, ns; None: unknown."""
    try:
        text = path.read_text()
    except OSError:
        return None
    if path.name == "cpuacct.usage":
        return int(text)
    found = [line.split()[1] for line in text.splitlines() if line.startswith("usage_usec ")]
    return 1_000 * int(found[0]) if found else None
