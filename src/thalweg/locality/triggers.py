"""When to reconfigure: in turn, or when locality or balance has drifted; and whether it is worth its cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, Protocol, TypeAlias

from thalweg.brief import counted
from thalweg.errors import BuildError
from thalweg.locality.assignment import Assignment
from thalweg.locality.counting.recent import RecentCounts
from thalweg.locality.evaluate import Outcome, evaluate
from thalweg.locality.key_graph import ALPHA, get_ready, partition, wrong_numbers
from thalweg.locality.routing import RoutingTable
from thalweg.locality.statistics import Statistics
from thalweg.locality.turns import Turn, turn_of

#: Why a reconfiguration was considered.
Cause: TypeAlias = Literal["in turn", "locality fell", "imbalance rose", "slots changed"]
#: Makes an assignment from statistics, parts and the assignment of now; see :func:`thalweg.locality.partition`.
Partition: TypeAlias = Callable[[Statistics, int, Assignment], Assignment]

#: How often a reconfiguration comes in turn.
EVERY: Final = "20 batches"
#: As long after a table that was not used the next one is made, where none comes in turn.
_USUAL: Final = Turn(batches=20)


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What was decided after a look at the statistics.

    Attributes:
        cause: why a table was made; None where none was.
        reason: for people, why it is used or not.
        before: what the table of now gives on the statistics.
        after: what the new one gives, where one was made.
        assignment: the new one, if it is to be used.
        gain, cost: in tuples: those that no longer leave their slot, of pairs that came more than once, and what moving
            keys is worth.
    """

    cause: Cause | None
    reason: str
    before: Outcome
    after: Outcome | None = None
    assignment: Assignment | None = None
    gain: float = 0.0
    cost: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """What was decided and committed so far.

    Attributes:
        batches: since the last reconfiguration.
        refused: of these, when a new table was made and not used; None: since then none was.
        promised: the locality that the table of now was made for, None if it was not made from statistics.
        slots: for how many the last table was made, used or not; None: there was none.
        rows: since the last reconfiguration, of the operator that took most.
        refused_rows: of these, as ``refused``.
    """

    batches: int = 0
    refused: int | None = None
    promised: float | None = None
    slots: int | None = None
    rows: int = 0
    refused_rows: int | None = None

    def after(self, decision: Decision | None, slots: int, rows: int = 0) -> History:
        """The history after the commit of a batch with this decision and number of slots, and so many rows."""
        made = decision is not None and decision.after is not None
        if decision is not None and decision.assignment is not None and decision.after is not None:
            return History(promised=decision.after.locality, slots=slots)
        return History(
            self.batches + 1,
            self.batches if made else self.refused,
            self.promised,
            slots if made else self.slots,
            self.rows + rows,
            self.rows if made else self.refused_rows,
        )

    def since_refused(self) -> tuple[int, int] | None:
        """Batches and rows since a table was made and not used; None where none was."""
        if self.refused is None:
            return None
        return self.batches - self.refused, self.rows - (self.refused_rows or 0)


class Propose(Protocol):
    """Whether there is a better table."""

    def __call__(self, statistics: Statistics, table: RoutingTable, history: History) -> Decision:
        """The decision.

        Args:
            statistics: what was counted lately, and since the last reconfiguration.
            table: the one that holds.
            history: since then.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Online:
    """Reconfigures while the stream runs.

    A new table is made as often as ``every`` says; sooner when the share of pairs that stay in their slot is ``drop``
    below what the last table was made for, or an operator's imbalance is above ``imbalance``; and at once when the
    last one was made for another number of slots. It is used if it gains more than it costs in as many tuples as were
    counted (of pairs that came once nothing is gained: they need not come again), or if it cures an imbalance where
    that or the slots called for it; after one that was not, the next is made so much later. Only what came
    lately counts: see :meth:`recent_counts`.

    Args:
        every: so many batches or rows, as "20 batches" or "100,000 rows" (those that one operator took); an int is of
            batches. None: only by drift. In slots of one process a batch is a look at the table, each 16 steps.
        drop: 0 to 1; None: locality calls for nothing.
        imbalance: the fullest slot by the mean; None: it calls for nothing.
        move_cost: what it costs to move a key to another slot, in tuples sent to another slot.
        min_tuples: fewer tuples than these say nothing.
        alpha: the greatest imbalance of each operator that a new table is made for.
        seed: of the cuts that are tried.
        partition: makes assignments; None: :func:`thalweg.locality.partition`.
        first_seen: whether keys that have no state yet are placed beside their partners before they are routed, instead
            of by hash. On Spark it reads each batch's input once more. None: a query tries it on some batches and keeps
            it where it pays (:mod:`thalweg.locality.first_seen_trial`); not where all slots are in one process.

    Raises:
        BuildError: a number is out of range.
    """

    every: int | str | None = EVERY
    drop: float | None = 0.1
    imbalance: float | None = 1.5
    move_cost: float = 1.0
    min_tuples: int = 1_000
    alpha: float = ALPHA
    seed: int = 0
    partition: Partition | None = None
    first_seen: bool | None = None

    def __post_init__(self) -> None:
        wrong = [*self._wrong_types()]
        if wrong:
            raise BuildError(f"online reconfiguration: expected {'; '.join(wrong)}")
        if any(count is not None and count < 1 for count in self.turn):
            wrong.append(f"every ≥ 1, got {self.every}")
        if self.drop is not None and not 0 < self.drop < 1:
            wrong.append(f"0 < drop < 1, got {self.drop}")
        if self.imbalance is not None and not self.imbalance > 1:
            wrong.append(f"imbalance > 1, got {self.imbalance}")
        wrong += wrong_numbers(alpha=self.alpha, move_cost=self.move_cost, seed=self.seed)
        if self.min_tuples < 0:
            wrong.append(f"min_tuples ≥ 0, got {self.min_tuples}")
        if wrong:
            raise BuildError(f"online reconfiguration: expected {'; '.join(wrong)}")

    def _wrong_types(self) -> Iterator[str]:
        kinds = {
            "every": (int | str, 'batches as an int, a text such as "100,000 rows", or None'),
            "drop": (int | float, "a number or None"),
            "imbalance": (int | float, "a number or None"),
            "move_cost": (int | float, "a number"),
            "min_tuples": (int, "an int"),
            "alpha": (int | float, "a number"),
            "seed": (int, "an int"),
        }
        for name, (kind, what) in kinds.items():
            value = getattr(self, name)
            if value is None and what.endswith("or None"):
                continue
            if isinstance(value, bool) or not isinstance(value, kind):
                yield f"{name} to be {what}, got {value!r}"
        if isinstance(self.every, str) and turn_of(self.every) is None:
            yield f'every to be as "20 batches" or "100,000 rows", got {self.every!r}'
        if self.partition is not None and not callable(self.partition):
            yield f"partition to be a function or None, got {self.partition!r}"
        if self.first_seen is not None and not isinstance(self.first_seen, bool):
            yield f"first_seen to be True, False or None, got {self.first_seen!r}"

    def __call__(self, statistics: Statistics, table: RoutingTable, history: History) -> Decision:
        """Whether there is a better table; see :class:`Propose`."""
        now = table.assignment()
        before = evaluate(now, statistics)
        tuples = sum(pair.sure for pair in statistics.pairs)
        seen = max(tuples, *(loads.total for loads in statistics.loads.values()), 0)
        if seen < self.min_tuples:
            return Decision(
                None, f"{counted(seen, 'tuple')} counted, {self.min_tuples} wanted", before
            )
        cause = self._cause(before, history, table.slots)
        if cause is None:
            return Decision(None, f"{counted(history.batches, 'batch')}, no drift", before)
        made = self._assignment(statistics, table.slots, now)
        gain = _gain(statistics, now, made)
        return self._judge(cause, before, evaluate(made, statistics), made, gain)

    @property
    def turn(self) -> Turn:
        """What ``every`` says."""
        return turn_of(self.every) or Turn()

    def get_ready(self) -> None:
        """Prepares for the first new table ahead of time; see :func:`thalweg.locality.key_graph.get_ready`.

        Raises:
            EnvironmentProblem: METIS is needed and cannot be loaded.
        """
        if self.partition is None:
            get_ready()

    def recent_counts(self) -> RecentCounts:
        """What it is to decide by: the counts of the last ``every`` to twice ``every``, or of more where these
        have fewer than ``min_tuples`` tuples."""
        batches, rows = self.turn
        if rows is not None:
            return RecentCounts(1, max(rows, self.min_tuples))
        return RecentCounts(batches or _USUAL.batches or 1, self.min_tuples)

    def _assignment(self, statistics: Statistics, parts: int, now: Assignment) -> Assignment:
        if self.partition is not None:
            return self._asked(self.partition, statistics, parts, now)
        return partition(
            statistics,
            parts=parts,
            alpha=self.alpha,
            seed=self.seed,
            current=now,
            move_cost=self.move_cost,
        )

    @staticmethod
    def _asked(
        function: Partition, statistics: Statistics, parts: int, now: Assignment
    ) -> Assignment:
        """What the user's function makes.

        Raises:
            BuildError: it raises, or makes something else than an assignment to as many parts.
        """
        try:
            made: Any = function(statistics, parts, now)
        except Exception as error:
            raise BuildError(f"Online(partition={function!r}) raised {error!r}") from error
        if not isinstance(made, Assignment):
            raise BuildError(
                f"Online(partition={function!r}) is to give a tw.locality.Assignment, not {made!r:.60}"
            )
        if made.parts != parts:
            raise BuildError(
                f"Online(partition={function!r}) is to assign to {counted(parts, 'part')}, not {made.parts}"
            )
        return made

    def _cause(self, before: Outcome, history: History, slots: int) -> Cause | None:
        if history.slots not in (None, slots):
            return "slots changed"
        since = history.since_refused()
        again = self.turn if self.every is not None else _USUAL
        # The batch of the refusal is not over when it is refused.
        if since is not None and not again.has_come(since[0] - 1, since[1]):
            return None
        if self.imbalance is not None and before.worst > self.imbalance:
            return "imbalance rose"
        promised = history.promised
        if (
            self.drop is not None
            and promised is not None
            and before.locality < promised - self.drop
        ):
            return "locality fell"
        return "in turn" if self.turn.has_come(history.batches, history.rows) else None

    def _judge(
        self, cause: Cause, before: Outcome, after: Outcome, made: Assignment, gain: float
    ) -> Decision:
        cost = self.move_cost * made.report.moved
        calls = self.imbalance is not None and cause in ("imbalance rose", "slots changed")
        cures = calls and self._excess(after) < self._excess(before)
        used = cures or gain > cost
        reason = (
            f"{cause}: locality {before.locality:.2f} to {after.locality:.2f}, imbalance {before.worst:.2f} to"
            f" {after.worst:.2f}; gains {gain:.0f} tuples, costs {cost:.0f}: {'used' if used else 'not worth it'}"
        )
        return Decision(cause, reason, before, after, made if used else None, gain, cost)

    def _excess(self, outcome: Outcome) -> float:
        """By how much operators are above the limit, added up: one that cannot be balanced hides no other."""
        limit = self.imbalance or 1.0
        return sum(max(found - limit, 0.0) for found in outcome.imbalance.values())


def _gain(statistics: Statistics, before: Assignment, after: Assignment) -> float:
    """The tuples that would stay more, as far as pairs that came more than once tell.

    A cut is made for the very tuples that it is judged by. Each left out in turn, it would have known nothing of a pair
    that came once: such tuples please any new cut, and say nothing of those that are to come.
    """
    again = tuple(pair for pair in statistics.pairs if pair.sure > 1)
    known = dataclasses.replace(statistics, pairs=again)
    tuples = sum(pair.sure for pair in again)
    return (evaluate(after, known).locality - evaluate(before, known).locality) * tuples
