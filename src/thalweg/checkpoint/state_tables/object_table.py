"""The table of an interpreted operator's keyed state, one a bucket: a dict."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from thalweg.checkpoint.state_tables.table_form import FEW, Stays, arrow_schema, table_parts
from thalweg.columns.chunks import Column
from thalweg.columns.keys import KeySpec
from thalweg.flow.state_class import StateSpec
from thalweg.times import NEVER


class ObjectTable:
    """The state of one bucket of an interpreted keyed operator: Python key -> state object.

    Keys are in the canonical form of :meth:`KeySpec.python_keys`. One thread at a time.
    """

    def __init__(self, spec: KeySpec, state: StateSpec) -> None:
        self.spec = spec
        self.state = state
        self.schema = arrow_schema(spec, state)
        self._states: dict[Any, Any] = {}
        self._saved: set[Any] = set()
        #: keys written since mark_saved, oldest first (a dict, since a set has no order)
        self._dirty: dict[Any, None] = {}
        #: keys whose timer may differ from what the heap says
        self._stirred: dict[Any, None] = {}
        #: (timer, ticket, key); an item is void unless the key's state has that very timer
        self._heap: list[tuple[int, int, Any]] = []
        self._tickets = 0

    def get(self, key: Any) -> Any | None:
        """The state of the key, None when it has none."""
        return self._states.get(key)

    def get_or_new(self, key: Any) -> Any:
        """The state of the key; a key without one gets a fresh one, which counts as written."""
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = self.state.new()
            self.touch(key)
        return found

    @property
    def parts(self) -> tuple[dict[Any, Any], dict[Any, None], dict[Any, None]]:
        """For a loop over many rows: the states by key, the keys written, those whose timer may have changed.

        Who changes a state puts its key into the second, and into the third where its timer is another one.
        """
        return self._states, self._dirty, self._stirred

    def states(self) -> Iterable[Any]:
        """The state of each key."""
        return self._states.values()

    def touch(self, key: Any) -> None:
        """Tells that the key's state is changed, before or after it is, in the same chunk."""
        self._dirty[key] = None
        if self.state.timer is not None:
            self._stirred[key] = None

    def drop(self, key: Any) -> None:
        """Removes the state of the key, if it has one."""
        if self._states.pop(key, None) is not None:
            self._dirty[key] = None

    def replace(self, key: Any, state: Any) -> None:
        """Gives the key this state."""
        self._states[key] = state
        self.touch(key)

    # -- timers -----------------------------------------------------------------------------------

    @property
    def next_timer(self) -> int:
        """The least timer, NEVER when there is none."""
        self._settle()
        while self._heap and self._timer(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def due(self, watermark: int) -> list[Any]:
        """The keys whose timer is below the watermark, in no order.

        The caller fires them all, and touches or drops each: they are not told twice.
        """
        self._settle()
        out: dict[Any, None] = {}
        while self._heap and self._heap[0][0] < watermark:
            time, _, key = heapq.heappop(self._heap)
            if self._timer(key) == time:
                out[key] = None
        return list(out)

    def _timer(self, key: Any) -> int | None:
        found = self._states.get(key)
        if found is None or self.state.timer is None:
            return None
        time: int | None = getattr(found, self.state.timer)
        return time

    def _settle(self) -> None:
        for key in self._stirred:
            time = self._timer(key)
            if time is not None and time != NEVER:
                self._tickets += 1
                heapq.heappush(self._heap, (time, self._tickets, key))
        self._stirred.clear()
        # Each change of a timer leaves a void item behind.
        if len(self._heap) > 2 * len(self._states) + FEW:
            self._heap.clear()
            self._stirred.update(dict.fromkeys(self._states))
            self._settle()

    # -- state files ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many keys have a state."""
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Memory held, bytes; an estimate from the first state."""
        sample = next(iter(self._states.items()), None)
        if sample is None:
            return sys.getsizeof(self._states)
        key, state = sample
        parts = (key, state, *(getattr(state, name) for name in self.state.schema.names))
        return sys.getsizeof(self._states) + len(self._states) * sum(map(sys.getsizeof, parts))

    @property
    def dirty(self) -> bool:
        """Whether there is a delta to write."""
        return any(key in self._states or key in self._saved for key in self._dirty)

    def delta(self) -> pa.RecordBatch:
        """The keys written since :meth:`mark_saved`; dropped ones have the default state."""
        return self._to_arrow(
            [key for key in self._dirty if key in self._states or key in self._saved]
        )

    def snapshot(self) -> pa.RecordBatch:
        """Every key that has a state."""
        return self._to_arrow(list(self._states))

    def _to_arrow(self, keys: list[Any]) -> pa.RecordBatch:
        fresh = self.state.new()
        values = [self.state.values(self._states.get(key, fresh)) for key in keys]
        columns = self.spec.columns_of(keys)
        for i, field in enumerate(self.state.schema.fields):
            columns.append(Column.from_python(field.type, [one[i] for one in values]))
        deleted = pa.array([key not in self._states for key in keys], pa.bool_())
        arrays = [*(column.to_arrow() for column in columns), deleted]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def take_out(self, stays: Stays) -> pa.RecordBatch:
        """Drops the keys that do not stay and gives what :meth:`snapshot` said of them."""
        keys = list(self._states)
        stay = stays(self.spec.hashes(self.spec.columns_of(keys), len(keys))).tolist()
        gone = [key for key, stayed in zip(keys, stay, strict=True) if not stayed]
        rows = self._to_arrow(gone)
        for key in gone:
            self.drop(key)
        return rows

    def mark_saved(self) -> None:
        """What was just written is on disk from now on."""
        for key in self._dirty:
            if key in self._states:
                self._saved.add(key)
            else:
                self._saved.discard(key)
        self._dirty.clear()

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Becomes the state of these batches, oldest first; all of it counts as saved."""
        self._states.clear()
        self._saved.clear()
        self._dirty.clear()
        self._stirred.clear()
        self._heap.clear()
        self.apply(batches)

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        """Takes over deltas, oldest first, as saved; only when there is nothing dirty here."""
        for batch in deltas:
            keys, states, deleted = table_parts(self.spec, self.state, batch)
            values = [column.to_python() for column in states]
            for i, key in enumerate(self.spec.python_keys(keys, batch.num_rows)):
                if deleted[i]:
                    self._states.pop(key, None)
                else:
                    self._states[key] = self.state.restore([one[i] for one in values])
                self.touch(key)
        self.mark_saved()
