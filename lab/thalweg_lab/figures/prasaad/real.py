"""The queries of Prasaad et al. and parametric operators on this machine's processors, through :func:`thalweg.run`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

import thalweg as tw
from thalweg import datagen
from thalweg.datagen import parametric
from thalweg_lab.figures.contract import Effort, Progress
from thalweg_lab.figures.rig import Finite, finite, in_turn, median

QUERIES: Final = ("q01", "q02", "q03", "q04", "q15")
_ROWS: Final = {"quick": 20_000, "full": 300_000}
_REPEATS: Final = {"quick": 1, "full": 3}
#: Rows of a query's step.
CHUNK_ROWS: Final = 1_024


@functools.cache
def query(name: str, rows: int) -> tuple[tw.Flow, str, pa.Table]:
    """A query, the name of its source, and clicks or sales."""
    module: Any = importlib.import_module(f"thalweg.examples.tpcx_bb.{name}")
    (source,) = [node.name for node in module.flow.nodes if type(node).__name__ == "Source"]
    make = datagen.clickstream if source == "clicks" else datagen.store_sales
    return module.flow, source, pa.Table.from_batches(list(make(rows, seed=1, disorder_s=60)))


class Way(dict[str, Any]):
    """Settings of :class:`thalweg.Options`."""


def run_query(
    name: str, ways: Mapping[str, Way], effort: Effort, say: Progress
) -> dict[str, Finite]:
    """A query in each way, in turn; of several runs that with the median throughput."""
    flow, source, table = query(name, _ROWS[effort])
    tw.run(flow, {source: table.slice(0, 500)}, options=tw.Options(threads=2))

    def once(label: str, way: Way) -> Finite:
        say(f"{name}, {label}")
        return finite(flow, source, table, chunk_rows=CHUNK_ROWS, options=tw.Options(**way))

    made = {label: functools.partial(once, label, way) for label, way in ways.items()}
    return {label: _middle(runs) for label, runs in in_turn(made, _REPEATS[effort]).items()}


def run_tuples(
    flow: tw.Flow,
    table: pa.Table,
    ways: Mapping[str, Way],
    chunk_rows: int,
    repeats: int,
    say: Progress,
) -> dict[str, Finite]:
    """A parametric flow in each way, in turn."""
    tw.run(flow, {"tuples": table.slice(0, 2 * chunk_rows)}, options=tw.Options(threads=2))

    def once(label: str, way: Way) -> Finite:
        say(f"{flow.name}, {label}")
        return finite(flow, "tuples", table, chunk_rows=chunk_rows, options=tw.Options(**way))

    made = {label: functools.partial(once, label, way) for label, way in ways.items()}
    return {label: _middle(runs) for label, runs in in_turn(made, repeats).items()}


def unfused(first_us: float, selectivity: int, second_us: float) -> tw.Flow:
    """A stateless operator that puts out so many tuples, and a keyed one behind it."""
    flow = tw.Flow("two")
    tuples = flow.source("tuples", parametric.Tuple, order_by="ts")
    turns = round(first_us * parametric.turns_of_us())

    def expand(row: parametric.Tuple) -> Iterator[parametric.Tuple]:
        value = row.value
        for _ in range(turns):
            value = (value * value + 12_345) % 2_147_483_647
        for i in range(selectivity):
            yield parametric.Tuple(row.ts, row.key + i, value)

    expanded = tuples.flat_map(expand, name="expand")
    second = parametric.keyed(second_us)
    expanded.key_by("key").process(second, state=parametric.Seen, name="work").sink("out")
    return flow


def held_us(one: Finite, operator: str) -> float:
    """How long a chunk was in an operator on average, µs (``Options(times_held=True)``)."""
    found = next(op for op in one.result.progress.operators if op.name == operator)
    return (found.held_ns or 0.0) * 1e-3


def _middle(runs: list[Finite]) -> Finite:
    middle = median([one.rows_per_s for one in runs])
    return min(runs, key=lambda one: abs(one.rows_per_s - middle))
