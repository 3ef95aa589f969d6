"""The synthetic workload of Caneill et al., 4.2 and 4.4, on a cluster of this machine: Figures 7, 8, 9, 13 and 14.

Executors have a core and a slot each. Where Linux lets us (:mod:`thalweg_lab.network`) each has a network card of its
own with a limited rate; elsewhere the runs with a limit are left out. The processes share the processors of one
machine, so rows/s of several workers do not add up as those of machines would; bytes are what they would be.
"""

from __future__ import annotations

import collections
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from thalweg_lab import network
from thalweg_lab.caneill_runs import Batch, CaneillSetting, Found, Job, MeasuredRun, in_a_process
from thalweg_lab.measure import LabReport

ROUTED: Final = ("hashed", "table", "worst")
EXPERIMENTS: Final = ("padding", "source", "locality", "cost", "time", "workers")
#: kB a tuple where the padding is not what varies.
_LARGE: Final = 12
#: kB a tuple of Figure 14.
_SMALL: Final = 4
#: The rate of a network card for which ``Size.batch_mb`` is meant.
_PLAIN_GBIT_S: Final = 0.1

_Rows: TypeAlias = list[dict[str, Any]]


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        batch_mb: about so large is a batch, and on a network of more than 0.1 Gbit/s as many times larger as that is
            faster: else what Spark does once a batch would be all that is seen.
        gbit_s: limits of network cards. For an executor of one core 0.1 lies between the paper's two networks, whose
            servers had 0.05 and 0.5 a core.
        paddings: kB a tuple, for Figure 9.
        counting: kB a tuple where the cost of counting is measured.
        over_time: kB a tuple and limit, for Figure 13.
        localities: for Figure 8, besides the 0.8 of the paddings.
        workers: numbers of executors, for Figures 7 and 14; other experiments have two.
        batches: measured ones of a run; six times as many where one run is shown over time.
        repeats: runs of each way.
        turns: batches of each way, where the cost of counting is measured.
    """

    batch_mb: float
    gbit_s: tuple[float, ...]
    paddings: tuple[int, ...]
    counting: tuple[int, ...]
    over_time: tuple[tuple[int, float | None], ...]
    localities: tuple[float, ...]
    workers: tuple[int, ...]
    batches: int
    repeats: int
    turns: int


QUICK: Final = Size(
    12.0,
    (0.1,),
    (12,),
    (4,),
    ((4, None),),
    (),
    (),
    batches=2,
    repeats=1,
    turns=2,
)
FULL: Final = Size(
    24.0, (1.0, 0.1), (0, 4, 12, 20), (0, 4), ((4, None), (12, 1.0), (12, 0.1)), (0.6, 0.7, 0.9, 1.0), (1, 2, 3),
    batches=3, repeats=1, turns=60,
)  # fmt: skip


class _Experiment(NamedTuple):
    """What is measured on one cluster, and what is said of it; the text is for the summary."""

    workers: int
    settings: Sequence[CaneillSetting]
    show: Callable[[Sequence[CaneillSetting], Sequence[Found]], str]


class CaneillCluster:
    """The experiments on a cluster.

    Args:
        report: takes the results.
        size: how much is measured.
    """

    def __init__(self, report: LabReport, size: Size) -> None:
        self._report = report
        self._size = size
        self._gbit_s = size.gbit_s if network.is_possible() else ()
        #: the lines of Figures 7 and 14, which are of several clusters
        self._by_workers: dict[str, _Rows] = {}
        if not self._gbit_s:
            report.console.print(
                "no network namespaces here (Linux, unshare, ip, tc): nothing limits the network, runs with a limit"
                " are left out"
            )

    def all(self) -> str:
        """Runs every experiment; the summary."""
        return self.measure(EXPERIMENTS)

    def measure(self, names: Sequence[str]) -> str:
        """Runs some of the experiments, those of as many workers on one cluster; the summary."""
        asked = [one for name in names for one in self._experiments(name) if one.settings]
        told = []
        for workers, group in itertools.groupby(asked, key=lambda one: one.workers):
            mine = list(group)
            settings = tuple(setting for one in mine for setting in one.settings)
            found = in_a_process(Job(workers, settings))
            told += [
                one.show(one.settings, list(itertools.islice(found, len(one.settings))))
                for one in mine
            ]
            # Nothing is left, but the process may still say that it ended badly.
            collections.deque(found, maxlen=0)
        for name, rows in self._by_workers.items():
            self._report.add(f"cluster: {name}", rows)
        return f"caneill on a cluster: {'; '.join(filter(None, told))}"

    def _experiments(self, name: str) -> Iterator[_Experiment]:
        size, slowest = self._size, min(self._gbit_s, default=None)
        if name == "padding":
            each = [
                self._setting(kb, rate=rate)
                for kb in size.paddings
                for rate in (None, *self._gbit_s)
            ]
            yield _Experiment(2, each, self._padding)
        elif name == "source":
            each = [
                # Its one task makes all bytes of a batch: they stay few.
                self._setting(_LARGE, rate=rate)._replace(
                    beside=False, batch_mb=self._size.batch_mb
                )
                for rate in self._gbit_s or (None,)
            ]
            yield _Experiment(2, each, self._source)
        elif name == "locality":
            each = [self._setting(_LARGE, share, rate=slowest) for share in size.localities]
            yield _Experiment(2, each, self._locality)
        elif name == "cost":
            ways = ("hashed", "counting", "table")
            each = [
                self._setting(kb, ways=ways)._replace(batches=size.turns, by_batch=True)
                for kb in size.counting
            ]
            yield _Experiment(2, each, self._costs)
        elif name == "time":
            each = [
                self._over_time(kb, rate)
                for kb, rate in size.over_time
                if rate is None or rate in self._gbit_s
            ]
            yield _Experiment(2, each, self._stories)
        else:
            yield from map(self._parallel, size.workers)

    def _parallel(self, workers: int) -> _Experiment:
        """Figures 7 and 14; a single worker has nothing to route."""
        slowest = min(self._gbit_s, default=None)
        rates = (None,) if slowest is None else (None, slowest)
        compared = [self._setting(_LARGE, rate=rate) for rate in rates]
        online = self._over_time(_SMALL, slowest)
        if workers == 1:
            compared = [one._replace(ways=("hashed",)) for one in compared]
            online = online._replace(ways=("hashed",))
        return _Experiment(workers, [*compared, online], self._workers(workers))

    def _setting(
        self,
        padding: int,
        locality: float = 0.8,
        *,
        rate: float | None = None,
        ways: tuple[str, ...] = ROUTED,
    ) -> CaneillSetting:
        batches, repeats = self._size.batches, self._size.repeats
        return CaneillSetting(
            ways, padding * 1_000, self._batch_mb(rate), locality, rate, batches, repeats
        )

    def _batch_mb(self, rate: float | None) -> float:
        return self._size.batch_mb * max(1.0, (rate or 0.0) / _PLAIN_GBIT_S)

    def _over_time(self, padding: int, rate: float | None) -> CaneillSetting:
        batches = 6 * self._size.batches
        return CaneillSetting(
            ("hashed", "online"), padding * 1_000, self._batch_mb(rate), 0.8, rate, batches
        )

    def _padding(self, settings: Sequence[CaneillSetting], found: Sequence[Found]) -> str:
        rows = _compared(settings, found)
        self._report.add("cluster: by padding (Figure 9)", rows)
        return _summary("a table by hashing", rows)

    def _source(self, settings: Sequence[CaneillSetting], found: Sequence[Found]) -> str:
        rows = _compared(settings, found)
        self._report.add("cluster: the padding comes from one source task", rows)
        return _summary("where one source task sends the padding", rows)

    def _locality(self, settings: Sequence[CaneillSetting], found: Sequence[Found]) -> str:
        self._report.add("cluster: by locality (Figure 8)", _compared(settings, found))
        return ""

    def _costs(self, settings: Sequence[CaneillSetting], found: Sequence[Found]) -> str:
        """CPU and wall time of a row with counting and with a table, by those of the same turn by hash."""
        rows: _Rows = []
        for setting, ran in zip(settings, found, strict=True):
            hashed = ran["hashed"]
            for way, runs in ran.items():
                us = statistics.mean(one.cpu_us for one in runs)
                rows.append(
                    {"padding": _kb(setting), "way": way, "turns": len(runs), "CPU µs a row": us}
                    | _ratio("CPU", [one.cpu_us for one in runs], [one.cpu_us for one in hashed])
                    | _ratio(
                        "time", *([1 / one.rows_per_s for one in each] for each in (runs, hashed))
                    )
                )
        self._report.add("cluster: CPU and wall time, counting and by a table, turn by turn", rows)
        counting = [row for row in rows if row["way"] == "counting"]
        said = ", ".join(f"{row['padding']} {row['CPU to hashed']:.2f}x" for row in counting)
        return f"CPU time of counting by none: {said}"

    def _stories(self, settings: Sequence[CaneillSetting], found: Sequence[Found]) -> str:
        longest = max(map(self._story, settings, found))
        return f"around a reconfiguration a batch took at most {longest:.2f} times the median"

    def _story(self, setting: CaneillSetting, found: Found) -> float:
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

    def _workers(self, workers: int) -> Callable[[Sequence[CaneillSetting], Sequence[Found]], str]:
        """What is kept of so many workers, until all numbers have been measured."""

        def show(settings: Sequence[CaneillSetting], found: Sequence[Found]) -> str:
            label = {"workers": str(workers)}
            compared = _compared(settings[:-1], found[:-1])
            means = _means(settings[-1], found[-1])
            for name, rows in (
                ("by workers (Figure 7)", compared),
                ("mean behind the first reconfiguration, by workers (Figure 14)", means),
            ):
                self._by_workers.setdefault(name, []).extend({**label, **row} for row in rows)
            return ""

        return show


def _compared(settings: Sequence[CaneillSetting], found: Sequence[Found]) -> _Rows:
    """A line a setting and way."""
    return [
        {**_labels(setting), "routing": way, **_figures(runs, ran["hashed"])}
        for setting, ran in zip(settings, found, strict=True)
        for way, runs in ran.items()
    ]


def _ratio(name: str, each: Sequence[float], plain: Sequence[float]) -> dict[str, float]:
    """The mean by that of hashing, and the standard error of what they differ by in the same turn.

    Of the turns that differ most, a tenth on either side is left out: other programs of the machine.
    """
    differ = sorted(one - other for one, other in zip(each, plain, strict=True))
    cut = len(differ) // 10
    kept = differ[cut : len(differ) - cut]
    error = statistics.stdev(kept) / len(kept) ** 0.5 if len(kept) > 1 else 0.0
    usual = statistics.mean(plain)
    return {
        f"{name} to hashed": 1 + statistics.mean(kept) / usual, f"{name} ±": error / usual,
    }  # fmt: skip


def _means(setting: CaneillSetting, found: Found) -> _Rows:
    """Rows a second of each way, over the batches behind the first reconfiguration of the run that has some."""
    [online] = found.get("online", found["hashed"])
    start = next((i + 1 for i, one in enumerate(online.batches) if one.moved), 0)
    rows: _Rows = []
    for way, [run] in found.items():
        batches = run.batches[start:]
        rate = sum(one.rows for one in batches) / sum(one.wall_s for one in batches)
        rows.append({**_labels(setting), "routing": way, "rows/s": rate, "batches": len(batches)})
    return rows


def _labels(setting: CaneillSetting) -> dict[str, str]:
    return {
        "network": _network(setting), "padding": _kb(setting), "equal": f"{setting.locality:.0%}",
    }  # fmt: skip


def _kb(setting: CaneillSetting) -> str:
    return f"{setting.padding // 1_000} kB"


def _network(setting: CaneillSetting) -> str:
    return "no limit" if setting.gbit_s is None else f"{setting.gbit_s * 1_000:.0f} Mbit/s"


def _figures(runs: Sequence[MeasuredRun], hashed: Sequence[MeasuredRun]) -> dict[str, float]:
    """Of a way's runs, the median ones, and by those of hashing; and by the fastest batches of both."""
    rate = statistics.median(one.rows_per_s for one in runs)
    plain = statistics.median(one.rows_per_s for one in hashed)
    best, best_plain = (max(one.best_per_s for one in each) for each in (runs, hashed))
    remote = statistics.median(one.remote_bytes for one in runs)
    before = statistics.median(one.remote_bytes for one in hashed)
    return {
        "rows/s": rate, "ratio": rate / plain, "ratio of the best": best / best_plain,
        "remote B a row": remote, "fewer": 1 - remote / before if before else 0.0,
        "remote share": statistics.median(one.remote_share for one in runs),
        "from source B a row": statistics.median(one.before_bytes for one in runs),
    }  # fmt: skip


def _reconfigured(run: MeasuredRun) -> list[Batch]:
    """The batches that hand over state, and the one behind each of them; all where there is none."""
    places = [i for i, one in enumerate(run.batches) if one.moved]
    near = {place for i in places for place in (i, i + 1) if place < len(run.batches)}
    return [run.batches[i] for i in sorted(near)] or list(run.batches)


def _summary(name: str, rows: Sequence[dict[str, Any]]) -> str:
    tables = [row for row in rows if row["routing"] == "table"]
    said = ", ".join(
        f"{row['padding']} {row['network']} {row['ratio']:.2f}x and {row['fewer']:.0%} fewer bytes"
        for row in tables
    )
    return f"{name}: {said}"
