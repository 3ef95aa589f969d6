"""The graphs of Schneider & Wu, section 5, as flows of compiled functions, and their runs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import thalweg as tw
from thalweg.datagen import parametric
from thalweg_lab.figures.contract import Effort, Progress, ShapeCheck
from thalweg_lab.figures.rig import Driven, SinkCount, count, drive, in_turn, median

#: A floating point operation of the paper is a nanosecond here, µs.
FLOP_US: Final = 0.001
#: Rows of a step: the paper's tuples travel alone, a row here with others, since handing a step over costs more than a
#: cheap row.
CHUNK_ROWS: Final = 64
#: Steps of dear rows are short, so that many are through in the time that is measured, µs of all operators together.
_STEP_US: Final = 20_000.0
#: The paper's threading models: what :func:`thalweg.run` is told.
MODELS: Final = ("manual", "dedicated", "dynamic 1", "dynamic 2")


def pipeline(operators: int, us: float) -> tw.Flow:
    """Operators in a row behind the source; neighbours treat errors differently, so that none are fused."""
    flow = tw.Flow("pipeline")
    stream = flow.source("tuples", parametric.Tuple, order_by="ts")
    work = parametric.stateless(us)
    for i in range(operators):
        stream = stream.map(work, name=f"work{i}", errors="reject" if i % 2 else "fail")
    stream.process(count, state=SinkCount, name="snk").sink("out")
    return flow


def _lane(place: int, width: int) -> Callable[[parametric.Tuple], bool]:
    def mine(row: parametric.Tuple) -> bool:
        return row.key % width == place

    return mine


def dealt(width: int, depth: int, us: float) -> tw.Flow:
    """Tuples are dealt in turn to so many pipelines, which all meet in one sink operator that counts (5.2, 5.3)."""
    flow = tw.Flow("dealt")
    tuples = flow.source("tuples", parametric.Tuple, order_by="ts")
    work = parametric.stateless(us)
    ends = []
    for lane in range(width):
        stream = tuples.filter(_lane(lane, width), name=f"deal{lane}")
        for i in range(depth):
            stream = stream.map(work, name=f"work{lane}_{i}", errors="reject" if i % 2 else "fail")
        ends.append(stream)
    met = ends[0].union(*ends[1:], name="meet") if width > 1 else ends[0]
    met.process(count, state=SinkCount, name="snk").sink("out")
    return flow


def run_models(
    flow: tw.Flow, row_us: float, effort: Effort, say: Progress, what: str, keys: int = 1
) -> dict[str, Driven]:
    """Each threading model in turn; of several runs the median.

    Args:
        row_us: what a row costs all operators that it passes together, µs.
        keys: of the tuples: they are dealt by key.
    """
    chunk_rows = max(1, min(CHUNK_ROWS, int(_STEP_US / max(row_us, 1e-9))))
    seconds, warm_s, repeats = (0.5, 0.2, 1) if effort == "quick" else (2.0, 0.5, 2)

    def run(model: str) -> Driven:
        say(f"{what}, {model}")
        return drive(
            flow, seconds=seconds, warm_s=warm_s, chunk_rows=chunk_rows, keys=max(keys, 1), **_how(model)
        )  # fmt: skip

    found = in_turn({model: lambda model=model: run(model) for model in MODELS}, repeats)  # type: ignore[misc]
    return {
        model: Driven(median([one.rows_per_s for one in runs]), median([one.cpu_us for one in runs]))
        for model, runs in found.items()
    }  # fmt: skip


def _how(model: str) -> dict[str, object]:
    if model.startswith("dynamic"):
        return {"options": tw.Options(threads=int(model.split()[1]))}
    return {"threading": model}


def told(found: dict[str, Driven]) -> str:
    """What the models gave, in a line."""
    return ", ".join(
        f"{model} {one.rows_per_s:,.0f}/s ({one.cpu_us:.3g} µs CPU)" for model, one in found.items()
    )


def cpu_check(what: str, found: dict[str, Driven], least: float) -> ShapeCheck:
    """A second thread costs little: a row takes two threads not much more CPU time than one.

    By the clock this says what two threads gain where two processors are free, and it holds where they are not.
    """
    ratio = found["dynamic 1"].cpu_us / found["dynamic 2"].cpu_us
    return ShapeCheck(
        f"real, {what}: two threads do at least {least:.0%} of what one does in the same CPU time",
        ratio >= least,
        f"{ratio:.0%}",
    )


def manual_check(what: str, found: dict[str, Driven]) -> ShapeCheck:
    """Manual threading puts out less than dynamic: the paper's quantity, tuples that leave a second."""
    manual = found["manual"].rows_per_s
    dynamic = max(found["dynamic 1"].rows_per_s, found["dynamic 2"].rows_per_s)
    return ShapeCheck(
        f"real, {what}: manual puts out less than dynamic",
        manual < dynamic,
        f"{manual:,.0f} rows/s against {dynamic:,.0f}",
    )
