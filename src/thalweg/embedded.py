"""The embedded host: a flow run in this process, without Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import pyarrow as pa

from thalweg.errors import BuildError
from thalweg.flow import Flow
from thalweg.plan import Edge, Plan, make_plan
from thalweg.runtime.build import Prepared, prepare
from thalweg.runtime.chunks import Chunk
from thalweg.runtime.engine import CHUNK_ROWS, Engine, Leaving
from thalweg.runtime.feeding import Event, Feeding
from thalweg.runtime.io import (
    CollectSink,
    RowSink,
    as_source,
    choose_sinks,
    opened,
    runs_user_code,
)
from thalweg.runtime.io.contracts import Feed, RowSource
from thalweg.runtime.io.generators import generators
from thalweg.runtime.machine import usable_processors
from thalweg.runtime.options import Options, require_count, require_policy
from thalweg.runtime.parallel import STEP_ROWS, ParallelEngine
from thalweg.stats import LatencyHistogram, RunProgress


@dataclasses.dataclass(slots=True)
class Result:
    """What an embedded run gave.

    ``sinks`` has a pyarrow table for each sink that collects, in the order of the flow; ``counts`` rows in, out, late
    and rejected by operator, also of those that no row has reached; ``progress`` throughput, latency by sink (p50,
    p99), and what each operator did.
    """

    sinks: dict[str, pa.Table]
    counts: dict[str, dict[str, int]]
    progress: RunProgress
    _chunks: dict[str, list[Chunk]]

    def rows(self, sink: str) -> list[Any]:
        """A sink's output as records of the flow's classes.

        Raises:
            BuildError: there is no sink of that name, or its rows went elsewhere.
        """
        if sink not in self._chunks:
            known = ", ".join(sorted(self._chunks)) or "none"
            raise BuildError(f"no rows of a sink {sink!r} are kept; they are of: {known}")
        return [row for chunk in self._chunks[sink] for row in chunk.rows()]


def run(
    flow: Flow,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any] | None = None,
    *,
    threads: int | None = None,
    threading: Literal["manual", "dedicated", "dynamic"] = "dynamic",
    policy: Any = None,
    chunk_rows: int | None = None,
    options: Options | None = None,
) -> Result:
    """Runs a flow in this process until its inputs end, and returns its outputs.

    The output is that of a serial run, whatever the arguments from ``threads`` on.

    Args:
        flow: the flow.
        inputs: by source name, in arrival order: a pyarrow table, rows (records, tuples, mappings, record batches or
            tables) as a collection or an iterator, or ``tw.files``, ``tw.tcp_lines``, ``tw.push_source``,
            ``tw.from_iterable``.
        sinks: by sink name, where rows go: ``tw.to_files``, ``tw.to_tcp``, ``tw.each``, or a function of a
            pyarrow.RecordBatch (``tw.batches``); the other sinks collect theirs for the result.
        threads: how many workers run the operators; None: all usable cores, but the calling thread alone for small
            inputs that are there already.
        threading: ``dynamic`` sends workers where ``policy`` says; ``dedicated`` gives each operator a thread;
            ``manual`` runs all operators in the thread that brings the rows.
        policy: who runs next, of :mod:`thalweg.scheduling`; None is the free list.
        chunk_rows: about how many rows move at once; None: in many threads as many as the dearest operator does
            in about 2 ms, at most 16,384.
        options: all that there is to say about a run in many threads, instead of threads, threading and policy.

    Raises:
        BuildError: an input is missing, there is no source or sink of a name, or what was given does not fit.
        DataError: a row does not fit its record, or a function raised, under ``errors="fail"``.
        EnvironmentProblem: a file cannot be written, or a peer cannot be reached.
    """
    if not isinstance(flow, Flow):
        raise BuildError(f"run: expected a tw.Flow, got {type(flow).__name__}")
    if not isinstance(inputs, Mapping):
        raise BuildError(f"run: expected inputs by source name, got {type(inputs).__name__}")
    if options is not None and not isinstance(options, Options):
        raise BuildError(f"options: expected Options, got {type(options).__name__}")
    plan = make_plan(flow)
    check_names(plan, inputs)
    inputs = {**inputs, **generators(plan)}
    how = options or _options(inputs, threads, threading, policy)
    rows = _source_rows(chunk_rows, how)
    sources = {source.name: as_source(source.name, inputs[source.name]) for source in plan.sources}
    chosen = choose_sinks(plan.flow, plan.sinks, sinks or {})
    stop = Event()
    with contextlib.ExitStack() as stack:
        for given in sources.values():
            stack.callback(given.close)
        feeds = {
            source.name: stack.enter_context(
                _closing(sources[source.name].rows(source, rows, stop))
            )
            for source in plan.sources
        }
        stack.enter_context(opened(plan.sinks, chosen))
        run_of = _Run(plan, prepare(plan), chosen, chunk_rows, how)
        stack.callback(run_of.engine.stop)
        # Ahead of all that waits for threads: they look at it.
        stack.callback(stop.set)
        run_of.read(sources, feeds, stop)
        return run_of.result()


@contextlib.contextmanager
def _closing(feed: Feed) -> Iterator[Feed]:
    """Closes the feed at the end, unless a thread that was left behind still runs it."""
    try:
        yield feed
    finally:
        if inspect.getgeneratorstate(feed) != inspect.GEN_RUNNING:
            feed.close()


#: Inputs that are there already and have fewer rows in all are run by the calling thread.
_SMALL: Final = 50_000


def _options(
    inputs: Mapping[str, Any], threads: int | None, threading: str, policy: Any
) -> Options | None:
    """How the run goes; None: in the thread that brings the rows."""
    if threading not in ("manual", "dedicated", "dynamic"):
        raise BuildError(
            f"threading: expected 'manual', 'dedicated' or 'dynamic', got {threading!r}"
        )
    if threads is not None:
        require_count("threads", threads)
    if policy is not None:
        require_policy(policy)
        if threading != "dynamic":
            raise BuildError(f"policy: threading {threading!r} leaves nothing to choose")
    if threading == "manual":
        return None
    if threads is None and threading == "dynamic" and policy is None and _are_small(inputs):
        return None
    count = usable_processors() if threads is None else threads
    if threading == "dedicated":
        return Options(threads=count, threading="dedicated")
    return Options(threads=count, policy=policy) if count > 1 or policy is not None else None


def _are_small(inputs: Mapping[str, Any]) -> bool:
    rows = 0
    for given in inputs.values():
        if isinstance(given, (pa.Table, pa.RecordBatch)):
            rows += given.num_rows
        elif isinstance(given, (list, tuple)):
            rows += len(given)
        else:
            return False
    return rows < _SMALL


def _source_rows(chunk_rows: int | None, how: Options | None) -> int:
    """Rows of the chunks that sources bring."""
    if chunk_rows is None:
        return CHUNK_ROWS if how is None else STEP_ROWS
    require_count("chunk_rows", chunk_rows)
    return chunk_rows


class _Run:
    """One run: the engine, and what it gives to whom."""

    def __init__(
        self,
        plan: Plan,
        prepared: Prepared,
        sinks: Mapping[str, RowSink],
        chunk_rows: int | None,
        how: Options | None,
    ) -> None:
        self._plan = plan
        self._sinks = sinks
        self._began = time.monotonic_ns()
        self._entered = self._began
        #: a sink's calls come one at a time
        self._latency = {sink.name: LatencyHistogram() for sink in plan.sinks}
        self.engine = (
            Engine(prepared, chunk_rows=chunk_rows or CHUNK_ROWS)
            if how is None
            else ParallelEngine(
                prepared,
                chunk_rows=chunk_rows,
                options=how,
                leave=self._leave,
                needs_token=frozenset(
                    Edge(node.index, 0) for node in plan.sinks if runs_user_code(sinks[node.name])
                ),
            )
        )

    def read(
        self, sources: Mapping[str, RowSource], feeds: Mapping[str, Feed], stop: Event
    ) -> None:
        """Reads all inputs to their end, and ends the streams."""
        engine = self.engine
        for node in self._plan.nodes:
            engine.setting.count(node.label)  # also those that no row will reach
        if isinstance(engine, ParallelEngine) or any(one.live for one in sources.values()):
            Feeding(engine, sources, feeds, stop, self._write).run()
        else:
            for name, feed in feeds.items():
                for chunk, bad in feed:
                    self._write(engine.feed(name, chunk, bad))
                    for leaving in engine.advance():
                        self._write(leaving)
        for leaving in itertools.chain(engine.finish(), engine.settle()):
            self._write(leaving)

    def _write(self, leaving: Leaving) -> None:
        """Gives what left through sinks to where their rows go."""
        for edge, chunks in leaving.items():
            for chunk in chunks:
                self._leave(edge, chunk, self._entered)
        self._entered = time.monotonic_ns()

    def _leave(self, edge: Edge, chunk: Chunk, entered_ns: int) -> None:
        name = self._plan.node(edge.node).name
        self._sinks[name].write(chunk)
        self._latency[name].add(time.monotonic_ns() - entered_ns, len(chunk))

    def progress(self) -> RunProgress:
        """How the run goes."""
        seconds = (time.monotonic_ns() - self._began) * 1e-9
        rows = sum(self.engine.counts.get(s.name, {}).get("in", 0) for s in self._plan.sources)
        latency = {name: one.latency() for name, one in self._latency.items()}
        return RunProgress(
            rows_in=rows,
            seconds=seconds,
            rows_per_s=rows / max(seconds, 1e-9),
            latency={name: one for name, one in latency.items() if one is not None},
            operators=self.engine.operators(),
        )

    def result(self) -> Result:
        """What the sinks kept."""
        return _result(self._plan, self.engine, self._sinks, self.progress())


def _result(
    plan: Plan, engine: Engine, sinks: Mapping[str, RowSink], progress: RunProgress
) -> Result:
    kept = {name: sink.chunks for name, sink in sinks.items() if isinstance(sink, CollectSink)}
    tables = {
        sink.name: pa.Table.from_batches(
            [chunk.to_arrow() for chunk in kept[sink.name]], schema=sink.record.arrow
        )
        for sink in plan.sinks
        if sink.name in kept
    }
    return Result(tables, engine.counts, progress, kept)


def check_names(plan: Plan, inputs: Mapping[str, Any]) -> None:
    """Refuses inputs that do not fit the flow's sources by name."""
    made = {source.name: source.made_by for source in plan.sources if source.made_by is not None}
    for name in sorted(made.keys() & inputs.keys()):
        raise BuildError(
            f"operator {name!r}: {made[name].function.where} makes its rows itself, and takes no input"
        )
    names = {source.name for source in plan.sources} - made.keys()
    for missing in sorted(names - inputs.keys()):
        raise BuildError(
            f"flow {plan.flow!r} has a source {missing!r}, but no input of that name was given"
        )
    for extra in sorted(inputs.keys() - names):
        raise BuildError(
            f"flow {plan.flow!r} has no source {extra!r}; it has {', '.join(sorted(names)) or 'none'}"
        )


def collect(plan: Plan, leaving: Leaving, out: dict[str, list[Chunk]]) -> None:
    """Adds what left through sinks to the lists of each sink."""
    for edge, chunks in leaving.items():
        out[plan.node(edge.node).name] += chunks
