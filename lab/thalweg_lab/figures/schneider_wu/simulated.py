"""Schneider & Wu, section 5, in virtual time: nine graphs of a thousand operators on the paper's two machines.

What it gives at full size is kept in ``simulated.json``; ``python -m thalweg_lab.figures.schneider_wu.simulated``
makes it anew, and a figure simulates a part of it each time to see that it is still so.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from thalweg.elasticity import Controller, Limits, ThreadLevels
from thalweg.simulate import (
    POWER8,
    XEON,
    Dedicated,
    ElasticHost,
    Graph,
    Hardware,
    data_parallel,
    mesh,
    pipeline,
    work_ns,
)
from thalweg.simulate.large_graphs.large import LargeSimulation

KEPT: Final = Path(__file__).with_name("simulated.json")
OPERATORS: Final = 1_000
#: Ten pipelines of a hundred.
SIDE: Final = 10
#: Tuples that travel as one, and how many of these a queue holds.
_GRAIN: Final = 100
_ROOM: Final = 4
#: What finding an operator costs apart from the list, a call of threading manual, and a switch of threads, ns.
_VISIT_NS: Final = 300.0
CALL_NS: Final = 100.0
_DEDICATED: Final = Dedicated(switch_ns=3_000)
#: Events of a look, and looks at most until as much leaves as operators do.
_EVENTS: Final = 60_000
_LOOKS: Final = 8
_STEADY: Final = 0.08
#: Of elastic runs: units of work in a period at the best level, and periods.
_PERIOD_UNITS: Final = 20_000
PERIODS: Final = 40
#: Side by side operators get their tuples in turn: a period is to have many turns.
_WIDE: Final = 4
#: How much the Power8 varies: the paper has runs between 130 and 184 threads (section 5.4).
_POWER8_NOISE: Final = 0.12

MACHINES: Final[Mapping[str, Hardware]] = {"Xeon": XEON, "Power8": POWER8}
PIPELINE_FLOPS: Final = (1, 100, 1_000)
PARALLEL_FLOPS: Final = (1, 10_000, 100_000)


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A graph with one cost, a flop being a nanosecond; a tuple passes so many ``hops``."""

    shape: str
    flops: int
    graph: Graph
    hops: int

    @property
    def name(self) -> str:
        return f"{self.shape} {self.flops:,}"


def cases() -> list[Case]:
    """The nine of the paper."""
    fields: dict[str, Any] = {"kind": "stateful", "capacity": _ROOM * _GRAIN}
    depth = OPERATORS // SIDE
    makers: dict[str, tuple[Callable[..., Graph], int, tuple[int, ...]]] = {
        "pipeline": (functools.partial(pipeline, OPERATORS), OPERATORS, PIPELINE_FLOPS),
        "data parallel": (
            functools.partial(data_parallel, OPERATORS, merge="arrival"), 3, PARALLEL_FLOPS,
        ),
        "both": (functools.partial(mesh, SIDE, depth, merge="arrival"), depth + 2, PIPELINE_FLOPS),
    }  # fmt: skip
    return [
        Case(shape, flops, make(cost_ns=flops, **fields), hops)
        for shape, (make, hops, all_flops) in makers.items()
        for flops in all_flops
    ]


def levels(machine: Hardware) -> list[int]:
    """Thread levels of a curve."""
    return [1, 2, 4, 8, 10, 16, 24, 32, 48, 64, 80, 96, 132, 160, machine.processors]


def manual(case: Case) -> float:
    """Tuples a second by one thread that calls one operator after the other, without queues."""
    return 1e9 / (work_ns(case.graph) + case.hops * CALL_NS)


def static(case: Case, machine: Hardware, threads: int | None) -> float:
    """Tuples a second at a level that stays, None: a thread an operator; when as much leaves as operators do."""
    simulation = LargeSimulation(
        case.graph, hardware=machine, policy=_DEDICATED if threads is None else None,
        threads=threads or machine.processors, grain=_GRAIN, visit_ns=_VISIT_NS,
    )  # fmt: skip
    rate, before = 0.0, _look(simulation)
    for look in range(_LOOKS):
        simulation.run_events(_EVENTS)
        after = _look(simulation)
        done, left, seconds = (b - a for a, b in zip(before, after, strict=True))
        rate, before = done / case.hops / seconds, after
        if look and abs(left / seconds / rate - 1) < _STEADY:
            break
    return rate


def _look(simulation: LargeSimulation) -> tuple[float, float, float]:
    counted = simulation.counters()
    done = sum(one.tuples for one in counted.operators)
    return done, counted.rows_out, counted.now_ns * 1e-9


def elastic(
    case: Case, machine: Hardware, best: float, controller: Controller, noise: float = 0.0
) -> ElasticHost:
    """A run from one thread on; ``best`` is what the best level gives, from which follows how long a period is."""
    units = _PERIOD_UNITS * (_WIDE if case.shape == "data parallel" else 1)
    period_s = units * _GRAIN / (best * case.hops)
    machine = dataclasses.replace(machine, noise=noise, noise_s=period_s)
    simulation = LargeSimulation(
        case.graph, hardware=machine, threads=1, grain=_GRAIN, visit_ns=_VISIT_NS
    )
    limits = Limits(1, machine.processors)
    host = ElasticHost(simulation, controller, limits=limits, period_s=period_s)
    host.run(PERIODS)
    return host


def measured(case: Case, name: str, say: Callable[[str], None]) -> dict[str, Any]:
    """All of a case on a machine: by level, by hand, dedicated, and the story of two elastic runs."""
    machine, curve = MACHINES[name], {}
    for threads in levels(machine):
        say(f"{name}, {case.name}: {threads} threads")
        curve[threads] = round(static(case, machine, threads), 1)
    best = max(curve.values())
    noise = _POWER8_NOISE if name == "Power8" else 0.0
    found: dict[str, Any] = {
        "manual": round(manual(case), 1),
        "dedicated": round(static(case, machine, None), 1),
        "levels": curve,
    }
    for how, controller in (("elastic", ThreadLevels()), ("paper", ThreadLevels(change_in_load="paper"))):  # fmt: skip
        say(f"{name}, {case.name}: {how}")
        host = elastic(case, machine, best, controller, noise)
        found[how] = {
            "threads": host.levels,
            "tuples_per_s": [round(one.sample.throughput / case.hops, 1) for one in host.periods],
            "settled_after": host.settled_after,
        }
    return found


def kept() -> dict[str, dict[str, Any]]:
    """What full size gave: by machine and case."""
    found: dict[str, dict[str, Any]] = json.loads(KEPT.read_text())
    return found


def simulate_all(wanted: Sequence[str], say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """The cases of these shapes on both machines, at full size."""
    return {
        name: {case.name: measured(case, name, say) for case in cases() if case.shape in wanted}
        for name in MACHINES
    }


def main() -> None:
    """Writes what is kept."""
    found = simulate_all(
        ("pipeline", "data parallel", "both"), lambda text: print(text, flush=True)
    )
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(case)}: {json.dumps(row)}" for case, row in rows.items())
        + "\n }"
        for name, rows in found.items()
    ]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
