"""Durable runs that crash at chosen points, into an output that keeps each batch once and looks at repeats."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.checkpoint import record as records
from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.hosts.opened import OpenCheckpoint
from thalweg.checkpoint.paths import resolve
from thalweg.columns.chunks import Chunk
from thalweg.embedded.durable import reading
from thalweg.embedded.durable.outputs import DurableOutputs
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import make_plan
from thalweg.slots import slot_state


class Crash(BaseException):
    """What ends a run at a point."""


class Crashes:
    """Raises at the n-th point that a run passes.

    The points: each chunk that is fed, what was read is written down, state is saved, each sink has its rows, all
    have, the record is written, old files are gone.
    """

    def __init__(self) -> None:
        self.left = 0
        self.passed = 0

    def after(self, n: int) -> None:
        """The n-th point from now on crashes; 0: none does."""
        self.left, self.passed = n, 0

    def point(self) -> None:
        self.passed += 1
        if self.left and self.passed == self.left:
            raise Crash

    @contextlib.contextmanager
    def installed(self) -> Iterator[Crashes]:
        with pytest.MonkeyPatch.context() as patch:
            self._wrap(patch, planned, "write")
            self._wrap(patch, planned, "clean")
            self._wrap(patch, slot_state, "save")
            self._wrap(patch, DurableOutputs, "take")
            self._wrap(patch, DurableOutputs, "write", before=True)
            self._wrap(patch, OpenCheckpoint, "commit", before=True)
            yield self

    def _wrap(
        self, patch: pytest.MonkeyPatch, owner: Any, name: str, *, before: bool = False
    ) -> None:
        plain = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            if before:
                self.point()
            result = plain(*args, **named)
            self.point()
            return result

        patch.setattr(owner, name, call)


@dataclasses.dataclass
class Database:
    """A target: the rows of each batch, once; one that comes again must be the same."""

    crashes: Crashes
    batches: dict[int, list[Any]] = dataclasses.field(default_factory=dict)
    queries: set[str] = dataclasses.field(default_factory=set)
    made_by = "Database"

    @property
    def place(self) -> str:
        return f"database {id(self)}"

    def check(self, sink: Sink) -> None:
        pass

    def open(self, sink: Sink, query: str) -> _Writer:
        self.queries.add(query)
        return _Writer(self, sink)

    @property
    def rows(self) -> list[Any]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]


class _Writer:
    def __init__(self, database: Database, sink: Sink) -> None:
        self._database, self._sink = database, sink

    def write(self, batch: int, table: pa.Table) -> None:
        rows = Chunk.from_arrow(self._sink.record, table).rows()
        known = self._database.batches
        assert batch >= max(known, default=-1), (batch, sorted(known))
        if batch in known:
            assert repr(known[batch]) == repr(rows), f"batch {batch} has other rows now"
        known[batch] = rows
        self._database.crashes.point()

    def close(self) -> None:
        pass


def run_with_crashes(
    make: Any, inputs: Mapping[str, Any], checkpoint: str, seed: int, *, threads: int = 1
) -> tuple[dict[str, list[Any]], dict[str, dict[str, int]], int]:
    """Runs a flow to its end through crashes at random points, with other cuts after each.

    Returns:
        The rows of each sink, all counts, and how many crashes there were.
    """
    chooser = random.Random(seed)
    crashes = Crashes()
    flow = make()
    sinks = {node.name: Database(crashes) for node in make_plan(flow).sinks}
    many = 0
    with crashes.installed(), pytest.MonkeyPatch.context() as patch:
        while True:
            crashes.after(chooser.choice((0, 1, 2, 3, 5, 8, 13, 21, 34)) if many < 12 else 0)
            patch.setattr(reading, "ROUND_ROWS", chooser.choice((1, 2, 5, 17, 1000)))
            try:
                tw.run(
                    flow, inputs, sinks, checkpoint=checkpoint, every=chooser.choice((0, 0, 0, "2 ms")),
                    chunk_rows=chooser.choice((1, 3, 16, 65_536)),
                    threads=chooser.randint(1, threads),
                )  # fmt: skip
                break
            except Crash:
                many += 1
                latest = records.latest(*resolve(f"{checkpoint}/thalweg"))
                if latest is not None and latest.finished:
                    break
    assert len({query for one in sinks.values() for query in one.queries}) <= 1
    latest = records.latest(*resolve(f"{checkpoint}/thalweg"))
    assert latest is not None and latest.finished
    counts = {name: dict(of) for name, of in latest.counters.items()}
    return {name: one.rows for name, one in sinks.items()}, counts, many
