"""From a plan's units to the operators of the parallel engine: who reads whom, of which kind, and what runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from thalweg.operators.nodes import (
    Keyed,
    OrderBy,
    Ref,
    Sink,
    Source,
    Union,
)
from thalweg.plan import RELEASE, Edge
from thalweg.runtime import layout as at
from thalweg.runtime.chunks import Chunk
from thalweg.runtime.engine import stream_schema, works_without_rows
from thalweg.runtime.interpreted import InterpretedChain, InterpretedKeyed
from thalweg.runtime.keyed_unit import KeyedUnit, Parts
from thalweg.runtime.layout import OpSpec
from thalweg.runtime.units import ChainUnit, DigestUnit, Given, Moment

if TYPE_CHECKING:
    from thalweg.runtime.parallel import ParallelEngine

#: The streams of a node.
PORTS: Final = ("out", "late", "rejected")
_QUEUES: Final = {"hybrid": at.HYBRID, "partitioned": at.PARTITIONED, "shared": at.SHARED}
#: What an operator puts out in one step, by stream; what the ingress gives may also be named by edge.
Bundle = dict[Any, Chunk]


@dataclasses.dataclass(slots=True)
class Task:
    """An operator of the parallel engine and what Python runs for it."""

    index: int
    spec: OpSpec
    #: the streams that it may put out, in the order in which blocks are kept
    refs: Sequence[Ref]
    #: for each input port the stream and the edge by which the plan knows it
    inputs: Sequence[tuple[Ref, Edge]] = ()
    call: Callable[[Sequence[Chunk], Moment], Given | Parts] | None = None
    unit: KeyedUnit | None = None
    #: where it is the end of the way
    leaves: bool = False
    #: an order_by has a clock of its own
    sets_clock: bool = False
    always: bool = False

    def run(self, engine: ParallelEngine, handles: Sequence[int], moment: Moment) -> Bundle | Parts:
        """Runs the operator on a step, whose outputs are under these handles."""
        chunks = [
            read(engine, handle, *where) for handle, where in zip(handles, self.inputs, strict=True)
        ]
        if self.leaves:
            if len(chunks[0]):
                engine.leave(self.inputs[0][1], chunks[0], handles[0])
            return {}
        assert self.call is not None
        if not (self.always or any(map(len, chunks))):
            return {}
        return self.call(chunks, moment)

    def run_part(self, engine: ParallelEngine, handle: int, part: int) -> int:
        """Runs a partition of a split chunk; a lower bound of its timers."""
        assert self.unit is not None
        return self.unit.run_part(engine.objects[handle], part)

    def join(self, engine: ParallelEngine, handle: int) -> Bundle:
        """The output of a split chunk whose partitions have run."""
        assert self.unit is not None
        return self.unit.join(engine.objects[handle])

    def packed(self, engine: ParallelEngine, handle: int, bundle: Bundle) -> Any:
        """What is kept under the handle."""
        return bundle


def read(engine: ParallelEngine, handle: int, ref: Ref, edge: Edge) -> Chunk:
    """A stream's chunk as one of its readers sees it."""
    bundle = engine.objects[handle]
    if edge in bundle:
        found: Chunk = bundle[edge]
        return found
    chunk = bundle.get(ref)
    if chunk is None:
        schema = stream_schema(engine.plan, ref)
        return Chunk.empty(schema, engine.edge_columns(ref, edge))
    return engine.branched(chunk, ref, edge)


class _Wiring:
    """Collects the operators of one engine."""

    def __init__(self, engine: ParallelEngine, needs_token: frozenset[Edge]) -> None:
        self.engine = engine
        self.options = engine.options
        self._needs_token = needs_token
        refs = [Ref(node.index, port) for node in engine.plan.nodes for port in PORTS]
        self.tasks = [Task(0, self._spec("ingress", at.INGRESS), refs)]
        #: which operator puts out a node's streams
        self._makers: dict[int, int] = {}

    def _spec(self, name: str, kind: int, **more: Any) -> OpSpec:
        options = self.options
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
        task = Task(len(self.tasks), spec, **task_args)
        self.tasks.append(task)
        return task

    def _reads(self, ref: Ref) -> tuple[int, int]:
        """The operator that a stream comes from, and its place among that operator's streams."""
        maker = self._makers.get(ref.node, 0)
        return maker, self.tasks[maker].refs.index(ref)

    def unit(self, nodes: Sequence[int], runner: Any) -> None:
        """An operator (of a keyed one two) for a unit of the plan."""
        plan = self.engine.plan
        node = plan.node(nodes[0])
        last = plan.node(nodes[-1])
        inputs = [(ref, Edge(node.index, port)) for port, ref in enumerate(node.inputs)]
        reads = [self._reads(ref) for ref, _ in inputs]
        refs = [Ref(last.index)]
        refs += [Ref(index, port) for index in nodes for port in PORTS[1:]]
        token = is_interpreted(runner)
        args: dict[str, Any] = {
            "refs": refs, "inputs": inputs, "call": runner.run, "always": works_without_rows(node),
            "sets_clock": isinstance(node, OrderBy),
        }  # fmt: skip
        if isinstance(node, Keyed) and node.key.fields and len(runner.operators) > 1:
            split = self._add(
                {**args, "call": runner.split, "always": True},
                self._spec(f"{node.name} (split)", at.STATELESS, reads=reads, needs_token=token, is_split=True),
            )  # fmt: skip
            spec = self._spec(
                node.name, at.KEYED, reads=[(split.index, 0)], needs_token=token,
                partitions=len(runner.operators), queue_kind=_QUEUES[self.options.queue], **self._timing(node),
            )  # fmt: skip
            task = self._add({"refs": refs, "inputs": [], "unit": runner}, spec)
        else:
            stateful = isinstance(node, (Keyed, OrderBy, Union))
            kind = at.STATEFUL if stateful else at.STATELESS
            timing = self._timing(node) if isinstance(node, Keyed) else {}
            spec = self._spec(last.name, kind, reads=reads, needs_token=token, **timing)
            unit = runner if isinstance(node, Keyed) else None
            task = self._add({**args, "unit": unit}, spec)
        for index in nodes:
            self._makers[index] = task.index

    def _timing(self, node: Keyed) -> dict[str, Any]:
        """Which clock fires a keyed operator's timers, and at which ending the last of them fire."""
        plan = self.engine.plan
        domain = plan.domains[node.index - 1]
        ending = {"clock": domain, "end": RELEASE}.get(node.timing, 0)
        clocked = node.timing == "clock" and domain
        return {
            "timers": node.on_timer is not None,
            "clock": self.engine.slot_of(domain) if clocked else -1,
            "ending_no": plan.endings.index(ending) + 1,
        }

    def end(self, ref: Ref, edge: Edge) -> None:
        """Where a stream leaves the engine."""
        token = edge in self._needs_token
        spec = self._spec(
            f"to {edge.node}", at.STATEFUL, reads=[self._reads(ref)], needs_token=token
        )
        self._add({"refs": [], "inputs": [(ref, edge)], "leaves": True}, spec)


def is_interpreted(runner: Any) -> bool:
    """Whether a unit calls a user's Python function row by row."""
    if isinstance(runner, ChainUnit):
        return any(isinstance(one, InterpretedChain) for _, one in runner.parts)
    if isinstance(runner, KeyedUnit):
        return runner.has_key_function or isinstance(runner.operators[0], InterpretedKeyed)
    return isinstance(runner, DigestUnit)


def wire(engine: ParallelEngine, needs_token: frozenset[Edge]) -> list[Task]:
    """The operators of an engine in topological order; the first is the ingress."""
    wiring = _Wiring(engine, needs_token)
    plan, stage = engine.plan, engine.stage
    for unit, runner in engine.units:
        if not isinstance(plan.node(unit.nodes[0]), (Sink, Source)):
            wiring.unit(unit.nodes, runner)
    mine = {index for unit, _ in engine.units for index in unit.nodes}
    for ref, edges in plan.readers.items():
        for edge in edges:
            is_sink = isinstance(plan.node(edge.node), Sink)
            gone = stage is not None and plan.stage(edge.node) > stage
            if ref.node in mine and (is_sink or gone):
                wiring.end(ref, edge)
    return wiring.tasks
