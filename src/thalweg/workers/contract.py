"""The protocol of an engine towards the threads and the tasks that they run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

from thalweg.columns.chunks import Chunk
from thalweg.engine.units import Counts, Setting
from thalweg.flow.operators.nodes import Ref
from thalweg.plan.plan import Edge, Plan
from thalweg.plan.regions import Riders
from thalweg.plan.units import Unit
from thalweg.workers.memory.layout import Int64s
from thalweg.workers.options import Options


class FlowEngine(Hashable, Protocol):
    """The part of :class:`thalweg.workers.engine.ParallelEngine` that stands below it.

    Attributes:
        plan, stage, setting, counts, units: as of every engine.
        options: of the run in many threads.
        priority_class: of the flow.
        mem: the words that all threads share.
        objects: what Python keeps under each handle.
        source: where its ingress stands; the other operators stand behind it.
        tasks: its operators (:class:`thalweg.workers.tasks.Task`), the ingress first.
        domains: in the order in which handles keep their clocks.
    """

    plan: Plan
    stage: int | None
    setting: Setting
    counts: Counts
    units: list[tuple[Unit, Any]]
    options: Options
    priority_class: int
    mem: Int64s
    objects: list[Any]
    source: int
    tasks: list[Any]
    domains: list[int]

    @property
    def riders(self) -> Riders:
        """Which operators ride on which."""

    @property
    def refs(self) -> int:
        """The most streams that one of its operators puts out."""

    @property
    def clock_count(self) -> int:
        """Its time domains, and the one of rows without event time."""

    def op_at(self, index: int) -> int:
        """Where the words of one of its operators begin."""

    def slot_of(self, domain: int) -> int:
        """Where handles keep a domain's clock."""

    def edge_columns(self, ref: Ref, edge: Edge) -> tuple[str, ...]:
        """The order columns of a stream as one of its readers sees it."""

    def branch_of(self, ref: Ref, edge: Edge) -> Mapping[str, int]:
        """See :meth:`thalweg.engine.base.UnitsEngine.branch_of`."""

    def branched(self, chunk: Chunk, ref: Ref, edge: Edge) -> Chunk:
        """The stream for one of several readers."""

    def run_unit(self, me: int, task: Any) -> None:
        """Runs the unit that a worker was returned with."""

    def leave(self, edge: Edge, chunk: Chunk, handle: int) -> None:
        """A chunk has reached the end of its way."""

    def fail(self, error: BaseException) -> None:
        """This is why the flow ends, unless there has been another reason before."""

    def put(self, handle: int, task: Any, bundle: dict[Any, Chunk]) -> None:
        """Puts an operator's output under a handle."""

    def set_block(self, handle: int, number: int, block: int) -> None:
        """Tells machine code where a handle's stream stands."""

    def block(self, handle: int) -> int:
        """The address of what machine code keeps under a handle."""

    def held(self, handle: int) -> int:
        """The handle that a handle keeps alive: of a split chunk its input."""

    def copied(self, handle: int, ref: Ref) -> Chunk:
        """A copy of the block that a handle owns."""
