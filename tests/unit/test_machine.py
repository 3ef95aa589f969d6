"""Processors that may be used, and their use, from made-up files of a system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from thalweg.engine.machine import Machine, usable_processors

SECOND = 1_000_000_000


class System:
    """The files of a system with four processors, in a folder."""

    def __init__(self, root: Path, *, group: str) -> None:
        self.proc, self.groups = root / "proc", root / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self" / "cgroup").write_text(group)
        self.times = [[0] * 10 for _ in range(4)]
        self.run()

    def run(self, *busy: float, steal: float = 0.0) -> None:
        """A second of 100 ticks passes, in which processors were busy for such shares."""
        for times, share in zip(self.times, busy, strict=False):
            times[0] += round(100 * share)
            times[3] += round(100 * (1 - share - steal))
            times[7] += round(100 * steal)
            times[8] += round(100 * share)  # guests, who are in the first number, too
        rows = [[sum(column) for column in zip(*self.times, strict=True)], *self.times]
        names = ["cpu", *(f"cpu{number}" for number in range(4))]
        lines = [" ".join(map(str, [name, *row])) for name, row in zip(names, rows, strict=True)]
        (self.proc / "stat").write_text("\n".join([*lines, "intr 5 0 1", "btime 17"]) + "\n")

    def write(self, path: str, text: str) -> None:
        """Writes a file of control groups."""
        file = self.groups / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def machine(self, *affinity: int) -> Machine:
        """This system, seen from a process that may use these processors."""
        return Machine(proc=self.proc, groups=self.groups, affinity=set(affinity or range(4)))


def test_without_a_quota(tmp_path: Path) -> None:
    """The processors of the affinity are those that may be used, and whose use counts."""
    system = System(tmp_path, group="0::/\n")
    system.write("cpu.max", "max 100000\n")
    machine = system.machine(1, 2)
    assert machine.processors() == 2
    assert machine.share_in_use(0) is None
    system.run(1.0, 0.5, 0.1, 1.0)
    assert machine.share_in_use(SECOND) == pytest.approx(0.3)
    system.run(0.0, 1.0, 1.0, 0.0)
    assert machine.share_in_use(2 * SECOND) == 1.0


def test_stolen_time_is_not_to_be_had(tmp_path: Path) -> None:
    """What a host of virtual machines gave to others counts as in use."""
    system = System(tmp_path, group="0::/\n")
    machine = system.machine()
    machine.share_in_use(0)
    system.run(0.25, 0.25, 0.25, 0.25, steal=0.5)
    assert machine.share_in_use(SECOND) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("quota", "processors"),
    [("50000 100000", 1), ("150000 100000", 2), ("300000 100000", 3), ("900000 100000", 4)],
)
def test_quota(tmp_path: Path, quota: str, processors: int) -> None:
    """A quota limits what may be used, rounded up."""
    system = System(tmp_path, group="0::/\n")
    system.write("cpu.max", quota)
    assert system.machine().processors() == processors


def test_use_of_a_quota(tmp_path: Path) -> None:
    """With all of the quota used, all is in use, however idle the system is; and the other way round."""
    system = System(tmp_path, group="0::/jobs/one\n")
    system.write("jobs/one/cpu.max", "200000 100000")
    machine = None
    for second, used_us in enumerate((0, 2_000_000, 2_500_000, 2_500_000)):
        system.write("jobs/one/cpu.stat", f"usage_usec {used_us}\nuser_usec 1\n")
        if machine is None:
            machine = system.machine()
            machine.share_in_use(0)
            continue
        system.run(*([1.0] * 4 if second == 3 else [0.1] * 4))
        expected = {1: 1.0, 2: 0.25, 3: 1.0}[second]
        assert machine.share_in_use(second * SECOND) == pytest.approx(expected)


def test_the_tightest_group_counts(tmp_path: Path) -> None:
    """A group is limited by all groups that it is in."""
    system = System(tmp_path, group="0::/jobs/one\n")
    system.write("jobs/one/cpu.max", "300000 100000")
    system.write("jobs/one/cpu.stat", "usage_usec 0\n")
    system.write("jobs/cpu.max", "200000 100000")
    system.write("jobs/cpu.stat", "usage_usec 0\n")
    machine = system.machine()
    assert machine.processors() == 2
    machine.share_in_use(0)
    system.run(0.2, 0.2, 0.2, 0.2)
    system.write("jobs/one/cpu.stat", "usage_usec 300000\n")
    system.write("jobs/cpu.stat", "usage_usec 1800000\n")
    assert machine.share_in_use(SECOND) == pytest.approx(0.9)


def test_a_group_that_cannot_be_seen(tmp_path: Path) -> None:
    """In a container the path is one outside of it; what is mounted is its own group."""
    system = System(tmp_path, group="0::/system.slice/docker-17.scope\n")
    system.write("cpu.max", "100000 100000")
    assert system.machine().processors() == 1


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
def test_version_1(tmp_path: Path, folder: str) -> None:
    """Version 1 has its files in a folder by controller, and tells time in ns."""
    system = System(tmp_path, group="5:memory:/\n3:cpu,cpuacct:/box\n0::/\n")
    system.write(f"{folder}/box/cpu.cfs_quota_us", "200000\n")
    system.write(f"{folder}/box/cpu.cfs_period_us", "100000\n")
    system.write(f"{folder}/box/cpuacct.usage", "0\n")
    system.write(f"{folder}/cpu.cfs_quota_us", "-1\n")
    system.write(f"{folder}/cpu.cfs_period_us", "100000\n")
    machine = system.machine()
    assert machine.processors() == 2
    machine.share_in_use(0)
    system.write(f"{folder}/box/cpuacct.usage", f"{SECOND}\n")
    assert machine.share_in_use(SECOND) == pytest.approx(0.5)


def test_version_1_with_accounting_elsewhere(tmp_path: Path) -> None:
    """Quota and accounting may be two hierarchies."""
    system = System(tmp_path, group="2:cpuacct:/box\n1:cpu:/box\n")
    system.write("cpu/box/cpu.cfs_quota_us", "100000\n")
    system.write("cpu/box/cpu.cfs_period_us", "100000\n")
    system.write("cpuacct/box/cpuacct.usage", "0\n")
    machine = system.machine()
    machine.share_in_use(0)
    system.write("cpuacct/box/cpuacct.usage", f"{SECOND // 2}\n")
    assert machine.share_in_use(SECOND) == pytest.approx(0.5)


def test_a_system_without_any_of_it(tmp_path: Path) -> None:
    """Where there is no /proc, the affinity and what psutil knows of the system have to do."""
    machine = Machine(proc=tmp_path / "none", groups=tmp_path / "none", affinity={0, 1})
    assert machine.processors() == 2
    assert machine.share_in_use(0) is None
    share = machine.share_in_use(SECOND)
    assert share is None or 0 <= share <= 1


def test_no_time_passed(tmp_path: Path) -> None:
    """Without time in between nothing can be said."""
    machine = System(tmp_path, group="").machine()
    machine.share_in_use(7)
    assert machine.share_in_use(7) is None


def test_this_machine() -> None:
    """The real one has processors, no more than the system has."""
    assert 1 <= usable_processors() <= (os.cpu_count() or 1)
    machine = Machine()
    machine.share_in_use(0)
    share = machine.share_in_use(SECOND)
    assert share is None or 0 <= share <= 1
