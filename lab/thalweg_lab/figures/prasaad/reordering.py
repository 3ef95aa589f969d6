"""Curves of the two reorder buffers over threads: what figures 12 and 13 share."""

from __future__ import annotations

from typing import Final

from thalweg.scheduling import CurrentThroughput
from thalweg.simulate import Graph
from thalweg_lab.figures.contract import Line, Panel, Progress
from thalweg_lab.figures.prasaad import simulated
from thalweg_lab.figures.prasaad.simulated import Virtual

SCHEMES: Final = ("non-blocking", "lock-based")
Curves = dict[tuple[str, int], Virtual]


def simulate(graph: Graph, counts: tuple[int, ...], rows: int, say: Progress) -> Curves:
    """Both schemes by threads; ``rows`` are those that the last operator is through with."""
    found: Curves = {}
    for scheme in SCHEMES:
        for threads in counts:
            say(f"simulated, {scheme}, {threads} threads")
            found[scheme, threads] = simulated.run(
                graph, CurrentThroughput(), threads, rows, reorder=scheme,
                until=lambda result: result.operators[-1].rows_in,
            )  # fmt: skip
    return found


def speed_up(found: Curves, scheme: str, threads: int) -> float:
    """Over one thread."""
    return found[scheme, threads].rows_per_s / found[scheme, 1].rows_per_s


def cost_us(found: Curves, scheme: str, threads: int) -> float:
    """Worker time a tuple in the first operator, µs, waiting for the lock included."""
    first = found[scheme, threads].result.operators[0]
    return 1e-3 * first.busy_ns / max(first.rows_in, 1)


def panels(found: Curves, counts: tuple[int, ...]) -> tuple[Panel, ...]:
    """As the paper has them: (a) speed-up and (b) cost, over threads."""
    x = tuple(float(threads) for threads in counts)
    ups = tuple(Line(s, x, tuple(speed_up(found, s, n) for n in counts)) for s in SCHEMES)
    costs = tuple(Line(s, x, tuple(cost_us(found, s, n) for n in counts)) for s in SCHEMES)
    return (
        Panel("speed-up (simulated)", "threads", "speed-up", ups),
        Panel("cost of a tuple (simulated)", "threads", "µs", costs),
    )
