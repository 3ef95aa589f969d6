"""The serial reference runner: one tuple at a time, depth-first, plain Python; the oracle of every test.

It is written to be obviously right, not fast: each operator is what its definition says, timers sit in one
heap ordered by (time, operator, key), and nothing is compiled, chunked or parallel (docs/order.md).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.errors import DataError, OperatorError
from thalweg.flow.failures import coroutine_error, reason_of, shorten
from thalweg.flow.flow import Flow
from thalweg.flow.loops.nodes import LoopByKey
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.built_in import BuiltIn
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.joining.join_nodes import Join
from thalweg.flow.operators.nodes import (
    Batches,
    Coroutine,
    Keyed,
    Node,
    OrderBy,
    Ref,
    Sink,
    Source,
    Stateless,
    Union,
)
from thalweg.flow.operators.rejected import Rejected
from thalweg.plan.plan import Plan, make_plan
from thalweg.testing.reference_arrivals import ReferenceArrivals
from thalweg.testing.reference_async import ReferenceCalls
from thalweg.testing.reference_built_in import made_of
from thalweg.testing.reference_coroutine import ReferenceCoroutine, Took
from thalweg.testing.reference_keys import KeyObserver, Nobody, key_of, sort_key
from thalweg.testing.reference_parts import Outputs, disarmed_of, fits, timer_of
from thalweg.times import BEFORE_ALL, NEVER

#: Timers by time, operator and key in sorting form, with the key.
Heap = list[tuple[int, int, Any, Any]]


def run_reference(
    flow: Flow,
    inputs: Mapping[str, Iterable[Any]],
    *,
    end: bool = True,
    observer: KeyObserver | None = None,
    decisions: Iterable[IdleDecision] = (),
) -> Outputs:
    """Runs a flow over rows in arrival order, a sequence a source.

    Args:
        flow: the flow.
        inputs: rows by source name, in arrival order.
        end: whether the streams end: waiting rows are released and the remaining timers fire.
        observer: is told the keys of tuples.
        decisions: which sources and lanes are idle, those of each source in order.
    """
    return _Run(make_plan(flow), observer or Nobody(), list(decisions)).run(inputs, end)


class _Run:
    def __init__(self, plan: Plan, observer: KeyObserver, decisions: list[IdleDecision]) -> None:
        self.plan = plan
        self.observer = observer
        self.out = Outputs(
            {n.name: [] for n in plan.sinks},
            {n.name: {} for n in plan.keyed},
            {},
        )
        self.waiting: dict[int, list[tuple[Any, ...]]] = {}
        self.time = ReferenceArrivals(plan, decisions)
        self.heap: Heap = []
        #: timers where time is each key's own
        self.own_heap: Heap = []
        self.now = 0
        self.ending = False
        self.coroutines = {node.index: ReferenceCoroutine(node) for node in plan.coroutines}
        self.calls = ReferenceCalls()

    def run(self, inputs: Mapping[str, Iterable[Any]], end: bool) -> Outputs:
        for source in self.plan.sources:
            for place, row in enumerate(inputs.get(source.name, ())):
                self.decide(source)
                self.enter(source, place, row)
            self.decide(source)
        for index in self.time.lanes:
            self.give_late(index, end)
        if end:
            self.end_own_time()
            self.close_coroutines(0)
        for domain in sorted({d for d in self.plan.domains if d}):
            if isinstance(node := self.plan.node(domain), OrderBy):
                self.decide(node)
            self.serve(domain, end)
            if end:
                self.close_coroutines(domain)
        self.calls.close()
        for node in self.plan.keyed:
            if end and isinstance(node, LoopByKey):
                self.count(node, "unread", node.unread_of(self.out.states[node.name].values()))
        for one in self.coroutines.values():
            self.out.states[one.node.name] = one.states()
        for sink in self.plan.sinks:
            self.out.sinks[sink.name] = sink.record.shown(self.out.sinks[sink.name])
        return self.out

    def enter(self, source: Source, place: int, row: Any) -> None:
        """A row of the input: it fits the record and arrives, or is rejected."""
        try:
            row = source.record.take(row)
            fits(source, row)
        except TypeError as error:
            if source.errors == "fail":
                raise DataError(f"source {source.name!r}: row {place}: {error}") from error
            self.count(source, "in")
            self.reject(source, str(error), f"row {place}", shorten(row))
            return
        self.arrive(source, row)
        self.time.took_row(source)

    def decide(self, source: Source | OrderBy) -> None:
        """What was decided of a source or order_by before its next row."""
        for _ in self.time.decide_before_row(source):
            self.count(source, "idle")

    def arrive(self, node: Source | OrderBy, row: Any) -> None:
        """A row reaches the place that orders it: late, or it waits until the watermark has passed it."""
        field = node.order_by if isinstance(node, Source) else node.field
        self.count(node, "in")
        if field is None:
            self.give(Ref(node.index), row)
            return
        time = getattr(row, field)
        if isinstance(node, Source) and not node.sorts:
            self.now = time
            self.give(Ref(node.index), row)
            return
        place = self.time.arrive(node, row, time)
        if place is not None:
            domain = self.plan.domains[node.index - 1]
            self.waiting.setdefault(domain, []).append((*place, node.index, row))
            return
        self.count(node, "late")
        if node.index not in self.time.lanes:
            self.push(Ref(node.index, "late"), row)  # those of lanes wait, too

    def give_late(self, index: int, end: bool) -> None:
        """The late rows of a source with lanes, as far as the watermark has passed their places."""
        edge = (NEVER, 0) if end else self.time.edge(self.plan.domains[index - 1])
        for time, _, row in sorted(self.time.lanes[index].late, key=lambda one: one[:2]):
            if self.time.has_passed(edge, time, index):
                self.push(Ref(index, "late"), row)

    def serve(self, domain: int, end: bool) -> None:
        """All rows of a domain by (time, source, lane, arrival), timers in between; then the end."""
        edge = (NEVER, 0) if end else self.time.edge(domain)
        for time, _, _, index, row in sorted(self.waiting.get(domain, ()), key=lambda one: one[:3]):
            if self.time.has_passed(edge, time, index):
                self.fire(time)
                self.now = time
                self.give(Ref(index), row)
        if end and self.time.edge(domain)[0] > BEFORE_ALL:
            self.fire(
                self.time.edge(domain)[0]
            )  # where all sources are idle, time goes beyond all rows
        self.fire(edge[0], ending=end)
        self.heap.clear()

    def end_own_time(self) -> None:
        """Where time is each key's own: rows that wait are released key by key, then the timers left fire."""
        for node in self.plan.keyed:
            if node.timing == "end":
                states = self.out.states[node.name]
                for key in sorted(states, key=sort_key):
                    if timer_of(node.state, states[key]) != NEVER:
                        self.on_timer(node, key, states[key], timer_of(node.state, states[key]))
        self.fire(NEVER, self.own_heap, ending=True)

    def fire(self, before: int, heap: Heap | None = None, *, ending: bool = False) -> None:
        """Fires the timers below a time in the order (time, operator, key)."""
        self.ending = ending
        heap = self.heap if heap is None else heap
        while heap and (heap[0][0] < before or before == NEVER):
            time, index, _, key = heapq.heappop(heap)
            node = self.plan.node(index)
            assert isinstance(node, Keyed)
            state = self.out.states[node.name].get(key)
            if state is None or timer_of(node.state, state) != time:
                continue
            self.now = time
            self.on_timer(node, key, state, time)
        self.ending = False

    def on_timer(self, node: Keyed, key: Any, state: Any, time: int) -> None:
        assert node.on_timer is not None and node.state.timer is not None
        setattr(state, node.state.timer, NEVER)
        before = {name: getattr(state, name) for name in node.timers}
        arguments = (state, key, time) if node.key.fields else (state, time)
        rows = self.call(node, node.on_timer.call, arguments, f"key {key!r}", node.timer_many)
        if rows is not None and self.ending and not (isinstance(node, Join) or node.again):
            self.count(node, "disarmed", disarmed_of(node, state, before, time))
        again = timer_of(node.state, state)
        if rows is None or state._drop or (again == NEVER and not node.keeps):
            del self.out.states[node.name][key]
        elif again != NEVER:
            self.arm(node, key, state, max(again, time + 1))
        with self.observer.giving(node, key):
            self.give_all(node, rows)

    def arm(self, node: Keyed, key: Any, state: Any, time: int) -> None:
        assert node.state.timer is not None
        setattr(state, node.state.timer, time)
        if node.timing != "end":
            heap = self.own_heap if node.timing == "own" else self.heap
            heapq.heappush(heap, (time, node.index, sort_key(key), key))

    def push(self, ref: Ref, row: Any) -> None:
        now = self.now
        for edge in self.plan.feedback.get(ref, ()):
            self.feed_back(self.coroutines[edge.node], edge.port, row)
        for edge in self.plan.readers.get(ref, ()):
            self.now = now
            self.receive(self.plan.node(edge.node), row, edge.port)
        self.now = now

    def give(self, ref: Ref, row: Any) -> None:
        self.count(self.plan.node(ref.node), "out")
        self.push(ref, row)

    def give_all(self, node: Node, rows: list[Any] | None) -> None:
        for row in rows or ():
            self.give(Ref(node.index), row)

    def count(self, node: Node, what: str, number: int = 1) -> None:
        counts = self.out.counts.setdefault(node.label, {})
        counts[what] = counts.get(what, 0) + number

    def receive(self, node: Node, row: Any, port: int = 0) -> None:
        """One tuple at one input of one operator."""
        if isinstance(node, OrderBy):
            self.decide(node)
            self.arrive(node, row)
            self.time.took_row(node)
            return
        self.count(node, "in")
        if isinstance(node, Sink):
            self.out.sinks[node.name].append(row)
        elif isinstance(node, Union):
            self.give(Ref(node.index), row)
        elif isinstance(node, Stateless):
            self.stateless(node, row)
        elif isinstance(node, Keyed):
            self.keyed(node, row)
        elif isinstance(node, BuiltIn):
            self.built_in(node, row)
        elif isinstance(node, Batches):
            self.batches(node, row)
        elif isinstance(node, MapAsync):
            self.give_all(node, self.call(node, self.calls.of(node), (row,), row, False))
        elif isinstance(node, Coroutine):
            self.coroutine(node, row, port)

    def coroutine(self, node: Coroutine, row: Any, port: int) -> None:
        time = self.now if self.plan.domains[node.index - 1] else BEFORE_ALL
        self.give_pushed(node, self.coroutines[node.index].put(port, row, time))

    def feed_back(self, one: ReferenceCoroutine, port: int, row: Any) -> None:
        """A row that is sent back to a control port, before it goes on to its other readers."""
        self.count(one.node, "in")
        if not one.feed_back(port, row):
            self.count(one.node, "dropped")

    def close_coroutines(self, domain: int) -> None:
        """The operators whose inputs have all ended now close in order, and what each gives runs through."""
        for node in self.plan.coroutines:
            if self.plan.last_domain(node) == domain:
                one = self.coroutines[node.index]
                self.now = 0 if one.last_time == BEFORE_ALL else one.last_time
                self.give_pushed(node, one.close())
                self.fire(NEVER, ending=True)

    def give_pushed(self, node: Coroutine, took: Took) -> None:
        mine = self.out.counts.setdefault(node.label, {})
        for what, number in (("dropped", took.dropped), ("unread", took.unread)):
            mine[what] = mine.get(what, 0) + number
        with self.observer.giving(node, ()):
            for port, row in took.pushed:
                self.give(Ref(node.index, port), row)

    def stateless(self, node: Stateless, row: Any) -> None:
        if node.verb == "filter":
            keep = self.call(node, lambda one: bool(node.function.call(one)), (row,), row, None)
            self.give_all(node, [row] if keep and keep[0] else [])
        else:
            self.give_all(node, self.call(node, node.function.call, (row,), row, node.many))

    def built_in(self, node: BuiltIn, row: Any) -> None:
        for values, time, port in list(made_of(node, row, self.now)):
            made = node.record.coerce(values)
            if port == "late":
                counts = self.out.counts[node.late_of]
                counts["late"] = counts.get("late", 0) + 1
                self.push(Ref(node.index, "late"), made)
            else:
                self.now = time
                self.give(Ref(node.index), made)

    def keyed(self, node: Keyed, row: Any) -> None:
        found = self.call(node, lambda one: key_of(node, one), (row,), row, None)
        if found is None:
            return
        key, states = found[0], self.out.states[node.name]
        self.observer.took(node, key)
        if node.timing == "own" and node.on_timer is not None:
            now = self.now
            while key in states and timer_of(node.state, states[key]) < now:
                self.now = timer_of(node.state, states[key])
                self.on_timer(node, key, states[key], self.now)
            self.now = now
        old = states.get(key)
        before = None if old is None else node.state.values(old)
        state = states.setdefault(key, node.state.new())
        rows = self.call(node, node.process.call, (state, row), row, node.many)
        if rows is None:
            states.pop(key)
            if before is not None:
                states[key] = node.state.restore(before)
            return
        if getattr(state, "_drop", False):
            del states[key]
        elif node.on_timer is not None and timer_of(node.state, state) != NEVER:
            self.arm(node, key, state, max(timer_of(node.state, state), self.now))
        with self.observer.giving(node, key):
            self.give_all(node, rows)

    def batches(self, node: Batches, row: Any) -> None:
        schema = self.plan.node(node.input.node).record_of(node.input.port)
        assert schema is not None
        batch = Chunk.from_rows(schema, [row]).to_arrow()
        called = self.call(node, node.function.call, (batch,), row, None)
        if called is None:
            return
        answer = called[0][0] if isinstance(called[0], tuple) else called[0]
        table = pa.table({name: answer.column(name) for name in node.record.names})
        self.give_all(node, Chunk.from_arrow(node.record, table).rows())

    def call(
        self, node: Any, call: Any, arguments: tuple[Any, ...], row: Any, many: bool | None
    ) -> Any:
        """The rows a function gave, coerced; None when it raised and the row was rejected."""
        try:
            if many is None:
                return [call(*arguments)]
            answer = call(*arguments)
            rows = list(answer or ()) if many else [answer]
            rows = (
                [node.record.coerce(one) for one in rows if one is not None] if node.record else []
            )
            if isinstance(node, Keyed):
                node.state.values(arguments[0])
            return rows
        except Exception as error:
            if isinstance(node, Join):
                raise coroutine_error(node.name, node.told, error) from error
            if node.errors == "fail":
                raise OperatorError(
                    f"operator {node.name!r}: {error}", operator=node.name, row=str(row)
                ) from error
            self.reject(node, reason_of(error), "", shorten(row))
            return None

    def reject(self, node: Node, reason: str, position: str, text: str) -> None:
        self.count(node, "rejected")
        self.push(Ref(node.index, "rejected"), Rejected(node.name, reason, position, text))
