"""What rounds cost, for Figures 5 to 7: parts of a round's CPU time as a share of the workers' time."""

from __future__ import annotations

from thalweg.scheduling import RoundPolicy
from thalweg_lab.figures.haren.compared import THREADS, base_ns, cores
from thalweg_lab.figures.haren.queries import Rate, drawn
from thalweg_lab.figures.haren.runs import run


def shares(
    policy: RoundPolicy, queries: int, *, seconds: float, load: float = 0.7
) -> dict[str, float]:
    """By part, the share of all workers' time that it takes, %.

    While one worker prepares a round the others wait, so a part takes as much of each one's time as of its own.
    ``meet`` is by the clock, from the first that comes to a meeting to the last; the others are CPU time: features are
    read, f gives operators to workers, g ranks and sorts them, lists are written.
    """
    made = drawn([Rate(100.0)] * queries, seed=3)
    ran = run(
        made, policy, base_ns=base_ns(made, load, cores()), seconds=seconds, threads=THREADS,
        by_batch=True, warm_up_s=0.3,
    )  # fmt: skip
    costs = ran.rounds
    assert costs is not None, "a policy of rounds has rounds"
    whole_ns = (0.3 + seconds) * 1e9
    parts = {
        "meet": costs.meet_ns,
        "update": costs.refresh_ns,
        "assign": costs.assign_ns,
        "priority and sort": costs.order_ns,
        "lists": costs.write_ns,
    }
    found = {part: 100 * ns / whole_ns for part, ns in parts.items()}
    return {**found, "total": sum(found.values()) - found["meet"]}
