"""A coroutine operator as the engine runs it: rows one at a time in the order of the flow, state between batches.

The inputs of a step are merged by the order key. Each row is put to its input, and the coroutine goes on until it
waits for what is not there; what it pushes stands at the place of that row. So waits and lengths depend on the
order of the flow alone, not on how it is cut. When the operator's inputs have ended, it is closed in a step of
its own (:attr:`thalweg.plan.plan.Plan.closings`), and what it pushes then has the time of its last row.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from thalweg.checkpoint.state_tables.object_table import ObjectTable
from thalweg.columns.chunks import Chunk, Int64s, concat_order
from thalweg.columns.keys import KeySpec
from thalweg.columns.ordering import empty_order, order_places, row_order, with_columns
from thalweg.engine.coroutines.live import Leave, Live
from thalweg.engine.units import Given, Moment, Setting
from thalweg.flow.loops.body import fitted
from thalweg.flow.operators.coroutines import Push
from thalweg.flow.operators.kept import Kept
from thalweg.flow.operators.nodes import Coroutine, OutPort, Ref
from thalweg.flow.records import Schema
from thalweg.plan.plan import LEVEL, TIME, Closing, counter
from thalweg.times import BEFORE_ALL

_LOG: Final = logging.getLogger("thalweg")
_NOTHING: Final = Schema("Nothing", ())


class Room(Protocol):
    """The room at the inputs of an operator, where a host bounds it (:mod:`thalweg.engine.port_room`).

    ``lengths`` are the rows that each input holds, ``missing`` the inputs that the operator waits for.
    """

    #: rows that each input may hold
    capacity: list[int]

    def holds_back(self, source: int, lengths: Sequence[int], missing: Sequence[int]) -> str:
        """The name of a full input for which a source is to wait, "" without one."""

    def arrived(self, place: int, lengths: Sequence[int], missing: Sequence[int]) -> bool:
        """Whether an input that has got a row had to grow."""

    def grow(self, place: int, rows: int, missing: Sequence[int]) -> None:
        """Gives an input room for so many rows."""

    def full(self, lengths: Sequence[int], missing: Sequence[int]) -> list[int]:
        """The inputs whose sources wait."""


class CoroutineTable(ObjectTable):
    """The state of a coroutine operator as the state files see it: of one key, the rows not read among it.

    A coroutine lives as long as nothing is saved or loaded: then it is closed, and starts from the top with what
    was kept when the next row comes.
    """

    def __init__(self, node: Coroutine, leave: Leave) -> None:
        super().__init__(KeySpec(()), node.state)
        self._node = node
        self._leave = leave
        self._live: Live | None = None

    def live(self) -> Live:
        """The coroutine, made when there is none; its state counts as written."""
        self.touch(())
        if self._live is None:
            found = self.get(())
            self.get_or_new(())
            self._live = Live(self._node, Kept.of(self._node, found), self._leave)
        return self._live

    @property
    def awake(self) -> Live | None:
        """The coroutine where there is one."""
        return self._live

    def waiting(self) -> dict[str, int]:
        """How many rows wait to be read, by the inputs that have some."""
        kept = Kept.of(self._node, self.get(())) if self._live is None else self._live.kept()
        named = zip(self._node.in_ports, kept.unread, strict=True)
        return {port.name: len(rows) for port, rows in named if rows}

    def restart(self) -> None:
        """Closes the coroutine and reads its state back from the form that it has in files."""
        self.load([self.snapshot()])

    def delta(self) -> pa.RecordBatch:
        """See :class:`thalweg.columns.contracts.BucketState`, as the methods below."""
        self._write()
        return super().delta()

    def snapshot(self) -> pa.RecordBatch:
        self._write()
        return super().snapshot()

    def mark_saved(self) -> None:
        super().mark_saved()
        self._sleep()

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._sleep()
        super().load(batches)

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        self._sleep()
        super().apply(deltas)

    def _write(self) -> None:
        if self._live is not None:
            self.replace((), self._live.kept().state(self._node))

    def _sleep(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.end()


@dataclasses.dataclass(slots=True)
class _Pushed:
    """What was pushed in a step: for each row its output, the place of the row that triggered it (-1: the close),
    and its number among those of the same trigger."""

    rows: dict[str, list[Any]]
    places: dict[str, list[int]]
    numbers: dict[str, list[int]]
    count: int = 0
    place: int = -1
    of_place: int = 0

    @classmethod
    def none(cls, outputs: Sequence[OutPort]) -> _Pushed:
        names = [port.parameter for port in outputs]
        return cls({n: [] for n in names}, {n: [] for n in names}, {n: [] for n in names})

    def at(self, place: int) -> None:
        """What is pushed from here on was triggered at this place."""
        self.place, self.of_place = place, 0

    def add(self, output: str, row: Any) -> None:
        self.rows[output].append(row)
        self.places[output].append(self.place)
        self.numbers[output].append(self.of_place)
        self.of_place += 1
        self.count += 1


class CoroutineUnit:
    """A coroutine operator in the one slot that has it.

    Attributes:
        here: whether this slot is the one; in the others it has nothing to do.
        restart_every: closes the coroutine and starts it from its state again after so many runs of it, to show
            that nothing is held elsewhere; 0: never.
    """

    def __init__(self, setting: Setting, node: Coroutine) -> None:
        self.node = node
        self.here = True
        self.restart_every = 0
        #: how many rows its inputs hold, in an embedded run
        self.room: Room | None = None
        self.tables: dict[int, CoroutineTable] = {}
        self._setting = setting
        self._timed = bool(setting.plan.domains[node.index - 1])
        self._closing = setting.plan.closing(node)
        self._columns = setting.plan.merged_columns(node.inputs)
        self._ports = {port.parameter: port for port in node.out_ports}
        self._pushed = _Pushed.none(node.out_ports)

    def table(self, bucket: int) -> CoroutineTable:
        """The state of the only bucket, made on first use."""
        if bucket not in self.tables:
            self.tables[bucket] = CoroutineTable(self.node, self._leave)
        return self.tables[bucket]

    def waiting(self) -> dict[str, int]:
        """See :meth:`CoroutineTable.waiting`."""
        return self.tables[0].waiting() if self.tables else {}

    def holds_back(self, source: int) -> str:
        """The full input for which a source is to wait, "" without one. Any thread may ask."""
        live = self.tables[0].awake if self.tables else None
        if live is None or self.room is None:
            return ""
        return self.room.holds_back(source, live.lengths, live.missing)

    def held_inputs(self) -> list[int]:
        """The full inputs whose sources wait; asked while nothing runs, as :meth:`grow` is."""
        live = self.tables[0].awake if self.tables else None
        return (
            [] if live is None or self.room is None else self.room.full(live.lengths, live.missing)
        )

    def grow(self, place: int) -> None:
        """Makes a full input larger."""
        live = self.tables[0].awake
        assert live is not None and self.room is not None
        self.room.grow(place, 1 + live.lengths[place], live.missing)
        self._setting.count(self.node.name, grown=1)

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """What the rows, and the end of the inputs, make the coroutine push, by stream."""
        domains = moment.ending
        closing = bool(domains) and Closing(min(domains), moment.round) == self._closing
        order, ports, places = merged_rows(inputs, self._columns)
        self._pushed = pushed = _Pushed.none(self.node.out_ports)
        if not self.here or not (len(order) or closing):
            return {}
        table = self.table(0)
        times = order.order[TIME] if self._timed else None
        rows = [chunk.rows() if ports else [] for chunk in inputs]
        for place, (port, row) in enumerate(zip(ports, places, strict=True)):
            live = table.live()
            pushed.at(place)
            if times is not None:
                live.last_time = int(times[place])
            live.put(port, rows[port][row])
            if self.room is not None and len(live.queues[port].rows) > self.room.capacity[port]:
                self._setting.count(
                    self.node.name, grown=self.room.arrived(port, live.lengths, live.missing)
                )
            if self.restart_every and live.runs >= self.restart_every:
                self._count(live)
                table.restart()
        live = table.live()
        if closing:
            pushed.at(-1)
            live.close()
        self._count(live)
        self._setting.count(self.node.name, **{"in": len(order), "out": pushed.count})
        return {
            Ref(self.node.index, port.name): self._chunk(port, order, live.last_time)
            for port in self.node.out_ports
        }

    def in_order(self) -> list[tuple[Ref, int]]:
        """The rows of the last run, which a single row or the close made it push, in that order: stream and place."""
        found = [
            (number, Ref(self.node.index, port.name), place)
            for port in self.node.out_ports
            for place, number in enumerate(self._pushed.numbers[port.parameter])
        ]
        return [(ref, place) for _, ref, place in sorted(found, key=lambda one: one[0])]

    def feed_back(self, port: int, row: Any) -> None:
        """A row for a control port that reads by feedback: it is there for the next that goes on."""
        live = self.table(0).live()
        live.feed_back(port, row)
        self._count(live)
        self._setting.count(self.node.name, **{"in": 1})

    def _count(self, live: Live) -> None:
        """Counts rows without a reader, each once."""
        if live.dropped or live.unread:
            self._setting.count(self.node.name, dropped=live.dropped, unread=live.unread)
        live.dropped = live.unread = 0

    def _leave(self, push: Push[Any]) -> None:
        name = push.output.name
        self._pushed.add(name, fitted(self.node, self._ports[name], push))

    def _chunk(self, port: OutPort, order: Chunk, last_time: int) -> Chunk:
        """The rows of one output with their places."""
        pushed, name = self._pushed, port.parameter
        out = Chunk.from_rows(port.record, pushed.rows[name])
        source = np.array(pushed.places[name], np.int64)
        by_row = source[source >= 0]
        at_end = len(source) - len(by_row)
        made = row_order(order, by_row, None)
        if at_end:
            closed = self._closing_order(list(order.order), at_end, last_time)
            made = {one: concat_order([made[one], closed[one]]) for one in made}
        if LEVEL in made:
            made[counter(self.node.index)] = np.array(pushed.numbers[name], np.int64)
        out.order = made
        return with_columns(out, self._setting.columns(Ref(self.node.index, port.name)))

    def _closing_order(self, names: Sequence[str], count: int, last_time: int) -> dict[str, Any]:
        """The order columns of what was pushed at the close: an event of its own, as a timer's."""
        order = empty_order(names, count)
        if TIME in order:
            order[TIME] += 0 if last_time == BEFORE_ALL else last_time
        if LEVEL in order:
            levels: Int64s = order[LEVEL]
            levels += self.node.index
        return order


def merged_rows(
    inputs: Sequence[Chunk], columns: Sequence[str]
) -> tuple[Chunk, list[int], list[int]]:
    """The rows of several inputs in the order of the flow: their order columns, the input of each, its place there.

    Args:
        inputs: chunks in stream order.
        columns: the whole order key of all of them; of a single input nothing is asked.
    """
    if len(inputs) == 1:
        (chunk,) = inputs
        count = len(chunk)
        return Chunk(_NOTHING, [], count, chunk.order), [0] * count, list(range(count))
    whole = Chunk.concat(
        [with_columns(Chunk(_NOTHING, [], len(c), c.order), columns) for c in inputs]
    )
    ports = np.repeat(np.arange(len(inputs)), [len(chunk) for chunk in inputs])
    places = np.concatenate([np.arange(len(chunk)) for chunk in inputs])
    by = order_places(whole)
    if by is None:
        return whole, ports.tolist(), places.tolist()
    return whole.take(by), ports[by].tolist(), places[by].tolist()
