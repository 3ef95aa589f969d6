"""The part of an engine on shared memory that knows its operators, their state, and what stands under their handles."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from thalweg.columns.chunks import Chunk
from thalweg.columns.key_ranges import RangeUnits
from thalweg.columns.keys import KeySpec
from thalweg.engine.base import UnitsEngine
from thalweg.engine.interpreter.keyed import InterpretedKeyed
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Keyed, Ref
from thalweg.plan.plan import stream_schema
from thalweg.plan.regions import Riders, in_one_piece, riders_of
from thalweg.times import NEVER
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import Int64s
from thalweg.workers.memory.places import block_word, handle_at, op_at
from thalweg.workers.native.block_chunks import chunk_of, payload_of
from thalweg.workers.options import Options
from thalweg.workers.tasks import Task


class HandleEngine(UnitsEngine):
    """An engine's operators as tasks, and their outputs under handles, for Python and for machine code.

    Attributes:
        mem: the words that all threads share.
        objects: what Python keeps under each handle.
        source: where its ingress stands; the other operators stand behind it.
        tasks: its operators, the ingress first.
        domains: in the order in which handles keep their clocks.
        options: of the run in many threads.
    """

    mem: Int64s
    objects: list[Any]
    source: int
    tasks: list[Task]
    domains: list[int]
    options: Options
    _slots: dict[int, int]

    @functools.cached_property
    def riders(self) -> Riders:
        """Which operators ride on which."""
        mine = [unit for unit in self.plan.units if self.stage in (None, unit.stage)]
        return riders_of(self.plan, mine, self.stage, self.options.threading)

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

    # -- state by key ---------------------------------------------------------------------------------------

    def _ranges(self, node: Keyed) -> RangeUnits | None:
        """The ranges of a keyed operator's keys, where the options say them."""
        firsts = (self.options.boundaries or {}).get(node.name)
        if firsts is None:
            return None
        where = f"boundaries of operator {node.name!r}"
        if not node.key.fields:
            raise BuildError(f"{where}: it has no key; leave it out")
        return RangeUnits.between(where, KeySpec(node.key.fields), firsts)

    def _keyed(self, node: Keyed) -> KeyedUnit:
        ranges = self._ranges(node)
        made = [self._builder.keyed(node)]
        waits = isinstance(made[0], InterpretedKeyed)
        is_one = in_one_piece(self.plan, node, self.riders, self.options.threading)
        is_one = is_one or not node.key.fields
        pieces = ranges.count if ranges else self.options.pieces(node.key.buckets, waits=waits)
        made += [self._builder.keyed(node) for _ in range(0 if is_one else pieces - 1)]
        unit = KeyedUnit(self.setting, node, made, self._builder.key(node))
        if ranges:
            unit.set_units(ranges)
        return unit

    def _share_bounds(self) -> None:
        """Machine code and the runtime keep the bounds of timers in the same words."""
        for index, task in enumerate(self.tasks):
            if task.keyed is not None and task.spec.kind == at.KEYED:
                first = int(self.mem[self.op_at(index) + at.EARLIEST])
                task.keyed.move_earliest(int(self.mem[at.BASE]) + 8 * first)

    def _sync_tables(self) -> None:
        """Tells machine code where tables stand, and the runtime about the timers in them."""
        for index, task in enumerate(self.tasks):
            unit = task.unit
            if task.keyed is not None and unit is not None:
                task.keyed.set_units(unit.units, unit.partitions)
                task.keyed.sync()
                continue
            if unit is None or not task.spec.timers:
                continue
            first = self.mem[self.op_at(index) + at.EARLIEST]
            for number, operator in enumerate(unit.operators):
                bounds = (table.next_timer for table in operator.tables.values())
                self.mem[first + number] = min(bounds, default=NEVER)
