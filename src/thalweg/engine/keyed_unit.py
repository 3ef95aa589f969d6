"""A keyed (or stateful) operator as a unit: in one piece, or split by partition for many threads.

A *partition* is a run of the operator's state units; partitions share nothing, so threads may run different ones
at once. A chunk is split by partition (:meth:`KeyedUnit.split`), its parts are run
(:meth:`KeyedUnit.run_part`), and their outputs are joined in the order of the stream (:meth:`KeyedUnit.join`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import numpy as np

from thalweg.columns import contracts
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import BucketState, KeyedOperator, KeyedResult
from thalweg.columns.keys import KeySpec
from thalweg.columns.ordering import keyed_chunk, with_columns
from thalweg.columns.state_units import StateUnits
from thalweg.engine.own_time import settle, triggers
from thalweg.engine.units import Given, Moment, Setting
from thalweg.flow.operators.nodes import Keyed, Ref
from thalweg.flow.operators.rejected import REJECTED, Rejected
from thalweg.flow.records import Schema
from thalweg.plan.plan import OWN, RELEASE, TIME, counter
from thalweg.plan.units import expands
from thalweg.times import BEFORE_ALL, NEVER


class Partitions(MutableMapping[int, Any]):
    """The tables of an operator that stands in several pieces, by state unit."""

    def __init__(self, operators: Sequence[KeyedOperator], partitions: Int64s) -> None:
        """``partitions``: by state unit, the piece that has it."""
        self._operators = operators
        self._partitions = partitions

    def owner(self, unit: int) -> KeyedOperator:
        """The piece that has a unit."""
        return self._operators[int(self._partitions[unit])]

    def __getitem__(self, unit: int) -> Any:
        return self.owner(unit).tables[unit]

    def __setitem__(self, unit: int, table: Any) -> None:
        self.owner(unit).tables[unit] = table

    def __delitem__(self, unit: int) -> None:
        del self.owner(unit).tables[unit]

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(list(one.tables) for one in self._operators)

    def __len__(self) -> int:
        return sum(len(one.tables) for one in self._operators)


@dataclasses.dataclass(slots=True)
class Parts:
    """A chunk on its way through a keyed operator."""

    arrived: Chunk
    keys: list[Column]
    #: the rows of ``arrived`` that have a key
    chunk: Chunk
    places: Int64s
    bad: list[contracts.RejectedRow]
    times: Int64s | None
    watermark: int
    ending: bool
    #: int64[partitions]
    rows: Int64s
    #: rows in the order of partitions, and by partition its first
    first: Int64s
    order: Int64s
    results: list[KeyedResult | None]


class KeyedUnit:
    """A keyed (or stateful) operator over the buckets that this slot owns.

    Args:
        operators: one a partition.
        key: computes the key of a chunk's rows, where it is a function.
    """

    def __init__(
        self,
        setting: Setting,
        node: Keyed,
        operators: Sequence[KeyedOperator],
        key: Callable[[Chunk], Any] | None,
    ) -> None:
        self.node = node
        self.operators = list(operators)
        self._setting = setting
        self._keys = KeyFinder(node, key)
        self._domain = setting.plan.domains[node.index - 1]
        self._schema = node.record or Schema("Nothing", ())
        self.units = StateUnits.of_buckets(node.key.buckets)
        #: by state unit, its partition
        self.partitions = self.units.partitions(len(self.operators))
        self._tables = Partitions(self.operators, self.partitions)
        #: is told the rows that arrive, their key columns, and the places of the rows that have a key; not those that
        #: machine code runs
        self.observer: Callable[[Chunk, Sequence[Column], Int64s], None] | None = None

    def set_units(self, units: StateUnits, owned: Sequence[int] | None = None) -> None:
        """By what the state is kept from now on; tables that are held already must be those of these units.

        Args:
            units: buckets, and groups of pinned keys.
            owned: those of this slot, which partitions have equal shares of; None for all.
        """
        partitions = units.partitions(len(self.operators), owned)
        if units is self.units and np.array_equal(partitions, self.partitions):
            return
        held = dict(self._tables)
        self.units, self.partitions = units, partitions
        self._tables = Partitions(self.operators, partitions)
        for operator in self.operators:
            operator.tables.clear()
            operator.set_units(units)
        self._tables.update(held)

    def expect(self, more: float) -> None:
        """Says how many rows come behind the next chunk, for each one so far; see :class:`KeyedOperator`."""
        for operator in self.operators:
            operator.expect(more)

    def set_operators(self, operators: Sequence[KeyedOperator]) -> None:
        """Gives what is held to other operators, one a partition, whose tables are empty; no chunk is on its way."""
        held = dict(self.tables)
        self.operators = list(operators)
        self.partitions = self.units.partitions(len(self.operators))
        self._tables = Partitions(self.operators, self.partitions)
        for operator in self.operators:
            operator.set_units(self.units)
        self._tables.update(held)

    @property
    def spec(self) -> KeySpec:
        """The key."""
        return self._keys.spec

    @property
    def key_function(self) -> Callable[[Chunk], Any] | None:
        """What computes the key, where a function of the user does."""
        return self._keys.function

    @property
    def tables(self) -> MutableMapping[int, Any]:
        """Bucket to table."""
        if len(self.operators) == 1:
            return self.operators[0].tables
        return self._tables

    def table(self, bucket: int) -> BucketState:
        """The state of a bucket, made on first use."""
        return self._tables.owner(bucket).table(bucket)

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """The outputs of the rows and of the timers that are due, all partitions one after the other."""
        if len(self.operators) > 1:
            split = self.split(inputs, moment)
            for number in range(len(self.operators)):
                self.run_part(split, number)
            return self.join(split)
        parts = self.find(inputs[0], moment)
        operator = self.operators[0]
        result = operator.process(
            parts.chunk, parts.keys, parts.times, parts.watermark, ending=parts.ending
        )
        return self._finish(parts, result)

    # -- in parts -----------------------------------------------------------------------------------------

    def split(self, inputs: Sequence[Chunk], moment: Moment) -> Parts:
        """The chunk with its rows by partition; touches no state."""
        parts = self.find(inputs[0], moment)
        count = len(self.operators)
        parts.results = [None] * count
        if len(parts.chunk):
            hashes = self._keys.spec.hashes(parts.keys, len(parts.chunk))
            owners = self.partitions[self.units.of_rows(parts.keys, hashes)]
            parts.order = np.argsort(owners, kind="stable")
            parts.rows = np.bincount(owners, minlength=count)
        parts.first = np.r_[0, np.cumsum(parts.rows)]
        return parts

    def run_part(self, parts: Parts, number: int) -> int:
        """Runs one partition's rows and due timers; gives a lower bound of the timers it has then.

        One thread at a time for each partition, chunks in their order.
        """
        operator = self.operators[number]
        rows = parts.order[int(parts.first[number]) : int(parts.first[number + 1])]
        result = operator.process(
            parts.chunk.take(rows),
            [column.take(rows) for column in parts.keys],
            None if parts.times is None else parts.times[rows],
            parts.watermark,
            ending=parts.ending,
        )
        by_row = result.source >= 0
        result.source[by_row] = rows[result.source[by_row]]
        result.rejected = _placed(result.rejected, rows)
        parts.results[number] = result
        return min((table.next_timer for table in operator.tables.values()), default=NEVER)

    def join(self, parts: Parts) -> Given:
        """The outputs of all partitions that ran, as the stream's next chunk."""
        return self._finish(parts, _concat([one for one in parts.results if one is not None]))

    # -- steps --------------------------------------------------------------------------------------------

    def find(self, arrived: Chunk, moment: Moment) -> Parts:
        """The chunk with its keys, not split yet."""
        keys, places, bad = self._keys.find(arrived)
        if self.observer is not None and len(places):
            self.observer(arrived, keys, places)
        chunk = arrived if len(places) == len(arrived) else arrived.take(places)
        times, watermark, ending = self.time_of(chunk, moment)
        none = contracts.no_rows()
        rows = np.zeros(len(self.operators), np.int64)
        return Parts(
            arrived, keys, chunk, places, bad, times, watermark, ending, rows, none, none, []
        )

    def _finish(self, parts: Parts, result: KeyedResult) -> Given:
        node, given, chunk = self.node, Given(), parts.chunk
        if node.timing == "own":
            result = settle(chunk, parts.keys, result, self._keys.spec, ending=parts.ending)
            if not parts.ending:
                result.rejected = self._own_rejected(chunk, parts.keys, result.rejected)
        self._setting.count(
            node.name,
            **{
                "in": len(parts.arrived),
                "out": len(result.source),
                "disarmed": result.disarmed,
            },
        )
        bad = [*parts.bad, *_placed(result.rejected, parts.places)]
        self._give_rejected(parts.arrived, bad, given)
        if node.record is not None:
            out = keyed_chunk(
                chunk, result, self._schema, self._keys.spec, node.index,
                counter(node.index) if expands(node) else None,
            )  # fmt: skip
            given[Ref(node.index)] = with_columns(out, self._setting.columns(Ref(node.index)))
        return given

    def time_of(self, chunk: Chunk | None, moment: Moment) -> tuple[Int64s | None, int, bool]:
        """The rows' times (of no chunk: None), the watermark, and whether the stream ends, as it sees them."""
        timing = self.node.timing
        order = {} if chunk is None else chunk.order
        if timing == "watermark":
            ending = self._domain in moment.ending
            if not self._domain:
                return None, BEFORE_ALL, ending
            watermark = NEVER if ending else moment.watermarks.get(self._domain, BEFORE_ALL)
            return order.get(TIME), watermark, ending
        ending = (RELEASE if timing == "end" else 0) in moment.ending
        return order.get(OWN) if timing == "own" else None, NEVER if ending else BEFORE_ALL, ending

    def _own_rejected(
        self, chunk: Chunk, keys: Sequence[Column], bad: Sequence[contracts.RejectedRow]
    ) -> list[contracts.RejectedRow]:
        """Firings of timers that raised, by the rows that made them due."""
        fired = [one for one in bad if one.row < 0]
        if not fired:
            return list(bad)
        spec = self._keys.spec
        times = np.array([one.time for one in fired], np.int64)
        columns = spec.columns_of([one.key for one in fired])
        rows = iter(triggers(keys, chunk.order[OWN], columns, times, spec).tolist())
        return [dataclasses.replace(one, row=next(rows)) if one.row < 0 else one for one in bad]

    def _give_rejected(
        self, arrived: Chunk, bad: Sequence[contracts.RejectedRow], given: Given
    ) -> None:
        """The rows and firings on which a function raised, in the order of the stream."""
        if not bad:
            return
        node, spec = self.node, self._keys.spec
        self._setting.count_rejected(node.name, bad)
        rows = [Rejected(one.operator, one.reason, "", one.value) for one in bad]
        made = contracts.KeyedResult(
            Chunk.from_rows(REJECTED, rows).columns,
            np.array([one.row for one in bad], np.int64),
            np.array([one.time for one in bad], np.int64),
            spec.columns_of([one.key for one in bad if one.row < 0]),
        )
        ref = Ref(node.index, "rejected")
        out = keyed_chunk(arrived, made, REJECTED, spec, node.index, None)
        given[ref] = with_columns(out, self._setting.columns(ref))


def _concat(results: Sequence[KeyedResult]) -> KeyedResult:
    """The outputs of several partitions, in no particular order between them."""
    if len(results) == 1:
        return results[0]
    return KeyedResult(
        [Column.concat(group) for group in zip(*[one.columns for one in results], strict=True)],
        np.concatenate([one.source for one in results]),
        np.concatenate([one.time for one in results]),
        [Column.concat(group) for group in zip(*[one.timer_keys for one in results], strict=True)],
        sum(one.disarmed for one in results),
        [bad for one in results for bad in one.rejected],
    )


def _placed(bad: Sequence[contracts.RejectedRow], places: Int64s) -> list[contracts.RejectedRow]:
    """Rejected rows of a part of a chunk, by their places in the whole."""
    return [
        dataclasses.replace(one, row=int(places[one.row])) if one.row >= 0 else one for one in bad
    ]


class KeyFinder:
    """The key columns of a chunk for a keyed operator; also used where rows are routed between slots."""

    def __init__(self, node: Keyed, function: Callable[[Chunk], Any] | None) -> None:
        """``function`` maps a chunk to a StatelessResult with the key as its only column."""
        self.spec = KeySpec(node.key.fields)
        self._node = node
        self.function = function

    def find(self, chunk: Chunk) -> tuple[list[Column], Int64s, list[contracts.RejectedRow]]:
        """The key columns of the rows that have a key, their places, and the rows whose function raised."""
        names = [field.name for field in self.spec.fields]
        if self.function is None:
            return [chunk.column(name) for name in names], np.arange(len(chunk)), []
        result = self.function(chunk)
        bad = [dataclasses.replace(one, operator=self._node.name) for one in result.rejected]
        others = [chunk.column(name).take(result.source) for name in names[1:]]
        return [result.columns[0], *others], result.source, bad
