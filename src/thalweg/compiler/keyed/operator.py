"""A keyed operator compiled: state in one table a bucket, a chunk's ranges run by one kernel.

The steps of a chunk can be taken apart by an engine that runs ranges in parallel: :meth:`CompiledKeyed.split`
once, :meth:`CompiledKeyed.run` for any ranges, then :meth:`CompiledKeyed.fire_due` and
:meth:`CompiledKeyed.result`. :meth:`CompiledKeyed.process` does all of it in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from thalweg.checkpoint.state_tables.table_code import split_by_bucket
from thalweg.checkpoint.state_tables.table_form import ALIVE, TableForm
from thalweg.checkpoint.state_tables.tables import BucketTable
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult, no_rows
from thalweg.columns.keys import KeyBytes
from thalweg.columns.ordered_bytes import binary_array
from thalweg.columns.ordering import places_by_row
from thalweg.columns.state_units import StateUnits
from thalweg.compiler.code import modules
from thalweg.compiler.code.columns import address, addresses, gather, with_texts
from thalweg.compiler.keyed import layout
from thalweg.compiler.keyed.code import write_keyed
from thalweg.compiler.keyed.replay import Replay, ReplayPlace
from thalweg.compiler.keyed.run import Run, Split
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.compiler.kinds import NO_VALUE
from thalweg.compiler.runtime.lookup import BUCKET, END, RANGE_WIDTH, TableOfTables
from thalweg.compiler.runtime.support import DONE
from thalweg.compiler.text.use import TextUse
from thalweg.flow.fields.field_types import FieldType
from thalweg.hashing import text_buffers

#: All rows as they stand.
_ALL: Final = slice(None)


def check_keyed(spec: KeyedSpec) -> tuple[bool, str]:
    """Whether the operator can be compiled, and if not why; compiles nothing."""
    return modules.verdict(lambda: write_keyed(spec))


def keyed_kernel(spec: KeyedSpec, *, buckets: int, reject: bool) -> Callable[[], CompiledKeyed]:
    """Compiles a keyed operator; each call of the result is an operator with tables of its own.

    Args:
        buckets: the number of buckets of the key space; an operator may own any of them.
        reject: a row on which a function raises goes to ``rejected``; else OperatorError.

    Raises:
        NotCompilable: with the reason that ``explain()`` shows.
    """
    text = modules.written(lambda: write_keyed(spec))
    module = modules.load(spec.name, text)
    texts = TextUse.of(module)
    return lambda: CompiledKeyed(spec, module.kernel, buckets, reject=reject, texts=texts)


class CompiledKeyed:
    """A :class:`~thalweg.columns.contracts.KeyedOperator`; ``tables`` holds the buckets of this slot.

    An on_timer that raises under ``reject`` ends its key's state: its timer is used up.
    """

    def __init__(
        self,
        spec: KeyedSpec,
        kernel: Callable[..., int],
        buckets: int,
        *,
        reject: bool,
        texts: TextUse,
    ) -> None:
        self.spec = spec
        self.texts = texts
        self.kernel = kernel
        self.buckets = buckets
        self._replay = Replay(spec, reject=reject, made=texts.made)
        #: bucket -> table, made when the bucket gets its first row
        self.tables: dict[int, BucketTable] = {}
        #: what dead keys have, and behind it what new ones start with
        self._form = TableForm.of(spec.key, spec.state)
        self._default = np.concatenate([self._form.bare, self._form.default])
        self.default_place = address(self._default.view(np.uint8))
        fields = spec.out.fields if spec.out else ()
        self._no_rows = [Column.from_python(field.type, []) for field in fields]
        self._no_keys = [Column.from_python(field.type, []) for field in spec.key.fields]
        self.units = StateUnits.of_buckets(buckets)
        self.places = self._places()

    def set_units(self, units: StateUnits) -> None:
        """By what the state is kept; tables that are held already must be those of these units."""
        known, self.units = self.units.count, units
        if units.count != known:
            self.places = self._places()

    def expect(self, more: float) -> None:
        """Says how many rows come behind the next chunk, for each one so far; tables grow accordingly."""
        self.places.more = more

    def _places(self) -> TableOfTables:
        key, state, form = self.spec.key, self.spec.state, self._form
        return TableOfTables(self.units.count, self.tables, lambda: BucketTable(key, state, form))

    def table(self, bucket: int) -> BucketTable:
        """The table of a bucket, made on first use."""
        return self.places.sync([bucket])[0]

    def process(
        self,
        chunk: Chunk,
        keys: Sequence[Column],
        times: Int64s | None,
        watermark: int,
        *,
        ending: bool,
    ) -> KeyedResult:
        """See :class:`~thalweg.columns.contracts.KeyedOperator`."""
        split = self.split(chunk, keys, times)
        run = self.new_run(len(chunk), ending=ending)
        self.run(split, run, 0, len(split.ranges))
        self.fire_due(split, run, watermark, sorted(self.tables))
        return self.result(split, run)

    def new_run(self, capacity: int, *, ending: bool) -> Run:
        """Empty outputs with room for so many rows; the room grows."""
        return Run(self.spec, self._default, capacity, ending=ending, texts=self.texts)

    # -- the steps -------------------------------------------------------------------------------

    def split(self, chunk: Chunk, keys: Sequence[Column], times: Int64s | None) -> Split:
        """Hashes the keys and orders the rows by bucket."""
        keep: list[Any] = []
        none = np.zeros(0, np.int64)
        columns = addresses(chunk.columns, keep)
        if self.texts.reads:
            columns = with_texts(chunk.columns, columns, keep)
        if not len(chunk):
            ranges = np.zeros((0, RANGE_WIDTH), np.int64)
            return Split(chunk, None, times, none, none, ranges, keep, columns)
        rows = self.spec.key.rows(keys, len(chunk))
        order, starts = split_by_bucket(self.units.of_rows(keys, rows[0]), self.units.count)
        used = np.flatnonzero(starts[1:] > starts[:-1])
        ranges = np.stack([used, starts[:-1][used], starts[1:][used]], axis=1).astype(np.int64)
        times = None if times is None else np.ascontiguousarray(times)
        entries = np.empty(len(chunk), np.int64)
        return Split(
            chunk, rows, times, order, entries, np.ascontiguousarray(ranges), keep, columns
        )

    def run(self, split: Split, run: Run, first: int, last: int) -> None:
        """Runs the ranges first to last: their keys' timers before each row, and the rows.

        Ranges are independent: threads may run different ones of a split with a ``run`` each.
        """
        if first == last or split.keys is None:
            return
        self.places.find(split.ranges, split.keys, split.order, split.entries, first, last)
        run.ctl[layout.DUE] = 0
        self._loop(split, run, split.ranges, split.entries, first, last)

    def fire_due(self, split: Split, run: Run, watermark: int, buckets: Sequence[int]) -> None:
        """Fires the timers of these buckets below the watermark, also those armed again below it."""
        timer = self.spec.timer
        if split.times is None or timer is None:
            return
        ranges, entries = self.places.due(buckets, watermark, timer)
        if len(ranges):
            run.ctl[layout.DUE], run.ctl[layout.CLOCK] = 1, watermark
            self._loop(split, run, ranges, entries, 0, len(ranges))

    def _loop(
        self, split: Split, run: Run, ranges: Int64s, entries: Int64s, first: int, last: int
    ) -> None:
        run.ctl[layout.RANGE], run.ctl[layout.LAST], run.ctl[layout.PLACE] = first, last, -1
        self.go_on(split, run, ranges, entries)

    def go_on(self, split: Split, run: Run, ranges: Int64s, entries: Int64s) -> None:
        """Runs the kernel from where a run stands to the end."""
        times = split.times
        places = [
            address(ranges), address(split.order), address(entries),
            0 if times is None else address(times),
            self.places.place, self.default_place, run.backup_place,
        ]  # fmt: skip
        table = np.array([*places, *split.columns], np.int64)
        ctl = run.ctl
        while True:
            try:
                code = self.kernel(address(table), address(run.buffers.table), address(ctl))
                if code == DONE:
                    return
            except Exception:
                self._failed(split, run, int(ranges[ctl[layout.RANGE], BUCKET]))
            else:
                run.buffers.grow(int(ctl[layout.NEEDED]), run.used)

    # -- results ---------------------------------------------------------------------------------

    def result(self, split: Split, run: Run) -> KeyedResult:
        """The outputs of a run; to be called before its tables are tidied or saved."""
        used, buffers = run.used, run.buffers
        source = buffers.extra(layout.SOURCE, used)
        fired = np.flatnonzero(source < 0)
        if not len(fired):
            return self._by_row(split, run, source)
        return KeyedResult(
            self._columns(split.chunk, run, source, fired),
            source,
            buffers.extra(layout.OUT_TIME, used),
            self._timer_keys(run, fired),
            int(run.ctl[layout.DISARMED]),
            run.rejected,
        )

    def _by_row(self, split: Split, run: Run, source: Int64s) -> KeyedResult:
        """The outputs in the order of their rows, so that what stands in it already need not be moved again."""
        order = places_by_row(source, len(split.chunk))
        source = source[order]
        return KeyedResult(
            self._columns(split.chunk, run, source, no_rows(), order),
            source,
            np.zeros(len(source), np.int64),
            list(self._no_keys),
            int(run.ctl[layout.DISARMED]),
            run.rejected,
        )

    def _timer_keys(self, run: Run, fired: Int64s) -> list[Column]:
        spec, used = self.spec.key, run.used
        if not len(fired):
            return list(self._no_keys)
        if spec.has_text:
            return spec.columns(no_rows(), self._identities(run, fired))
        words = [run.buffers.extra(layout.OUT_WORDS + i, used)[fired] for i in range(spec.width)]
        matrix = np.stack(words, axis=1) if words else np.zeros((len(fired), 0), np.int64)
        return spec.columns(matrix, None)

    def _identities(self, run: Run, fired: Int64s) -> KeyBytes:
        """The identities of the keys whose timers put out these rows."""
        if run.identities is None:
            run.identities = self._look_up(run, fired)
        return run.identities

    def _look_up(self, run: Run, fired: Int64s) -> KeyBytes:
        buckets = run.buffers.extra(layout.OUT_BUCKET, run.used)[fired]
        entries = run.buffers.extra(layout.OUT_ENTRY, run.used)[fired]
        order = np.argsort(buckets, kind="stable")
        cuts = np.flatnonzero(np.diff(buckets[order])) + 1
        parts = [
            binary_array(
                pa.binary(), *self.tables[int(buckets[rows[0]])]._identities(entries[rows])
            )
            for rows in np.split(order, cuts)
        ]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        offsets, data = text_buffers(pa.concat_arrays(parts).take(pa.array(places)))
        return KeyBytes(offsets.astype(np.int64), data)

    def _columns(
        self, chunk: Chunk, run: Run, source: Int64s, fired: Int64s, order: Any = _ALL
    ) -> list[Column]:
        """The columns of all outputs, or of these in this order; ``source`` is theirs."""
        if not len(source):
            return list(self._no_rows)
        columns: list[Column] = []
        schema = self.spec.out
        fields = schema.fields if schema else ()
        for i, (field, (values, valid)) in enumerate(
            zip(fields, run.buffers.fields(len(source)), strict=True)
        ):
            values, valid = values[order], None if valid is None else valid[order]
            if field.type.fixed_width:
                columns.append(Column(field.type, values, valid))
                continue
            if i in self.texts.made:
                texts = run.buffers.made(i, len(source), field.type)
                texts = texts if order is _ALL else texts.take(pa.array(order))
            elif len(fired):
                texts = self._texts(field.type, chunk, values, source, run, fired)
            else:
                texts = gather(values, source, chunk.columns, field.type.arrow)
            columns.append(Column(field.type, texts))
        return columns

    def _texts(
        self,
        kind: FieldType,
        chunk: Chunk,
        handles: Int64s,
        source: Int64s,
        run: Run,
        fired: Int64s,
    ) -> Any:
        """Values passed through from rows, and from keys where a timer put them out."""
        rows = np.flatnonzero(source >= 0)
        parts = [pa.nulls(1, kind.arrow)]
        places = np.zeros(len(source), np.int64)
        if len(rows):
            parts.append(gather(handles[rows], source[rows], chunk.columns, kind.arrow))
            places[rows] = 1 + np.arange(len(rows))
        total = 1 + len(rows)
        for handle in np.unique(handles[fired]).tolist():
            if handle != NO_VALUE:
                mine = np.flatnonzero(handles[fired] == handle)
                parts.append(self.spec.key.text_array(-handle - 1, self._identities(run, fired)))
                places[fired[mine]] = total + mine
                total += len(fired)
        return pa.concat_arrays(parts).take(pa.array(places))

    # -- errors ----------------------------------------------------------------------------------

    def _failed(self, split: Split, run: Run, bucket: int) -> None:
        """Restores the state that the function saw, and lets Python make the call instead."""
        entry = int(run.ctl[layout.ENTRY])
        table = self.tables[bucket]
        table.records[entry] = run.backup[0]
        run.log.undo()
        if not run.ctl[layout.FIRING]:
            self._replay_rows(split, run)
            return
        place = ReplayPlace(table, bucket, entry, run.buffers, run.ctl, run.backup[0])
        key = self.spec.key.python_keys(table.key_columns(np.array([entry])), 1)[0]
        bad = self._replay.timer(place, key, int(run.ctl[layout.TIME]))
        if bad is not None:
            run.rejected.append(bad)

    def _replay_rows(self, split: Split, run: Run) -> None:
        """Runs the row that raised, and some behind it, in Python: as long as the next one raises, too, twice as many.

        Where states hold texts or containers it is that row alone: Python makes and stores all of a state at each.
        Stops before a row whose key has a timer to fire first.
        """
        first = int(run.ctl[layout.PLACE])
        end = int(split.ranges[run.ctl[layout.LAST] - 1, END])
        if first != run.left_at:
            run.interpreted = 1
        rows = split.order[first : min(first + run.interpreted, end)]
        if self.spec.state.fixed_width:
            run.interpreted *= 2
        values = split.chunk.take(rows).rows()
        for at, (row, value) in enumerate(zip(rows.tolist(), values, strict=True), first):
            bucket, entry = int(split.ranges[run.ctl[layout.RANGE], BUCKET]), int(split.entries[at])
            table = self.tables[bucket]
            time = None if split.times is None else int(split.times[row])
            if self._has_due(table, entry, time):
                return
            before = table.records[entry].copy()
            if not table.flags[entry] & ALIVE:
                table.empty(np.array([entry]))
                before = table.default[0].copy()
            place = ReplayPlace(table, bucket, entry, run.buffers, run.ctl, before)
            bad = self._replay.row(place, row, value, time)
            if bad is not None:
                run.rejected.append(bad)
            run.left_at = at + 1
            self._step_over(run, at, split)

    def _has_due(self, table: BucketTable, entry: int, time: int | None) -> bool:
        """Whether a key's timer fires before a row of this time."""
        timer = self.spec.timer
        if timer is None or time is None or not table.flags[entry] & ALIVE:
            return False
        return int(table.records[timer][entry]) < time

    def _step_over(self, run: Run, place: int, split: Split) -> None:
        ctl = run.ctl
        ctl[layout.PLACE] = place + 1
        if place + 1 == split.ranges[ctl[layout.RANGE], END]:
            ctl[layout.RANGE] += 1
            ctl[layout.PLACE] = -1
