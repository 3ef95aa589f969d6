"""What a round policy sees: a record an operator, and who reads whom, at the moment between two rounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from thalweg.brief import brief_repr
from thalweg.scheduling.measures import PRIOR_COST_NS, PRIOR_SELECTIVITY

#: The room of an output that nobody reads.
UNLIMITED: Final = 2**62
#: No tags, no features of one's own: the same mapping for all, which nobody may change.
NOTHING: Final[Mapping[str, float]] = {}


class OperatorStats(NamedTuple):
    """An operator between two rounds; features that the policy does not require may be stale or defaults.

    A named tuple, for those of all operators are made anew before every round.

    Attributes:
        index: its place in ``RoundView.operators``.
        name: unique among them.
        flow: the flow that it belongs to.
        kind: 0 stateless, 1 keyed, 2 stateful, 3 a source.
        priority_class: 0 is the most urgent.
        rank: topological rank in its flow.
        cost_ns: CPU time a tuple, ns, above 0.
        selectivity: tuples out a tuple in, above 0; that of a sink is 1, for it lets all through.
        worklist: tuples that wait in its inbox.
        output_room: tuples that fit into the fullest inbox that it feeds; ``UNLIMITED`` where there is none.
        head_ns: clock time of the oldest waiting tuple: when the source handed over what it was made from, monotonic
            ns; -1 where none waits.
        last_run_ns: when it last ran, monotonic ns.
        workers: threads that are in it still and take no part in the coming round.
        limit: how many threads may be in it at a time (M of Prasaad et al.); 0 for one that threads never run.
        tags: what the flow's author said of it.
        own: values of features of one's own, by name.
        row_bytes: what a tuple in its inbox takes, a text or list as 32 bytes.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which makes no sense for a record
    name: str
    flow: str = ""
    kind: int = 0
    priority_class: int = 0
    rank: int = 0
    cost_ns: float = PRIOR_COST_NS
    selectivity: float = PRIOR_SELECTIVITY
    worklist: int = 0
    output_room: int = UNLIMITED
    head_ns: int = -1
    last_run_ns: int = 0
    workers: int = 0
    limit: int = 1
    tags: Mapping[str, object] = NOTHING
    own: Mapping[str, float] = NOTHING
    row_bytes: int = 8

    @property
    def queue_bytes(self) -> int:
        """What waits in its inbox takes so much memory, about: the paper's memory cost is its maximum."""
        return self.worklist * self.row_bytes

    @property
    def places(self) -> int:
        """The number of threads that the next round may assign to it."""
        return max(self.limit - self.workers, 0)


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class RoundView:
    """The operators of all flows between two rounds, each flow in topological order.

    Attributes:
        operators: the operator with index i stands at i.
        readers: by operator, those that read it, an entry an edge; edges of a feedback are left out.
        feeders: by operator, those that it reads, all of a lower index.
        now_ns: the time, monotonic ns.
    """

    operators: tuple[OperatorStats, ...]
    readers: tuple[tuple[int, ...], ...]
    feeders: tuple[tuple[int, ...], ...]
    now_ns: int

    def places(self) -> list[int]:
        """The number of threads that the next round may assign to each operator."""
        return [max(operator.limit - operator.workers, 0) for operator in self.operators]

    def head_age_ns(self, operator: int) -> float:
        """The age of the clock time of an operator's oldest waiting tuple, ns; -inf where none waits.

        An age, and not the time itself, because a float holds no clock's nanoseconds exactly.
        """
        head = self.operators[operator].head_ns
        return float(self.now_ns - head) if head >= 0 else -math.inf

    def oldest_ages_ns(self) -> list[float]:
        """The age of each operator's oldest waiting tuple or, where none waits, of the oldest on its way, ns.

        Where nothing is on its way, either, it is -inf. An inbox that is empty between two rounds fills again within
        the round, with what waits further up.
        """
        ages: list[float] = []
        for operator, feeders in enumerate(self.feeders):
            age = self.head_age_ns(operator)
            if age == -math.inf and feeders:
                age = max(ages[feeder] for feeder in feeders)
            ages.append(age)
        return ages
