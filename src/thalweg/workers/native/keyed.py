"""A keyed operator in machine code: what a compiled worker loop calls by address, and what Python does for it.

A chunk is split by partition (:func:`~thalweg.workers.native.keyed_split.split_keyed`), its partitions are run
(:func:`~thalweg.workers.native.keyed_run.run_partition`; one thread at a time, chunks in their order), and their
outputs merged (:func:`~thalweg.workers.native.keyed_merge.merge_keyed`). State is in the tables of Python's operators.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thalweg.checkpoint.state_tables.table_form import record_dtype
from thalweg.checkpoint.state_tables.tables import reserve
from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.contracts import KeyedResult
from thalweg.columns.key_ranges import RangeUnits
from thalweg.columns.keys import KeyBytes, KeyRows
from thalweg.columns.state_units import StateUnits
from thalweg.compiler.code.columns import TEXT_TAIL, Buffers, address
from thalweg.compiler.keyed import layout as code
from thalweg.compiler.keyed.operator import CompiledKeyed
from thalweg.compiler.keyed.run import Run, Split
from thalweg.compiler.runtime.calls import address_of
from thalweg.compiler.runtime.lookup import BUCKET, END, RANGE_WIDTH, START
from thalweg.compiler.runtime.undo import UndoLog
from thalweg.compiler.stateless import CompiledChain
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Schema
from thalweg.plan.plan import TIME
from thalweg.times import NEVER
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.block_chunks import words_at
from thalweg.workers.native.blocks import (
    BlockShape,
    free_block,
    has_whole_key,
    own_word,
    payload_word,
    table_word,
    time_word,
)
from thalweg.workers.native.chain import NativeChain
from thalweg.workers.native.keyed_merge import merge_keyed, run_serial
from thalweg.workers.native.keyed_ranks import CategoryRanks
from thalweg.workers.native.keyed_run import drop_due, run_partition
from thalweg.workers.native.keyed_split import free_split, split_keyed


class NativeKeyed:
    """The context of a keyed operator for machine code, and the way back to Python.

    Whoever changes tables in Python (loads, saves, tidies, moves buckets) calls :meth:`sync` before the next
    unit runs. ``split``, ``run``, ``merge`` and ``serial`` are called with the context, a block or split chunk, and
    the address of scratch words (see the functions of these names); ``free`` and ``free_split`` with an output block
    or a split chunk that is not merged. Must outlive all of these.

    Args:
        operators: one a partition; they are kept alive and own the state.
        timed: whether rows have times, so that timers fire.
        order_names: the order columns of its outputs.
        joins: when Python orders them, of :func:`~thalweg.workers.native.keyed_choice.who_joins`.
        own: whether the rows' times are their keys' own.
        key: the function that makes the first field of the key, if one does.
    """

    def __init__(
        self,
        operators: Sequence[CompiledKeyed],
        *,
        timed: bool,
        order_names: Sequence[str],
        joins: int = at.BY_MACHINE,
        own: bool = False,
        key: CompiledChain | None = None,
    ) -> None:
        self.operators = list(operators)
        self._key = None if key is None else NativeChain(key, ())
        self.spec = operators[0].spec
        self._timed = timed
        fields = len(self.spec.source.names)
        self._times_word = own_word(fields) if own else time_word(fields)
        #: a lower bound of each partition's timers
        self.earliest = np.full(len(operators), NEVER, np.int64)
        #: rows in, rows out, timers disarmed, of chunks that machine code merged
        self.counts = np.zeros(at.COUNT_WORDS, np.int64)
        record = self.spec.out or Schema("Nothing", ())
        texts = any(not field.type.fixed_width for field in record.fields)
        has_payload = texts or has_whole_key(order_names)
        self.shape = BlockShape(record, order_names, columns=int(has_payload))
        #: which word of an output block names its payload; 0 where blocks have none
        self.payload_word = payload_word(len(record.fields)) if has_payload else 0
        #: the results that Python holds, by split chunk and partition
        self._held: dict[tuple[int, int], KeyedResult] = {}
        self._ranks = CategoryRanks()
        self._keep: list[Any] = []
        self.context = self._context(order_names, joins)
        units = operators[0].units
        self._use(units, units.partitions(len(operators)))
        #: addresses: of the context, of the functions that workers call, and of those that free what they gave
        self.ctx = address(self.context)
        self.split, self.run = address_of(split_keyed), address_of(run_partition)
        self.merge, self.serial = address_of(merge_keyed), address_of(run_serial)
        self.free, self.free_split = address_of(free_block), address_of(free_split)
        self.sync()

    # -- making ---------------------------------------------------------------------------------------------

    def _kept(self, values: Any) -> int:
        """The address of an int64 array that lives as long as the operator."""
        array = np.ascontiguousarray(values, np.int64)
        self._keep.append(array)
        return address(array)

    def _context(self, order_names: Sequence[str], joins: int) -> Int64s:
        spec, names = self.spec, self.spec.source.names
        buffers = self._buffers(0)
        outputs = spec.out.fields if spec.out else ()
        dtype = record_dtype(spec.state)
        assert dtype.fields is not None
        ctx = np.zeros(at.CONTEXT_WORDS, np.int64)
        made = spec.key.names[:1] if self._key else ()
        keys = [
            (
                0 if field.name in made else names.index(field.name),
                at.KEY_KINDS.get(field.type.kind, at.WORD_KEY), field.type.optional, field.name in made,
            )
            for field in spec.key.fields
        ]  # fmt: skip
        kinds = [at.kind_words(field.type) for field in outputs]
        self._sizes = len(buffers.table), code.log_place(dtype.itemsize) + 8
        timed = self._timed and spec.timer is not None
        words = {
            at.KERNEL: address_of(self.operators[0].kernel), at.PARTITIONS: len(self.operators),
            at.BUCKETS: self.operators[0].buckets, at.WIDTH: spec.key.width, at.NULL_WORD: spec.key.has_null_word,
            at.KEY_FIELDS: len(keys), at.KEYS: self._kept(keys), at.IN_FIELDS: len(names),
            at.OUT_FIELDS: len(kinds), at.OUT_KINDS: self._kept(kinds),
            at.COLUMNS: len(buffers.places), at.PLACES: self._kept(buffers.places),
            at.WIDE: buffers.counts[0], at.SMALL: buffers.counts[1],
            at.TIMED: self._timed, at.OUT_TIMED: TIME in order_names,
            at.EARLIEST: address(self.earliest), at.RECORD_SIZE: dtype.itemsize,
            at.TIMER_OFFSET: dtype.fields[spec.timer][1] if timed and spec.timer else -1,
            at.COUNTS: address(self.counts), at.HAS_PAYLOAD: self.payload_word != 0,
            at.SHAPE: self.shape.address, at.RANKS: self._ranks.place,
            at.HAS_BYTES: spec.key.has_text, at.PLAIN_TEXT: spec.key.is_plain_text,
            at.KEY_FUNCTION: self._key.ctx if self._key else 0,
            at.TIMES_WORD: self._times_word, at.JOINS: joins,
        }  # fmt: skip
        for word, value in words.items():
            ctx[word] = value
        return ctx

    def _use(self, units: StateUnits, partitions: Int64s) -> None:
        self.units, self._partitions = units, partitions
        self._least = np.full(units.count, NEVER, np.int64)
        words = {
            at.UNITS: units.count, at.PARTITION_OF: address(partitions), at.LEAST: address(self._least),
            at.PINNED: len(units.hashes), at.PIN_HASHES: address(units.hashes), at.PIN_GROUPS: address(units.pins),
            at.PIN_INDEX: address(units.index), at.PIN_CELLS: len(units.index),
        }  # fmt: skip
        words |= {at.BOUNDS: 0, at.BOUND_COUNT: -1}
        if isinstance(units, RangeUnits):
            words |= {at.BOUNDS: address(units.words), at.BOUND_COUNT: len(units.words)}
        for word, value in words.items():
            self.context[word] = value
        self._make_areas(*self._sizes)

    def _make_areas(self, table_words: int, record_size: int) -> None:
        """The partitions' work areas, each on cache lines of its own."""
        count = len(self.operators)
        bounds = np.searchsorted(self._partitions, np.arange(count + 1))
        sizes = np.diff(bounds).tolist()
        self._due = [np.zeros((1 + RANGE_WIDTH) * size, np.int64) for size in sizes]
        chunk = at.AREA_HEAD
        out = chunk + code.COLUMNS + 2 * len(self.spec.source.names) + TEXT_TAIL
        backup = out + table_words
        words = -(-(backup + record_size // 8) // 8) * 8 + 8
        self._logs = [UndoLog() for _ in self.operators]
        self.areas = np.zeros((count, words), np.int64)
        self.context[at.AREAS], self.context[at.AREA_WORDS] = address(self.areas), words
        for number, (area, operator) in enumerate(zip(self.areas, self.operators, strict=True)):
            start = address(area)
            area[at.TABLES] = operator.places.place
            area[at.FIRST_UNIT], area[at.LAST_UNIT] = bounds[number : number + 2]
            area[at.CANDIDATES] = address(self._due[number])
            area[at.DUE_RANGES] = address(self._due[number]) + 8 * sizes[number]
            area[at.CHUNK], area[at.OUT_TABLE] = start + 8 * chunk, start + 8 * out
            area[at.BACKUP_PLACE] = start + 8 * backup
            area[chunk + code.TABLES] = operator.places.place
            area[chunk + code.DEFAULT] = operator.default_place
            area[chunk + code.BACKUP] = start + 8 * backup
            area[backup + record_size // 8 - 1] = self._logs[number].place

    def _buffers(self, capacity: int) -> Buffers:
        return Buffers(self.spec.out, code.OUT_WORDS + self.spec.words, capacity)

    def move_earliest(self, place: int) -> None:
        """Keeps the bounds of the partitions' timers at another address: int64[partitions]."""
        values = words_at(place, len(self.operators))
        values[:] = self.earliest
        self.earliest = values
        self.context[at.EARLIEST] = place

    def set_units(self, units: StateUnits, partitions: Int64s) -> None:
        """By what state is kept, and the partition of each unit, as the operators know it; no unit may be running."""
        if units is not self.units or partitions is not self._partitions:
            self._use(units, partitions)

    def sync(self) -> None:
        """Takes over what Python did to the tables; no unit may be running."""
        for number, operator in enumerate(self.operators):
            operator.places.refresh()
            self.sync_bounds(number)

    def sync_bounds(self, number: int) -> int:
        """Takes over what Python did to a partition's timers; a lower bound of them."""
        tables = self.operators[number].tables
        first, last = self.areas[number, [at.FIRST_UNIT, at.LAST_UNIT]]
        self._least[first:last] = NEVER
        for unit, table in tables.items():
            self._least[unit] = table.next_timer
        bound = int(self._least[first:last].min(initial=NEVER))
        self.earliest[number] = bound
        return bound

    # -- what machine code leaves to Python -----------------------------------------------------------------

    @property
    def left_by_serial(self) -> int:
        """The split chunk that ``serial`` left to Python; 0 when it had not begun."""
        return int(self.context[at.SERIAL])

    def resume(
        self, split: int, number: int, clock: int, *, ending: bool, chunk: Callable[[], Chunk]
    ) -> int:
        """Finishes the run of a partition that machine code gave up; a lower bound of its timers then.

        Args:
            split: the split chunk.
            number: the partition.
            clock: timers below it fire.
            ending: whether the stream ends.
            chunk: the input, asked for when a user's function raised.

        Raises:
            OperatorError: a function raised and the operator does not reject.
        """
        area = self.areas[number]
        if area[at.PHASE] == at.OVER:
            # Only its merge was given up.
            return int(self.earliest[number])
        scratch = np.array([number, clock, ending], np.int64)
        while area[at.PHASE] == at.FIND:
            self._make_room(split, number)
            if run_partition(self.ctx, split, address(scratch)):
                return int(self.earliest[number])
        self._finish(split, number, clock, chunk())
        return self.sync_bounds(number)

    def _make_room(self, split: int, number: int) -> None:
        """Makes the tables that a partition of a split chunk needs, and more room in those that are full."""
        words = words_at(split, at.SPLIT_WORDS)
        first, last = words_at(int(words[at.FIRST]) + 8 * number, 2).tolist()
        ranges = words_at(
            int(words[at.RANGES]) + 8 * RANGE_WIDTH * first, RANGE_WIDTH * (last - first)
        )
        ranges = ranges.reshape(-1, RANGE_WIDTH)
        buckets = ranges[:, BUCKET].tolist()
        sizes = self._identity_sizes(words, ranges)
        places = self.operators[number].places
        # No output refers to entries here, so dead ones may go. Where one table is full others soon will be.
        tables, coming = places.sync(buckets), ranges[:, END] - ranges[:, START]
        reserve(tables, np.maximum(coming, [t.capacity >> 2 for t in tables]).tolist(), sizes)
        places.sync(buckets)

    def _identity_sizes(self, split: Int64s, ranges: Int64s) -> list[int]:
        """How many bytes the identities of the keys of these ranges take, repetitions included."""
        if not self.spec.key.has_text:
            return [0] * len(ranges)
        rows = int(split[at.ROWS])
        sizes = np.diff(words_at(int(split[at.KEY_ENDS]), rows + 1))
        before = np.concatenate([[0], np.cumsum(sizes[words_at(int(split[at.ORDER]), rows)])])
        return [int(before[end] - before[start]) for _, start, end in ranges.tolist()]

    def _finish(self, at_split: int, number: int, clock: int, chunk: Chunk) -> None:
        operator, area = self.operators[number], self.areas[number]
        split = self._split(at_split, chunk)
        control = area[at.CONTROL : at.AREA_HEAD]
        run = self._run(int(area[at.BUFFER]), int(words_at(int(area[at.OUT_TABLE]), 1)[0]), control)
        ctypes.memmove(run.backup_place, int(area[at.BACKUP_PLACE]), run.backup.nbytes)
        firing = area[at.PHASE] == at.IN_TIMERS
        ranges, entries = self._firing(area) if firing else (split.ranges, split.entries)
        if control[code.RANGE] < control[code.LAST]:
            # The kernel starts again at the call that raised, and raises where its exception is seen.
            table = operator.tables[int(ranges[control[code.RANGE], BUCKET])]
            table.records[control[code.ENTRY]] = run.backup[0]
            self._logs[number].undo()
        part = self._part(at_split, number)
        part[at.PART_BUFFER], part[at.PART_PYTHON] = area[at.BUFFER], 1
        area[at.BUFFER] = 0
        operator.go_on(split, run, ranges, entries)
        if not firing:
            operator.fire_due(split, run, clock, sorted(operator.tables))
        self._held[at_split, number] = operator.result(split, run)

    def _firing(self, area: Int64s) -> tuple[Int64s, Int64s]:
        """The ranges and entries whose timers were firing."""
        count = int(area[at.CONTROL + code.LAST])
        ranges = (
            words_at(int(area[at.DUE_RANGES]), RANGE_WIDTH * count).reshape(-1, RANGE_WIDTH).copy()
        )
        entries = words_at(int(area[at.DUE_ENTRIES]), int(ranges[-1, END])).copy()
        drop_due(address(area), 0, 0)
        return ranges, entries

    def join(self, split: int, chunk: Chunk) -> list[KeyedResult]:
        """What the partitions of a split chunk gave, for Python to order; frees the split chunk. Never empty."""
        made = self._split(split, chunk)
        results = []
        for number, operator in enumerate(self.operators):
            part = self._part(split, number)
            if part[at.PART_PYTHON]:
                results.append(self._held.pop((split, number)))
            elif part[at.PART_USED] or part[at.PART_DISARMED] or number == 0:
                control = np.zeros(code.CONTROL_SIZE, np.int64)
                control[code.OUT], control[code.DISARMED] = (
                    part[at.PART_USED], part[at.PART_DISARMED],
                )  # fmt: skip
                run = self._run(int(part[at.PART_BUFFER]), int(part[at.PART_CAPACITY]), control)
                source = run.buffers.extra(code.SOURCE, run.used)
                run.identities = self._kept_keys(part, source)
                results.append(operator.result(made, run))
        free_split(split, 0, 0)
        self._learn(results)
        return results

    def _kept_keys(self, part: Int64s, source: Int64s) -> KeyBytes | None:
        """The identities of the keys of a partition's timers, without the empty ones of its rows."""
        place, used = int(part[at.PART_KEYS]), int(part[at.PART_USED])
        if not place:
            return None
        ends = words_at(place, used + 1)
        data = np.empty(int(ends[-1]), np.uint8)
        if len(data):
            ctypes.memmove(data.ctypes.data, place + ends.nbytes, data.nbytes)
        return KeyBytes(np.concatenate([[0], ends[1:][source < 0]]), data)

    def _learn(self, results: Sequence[KeyedResult]) -> None:
        """Lets machine code order the categories that Python has to order this time."""
        keys = [column for one in results for column in one.timer_keys]
        for column in keys:
            if column.type.kind is Kind.CATEGORY:
                self._ranks.learn(column.values)
        self.context[at.RANKS] = self._ranks.place

    # -- machine code's memory as Python's ------------------------------------------------------------------

    def _part(self, split: int, number: int) -> Int64s:
        parts = int(words_at(split, at.SPLIT_WORDS)[at.PARTS])
        return words_at(parts + 8 * at.PART_WORDS * number, at.PART_WORDS)

    def _split(self, split: int, chunk: Chunk) -> Split:
        words = words_at(split, at.SPLIT_WORDS).tolist()
        rows, fields, width = words[at.ROWS], len(self.spec.source.names), self.spec.key.width
        block = words_at(words[at.IN_BLOCK], table_word(fields))
        times = int(block[self._times_word]) if self._timed else 0
        used = int(words_at(words[at.FIRST], len(self.operators) + 1)[-1])
        keys = KeyRows(
            words_at(words[at.HASHES], rows).view(np.uint64),
            words_at(words[at.WORDS], rows * width).reshape(rows, width),
            None,  # nothing is looked up any more
        )
        return Split(
            chunk,
            keys,
            words_at(times, rows) if times else None,
            words_at(words[at.ORDER], rows),
            words_at(words[at.ENTRIES], rows),
            words_at(words[at.RANGES], RANGE_WIDTH * used).reshape(used, RANGE_WIDTH),
            [],
            block[1 : 1 + 2 * fields + TEXT_TAIL].tolist(),
        )

    def _run(self, buffer: int, capacity: int, control: Int64s) -> Run:
        """The outputs so far of a run that machine code began."""
        used = int(control[code.OUT])
        run = self.operators[0].new_run(used, ending=bool(control[code.ENDING]))
        run.ctl[:] = control
        wide = run.buffers.counts[0]
        for number, (small, place) in enumerate(run.buffers.places):
            start = buffer + (8 * wide + place if small else 8 * place) * capacity
            size = used if small else 8 * used
            if size:
                ctypes.memmove(int(run.buffers.table[1 + number]), start, size)
        return run
