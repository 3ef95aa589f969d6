"""Against a system with a thread for each operator, without adaptation (Figure 12)."""

from __future__ import annotations

import functools
from typing import Final

from thalweg.simulate import TWO_SIXES, Dedicated, simulate
from thalweg_lab.figures.c_stream.flows import chain, run, tuples
from thalweg_lab.figures.c_stream.shape import PAPER, between
from thalweg_lab.figures.c_stream.virtual import CAPACITY, COST_NS, TOPOLOGIES, measured
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_GRAIN: Final = 10
_THREADS: Final = 12
#: The paper's data parallelism has eight operators here.
_FIELDS: Final = {"data parallel": {"width": 8}}
_SWITCH_NS: Final = 3_000
_SECONDS: Final[dict[Effort, float]] = {"quick": 1.0, "full": 5.0}
_ROWS: Final[dict[Effort, int]] = {"quick": 600, "full": 5_000}
COST_US: Final = 100.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time on four topologies; here, the chain's CPU time."""
    ratios = {}
    for topology in TOPOLOGIES:
        progress(f"{topology}, a thread an operator, virtual time")
        fields = _FIELDS.get(topology, {})
        mine = measured(topology, "Random", _THREADS, seconds=_SECONDS[effort], **fields)
        ratios[topology] = mine.rows_per_s / executors(topology, _SECONDS[effort])
    progress("chain, this machine")
    table = tuples(_ROWS[effort], lanes=1, cost_us=COST_US)
    run(chain(), table, threads=2)
    ours, theirs = run(chain(), table, threads=2), run(chain(), table, threading="dedicated")
    here = theirs.cpu_us / ours.cpu_us
    checks = tuple(
        between(
            f"{topology}: operators as coroutines cost no throughput against a thread each",
            ratio,
            0.85,
            1.6,
        )
        for topology, ratio in ratios.items()
    )
    checks += (
        between(
            "chain here: a tuple costs no more CPU time than with a thread an operator",
            here,
            0.8,
            10,
        ),
    )
    x = tuple(float(number) for number in range(len(ratios)))
    panel = Panel(
        f"by topology: {', '.join(ratios)}",
        "topology",
        "times a thread an operator",
        (Line("coroutines", x, tuple(ratios.values())),),
    )
    told = ", ".join(f"{topology} {ratio:.2f}" for topology, ratio in ratios.items())
    text = (
        f"throughput against a thread an operator: {told}; here a chain's tuple takes "
        f"{theirs.cpu_us:,.0f} µs of CPU there, {ours.cpu_us:,.0f} as coroutines"
    )
    return FigureResult(text, (panel,), checks, {"CPU, times": here})


@functools.cache
def executors(topology: str, seconds: float) -> float:
    """Tuples a second with a thread for each operator, behind the first half."""
    fields = {
        "cost_ns": COST_NS,
        "capacity": CAPACITY,
        "kind": "stateful",
        **_FIELDS.get(topology, {}),
    }
    policy = Dedicated(switch_ns=_SWITCH_NS)
    result = simulate(
        TOPOLOGIES[topology](**fields),
        policy=policy,
        threads=_THREADS,
        seconds=seconds,
        hardware=TWO_SIXES,
        grain=_GRAIN,
    )
    late = (sink.after(seconds / 2).left_ns for sink in result.sinks)
    return _GRAIN * sum(map(len, late)) / (seconds / 2)


FIGURE = PaperFigure(
    paper=PAPER,
    number=12,
    claim=(
        "Without adaptation throughput is comparable to that of a system with a thread an "
        "operator (Storm's executors)"
    ),
    published="C-Stream and Storm 1.1.0 within a few percent on all four topologies",
    kind="real and simulated",
    through="thalweg.simulate.simulate, tw.run(threading='dedicated')",
    on=(
        "chain of 12, data parallel of 8, trees of 63 busy operators of 100 µs; Storm's place "
        "is taken by a thread an operator"
    ),
    measure=measure,
)
