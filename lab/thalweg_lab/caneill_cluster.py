"""What the paper has no figure of, on a cluster of this machine: what counting costs, and one source of all padding.

Executors have a core and a slot each, and network cards of a limited rate (:mod:`thalweg_lab.network`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from thalweg.printing import say
from thalweg_lab.figures.caneill.cluster import befallen, measured
from thalweg_lab.figures.caneill.measured import Batch, CaneillSetting, Found, network_of
from thalweg_lab.figures.caneill.troubles import TROUBLES
from thalweg_lab.measure import LabReport

#: kB a tuple where the padding comes from the source.
_LARGE: Final = 12

#: The rate that ``Size.batch_mb`` is meant for; on faster links batches are larger, up to so many MB.
_USUAL_GBIT_S: Final = 0.1
_MOST_MB: Final = 240.0

_Rows: TypeAlias = list[dict[str, Any]]


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        batch_mb: about so large is a batch.
        gbit_s: limits of network cards; None: none.
        counting: kB a tuple where the cost of counting is measured.
        batches: measured ones of a way.
        turns: batches of each way, where the cost of counting is measured.
        links: rates of the links that a table is compared at, of all or of each in turn; none: on no network of ours.
    """

    batch_mb: float
    gbit_s: tuple[float | None, ...]
    counting: tuple[int, ...]
    batches: int
    turns: int
    links: tuple[float | tuple[float, ...], ...] = ()


QUICK: Final = Size(12.0, (0.1,), (4,), batches=2, turns=2, links=(0.1, (0.1, 0.02)))
FULL: Final = Size(
    24.0, (1.0, 0.1), (0, 4), batches=3, turns=60, links=(1.0, 0.1, (0.1, 0.02))
)  # fmt: skip


class CaneillCluster:
    """The experiments on a cluster.

    Args:
        report: takes the results.
        size: how much is measured.
    """

    def __init__(self, report: LabReport, size: Size) -> None:
        self._report = report
        self._size = size

    def all(self) -> str:
        """Runs every experiment; the summary."""
        parts = (self.source, self.costs, self.rates, self.troubles)
        return f"caneill on a cluster: {'; '.join(filter(None, (part() for part in parts)))}"

    def rates(self) -> str:
        """What a table gives at each rate of the links, and where one link is slower than the others."""
        rows: _Rows = []
        for rate in self._size.links:
            ways = ("hashed", "table")
            slowest = min(rate) if isinstance(rate, tuple) else rate
            batch_mb = min(self._size.batch_mb * max(1.0, slowest / _USUAL_GBIT_S), _MOST_MB)
            batches = self._size.batches
            setting = CaneillSetting(
                2, ways, _LARGE * 1_000, batch_mb, gbit_s=rate, batches=batches
            )
            rows += _compared(setting, measured(setting, say))
        if rows:
            self._report.add("cluster: by the rate of the links", rows)
        told = [
            f"{row['network']} {row['ratio']:.2f}x" for row in rows if row["routing"] == "table"
        ]
        return f"a table by hashing: {', '.join(told)}" if told else ""

    def troubles(self) -> str:
        """A link that is down, a worker killed, a worker that joins: whether the output is that of one process."""
        if not self._size.links:
            return ""
        found = [befallen(what, say) for what in TROUBLES]
        self._report.add(
            "cluster: what befalls hosts in mid-batch",
            [
                {
                    "what": one.what, "in batch": str(one.in_batch), "it took s": one.seconds, "others s": one.usual_s,
                    "executors": _arrow(one.executors), "slots": _arrow(one.slots), "output rows": one.rows,
                    "as one process": "yes" if one.is_exact else "NO",
                }
                for one in found
            ],
        )  # fmt: skip
        wrong = [one.what for one in found if not one.is_exact]
        return f"WRONG output: {', '.join(wrong)}" if wrong else "exact output through all of it"

    def source(self) -> str:
        """The padding comes from one source task, so that the first hop carries it, too."""
        size, rows = self._size, []
        for rate in size.gbit_s:
            ways = ("hashed", "table", "worst")
            setting = CaneillSetting(
                2,
                ways,
                _LARGE * 1_000,
                size.batch_mb,
                gbit_s=rate,
                batches=size.batches,
                beside=False,
            )
            rows += _compared(setting, measured(setting, say))
        self._report.add("cluster: the padding comes from one source task", rows)
        told = ", ".join(
            f"{row['network']} {row['ratio']:.2f}x" for row in rows if row["routing"] == "table"
        )
        return f"where one source task sends the padding, a table by hashing: {told}"

    def costs(self) -> str:
        """CPU and wall time of a row with counting and with a table, by those of the same turn by hash."""
        size, rows = self._size, []
        for kb in size.counting:
            ways = ("hashed", "counting", "table")
            setting = CaneillSetting(2, ways, kb * 1_000, size.batch_mb, batches=size.turns)
            rows += costs_of(f"{kb} kB", measured(setting, say))
        self._report.add("cluster: CPU and wall time, counting and by a table, turn by turn", rows)
        counting = [row for row in rows if row["way"] == "counting"]
        said = ", ".join(f"{row['padding']} {row['CPU to hashed']:.2f}x" for row in counting)
        return f"CPU time of counting by none: {said}"


def _arrow(both: tuple[int, int]) -> str:
    return f"{both[0]} → {both[1]}"


def costs_of(padding: str, found: Found) -> _Rows:
    """A line a way: what it costs by what hashing does, turn by turn."""
    hashed = found["hashed"].batches
    return [
        {"padding": padding, "way": way, "turns": len(run.batches), "CPU µs a row": run.cpu_us}
        | ratio("CPU", _cpu_us(run.batches), _cpu_us(hashed))
        | ratio("time", _seconds(run.batches), _seconds(hashed))
        for way, run in found.items()
    ]


def _cpu_us(batches: Sequence[Batch]) -> list[float]:
    return [1e6 * one.cpu_s / one.rows for one in batches]


def _seconds(batches: Sequence[Batch]) -> list[float]:
    return [one.wall_s / one.rows for one in batches]


def ratio(name: str, each: Sequence[float], plain: Sequence[float]) -> dict[str, float]:
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


def _compared(setting: CaneillSetting, found: Found) -> _Rows:
    """A line a way."""
    plain = found["hashed"]
    return [
        {
            "network": network_of(setting.gbit_s), "padding": f"{setting.padding // 1_000} kB", "routing": way,
            "rows/s": run.rows_per_s, "ratio": run.rows_per_s / plain.rows_per_s,
            "remote B a row": run.remote_bytes, "from source B a row": run.before_bytes,
        }
        for way, run in found.items()
    ]  # fmt: skip
