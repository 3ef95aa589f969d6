"""Manual operators: run by the call that runs who feeds them, without a queue (Schneider & Wu, section 2.2).

Who leads puts out a step's chunks; its riders run on them one after the other, in the plan's order, and what others
read of all of it is the unit's output (docs/decisions/regions.md).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg.columns.chunks import Chunk
from thalweg.engine.units import Given, Moment
from thalweg.flow.operators.nodes import Ref
from thalweg.plan.plan import Edge, stream_schema
from thalweg.workers.contract import FlowEngine

#: What an operator puts out in one step, by stream; what the ingress gives may also be named by edge.
Bundle = dict[Any, Chunk]


@dataclasses.dataclass(slots=True)
class Rider:
    """An operator that rides on another, or a sink that does.

    Attributes:
        name, first, kind: for messages and progress, the last and the first member of a chain; a sink has no kind.
        inputs: for each input port the stream and the edge by which the plan knows it.
        call: what runs it; None: its input leaves the engine.
        always: it may have something to do in a step without rows.
        needs_token: it is a user's Python function.
        busy_ns: how long it has run.
    """

    name: str
    first: str
    kind: str
    inputs: Sequence[tuple[Ref, Edge]]
    call: Callable[[Sequence[Chunk], Moment], Given] | None
    always: bool = False
    needs_token: bool = False
    busy_ns: int = 0

    def run(self, engine: FlowEngine, bundle: Bundle, moment: Moment, handle: int) -> None:
        """Runs it on what is there of a step, and adds what it gives."""
        chunks = [chunk_of(engine, bundle, *where) for where in self.inputs]
        if not (self.always or any(map(len, chunks))):
            return
        if self.call is None:
            engine.leave(self.inputs[0][1], chunks[0], handle)
            return
        began = time.monotonic_ns()
        bundle.update(self.call(chunks, moment))
        self.busy_ns += time.monotonic_ns() - began


def ride(
    engine: FlowEngine,
    riders: Sequence[Rider],
    refs: Sequence[Ref],
    bundle: Mapping[Any, Chunk],
    moment: Moment,
    handle: int,
) -> Bundle:
    """What a leader and its riders put out together; streams that only riders read are let go."""
    found: Bundle = dict(bundle)
    for rider in riders:
        rider.run(engine, found, moment, handle)
    return {key: chunk for key, chunk in found.items() if isinstance(key, Edge) or key in refs}


def chunk_of(engine: FlowEngine, bundle: Mapping[Any, Chunk], ref: Ref, edge: Edge) -> Chunk:
    """A stream's chunk of a step as one of its readers sees it."""
    if edge in bundle:
        return bundle[edge]
    chunk = bundle.get(ref)
    if chunk is None:
        return Chunk.empty(stream_schema(engine.plan, ref), engine.edge_columns(ref, edge))
    return engine.branched(chunk, ref, edge)
