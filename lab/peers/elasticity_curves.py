"""How well ThreadLevels finds the best level of random curves: the figures of docs/evidence/elasticity.md.

::

    python lab/peers/elasticity_curves.py
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping

from thalweg.elasticity import Limits, Sample, ThreadLevels

Curve = Callable[[int], float]
SEEDS = 200
PERIODS = 60
SETTLED = 14


def linear(draw: random.Random, most: int) -> Curve:
    return lambda level: level


def serial_share(draw: random.Random, most: int) -> Curve:
    share = 10 ** draw.uniform(-3, 0)
    return lambda level: level / (1 + share * (level - 1))


def universal(draw: random.Random, most: int) -> Curve:
    contention, coherence = 10 ** draw.uniform(-3, -0.5), 10 ** draw.uniform(-5, -1)
    return lambda level: level / (1 + contention * (level - 1) + coherence * level * (level - 1))


def flat(draw: random.Random, most: int) -> Curve:
    knee = draw.randint(1, most)
    return lambda level: min(level, knee)


def falling(draw: random.Random, most: int) -> Curve:
    peak, slope = draw.randint(1, most), draw.uniform(0.05, 1)
    return lambda level: level if level <= peak else max(peak - slope * (level - peak), peak * 0.1)


def only_costs(draw: random.Random, most: int) -> Curve:
    share = 10 ** draw.uniform(-1.5, 0.5)
    return lambda level: 1 / (1 + share * (level - 1))


CURVES: Mapping[str, Callable[[random.Random, int], Curve]] = {
    one.__name__: one for one in (linear, serial_share, universal, flat, falling, only_costs)
}


def levels_of(curve: Curve, most: int, noise: float, draw: random.Random) -> list[int]:
    """The level of each period, from one thread on."""
    controller, level, levels = ThreadLevels(), 1, []
    controller.start(Limits(1, most))
    for _ in range(PERIODS):
        levels.append(level)
        tuples = round(1e6 * curve(level) * (1 + draw.uniform(-noise, noise)))
        sample = Sample(now_ns=0, period_ns=10**9, threads=level, tuples=tuples)
        for suggestion in controller.decide(sample):
            level = suggestion.target
    return levels


def main() -> None:
    """Prints a line for each maximum and noise."""
    for most in (8, 16, 64, 176):
        for noise in (0.0, 0.02, 0.04, 0.08):
            settled, shares, moved = [], [], 0
            for name, make in CURVES.items():
                for seed in range(SEEDS):
                    draw = random.Random(f"{name} {seed}")
                    curve = make(draw, most)
                    levels = levels_of(curve, most, noise, draw)
                    last = levels[-1]
                    settled.append(
                        1 + max((i for i, x in enumerate(levels) if x != last), default=-1)
                    )
                    shares.append(curve(last) / max(map(curve, range(1, most + 1))))
                    moved += len(set(levels[SETTLED:])) > 1
            good = sum(share >= 0.95 for share in shares) / len(shares)
            print(
                f"{most:3} threads, noise {noise:.0%}: settled after {statistics.median(settled):.0f} periods "
                f"(most {max(settled)}), good {good:.1%}, worst {min(shares):.1%}, moved later {moved}"
            )


if __name__ == "__main__":
    main()
