"""How much work a flow did in a period, as one number that does not depend on which operators happened to run.

IBM Streams takes the tuples of all operators together for throughput (Schneider & Wu, 4.2). Operators run in bursts,
though: one that costs nothing may take all that a queue holds in no time, and nothing in the next period. Where such
tuples count as much as those of an operator with work to do, one period's throughput is twice the next one's. So here a
tuple counts by what it costs. Where all cost the same, this is the paper's measure; over long times the two are
proportional, since whatever an operator took its readers take as well.

What is known of costs grows with time. Levels stay comparable, as all that is kept of them is tuples by operator, and
these are weighed anew whenever two are compared.
"""

from __future__ import annotations

from operator import add, mul
from typing import Final

from thalweg.elasticity.samples import Sample

#: Tuples a second, by operator.
Rates = tuple[float, ...]


def rates_of(sample: Sample) -> Rates:
    """Of a period, tuples a second by operator; of all together where these are not known."""
    tuples = tuple(one.tuples for one in sample.operators) or (sample.tuples,)
    per_second: Final = 1e9 / sample.period_ns
    return tuple(count * per_second for count in tuples)


def sum_of(one: Rates, other: Rates) -> Rates:
    """Both together, operator by operator."""
    return tuple(map(add, one, other))


class Weights:
    """What a tuple of each operator counts; by default as much as any other.

    Args:
        by_cost: whether it counts by its cost.
    """

    def __init__(self, *, by_cost: bool) -> None:
        self._by_cost = by_cost
        self._weights: Rates = ()
        #: by operator, what was seen so far, tuples and their costs; periods count alike, however long
        self._tuples: Rates = ()
        self._costs: Rates = ()

    def learn(self, sample: Sample) -> None:
        """Takes over what tuples cost on average, in such a unit that those seen so far count as many as they are."""
        rates = rates_of(sample)
        self._weights = (1.0,) * len(rates)
        if not self._by_cost or not sample.operators:
            return
        if len(self._tuples) != len(rates):
            self._tuples = self._costs = (0.0,) * len(rates)
        self._tuples = sum_of(self._tuples, rates)
        cost = (one.cost_ns * rate for one, rate in zip(sample.operators, rates, strict=True))
        self._costs = sum_of(self._costs, tuple(cost))
        if sum(self._costs) > 0:
            unit = sum(self._tuples) / sum(self._costs)
            self._weights = tuple(
                cost * unit / tuples if tuples else 0.0
                for cost, tuples in zip(self._costs, self._tuples, strict=True)
            )

    def throughput(self, rates: Rates) -> float:
        """Tuples a second, each as much as it counts."""
        return sum(map(mul, self._weights, rates), 0.0)
