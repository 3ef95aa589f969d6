"""Curves of throughput over threads, simulated, and the checks of their shape that figures 8 and 9 share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg_lab.figures.contract import Effort, Line, Panel, Progress, ShapeCheck
from thalweg_lab.figures.schneider_wu import simulated

#: What the controller's last five periods count for, as in the paper (section 5).
_LAST: Final = 5
Found = Mapping[str, Mapping[str, Any]]


def found(shapes: Sequence[str], effort: Effort, say: Progress) -> Found:
    """The cases at full size: simulated anew, or those that are kept."""
    if effort == "full":
        return simulated.simulate_all(shapes, say)
    kept = simulated.kept()
    return {
        name: {case: row for case, row in rows.items() if case.rsplit(" ", 1)[0] in shapes}
        for name, rows in kept.items()
    }


def case(machine: str, name: str, effort: Effort, say: Progress) -> Mapping[str, Any]:
    """One case on one machine, simulated anew or kept."""
    if effort == "full":
        wanted = next(one for one in simulated.cases() if one.name == name)
        return simulated.measured(wanted, machine, say)
    kept: Mapping[str, Any] = simulated.kept()[machine][name]
    return kept


def still_so(shape: str, flops: int, threads: int, say: Progress) -> ShapeCheck:
    """A point of what is kept, simulated anew."""
    say(f"a point of what is kept: {shape} {flops:,}, {threads} threads")
    wanted = next(one for one in simulated.cases() if (one.shape, one.flops) == (shape, flops))
    machine = simulated.MACHINES["Xeon"]
    now = round(simulated.static(wanted, machine, threads), 1)
    kept = simulated.kept()["Xeon"][wanted.name]["levels"][str(threads)]
    return ShapeCheck(
        "what is kept is what the simulator gives", now == kept, f"{now:,.0f}/s now, {kept:,.0f} kept"
    )  # fmt: skip


def curve(row: Mapping[str, Any]) -> dict[int, float]:
    """Tuples a second by level."""
    return {int(level): float(rate) for level, rate in row["levels"].items()}


def best_level(row: Mapping[str, Any]) -> int:
    """Where the curve is highest."""
    known = curve(row)
    return max(known, key=known.__getitem__)


def elastic_rate(row: Mapping[str, Any], how: str = "elastic") -> float:
    """Tuples a second of the last periods."""
    last = row[how]["tuples_per_s"][-_LAST:]
    return float(sum(last) / len(last))


def panel(machine: str, case: str, row: Mapping[str, Any]) -> Panel:
    """As the paper draws it: lines over threads, level ones for what has no threads to choose."""
    known = curve(row)
    x = tuple(float(level) for level in known)
    level = row["elastic"]["threads"][-1]
    flat = {"manual": row["manual"], "dedicated": row["dedicated"]}
    return Panel(
        f"{machine}, {case} flops (simulated)",
        "threads",
        "tuples/s",
        (
            Line("dynamic static", x, tuple(known.values())),
            *(Line(name, (x[0], x[-1]), (rate, rate)) for name, rate in flat.items()),
            Line("dynamic elastic", (float(level),), (elastic_rate(row),)),
        ),
    )


def panels(cases: Found) -> tuple[Panel, ...]:
    """One a machine and case."""
    return tuple(
        panel(machine, case, row) for machine, rows in cases.items() for case, row in rows.items()
    )


def finds_the_best(cases: Found, least: float = 0.9) -> ShapeCheck:
    """The last periods of the elastic runs give about what the best static level does."""
    shares = {
        f"{machine}, {case}": elastic_rate(row) / max(curve(row).values())
        for machine, rows in cases.items()
        for case, row in rows.items()
    }
    worst = min(shares, key=shares.__getitem__)
    return ShapeCheck(
        f"the last {_LAST} periods of elastic give at least {least:.0%} of the best static level",
        shares[worst] >= least,
        f"least {shares[worst]:.0%} ({worst})",
    )


def numbers(cases: Found) -> dict[str, float]:
    """What is told of each case."""
    told: dict[str, float] = {}
    for machine, rows in cases.items():
        for case, row in rows.items():
            told[f"{machine}, {case}: best level"] = best_level(row)
            told[f"{machine}, {case}: elastic ends at"] = row["elastic"]["threads"][-1]
            told[f"{machine}, {case}: dynamic of dedicated"] = round(
                max(curve(row).values()) / row["dedicated"], 2
            )
    return told
