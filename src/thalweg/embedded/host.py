"""A flow in this process: its inputs, its engine, and where its outputs go."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.checks import refuse, require_count, require_mapping
from thalweg.columns.chunks import Chunk
from thalweg.connectors import (
    BatchSink,
    CollectSink,
    RowSink,
    as_source,
    choose_sinks,
    opened,
    runs_user_code,
)
from thalweg.connectors.contracts import Feed
from thalweg.connectors.names import check_names
from thalweg.connectors.own_input import refuse_own_input
from thalweg.embedded.by_column import by_column
from thalweg.embedded.dropped import tell_dropped
from thalweg.embedded.feeding import Event, Feeding
from thalweg.embedded.generators import generators
from thalweg.embedded.lanes import refuse_unknown_lanes, tell_lanes
from thalweg.embedded.measures import places_of, policy_of
from thalweg.embedded.read_ahead import is_worth_a_thread, read_ahead
from thalweg.embedded.result import Result as Result
from thalweg.engine.build import Prepared, prepare
from thalweg.engine.contract import CHUNK_ROWS, Engine, Leaving
from thalweg.engine.meter import Meter
from thalweg.engine.narrow import narrowed
from thalweg.engine.port_room import PortRooms
from thalweg.engine.serial import SerialEngine
from thalweg.engine.stamps import Stamps
from thalweg.engine.watermarks.idle_clock import refuse_useless
from thalweg.errors import ThalwegError
from thalweg.flow.failures import reason_of
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Edge, Plan, make_plan
from thalweg.slots import SlottedEngine
from thalweg.snapshot import Snapshot
from thalweg.stats import Change, LatencyHistogram
from thalweg.workers.adaptive import AdaptiveEngine
from thalweg.workers.elastic import ElasticThreads, elastic_of
from thalweg.workers.engine import HeldUp, ParallelEngine
from thalweg.workers.options import Options
from thalweg.workers.step_size import STEP_ROWS
from thalweg.workers.threads import Workers


@contextlib.contextmanager
def _closing(feed: Feed) -> Iterator[Feed]:
    """Closes the feed at the end, unless a thread that was left behind still runs it."""
    try:
        yield feed
    finally:
        if inspect.getgeneratorstate(feed) != inspect.GEN_RUNNING:
            feed.close()


_LOG: Final = logging.getLogger("thalweg")


def _source_rows(chunk_rows: int | None, how: Options | None) -> int:
    """Rows of the chunks that sources bring."""
    if chunk_rows is None:
        return CHUNK_ROWS if how is None else STEP_ROWS
    require_count("chunk_rows", chunk_rows)
    return chunk_rows


def _serial(prepared: Prepared, chunk_rows: int) -> Engine:
    return SerialEngine(prepared, chunk_rows=chunk_rows)


class FlowHost:
    """One run of a flow: where its rows come from, the engine, and what it gives to whom.

    Args:
        plan: of the flow.
        inputs: by source name.
        sinks: by sink name; those that are not named collect.
        chunk_rows: about how many rows move at once; None: the default.
        how: None runs it in the thread that brings the rows.
        workers: those that it shares with other flows.
        priority_class: of the flow, for policies that ask for it.
        elastic: changes the threads that it shares.
        engine_of: makes another engine than ``how`` says, with so many rows a step.
        changes: grows by what that engine changes.
        inputs_rows: where nobody has asked for threads, about how many rows come in all: then they must pay. Where
            Python runs an operator they do only if it waits: the interpreter's lock lets one at a time run.
        only_waiting: nor do they else, as there is little to do.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Any],
        sinks: Mapping[str, Any],
        chunk_rows: int | None,
        how: Options | None,
        *,
        workers: Workers | None = None,
        priority_class: int = 0,
        elastic: ElasticThreads | None = None,
        engine_of: Callable[[Prepared, int], Engine] | None = None,
        changes: Sequence[Change] = (),
        inputs_rows: float | None = None,
        only_waiting: bool = False,
    ) -> None:
        plan = narrowed(plan, by_column(inputs))
        self.plan = plan
        self._changes = changes
        #: of threads, by hand
        self._asked: list[Change] = []
        self._rows = _source_rows(chunk_rows, how)
        #: nobody has said how many rows move at once
        self._adapts = chunk_rows is None
        inputs = {**inputs, **generators(plan)}
        self._sources = {s.name: as_source(s.name, inputs[s.name]) for s in plan.sources}
        refuse_unknown_lanes(plan, self._sources)
        self._sinks = choose_sinks(plan.flow, plan.sinks, sinks)
        refuse_own_input(inputs, self._sinks)
        self._began = self._entered = time.monotonic_ns()
        #: a sink's calls come one at a time
        self._latency = {sink.name: LatencyHistogram() for sink in plan.sinks}
        self._elastic, self._owns_elastic = elastic, False
        prepared = prepare(plan)
        self._feeding: Feeding | None = None
        #: what it came to, once it has ended
        self._final: Snapshot | None = None
        self._is_stopped = False
        self.engine: Engine
        if how is None:
            self.engine = (engine_of or _serial)(prepared, chunk_rows or CHUNK_ROWS)
        else:
            self.engine = self._parallel(
                prepared, chunk_rows, how, inputs_rows, only_waiting=only_waiting,
                workers=workers, priority_class=priority_class,
            )  # fmt: skip
        tell_lanes(self.engine, inputs)
        self._meter = Meter(prepared, self.engine)

    def _parallel(
        self,
        prepared: Prepared,
        chunk_rows: int | None,
        how: Options,
        rows: float | None,
        *,
        only_waiting: bool,
        workers: Workers | None,
        priority_class: int,
    ) -> ParallelEngine:
        """An engine of many threads, which write to the sinks; what changes their number, where they are its own."""
        user_code = (one for one in self.plan.sinks if runs_user_code(self._sinks[one.name]))
        given: dict[str, Any] = {
            "chunk_rows": chunk_rows, "options": how, "leave": self._leave,
            "needs_token": frozenset(Edge(node.index, 0) for node in user_code),
            "priority_class": priority_class,
            "by_batches": any(isinstance(one, BatchSink) for one in self._sinks.values()),
        }  # fmt: skip
        if rows is None:
            engine = ParallelEngine(prepared, workers=workers, **given)
        elif only_waiting or not any(one.live for one in self._sources.values()):
            return self._adaptive(prepared, rows, only_waiting=only_waiting, **given)
        else:
            try:
                engine = ParallelEngine(prepared, only_if_free=True, **given)
            except HeldUp:
                return self._adaptive(prepared, rows, only_waiting=True, **given)
        if workers is None:
            self._elastic = elastic_of(engine.workers, engine.options)
            self._owns_elastic = self._elastic is not None
        return engine

    def _adaptive(self, prepared: Prepared, rows: float, **given: Any) -> AdaptiveEngine:
        self._rows = _source_rows(given["chunk_rows"], None)
        return AdaptiveEngine(prepared, rows=rows, **given)

    def run(self, stop: Event) -> Result:
        """Runs it until the inputs end, or ``stop`` is set; closes all that it has opened.

        Raises:
            Exception: what a source, an operator or a sink raised.
        """
        self._began = self._entered = time.monotonic_ns()
        self._meter.begin()
        with contextlib.ExitStack() as stack, self._ended():
            # Again below, ahead of sinks: here for where opening fails.
            stack.callback(self.engine.stop)
            for given in self._sources.values():
                stack.callback(given.close)
            feeds = {
                source.name: stack.enter_context(_closing(self._feed(source, stop)))
                for source in self.plan.sources
            }
            stack.enter_context(opened(self.plan.sinks, self._sinks))
            stack.callback(self.engine.stop)
            if self._elastic is not None and self._owns_elastic:
                self._elastic.start()
                stack.callback(self._elastic.stop)
            # Ahead of all that waits for threads: they look at it.
            stack.callback(stop.set)
            self._read(feeds, stop)
            tell_dropped(self.plan, self.engine.counts)
            self._final = self._snapshot("ended")
            return _result(self.plan, self.engine, self._sinks, self._final)

    @contextlib.contextmanager
    def _ended(self) -> Iterator[None]:
        """Where it fails or is stopped, what it came to is kept."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(Exception):  # which would hide why it failed
                why = "" if self._is_stopped else reason_of(error)
                self._final = self._snapshot("stopped" if self._is_stopped else "failed", why)
            raise

    def _feed(self, source: Source, stop: Event) -> Feed:
        given = self._sources[source.name]
        # What is there already is read in large chunks, which cost less a row; steps are cut of them.
        rows = self._rows if given.live or not self._adapts else max(self._rows, CHUNK_ROWS)
        feed = given.rows(source.given, rows, stop)
        return read_ahead(source.name, feed, rows, stop) if is_worth_a_thread(given) else feed

    def halt(self) -> None:
        """What is on its way in other threads is dropped; waits for nothing."""
        self._is_stopped = True
        if self.engine.beside is not None:
            self.engine.beside.halt()
        self.engine.give_up()

    def close(self) -> None:
        """Gives up a run that was never begun."""
        self.engine.stop()
        for given in self._sources.values():
            given.close()

    def _read(self, feeds: Mapping[str, Feed], stop: Event) -> None:
        """Reads all inputs to their end, and ends the streams."""
        engine, sources = self.engine, self._sources
        for node in self.plan.nodes:
            engine.setting.count(node.label)  # also those that no row will reach
        if engine.beside is not None or any(one.live for one in sources.values()):
            self._feeding = Feeding(engine, sources, feeds, stop, self._write)
            self._feeding.run()
        else:
            PortRooms(engine.coroutines, self.plan, dict.fromkeys(feeds, False))
            stamps = Stamps(self.plan)
            for name, feed in feeds.items():
                for chunk, bad in feed:
                    rows = stamps.fill(name, chunk, engine.gates) if stamps else chunk
                    self._write(engine.feed(name, rows, bad))
                    for leaving in engine.advance():
                        self._write(leaving)
                        self._require_going()
                    if stop.is_set():
                        break
        self._require_going()
        for leaving in itertools.chain(engine.finish(), engine.settle()):
            self._write(leaving)

    def _require_going(self) -> None:
        if self._is_stopped:
            raise ThalwegError(f"flow {self.plan.flow!r} was stopped before its end")

    @property
    def is_in_threads(self) -> bool:
        """Whether many threads were asked for, so that they may be changed; a default run finds them itself."""
        engine = self.engine
        return isinstance(engine, ParallelEngine) and not isinstance(engine, AdaptiveEngine)

    @property
    def is_elastic(self) -> bool:
        """Whether a controller says how many threads run."""
        return self._elastic is not None

    def _write(self, leaving: Leaving) -> None:
        """Gives what left through sinks to where their rows go."""
        for edge, chunks in leaving.items():
            for chunk in chunks:
                self._leave(edge, chunk, self._entered)
        self._entered = time.monotonic_ns()

    def _leave(self, edge: Edge, chunk: Chunk, entered_ns: int) -> None:
        name = self.plan.node(edge.node).name
        self._sinks[name].write(chunk)
        self._latency[name].add(time.monotonic_ns() - entered_ns, len(chunk))

    def progress(self) -> Snapshot:
        """How the run goes, or went."""
        return self._final or self._snapshot("running")

    def look(self) -> None:
        """Looks what is back-pressured; as often as one likes."""
        if self._final is None:
            self._meter.look()

    def threads_changed(self, before: int, after: int, reason: str) -> None:
        """Somebody has given it another number of threads."""
        if before != after:
            seconds = (time.monotonic_ns() - self._began) * 1e-9
            self._asked.append(
                Change(
                    seconds=seconds, what="threads", operator="", before=before, after=after, reason=reason
                )
            )  # fmt: skip
            _LOG.info("threads: %d -> %d, %s", before, after, reason)

    def _all_changes(self) -> tuple[Change, ...]:
        decided = self._changes if self._elastic is None else self._elastic.changes
        if not self._asked:
            return tuple(decided)
        return tuple(sorted([*decided, *self._asked], key=lambda one: one.seconds))

    def _snapshot(self, status: str, error: str = "") -> Snapshot:
        beside, elastic = self.engine.beside, self._elastic
        latency = {name: one.latency() for name, one in self._latency.items()}
        known = {name: one for name, one in latency.items() if one is not None}
        idle = () if self._feeding is None else tuple(self._feeding.idle())
        measured = self._meter.measured(
            latency=known, idle=idle, inputs=places_of(self._sources), ended=status != "running"
        )
        return measured.snapshot(
            flow=self.plan.flow,
            host="slots" if isinstance(self.engine, SlottedEngine) else "process",
            status=status,
            error=error,
            at_s=time.time(),
            seconds=(time.monotonic_ns() - self._began) * 1e-9,
            latency=known,
            idle=idle,
            threads=1 if beside is None else beside.threads,
            slots=self.engine.table.slots if isinstance(self.engine, SlottedEngine) else 1,
            changes=self._all_changes(),
            stuck=elastic.stuck if elastic is not None else (),
            policy=policy_of(self.engine),
        )


def _result(plan: Plan, engine: Engine, sinks: Mapping[str, RowSink], progress: Snapshot) -> Result:
    kept = {name: sink.chunks for name, sink in sinks.items() if isinstance(sink, CollectSink)}
    tables = {
        sink.name: pa.Table.from_batches(
            [chunk.to_arrow() for chunk in kept[sink.name]], schema=sink.record.arrow
        )
        for sink in plan.sinks
        if sink.name in kept
    }
    return Result(tables, engine.counts, progress, kept)


def required_plan(flow: Flow, inputs: Mapping[str, Any]) -> Plan:
    """The plan of a flow that these inputs fit.

    Raises:
        BuildError: it is no flow, or they do not fit it.
    """
    if not isinstance(flow, Flow):
        raise refuse("run", "flow", "a tw.Flow", flow)
    require_mapping("run", "inputs by source name", inputs=inputs)
    plan = make_plan(flow)
    check_names(plan, inputs)
    refuse_useless(plan)
    return plan


def collect(plan: Plan, leaving: Leaving, out: dict[str, list[Chunk]]) -> None:
    """Adds what left through sinks to the lists of each sink."""
    for edge, chunks in leaving.items():
        out[plan.node(edge.node).name] += chunks
