"""The engine of a durable run: so many threads as were asked for, or as pay, as in a run without a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from thalweg.elasticity.waiting import WAITING_THREADS
from thalweg.embedded.amount import needs_one_thread, rows_at_most
from thalweg.engine.build import Prepared
from thalweg.engine.contract import Engine
from thalweg.engine.machine import usable_processors
from thalweg.slots.slot_state import make_engine
from thalweg.workers.adaptive import AdaptiveEngine
from thalweg.workers.options import Options


class DurableEngine(NamedTuple):
    """What runs a durable flow.

    Attributes:
        engine: of the whole flow.
        pass_by: is told how long there was nothing to do, seconds.
    """

    engine: Engine
    pass_by: Callable[[float], None]


def engine_of(
    prepared: Prepared, inputs: Mapping[str, Any], *, chunk_rows: int | None, threads: int | None
) -> DurableEngine:
    """The engine of a flow; threads that it has start later.

    Args:
        prepared: the flow.
        inputs: by source name, whose size says whether threads can pay.
        chunk_rows: about how many rows move at once; None: the default.
        threads: how many; None: as many as pay, and more where functions wait.
    """
    if threads is not None:
        made = make_engine(prepared, None, chunk_rows=chunk_rows, threads=threads)
        return DurableEngine(made, _nothing)
    rows = rows_at_most(prepared.plan, inputs)
    options = Options(threads=usable_processors(), waiting_threads=WAITING_THREADS)
    adaptive = AdaptiveEngine(
        prepared, rows=rows, only_waiting=needs_one_thread(rows), chunk_rows=chunk_rows,
        options=options,
    )  # fmt: skip
    return DurableEngine(adaptive, adaptive.pass_by)


def _nothing(seconds: float) -> None:
    """The number of threads follows from nothing that is measured."""
