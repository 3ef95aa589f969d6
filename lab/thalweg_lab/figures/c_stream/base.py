"""What figures 4 and 5 share of this machine: the chain under plug-ins, with one thread and two."""

from __future__ import annotations

import functools
from typing import Final

from thalweg_lab.figures.c_stream.flows import Ran, chain, run, tuples, under
from thalweg_lab.figures.c_stream.virtual import PLUG_INS, plug_ins
from thalweg_lab.figures.contract import Effort, Progress

COST_US: Final = 100.0
HOPS: Final = 12
_ROWS: Final[dict[Effort, int]] = {"quick": 500, "full": 4_000}


def chain_here(effort: Effort, progress: Progress) -> dict[tuple[str, int], Ran]:
    """By plug-in and threads; each is run once a process."""
    found = {}
    for name in plug_ins(effort):
        for threads in (1, 2):
            progress(f"chain, {name}, {threads} threads, this machine")
            found[name, threads] = _chain(name, threads, _ROWS[effort])
    return found


@functools.cache
def _chain(name: str, threads: int, rows: int) -> Ran:
    table = tuples(rows, lanes=1, cost_us=COST_US)
    return run(chain(HOPS), table, **under(PLUG_INS[name], threads))
