"""From a plan's units to the operators of the parallel engine: who reads whom, of which kind, and what runs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from thalweg.compiler.stateless import CompiledChain
from thalweg.engine.asynchronous.unit import AsyncUnit
from thalweg.engine.base import works_without_rows
from thalweg.engine.coroutines.unit import CoroutineUnit
from thalweg.engine.feedback_unit import LoopUnit
from thalweg.engine.interpreter.keyed import InterpretedKeyed
from thalweg.engine.interpreter.stateless import InterpretedChain
from thalweg.engine.joins.operator import ColumnJoin
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.units import ChainUnit
from thalweg.flow.operators.nodes import (
    Keyed,
    OrderBy,
    Ref,
    Sink,
    Source,
)
from thalweg.flow.tags import NO_TAGS, PRIORITY_CLASS
from thalweg.plan.plan import RELEASE, Edge
from thalweg.plan.regions import LEADS, end_model, ends_of, fallback, model_of, needs_order
from thalweg.plan.units import Unit
from thalweg.workers.contract import FlowEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import OpSpec
from thalweg.workers.native.chain import NativeChain
from thalweg.workers.native.chain import eligible as chain_eligible
from thalweg.workers.native.keyed import NativeKeyed
from thalweg.workers.native.keyed_choice import eligible as keyed_eligible
from thalweg.workers.native.keyed_choice import native_keyed
from thalweg.workers.riding import Rider
from thalweg.workers.tasks import Task

_QUEUES: Final = {"hybrid": at.HYBRID, "partitioned": at.PARTITIONED, "shared": at.SHARED}


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
        if not (chain_eligible(runner, columns) and self._reads_natively(task)):
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
        if task.spec.kind == at.KEYED:
            task.branches = self.tasks[task.index - 1].branches
        spec.native, spec.fn, spec.ctx, spec.merge = True, function, keyed.ctx, keyed.merge
        spec.free_fn, spec.payload_word = keyed.free, keyed.payload_word

    def _reads_natively(self, task: Task) -> bool:
        """Whether machine code can read the task's input; notes that it does. Riders are run by Python."""
        if not self.options.native or self._has_riders:
            return False
        (maker, number), *_ = task.spec.reads
        feeder, (ref, edge) = self.tasks[maker], task.inputs[0]
        plan = self.engine.plan
        # Machine code puts out the main stream only. In later stages readers get rows of their own.
        if feeder.spec.native and number:
            return False
        if maker == 0 and self.engine.stage and len(plan.readers[ref]) > 1:
            return False
        task.branches = {**feeder.branches, **self.engine.branch_of(ref, edge)}
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
