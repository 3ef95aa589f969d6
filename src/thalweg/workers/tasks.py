"""An operator of the parallel engine: what Python runs for it, and the chunks that Python keeps under handles."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.compiler.code.columns import address
from thalweg.engine.keyed_unit import KeyedUnit, Parts
from thalweg.engine.units import Given, Moment, Setting
from thalweg.flow.operators.nodes import (
    Ref,
)
from thalweg.flow.records import Schema
from thalweg.flow.tags import Tag
from thalweg.plan.plan import Edge, Plan, stream_schema
from thalweg.workers.contract import FlowEngine
from thalweg.workers.memory.layout import PAYLOAD_SHIFT, OpSpec
from thalweg.workers.native.block_chunks import view_block
from thalweg.workers.native.chain import NativeChain
from thalweg.workers.native.keyed import NativeKeyed
from thalweg.workers.riding import Bundle, Rider, chunk_of, ride


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
    #: which of several readers of a stream it is, by order column, and those before it whose output machine code made:
    #: the same for all rows, so no block has it
    branches: Mapping[str, int] = dataclasses.field(default_factory=dict)
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
