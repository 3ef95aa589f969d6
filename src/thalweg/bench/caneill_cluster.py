"""The synthetic workload of Caneill et al., 4.2 and 4.4, on a cluster of this machine: Figures 7, 8, 9 and 13.

Executors have a core and a slot each. Where Linux lets us (:mod:`thalweg.bench.network`) each has a network card of its
own with a limited rate; elsewhere the runs with a limit are left out. The processes share the processors of one
machine, so rows/s of several workers do not add up as those of machines would; bytes are what they would be.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from thalweg.bench import network
from thalweg.bench.caneill_runs import Batch, Found, Job, Run, Setting, in_a_process
from thalweg.bench.measure import Report

ROUTED: Final = ("hashed", "table", "worst")


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        batch_mb: about so large is a batch.
        gbit_s: limits of network cards. For an executor of one core 0.1 lies between the paper's two networks, whose
            servers had 0.05 and 0.5 a core.
        paddings: kB a tuple, for Figure 9.
        counting: of these, where the cost of counting is measured.
        localities: for Figure 8, besides the 0.8 of the paddings.
        workers: numbers of executors, for Figure 7; the first one is for all other experiments.
        batches: measured ones of a run; six times as many where one run is shown over time.
        repeats: runs of each way.
    """

    batch_mb: float
    gbit_s: tuple[float, ...]
    paddings: tuple[int, ...]
    counting: tuple[int, ...]
    localities: tuple[float, ...]
    workers: tuple[int, ...]
    batches: int
    repeats: int


QUICK: Final = Size(6.0, (0.1,), (4, 12), (4,), (), (2,), batches=2, repeats=1)
FULL: Final = Size(
    48.0, (1.0, 0.1), (0, 4, 8, 12, 20), (0, 4), (0.6, 0.7, 0.9, 1.0), (2, 3), batches=5, repeats=3
)


class CaneillCluster:
    """The experiments on a cluster.

    Args:
        report: takes the results.
        size: how much is measured.
    """

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size
        self._gbit_s = size.gbit_s if network.is_possible() else ()
        if not self._gbit_s:
            report.console.print(
                "no network namespaces here (Linux, unshare, ip, tc): nothing limits the network, runs with a limit"
                " are left out"
            )

    def all(self) -> str:
        """Runs every experiment; the summary."""
        first, *more = self._size.workers
        by_padding = [
            self._setting(padding, rate=rate)
            for padding in self._size.paddings
            for rate in (None, *self._gbit_s)
        ]
        slowest = min(self._gbit_s, default=None)
        by_locality = [self._setting(12, one, rate=slowest) for one in self._size.localities]
        counting = [
            self._setting(padding, ways=("hashed", "counting", "table"))
            for padding in self._size.counting
        ]
        online = [self._over_time(4, None), *(self._over_time(12, one) for one in self._gbit_s)]
        settings = (*by_padding, *by_locality, *counting, *online)
        found = in_a_process(Job(first, self._size.batch_mb, settings))
        rows = self._compared(
            "by padding (Figure 9)", by_padding, [next(found) for _ in by_padding]
        )
        if by_locality:
            self._compared(
                "by locality (Figure 8)", by_locality, [next(found) for _ in by_locality]
            )
        self._costs(counting, [next(found) for _ in counting])
        longest = [self._story(one, ran) for one, ran in zip(online, found, strict=True)]
        self._by_workers(more)
        return _summary(rows, max(longest))

    def _setting(
        self,
        padding: int,
        locality: float = 0.8,
        *,
        rate: float | None = None,
        ways: tuple[str, ...] = ROUTED,
    ) -> Setting:
        return Setting(
            ways, padding * 1_000, locality, rate, self._size.batches, self._size.repeats
        )

    def _over_time(self, padding: int, rate: float | None) -> Setting:
        return Setting(("hashed", "online"), padding * 1_000, 0.8, rate, 6 * self._size.batches, 1)

    def _compared(
        self, name: str, settings: Sequence[Setting], found: Sequence[Found]
    ) -> list[dict[str, Any]]:
        """A line a setting and way."""
        rows = [
            {**_labels(setting), "routing": way, **_figures(runs, ran["hashed"])}
            for setting, ran in zip(settings, found, strict=True)
            for way, runs in ran.items()
        ]
        self._report.add(f"cluster: {name}", rows)
        return rows

    def _costs(self, settings: Sequence[Setting], found: Sequence[Found]) -> None:
        """What counting keys and routing by a table cost of all CPU time."""
        rows = []
        for setting, ran in zip(settings, found, strict=True):
            plain = statistics.median(one.cpu_us for one in ran["hashed"])
            for way, runs in ran.items():
                each = [one.cpu_us for one in runs]
                us = statistics.median(each)
                rows.append(
                    {
                        "padding": _kb(setting), "way": way, "CPU µs a row": us,
                        "least": min(each), "most": max(each), "to hashed": us / plain,
                    }
                )  # fmt: skip
        self._report.add("cluster: CPU time of counting keys and of a table", rows)

    def _story(self, setting: Setting, found: Found) -> float:
        """Figure 13: batches around a reconfiguration; the longest one behind its begin by the median."""
        [hashed], [online] = found["hashed"], found["online"]
        rows = [
            {
                "batch": number, "hashed rows/s": one.rows / one.wall_s, "online rows/s": other.rows / other.wall_s,
                "hashed stay": one.stay, "online stay": other.stay, "keys that move": other.moved,
            }
            for number, (one, other) in enumerate(zip(hashed.batches, online.batches, strict=True))
        ]  # fmt: skip
        name = f"padding {_kb(setting)}, {_network(setting)}"
        self._report.add(f"cluster: over time, {name} (Figure 13)", rows)
        median = statistics.median(one.wall_s for one in online.batches)
        longest = max(one.wall_s for one in _reconfigured(online)) / median
        self._report.console.print(
            f"batches that hand over state and those behind them: at most {longest:.2f} times the median"
        )
        return longest

    def _by_workers(self, more: Sequence[int]) -> None:
        """Figure 7, beyond the first number of workers."""
        rates = (None, *self._gbit_s[-1:])
        settings = tuple(self._setting(12, rate=rate) for rate in rates)
        for workers in more:
            found = list(in_a_process(Job(workers, self._size.batch_mb, settings)))
            self._compared(f"{workers} workers (Figure 7)", settings, found)


def _labels(setting: Setting) -> dict[str, str]:
    return {
        "network": _network(setting), "padding": _kb(setting), "equal": f"{setting.locality:.0%}",
    }  # fmt: skip


def _kb(setting: Setting) -> str:
    return f"{setting.padding // 1_000} kB"


def _network(setting: Setting) -> str:
    return "no limit" if setting.gbit_s is None else f"{setting.gbit_s * 1_000:.0f} Mbit/s"


def _figures(runs: Sequence[Run], hashed: Sequence[Run]) -> dict[str, float]:
    """Of a way's runs, the median ones, and by those of hashing; and by the fastest batches of both."""
    rate = statistics.median(one.rows_per_s for one in runs)
    plain = statistics.median(one.rows_per_s for one in hashed)
    best, best_plain = (max(one.best_per_s for one in each) for each in (runs, hashed))
    remote = statistics.median(one.remote_bytes for one in runs)
    before = statistics.median(one.remote_bytes for one in hashed)
    return {
        "rows/s": rate, "ratio": rate / plain, "ratio of the best": best / best_plain,
        "remote B a row": remote, "fewer": 1 - remote / before,
        "remote share": statistics.median(one.remote_share for one in runs),
    }  # fmt: skip


def _reconfigured(run: Run) -> list[Batch]:
    """The batches that hand over state, and the one behind each of them; all where there is none."""
    places = [i for i, one in enumerate(run.batches) if one.moved]
    near = {place for i in places for place in (i, i + 1) if place < len(run.batches)}
    return [run.batches[i] for i in sorted(near)] or list(run.batches)


def _summary(rows: Sequence[dict[str, Any]], longest: float) -> str:
    tables = [row for row in rows if row["routing"] == "table"]
    said = ", ".join(
        f"{row['padding']} {row['network']} {row['ratio']:.2f}x and {row['fewer']:.0%} fewer bytes"
        for row in tables
    )
    return (
        f"caneill on a cluster, a table by hashing: {said}; around a reconfiguration a batch took at most"
        f" {longest:.2f} times the median"
    )
