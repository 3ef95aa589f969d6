"""The part of an engine on shared memory that knows its operators and what stands under their handles."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from thalweg.columns.chunks import Chunk
from thalweg.engine.base import UnitsEngine
from thalweg.flow.operators.nodes import Ref
from thalweg.plan.plan import stream_schema
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import Int64s
from thalweg.workers.memory.places import block_word, handle_at, op_at
from thalweg.workers.native.block_chunks import chunk_of, payload_of
from thalweg.workers.tasks import Task


class HandleEngine(UnitsEngine):
    """An engine's operators as tasks, and their outputs under handles, for Python and for machine code.

    Attributes:
        mem: the words that all threads share.
        objects: what Python keeps under each handle.
        source: where its ingress stands; the other operators stand behind it.
        tasks: its operators, the ingress first.
        domains: in the order in which handles keep their clocks.
    """

    mem: Int64s
    objects: list[Any]
    source: int
    tasks: list[Task]
    domains: list[int]
    _slots: dict[int, int]

    @property
    def is_native(self) -> bool:
        """Whether machine code runs all its operators, so that a step costs Python next to nothing."""
        is_ridden = any(task.riders for task in self.tasks)
        return not is_ridden and all(task.spec.native for task in self.tasks[1:] if not task.leaves)

    @property
    def is_held_up(self) -> bool:
        """Whether Python runs a function of the user's or a keyed operator: threads then wait for its one lock."""
        return any(
            not task.spec.native
            and (task.spec.needs_token or task.spec.is_split or task.unit is not None)
            for task in self.tasks[1:]
            if not task.leaves
        ) or any(rider.needs_token for rider in self.tasks[0].riders)

    @property
    def may_wait(self) -> bool:
        """Whether Python runs a function of the user's, which may sleep or ask somebody."""
        calls = any(task.spec.needs_token for task in self.tasks[1:] if not task.leaves)
        return calls or any(rider.needs_token for rider in self.tasks[0].riders)

    @property
    def refs(self) -> int:
        """The most streams that one of its operators puts out."""
        return max(1, *(len(task.refs) for task in self.tasks))

    @property
    def clock_count(self) -> int:
        """Its time domains, and the one of rows without event time."""
        return len(self.domains)

    def op_at(self, index: int) -> int:
        """Where the words of one of its operators begin."""
        return int(op_at(self.mem, self.source + index))

    def slot_of(self, domain: int) -> int:
        """Where handles keep a domain's clock."""
        return self._slots[domain]

    # -- handles --------------------------------------------------------------------------------------------

    def set_block(self, handle: int, number: int, block: int) -> None:
        """Tells machine code where a handle's stream stands."""
        self.mem[block_word(self.mem, handle_at(self.mem, handle), number)] = block

    def block(self, handle: int) -> int:
        """The address of what machine code keeps under a handle."""
        return int(self.mem[block_word(self.mem, handle_at(self.mem, handle), 0)])

    def held(self, handle: int) -> int:
        """The handle that a handle keeps alive: of a split chunk its input."""
        return int(self.mem[handle_at(self.mem, handle) + at.HOLDS])

    def copied(self, handle: int, ref: Ref) -> Chunk:
        """A copy of the block that a handle owns."""
        block = self.block(handle)
        schema = stream_schema(self.plan, ref)
        payload = payload_of(block, len(schema.fields))
        names = self.setting.columns(ref)
        if payload < 0:
            return chunk_of(block, schema, names, ())
        kept = self.objects[payload & at.PAYLOAD_MASK]
        held: Chunk = kept.views[payload >> at.PAYLOAD_SHIFT][0]
        order = {**held.order, **self._branches.get(ref, {})}
        return chunk_of(block, schema, names, held.columns, order)

    @functools.cached_property
    def _branches(self) -> dict[Ref, Mapping[str, int]]:
        """By stream that machine code makes, which of several readers its makers are."""
        return {ref: task.branches for task in self.tasks for ref in task.refs if task.branches}
