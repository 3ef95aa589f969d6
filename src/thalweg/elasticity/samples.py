"""What controllers of elasticity are told of a period, and what they answer: frozen records."""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

from thalweg.brief import brief_repr
from thalweg.errors import BuildError

#: The period of adaptation, ns (Schneider & Wu, 4.2.2; Sahin & Gedik's Δ, 5.2): 10 s.
PERIOD_NS: Final = 10_000_000_000
#: Looks a period that suffice where nobody asks whether inputs are full: a period behind a change then begins at most
#: this part of it late.
FEW_LOOKS: Final = 50


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSample:
    """An operator in one period.

    Attributes:
        index: its place in the flow, as in ``Suggestion.operator``.
        name: its name.
        replicable: whether it may be worked on by several threads at all: stateless and keyed operators.
        replicas: how many may work on it at a time now (M of Prasaad et al.).
        max_replicas: the most that the host allows.
        tuples: that it took in the period.
        busy_ns: its occupancy: how long threads were in it in the period, ns, whether they computed or waited.
        cpu_ns: CPU time of that, ns; None where it is not known.
        cost_ns: time of a thread a tuple, ns; 0 where it is not known.
        write_blocked: the share of the period, 0 to 1, that its input was full, so that who writes to it had to wait
            (Sahin & Gedik, 4.2.1). Of replicas with inputs of their own, their mean; of several inputs, the
            greatest.
        output_blocked: the greatest such share among those that read it; 0 for a sink.
    """

    index: int
    name: str
    replicable: bool
    replicas: int
    max_replicas: int
    tuples: int
    busy_ns: int
    cost_ns: float
    write_blocked: float
    output_blocked: float
    cpu_ns: int | None = None

    @property
    def waits(self) -> float:
        """The share of its occupancy in which it waited, 0 to 1; 0 where its CPU time is not known."""
        if self.cpu_ns is None or self.busy_ns <= 0:
            return 0.0
        return max(0.0, 1.0 - self.cpu_ns / self.busy_ns)


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A flow in one period.

    Attributes:
        now_ns: the end of the period, ns of any clock that only goes forward.
        period_ns: its length, ns, more than 0.
        threads: the thread level. Those that are stuck in an operator count.
        tuples: that all operators took together.
        utilizations: by thread, the share of the period that it was in operators, 0 to 1, whether they computed or
            waited.
        cpu_share: how much of the processors that this process may use was in use, 0 to 1, whoever used them; None
            where it is not known, and then no one holds back for it.
        unsuspendable: threads that were told to suspend and did not, since they sit in an operator's code.
        whole: whether all that was asked for had happened before the period began. A period in which it had not says
            nothing of the level, and no controller draws conclusions from it (Schneider & Wu, 4.2.3).
        operators: by index.
        work_ns: how long all threads together ran operators; None where it is not known.
    """

    now_ns: int
    period_ns: int
    threads: int
    tuples: int
    utilizations: tuple[float, ...] = ()
    cpu_share: float | None = None
    unsuspendable: int = 0
    whole: bool = True
    operators: tuple[OperatorSample, ...] = ()
    work_ns: int | None = None

    @property
    def throughput(self) -> float:
        """Tuples a second, of all operators together."""
        return self.tuples * 1e9 / self.period_ns

    @property
    def utilization(self) -> float:
        """The mean over the threads (Sahin & Gedik's U); 0 where none is known."""
        return sum(self.utilizations) / len(self.utilizations) if self.utilizations else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Suggestion:
    """What a controller would change, and why.

    Attributes:
        what: ``threads``, the thread level, or ``replicas``, how many may work on an operator at a time.
        operator: the index of the operator; None for threads.
        current: how many there are.
        target: how many there should be.
        reason: a sentence with the numbers that it follows from.
    """

    what: Literal["threads", "replicas"]
    operator: int | None
    current: int
    target: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The thread levels that a host allows, both ends included.

    Stuck threads come on top of the minimum: :meth:`with_stuck`.

    Raises:
        BuildError: the minimum is less than one, or above the maximum.
    """

    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise BuildError(
                f"thread levels must be 1 ≤ minimum ≤ maximum, not {self.minimum} to {self.maximum}"
            )

    def with_stuck(self, unsuspendable: int) -> Limits:
        """The allowed levels while some threads are stuck in operators, which do not count for the minimum.

        The maximum rises with the minimum where it must (Schneider & Wu, 4.2.3).
        """
        minimum = self.minimum + unsuspendable
        return Limits(minimum, max(minimum, self.maximum))

    def clamp(self, level: int) -> int:
        """The allowed level next to ``level``."""
        return min(max(level, self.minimum), self.maximum)
