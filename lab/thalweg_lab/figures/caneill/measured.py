"""What is measured of Caneill et al.'s runs: settings, batches, and what they come to."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    pass


#: Rows a batch at most, where the padding is small.
_MOST_ROWS: Final = 50_000


class CaneillSetting(NamedTuple):
    """What is measured together: its ways take turns batch by batch, as queries of the same executors.

    Attributes:
        workers: each has an executor of one core and a slot.
        ways: "hashed", "table", "worst", "counting", "online".
        padding: bytes a tuple.
        batch_mb: about so large is a batch.
        locality: share of the tuples whose keys are partners.
        gbit_s: of each executor's network card, each way, or of all cards in turn; None: not limited.
        batches: measured ones of each way.
        beside: the padding is made by the first operator, so that only the hop between the operators carries it, as
            where each server of the paper has a source; else the one source task makes it, and the hop before that
            carries it too.
        flights: the tuples are the bundled flights, by number and then by destination, instead of pairs of ints.
        counted: rows that are counted before the measured batches, on a network without limits.
        every: batches between two tables of "online".
    """

    workers: int
    ways: tuple[str, ...]
    padding: int
    batch_mb: float
    locality: float = 0.8
    gbit_s: float | tuple[float | None, ...] | None = None
    batches: int = 2
    beside: bool = True
    flights: bool = False
    counted: int = 0
    every: int = 1

    @property
    def batch_rows(self) -> int:
        """Of a measured batch."""
        return min(int(self.batch_mb * 1e6 / (self.padding + 16)), _MOST_ROWS)


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
        cpu_s: CPU time of driver, executors and their Python meanwhile.
    """

    rows: int
    wall_s: float
    local: int | None
    remote: int | None
    stay: float
    moved: int
    before: int | None
    cpu_s: float = 0.0

    @classmethod
    def of(cls, progress: Mapping[str, Any], cpu_s: float = 0.0) -> Batch:
        """What a query's progress says of a batch; in one slot, where nothing is exchanged, all tuples stay."""
        said = progress["locality"] or {"remote_bytes": [], "stay": 1.0, "keys_moved": 0}
        between: tuple[int | None, int | None] = (None, None)
        before = None
        if len(said["remote_bytes"]) > 1:
            between = said["local_bytes"][1], said["remote_bytes"][1]
            before = said["remote_bytes"][0]
        stay, moved = said["stay"], said["keys_moved"]
        return cls(progress["rows"], progress["batch_s"], *between, stay, moved, before, cpu_s)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.wall_s


class MeasuredRun(NamedTuple):
    """The measured batches of a way."""

    batches: tuple[Batch, ...]

    @property
    def rows_per_s(self) -> float:
        """Of the median batch."""
        return statistics.median(one.rate for one in self.batches)

    @property
    def best_per_s(self) -> float:
        """Rows a second of the fastest batch, which other programs disturbed least."""
        return max(one.rate for one in self.batches)

    @property
    def cpu_us(self) -> float:
        """A tuple."""
        return 1e6 * sum(one.cpu_s for one in self.batches) / sum(one.rows for one in self.batches)

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


#: By way, its run.
Found = dict[str, MeasuredRun]


def found_of(given: Mapping[str, Sequence[Sequence[Sequence[Any]]]]) -> Found:
    """What the program printed."""
    return {way: MeasuredRun(tuple(Batch(*one) for one in run)) for way, (run,) in given.items()}


def setting_of(line: str) -> CaneillSetting:
    """A setting as the program reads it."""
    made = CaneillSetting(*json.loads(line))
    rate = made.gbit_s
    return made._replace(
        ways=tuple(made.ways), gbit_s=tuple(rate) if isinstance(rate, list) else rate
    )


def network_of(gbit_s: float | tuple[float | None, ...] | None) -> str:
    """The rate of the cards, for people."""
    if isinstance(gbit_s, tuple):
        return ", ".join(network_of(one) for one in gbit_s)
    return "no limit" if gbit_s is None else f"{gbit_s * 1_000:g} Mbit/s"
