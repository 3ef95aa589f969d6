"""A round policy from a function that says how urgent an operator is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling.features import BUILT_IN, Feature
from thalweg.scheduling.round_view import OperatorStats, RoundView
from thalweg.scheduling.rounds import RoundPolicy

#: ``(operator, view) -> priority``, a number or a tuple of numbers; the greatest runs first.
Rank = Callable[[OperatorStats, RoundView], float | tuple[float, ...]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ByFunction(RoundPolicy):
    """Operators by what a function says of each."""

    rank: Rank
    needs: frozenset[str | Feature]

    @property
    def name(self) -> str:
        return f"by({getattr(self.rank, '__name__', type(self.rank).__name__)})"

    def features(self) -> frozenset[str | Feature]:
        return self.needs

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        return [self._priority(operator, view) for operator in view.operators]

    def _priority(self, operator: OperatorStats, view: RoundView) -> tuple[float, ...]:
        try:
            given = self.rank(operator, view)
        except Exception as error:
            raise SchedulingError(
                f"policy {self.name}, operator {operator.name}: it raised {error!r}",
                policy=self.name,
                operator=operator.name,
            ) from error
        return given if isinstance(given, tuple) else (given,)


def by(
    rank: Rank, *, features: Iterable[str | Feature] | None = None, **parameters: Any
) -> RoundPolicy:
    """Makes a round policy from a function that ranks operators; the highest runs first.

    For example the longest queue first, of equals the cheapest::

        by(lambda operator, view: (operator.worklist, -operator.cost_ns), features=["worklist", "cost_ns"])

    Args:
        rank: gives a number or a tuple of numbers for an operator and the view that it is in.
        features: what it reads, so that hosts measure no more; by default all that is built in.
        **parameters: of ``RoundPolicy``, e.g. ``period_s`` and ``placement``.

    Raises:
        BuildError: it is no function, or a parameter makes no sense.
    """
    if not callable(rank):
        raise BuildError(f"by: the rank must be a function of an operator and a view, not {rank!r}")
    if isinstance(features, str):
        raise BuildError(
            f"by: features must be several names, such as [{features!r}], not {features!r}"
        )
    needs = frozenset[str | Feature](BUILT_IN if features is None else features)
    return ByFunction(rank=rank, needs=needs, **parameters)
