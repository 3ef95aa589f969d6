"""How much locality a looser balance gives: tables for several bounds, each judged by data that came later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from thalweg.locality.evaluate import evaluate
from thalweg.locality.key_graph import ALPHA, partition
from thalweg.locality.statistics import Statistics

#: The bounds that are tried, from an even balance to a slot with twice its share.
ALPHAS: Final = (ALPHA, 1.2, 1.5, 2.0)
#: A locality or an imbalance that differs by less is taken for equal.
_CLOSE: Final = 0.02


class Tradeoff(NamedTuple):
    """What a table for a bound gives on data that it was not made from.

    Attributes:
        alpha: the bound.
        locality: the share of pairs whose keys are on one slot.
        imbalance: the fullest slot of an operator by the mean.
        keys: that the table pins.
    """

    alpha: float
    locality: float
    imbalance: float
    keys: int


class Advice(NamedTuple):
    """Which bound to take, where processors are what limits, and where the network is."""

    processors: Tradeoff
    network: Tradeoff

    @property
    def is_one(self) -> bool:
        """Whether both are the same bound."""
        return self.processors.alpha == self.network.alpha


def tradeoffs(
    learnt: Statistics,
    later: Statistics,
    parts: int,
    *,
    alphas: Sequence[float] = ALPHAS,
    seed: int = 0,
) -> list[Tradeoff]:
    """Makes a table for each bound and judges it.

    Args:
        learnt: what tables are made from.
        later: what judges them.
        parts: slots.
        alphas: the bounds, which are tried in rising order.
        seed: of the cuts.
    """
    found = []
    for alpha in sorted(set(alphas)):
        table = partition(learnt, parts=parts, alpha=alpha, seed=seed)
        outcome = evaluate(table, later)
        found.append(Tradeoff(alpha, outcome.locality, outcome.worst, len(table.keys)))
    return found


def advise(found: Sequence[Tradeoff]) -> Advice:
    """The bounds to take.

    The fullest slot sets the pace where processors limit: of the tables that balance later data about best, the most
    local one. Where the network limits it is the most local one of all, and of those about as local the one that
    balances best.

    Args:
        found: at least one.
    """
    even = min(one.imbalance for one in found) + _CLOSE
    local = max(one.locality for one in found) - _CLOSE
    return Advice(
        max((one for one in found if one.imbalance <= even), key=lambda one: one.locality),
        min((one for one in found if one.locality >= local), key=lambda one: one.imbalance),
    )
