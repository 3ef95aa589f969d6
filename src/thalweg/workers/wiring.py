"""From a plan's units to the operators of the parallel engine: who reads whom, of which kind, and what runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.compiler.code.columns import address
from thalweg.compiler.stateless import CompiledChain
from thalweg.engine.asynchronous.unit import AsyncUnit
from thalweg.engine.base import works_without_rows
from thalweg.engine.coroutines.unit import CoroutineUnit
from thalweg.engine.feedback_unit import LoopUnit
from thalweg.engine.interpreted import InterpretedChain
from thalweg.engine.interpreted_keyed import InterpretedKeyed
from thalweg.engine.joins.operator import ColumnJoin
from thalweg.engine.keyed_unit import KeyedUnit, Parts
from thalweg.engine.units import ChainUnit, Given, Moment, Setting
from thalweg.flow.operators.nodes import (
    Keyed,
    OrderBy,
    Ref,
    Sink,
    Source,
)
from thalweg.flow.records import Schema
from thalweg.flow.tags import NO_TAGS, PRIORITY_CLASS, Tag
from thalweg.plan.plan import RELEASE, Edge, Plan, Unit, stream_schema
from thalweg.plan.regions import (
    LEADS,
    end_model,
    ends_of,
    fallback,
    model_of,
    needs_order,
)
from thalweg.workers.contract import FlowEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import PAYLOAD_SHIFT, OpSpec
from thalweg.workers.native.block_chunks import view_block
from thalweg.workers.native.chain import NativeChain
from thalweg.workers.native.chain import eligible as chain_eligible
from thalweg.workers.native.keyed import NativeKeyed
from thalweg.workers.native.keyed_choice import eligible as keyed_eligible
from thalweg.workers.native.keyed_choice import native_keyed
from thalweg.workers.riding import Bundle, Rider, chunk_of, ride

_QUEUES: Final = {"hybrid": at.HYBRID, "partitioned": at.PARTITIONED, "shared": at.SHARED}


@dataclasses.dataclass(slots=True)
class Task:
    """An operator of the parallel engine and what Python runs for it."""

    index: int
    spec: OpSpec
    #: the streams of it that somebody reads, in the order in which blocks are kept; its main ones come first
    refs: list[Ref]
    #: for each input port the stream and the edge by which the plan knows it
    inputs: Sequence[tuple[Ref, Edge]] = ()
    call: Callable[[Sequence[Chunk], Moment], Given | Parts] | None = None
    unit: KeyedUnit | None = None
    #: where it is the end of the way
    leaves: bool = False
    #: an order_by has a clock of its own
    sets_clock: bool = False
    #: it may have something to do in a step without rows
    always: bool = False
    #: machine code that runs it, and what it needs
    native: NativeChain | None = None
    keyed: NativeKeyed | None = None
    #: the streams that machine code reads, by their place in ``refs``
    read_natively: dict[int, Sequence[Edge]] = dataclasses.field(default_factory=dict)
    #: the members of a fused chain
    names: Sequence[str] = ()
    #: what the flow's author says of it
    tags: Mapping[str, Tag] = dataclasses.field(default_factory=dict)
    #: its kind, whoever runs it
    kind: str = ""
    #: the operators that its calls run, too
    riders: list[Rider] = dataclasses.field(default_factory=list)
    _counted: list[int] = dataclasses.field(default_factory=list)
    _empty: dict[int, tuple[int, Any]] = dataclasses.field(default_factory=dict)

    def row_bytes(self, plan: Plan) -> int:
        """What a row in its inbox takes, about; of several inputs the widest."""
        refs = [ref for ref, _ in self.inputs] or self.refs
        return max((width(stream_schema(plan, ref)) for ref in refs), default=8)

    def run(
        self, engine: FlowEngine, handles: Sequence[int], moment: Moment, out: int
    ) -> Bundle | Parts:
        """Runs the operator on a step, given the handles of its inputs and of its output."""
        chunks = [
            read(engine, handle, *where) for handle, where in zip(handles, self.inputs, strict=True)
        ]
        if self.leaves:
            if len(chunks[0]):
                engine.leave(self.inputs[0][1], chunks[0], handles[0])
            return {}
        if self.keyed is not None and self.call is not None and not self.spec.is_split:
            return self.run_serial(engine, handles[0], moment)
        assert self.call is not None
        has_work = self.always or any(map(len, chunks))
        found = self.call(chunks, moment) if has_work else {}
        return found if isinstance(found, Parts) else self.with_riders(engine, found, moment, out)

    def with_riders(
        self, engine: FlowEngine, bundle: Mapping[Any, Chunk], moment: Moment, handle: int
    ) -> Bundle:
        """What it and those that ride on it put out, given what it does."""
        if not self.riders:
            return dict(bundle)
        return ride(engine, self.riders, self.refs, bundle, moment, handle)

    def run_part(self, engine: FlowEngine, handle: int, part: int, moment: Moment) -> int:
        """Runs a partition of a split chunk; a lower bound of its timers."""
        assert self.unit is not None
        parts = engine.objects[handle]
        if parts is None:
            assert self.keyed is not None
            block = engine.block(handle)
            if not block:
                # Another worker gave the chunk up meanwhile, since the flow has failed.
                return int(self.keyed.earliest[part])
            _, clock, ending = self.unit.time_of(None, moment)
            return self.keyed.resume(
                block, part, clock,
                ending=ending, chunk=lambda: self._arrived(engine, engine.held(handle)),
            )  # fmt: skip
        bound = self.unit.run_part(parts, part)
        return bound if self.keyed is None else self.keyed.sync_bounds(part)

    def join(self, engine: FlowEngine, handle: int, moment: Moment, out: int) -> Bundle:
        """The output of a split chunk whose partitions have run."""
        assert self.unit is not None
        parts = engine.objects[handle]
        if parts is not None:
            return self.with_riders(engine, self.unit.join(parts), moment, out)
        return self._joined(
            engine.block(handle), self._arrived(engine, engine.held(handle)), moment
        )

    def _joined(self, split: int, arrived: Chunk, moment: Moment) -> Bundle:
        """The output of a chunk that machine code has split and left to Python."""
        assert self.unit is not None and self.keyed is not None
        parts = self.unit.find(arrived, moment)
        parts.results = list(self.keyed.join(split, parts.chunk))
        return self.unit.join(parts)

    def _arrived(self, engine: FlowEngine, handle: int) -> Chunk:
        return read(engine, handle, *self.inputs[0])

    def run_serial(self, engine: FlowEngine, handle: int, moment: Moment) -> Bundle:
        """Runs a step of an operator in one piece that machine code gave up."""
        assert self.unit is not None and self.keyed is not None
        arrived = self._arrived(engine, handle)
        if split := self.keyed.left_by_serial:
            _, clock, ending = self.unit.time_of(None, moment)
            self.keyed.resume(split, 0, clock, ending=ending, chunk=lambda: arrived)
            return self._joined(split, arrived, moment)
        out = self.unit.run([arrived], moment)
        self.keyed.sync()
        return out

    def keep(self, engine: FlowEngine, handle: int, bundle: Bundle) -> KeptChunks:
        """What is to be kept under a handle: the chunks, with blocks over those that machine code reads."""
        kept = KeptChunks(bundle)
        for number, edges in self.read_natively.items():
            ref = self.refs[number]
            chunk = next((bundle[e] for e in edges if e in bundle), bundle.get(ref))
            if chunk is None or not len(chunk):
                engine.set_block(handle, number, self._empty_block(engine, number, edges[0]))
                continue
            words, alive = view_block(chunk, handle | number << PAYLOAD_SHIFT)
            engine.set_block(handle, number, address(words))
            kept.views[number] = chunk, alive
        return kept

    def start_counting(self) -> None:
        """Counts from nothing on."""
        self._counted = [0] * (1 + len(self.names))

    def count(self, setting: Setting) -> None:
        """Adds the rows that machine code has counted since the last time."""
        numbers = self._numbers()
        for name, news in self._news(numbers):
            setting.count(name, **news)
        self._counted = numbers

    def uncounted(self) -> Sequence[tuple[str, dict[str, int]]]:
        """By node, the rows that machine code has counted since they were added to others last; from any thread."""
        return self._news(self._numbers())

    def _numbers(self) -> list[int]:
        """What machine code has counted since its start: of a chain rows in, then out by node."""
        if self.keyed is not None and not self.spec.is_split:
            found: list[int] = self.keyed.counts[:3].tolist()
            return found
        if self.native is None:
            return self._counted
        arrived, out = self.native.counts()
        return [arrived, *out]

    def _news(self, numbers: Sequence[int]) -> Sequence[tuple[str, dict[str, int]]]:
        before = self._counted or [0] * len(numbers)
        news = [now - was for now, was in zip(numbers, before, strict=True)]
        if not any(news):
            return []
        if self.unit is not None:
            words = ("in", "out", "disarmed")
            return [(self.unit.node.name, dict(zip(words, news, strict=True)))]
        pairs = zip(self.names, news, news[1:], strict=False)
        return [(name, {"in": a, "out": b}) for name, a, b in pairs if a or b]

    def _empty_block(self, engine: FlowEngine, number: int, edge: Edge) -> int:
        if number not in self._empty:
            ref = self.refs[number]
            columns = engine.edge_columns(ref, edge)
            empty = Chunk.empty(stream_schema(engine.plan, ref), columns)
            words, alive = view_block(empty, -1)
            # Workers come here at once, and all must have the one block that is kept.
            self._empty.setdefault(number, (address(words), alive))
        return self._empty[number][0]


def width(record: Schema) -> int:
    """The bytes of a row: eight a number or time, one a bool, and what is longer as if it took four words."""
    long = sum(not pa.types.is_primitive(field.type) for field in record.arrow)
    short = sum(pa.types.is_boolean(field.type) for field in record.arrow)
    return max(int(8 * (len(record.arrow) - long - short) + short + 32 * long), 1)


@dataclasses.dataclass(slots=True)
class KeptChunks:
    """What Python keeps under a handle: the chunks of a step, and what the blocks over them need to stay alive."""

    bundle: Bundle
    views: dict[int, tuple[Chunk, Any]] = dataclasses.field(default_factory=dict)


def read(engine: FlowEngine, handle: int, ref: Ref, edge: Edge) -> Chunk:
    """A stream's chunk as one of its readers sees it."""
    kept = engine.objects[handle]
    if kept is not None:
        return chunk_of(engine, kept.bundle, ref, edge)
    # Machine code rejects nothing: where a function raises, Python runs the chunk.
    found = {ref: engine.copied(handle, ref)} if ref.port == "out" else {}
    return chunk_of(engine, found, ref, edge)


class _Wiring:
    """Collects the operators of one engine."""

    def __init__(self, engine: FlowEngine, needs_token: frozenset[Edge]) -> None:
        self.engine = engine
        self.options = engine.options
        self._needs_token = needs_token
        #: of the operator that is being made
        self._tags = NO_TAGS
        self._has_riders = False
        self._default = engine.options.threading
        self._riders = engine.riders
        self.tasks = [Task(0, self._spec("ingress", at.INGRESS, needs_token=False), [])]
        #: which operator puts out a node's streams
        self._makers: dict[int, int] = {}

    def _spec(self, name: str, kind: int, **more: Any) -> OpSpec:
        options = self.options
        more["priority"] = self._tags.get(PRIORITY_CLASS, self.engine.priority_class)
        more.setdefault("limit", 1 if kind in (at.STATEFUL, at.INGRESS) else 1 << 30)
        return OpSpec(
            name,
            kind,
            capacity=options.queue_chunks,
            ordered=options.ordered,
            locking=options.reorder == "lock-based",
            **more,
        )

    def _add(self, task_args: dict[str, Any], spec: OpSpec) -> Task:
        task = Task(len(self.tasks), spec, tags=self._tags, **task_args)
        self.tasks.append(task)
        return task

    def _reads(self, ref: Ref) -> tuple[int, int]:
        """The operator that a stream comes from, and its place among that operator's streams."""
        maker = self._makers.get(ref.node, 0)
        refs = self.tasks[maker].refs
        if ref not in refs:
            refs.append(ref)
        return maker, refs.index(ref)

    def add_unit(self, unit: Unit, runner: Any) -> None:
        """A unit of the plan: an operator (of a keyed one two), or a rider on one."""
        first = unit.nodes[0]
        leader = self._riders.leaders[first]
        if leader == first:
            self._lead(unit, runner)
            for index in unit.nodes:
                self._makers[index] = self.tasks[-1].index
            return
        plan = self.engine.plan
        node = plan.node(first)
        rider = Rider(
            plan.node(unit.nodes[-1]).name,
            node.name,
            node.kind.value,
            list(plan.inputs_of(unit.nodes)),
            runner.run,
            always=works_without_rows(plan, unit),
            needs_token=is_interpreted(runner),
        )
        maker = self._makers.get(leader, 0)
        self._ride(maker, rider)
        self.tasks[maker].sets_clock |= isinstance(node, OrderBy)
        for index in unit.nodes:
            self._makers[index] = maker

    def _ride(self, maker: int, rider: Rider) -> None:
        task = self.tasks[maker]
        task.riders.append(rider)
        task.spec.needs_token |= rider.needs_token and maker > 0

    def _placing(self, first: int) -> dict[str, Any]:
        """Who runs an operator that leads: workers, or a thread of its own."""
        model = model_of(self.engine.plan, first, self._default)
        if model == "manual":
            model = fallback(self._default)
        return {"own_thread": model == "dedicated"}

    def _lead(self, unit: Unit, runner: Any) -> None:
        """An operator (of a keyed one two) for a unit of the plan."""
        plan, nodes = self.engine.plan, unit.nodes
        self._tags = plan.tags_of(nodes[0])
        node = plan.node(nodes[0])
        last = plan.node(nodes[-1])
        self._has_riders = nodes[0] in self._riders.has_riders
        placing = self._placing(nodes[0])
        inputs = list(plan.inputs_of(nodes))
        reads = [self._reads(ref) for ref, _ in inputs]
        refs = [] if unit.loop else [Ref(last.index, port) for port in last.main]
        token = is_interpreted(runner)
        args: dict[str, Any] = {
            "refs": refs, "inputs": inputs, "call": runner.run, "always": works_without_rows(plan, unit),
            "sets_clock": isinstance(node, OrderBy), "kind": node.kind.value,
        }  # fmt: skip
        if unit.loop:
            spec = self._spec(node.name, at.STATEFUL, reads=reads, needs_token=token, **placing)
            self._add(args, spec)
        elif isinstance(node, Keyed) and node.key.fields and len(runner.operators) > 1:
            split = self._add(
                {**args, "call": runner.split, "always": True, "kind": "stateless"},
                self._spec(f"{node.name} (split)", at.STATELESS, reads=reads, needs_token=token, is_split=True),
            )  # fmt: skip
            keyed = self._keyed(split, runner)
            spec = self._spec(
                node.name, at.KEYED, reads=[(split.index, 0)], needs_token=token,
                partitions=len(runner.operators), queue_kind=_QUEUES[self.options.queue], **self._timing(node),
            )  # fmt: skip
            task = self._add(
                {"refs": refs, "inputs": inputs, "unit": runner, "kind": node.kind.value}, spec
            )
            if keyed is not None:
                split.spec.native, split.spec.fn, split.spec.ctx = True, keyed.split, keyed.ctx
                self._is_native(task, keyed, keyed.run)
        else:
            # One thread at a time needs no more than a queue between it and who feeds it.
            in_order = needs_order(plan, unit) or nodes[0] in self._riders.in_order
            kind = at.STATEFUL if in_order or placing["own_thread"] else at.STATELESS
            timing = self._timing(node) if isinstance(node, Keyed) else {}
            spec = self._spec(last.name, kind, reads=reads, needs_token=token, **timing, **placing)
            keyed_unit = runner if isinstance(node, Keyed) else None
            task = self._add({**args, "unit": keyed_unit}, spec)
            if isinstance(runner, ChainUnit):
                self._chain(task, runner)
            elif isinstance(runner, KeyedUnit) and (keyed := self._keyed(task, runner)):
                self._is_native(task, keyed, keyed.serial)

    def _chain(self, task: Task, runner: ChainUnit) -> None:
        """Machine code for a chain, where it can be."""
        columns = self.engine.setting.columns(task.refs[0])
        if not (self._reads_natively(task) and chain_eligible(runner, columns)):
            return
        (_, compiled), *_none = runner.parts
        assert isinstance(compiled, CompiledChain)
        task.native = made = NativeChain(compiled, columns)
        task.names = [step.name for step in compiled.steps]
        task.start_counting()
        spec = task.spec
        spec.native, spec.fn, spec.ctx = True, made.function, made.ctx
        spec.free_fn, spec.payload_word = made.free, made.payload_word

    def _keyed(self, task: Task, runner: KeyedUnit) -> NativeKeyed | None:
        """Machine code for a keyed operator whose input the task reads, where it can be."""
        node, plan = runner.node, self.engine.plan
        columns = self.engine.setting.columns(Ref(node.index))
        # Who counts keys is told those that a function makes, by Python.
        counted = runner.key_function is not None and self.engine.stage is not None
        if counted or not (keyed_eligible(runner) and self._reads_natively(task)):
            return None
        return native_keyed(runner, columns, plan.domains[node.index - 1])

    def _is_native(self, task: Task, keyed: NativeKeyed, function: int) -> None:
        task.keyed, spec = keyed, task.spec
        spec.native, spec.fn, spec.ctx, spec.merge = True, function, keyed.ctx, keyed.merge
        spec.free_fn, spec.payload_word = keyed.free, keyed.payload_word

    def _reads_natively(self, task: Task) -> bool:
        """Whether machine code can read the task's input; notes that it does. Riders are run by Python."""
        if not self.options.native or self._has_riders:
            return False
        (maker, number), *_ = task.spec.reads
        feeder, (ref, edge) = self.tasks[maker], task.inputs[0]
        plan = self.engine.plan
        # Machine code puts out the main stream only, and knows no branches. In later stages readers get rows of their
        # own.
        is_branch = self.engine.edge_columns(ref, edge) != self.engine.setting.columns(ref)
        if (feeder.spec.native and number) or is_branch:
            return False
        if maker == 0 and self.engine.stage and len(plan.readers[ref]) > 1:
            return False
        known = feeder.read_natively.get(number, ())
        feeder.read_natively[number] = (*known, edge)
        return True

    def _timing(self, node: Keyed) -> dict[str, Any]:
        """Which clock fires a keyed operator's timers, and at which ending the last of them fire."""
        plan = self.engine.plan
        domain = plan.domains[node.index - 1]
        ending = {"watermark": domain, "end": RELEASE}.get(node.timing, 0)
        clocked = node.timing == "watermark" and domain
        return {
            "timers": node.on_timer is not None,
            "clock": self.engine.slot_of(domain) if clocked else -1,
            "ending_no": plan.endings.index(ending) + 1,
        }

    def end(self, ref: Ref, edge: Edge) -> None:
        """Where a stream leaves the engine."""
        plan = self.engine.plan
        self._tags = plan.tags_of(edge.node)
        token = edge in self._needs_token
        if self._riders.ends[edge] != LEADS:
            name = f"to {edge.node}"
            rider = Rider(name, name, "", [(ref, edge)], None, needs_token=token)
            self._ride(self._makers.get(ref.node, 0), rider)
            return
        spec = self._spec(
            f"to {edge.node}", at.STATEFUL, reads=[self._reads(ref)], needs_token=token,
            own_thread=end_model(plan, edge, self._default) == "dedicated",
        )  # fmt: skip
        self._add({"refs": [], "inputs": [(ref, edge)], "leaves": True}, spec)


def is_interpreted(runner: Any) -> bool:
    """Whether a unit calls a user's Python function row by row."""
    if isinstance(runner, ChainUnit):
        return any(isinstance(one, InterpretedChain) for _, one in runner.parts)
    if isinstance(runner, KeyedUnit):
        interpreted, first = (InterpretedChain, InterpretedKeyed), runner.operators[0]
        calls = isinstance(first, ColumnJoin) and first.calls_python
        return calls or any(isinstance(o, interpreted) for o in (runner.key_function, first))
    return isinstance(runner, (CoroutineUnit, LoopUnit, AsyncUnit))


def least_threads(tasks: Iterable[Task]) -> int:
    """The fewest threads with which operators that block cannot stop the others: one more than the most input ports of
    one that runs a user's Python function (Schneider & Wu, section 4.2.3); 1 without any."""
    blocking = [len(task.spec.reads) for task in tasks if task.spec.needs_token and task.index]
    return 1 + max(blocking, default=0)


def wire(engine: FlowEngine, needs_token: frozenset[Edge]) -> list[Task]:
    """The operators of an engine in topological order; the first is the ingress."""
    wiring = _Wiring(engine, needs_token)
    plan = engine.plan
    for unit, runner in engine.units:
        if not isinstance(plan.node(unit.nodes[0]), (Sink, Source)):
            wiring.add_unit(unit, runner)
    for ref, edge in ends_of(plan, [unit for unit, _ in engine.units], engine.stage):
        wiring.end(ref, edge)
    return wiring.tasks
