"""Units: the operators as the engine runs them, a chunk at a time, in one thread.

A unit reads the chunks of its input edges and gives chunks by stream. Units know the order columns that their
streams carry, but not who reads them; state sits in their tables, a table a bucket.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from thalweg.brief import counted
from thalweg.columns import contracts
from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.contracts import StatelessOperator
from thalweg.columns.ordering import row_order, union, with_columns
from thalweg.engine.bad_rows import KEPT, BadRows
from thalweg.engine.watermarks.ingress import Gate, event_columns
from thalweg.errors import DataError
from thalweg.flow.failures import operator_error, reason_of, shorten
from thalweg.flow.operators.nodes import Batches, Node, OrderBy, Ref, Stateless, Union
from thalweg.flow.operators.rejected import REJECTED, Rejected
from thalweg.flow.records import Schema
from thalweg.plan.plan import TIME, Plan, counter
from thalweg.plan.units import expands
from thalweg.times import BEFORE_ALL, NEVER

Given = dict[Ref, Chunk]
Counts = dict[str, dict[str, int]]
#: Counts of a node: rows in, out, late, rejected, and timers disarmed at the end. A coroutine operator may have two
#: more: rows that came after it had returned ("dropped"), and that it had not read by then ("unread").
COUNTS: Final = ("in", "out", "late", "rejected", "disarmed")


@dataclasses.dataclass(slots=True)
class Moment:
    """What a step tells its units about time: the watermark of each domain, the domain that is ending, and in which
    round of its end the step is (:class:`thalweg.plan.plan.Closing`)."""

    watermarks: dict[int, int]
    ending: frozenset[int] = frozenset()
    round: int = 0

    def later(self, watermarks: Mapping[int, int]) -> Moment:
        """With the later watermark of each domain, since one sender may know what others do not."""
        both = dict(self.watermarks)
        for domain, watermark in watermarks.items():
            both[domain] = max(watermark, both.get(domain, watermark))
        return Moment(both, self.ending, self.round)


@dataclasses.dataclass(slots=True)
class Setting:
    """What the units of one engine share: the plan, the columns of each stream, the counts.

    Several threads may count at once.
    """

    plan: Plan
    whole: bool
    counts: Counts
    #: the last rows that were late or rejected
    bad_rows: BadRows = dataclasses.field(default_factory=BadRows)
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    #: found once: it takes a walk through the flow, and each step asks
    _columns: dict[Ref, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def columns(self, ref: Ref) -> tuple[str, ...]:
        """The order columns that a stream carries in this engine."""
        found = self._columns.get(ref)
        if found is None:
            found = self.plan.order_columns(ref, whole=self.whole or ref in self.plan.merges)
            self._columns[ref] = found
        return found

    def count(self, name: str, **numbers: int) -> None:
        """Adds to the counts of a node."""
        with self._lock:
            mine = self.counts.setdefault(name, dict.fromkeys(COUNTS, 0))
            for what, number in numbers.items():
                mine[what] = mine.get(what, 0) + number

    def count_rejected(self, name: str, bad: Sequence[contracts.RejectedRow]) -> None:
        """Counts rows that a node rejected, and keeps the last for who looks."""
        self.count(name, rejected=len(bad))
        self.bad_rows.reject(name, [(one.reason, one.value) for one in bad[-KEPT:]])

    def give_rejected(
        self, node: Node, chunk: Chunk, bad: Sequence[contracts.RejectedRow], given: Given
    ) -> None:
        """Puts rejected rows on the node's rejected stream, with the order of their input rows."""
        if not bad:
            return
        self.count_rejected(node.name, bad)
        rows = [Rejected(one.operator, one.reason, "", one.value) for one in bad]
        made = Chunk.from_rows(REJECTED, rows)
        columns = self.columns(Ref(node.index, "rejected"))
        last = max(len(chunk) - 1, 0)
        places = np.array([one.row if one.row >= 0 else last for one in bad], np.int64)
        if len(chunk):
            made.order = chunk.take(places).order
        given[Ref(node.index, "rejected")] = with_columns(made, columns)


class ChainUnit:
    """A fused chain of map, filter and flat_map."""

    def __init__(
        self, setting: Setting, nodes: Sequence[Stateless], operators: Sequence[Any]
    ) -> None:
        """``operators`` are (member nodes, implementation) pairs that cover the chain in order."""
        self._setting = setting
        self._nodes = nodes
        #: (member nodes, implementation), in order
        self.parts: list[tuple[Sequence[Stateless], StatelessOperator]] = list(operators)
        self._out = Ref(nodes[-1].index)

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """The chain's last output, and what its members rejected."""
        given: Given = {}
        chunk = inputs[0]
        for nodes, operator in self.parts:
            chunk = self._part(nodes, operator, chunk, given)
        given[self._out] = with_columns(chunk, self._setting.columns(self._out))
        return given

    def _part(
        self, nodes: Sequence[Stateless], operator: StatelessOperator, chunk: Chunk, given: Given
    ) -> Chunk:
        result = operator(chunk)
        arrived = len(chunk)
        for node, count in zip(nodes, result.counts, strict=True):
            self._setting.count(node.name, **{"in": arrived, "out": count})
            arrived = count
            mine = [one for one in result.rejected if one.operator == node.name]
            self._setting.give_rejected(node, chunk, mine, given)
        out = Chunk(nodes[-1].record, result.columns, len(result.source))
        expanding = [node for node in nodes if expands(node)]
        if len(result.source) == len(chunk) and not expanding and not result.rejected:
            out.order = chunk.order
        else:
            out.order = row_order(
                chunk, result.source, counter(expanding[-1].index) if expanding else None
            )
        return out


class BatchesUnit:
    """map_batches: a user's function over Arrow batches."""

    def __init__(self, setting: Setting, node: Batches) -> None:
        self._setting = setting
        self._node = node

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """The function's answer, checked; under ``errors="reject"`` a failing batch is cut to single rows."""
        chunk, node = inputs[0], self._node
        given: Given = {}
        if not len(chunk):
            return {
                Ref(node.index): Chunk.empty(node.record, self._setting.columns(Ref(node.index)))
            }
        try:
            out, source = self._call(chunk)
        except Exception as error:
            if node.errors == "fail":
                raise operator_error(node.name, node.function, chunk.rows()[0], error) from error
            out, source = self._row_by_row(chunk, given)
        self._setting.count(node.name, **{"in": len(chunk), "out": len(source)})
        out.order = row_order(chunk, source, counter(node.index))
        given[Ref(node.index)] = with_columns(out, self._setting.columns(Ref(node.index)))
        return given

    def _call(self, chunk: Chunk) -> tuple[Chunk, Int64s]:
        node = self._node
        answer = node.function.call(chunk.to_arrow())
        source = np.arange(len(chunk))
        if isinstance(answer, tuple):
            answer, places = answer
            source = np.asarray(places, np.int64)
        table = _as_table(answer, node.record)
        if table.num_rows != len(source):
            raise DataError(
                f"map_batches gave {counted(table.num_rows, 'row')} for {len(source)}; return (batch, source rows)"
                " when the number changes"
            )
        if len(source) and (
            bool((source[1:] < source[:-1]).any()) or not _within(source, len(chunk))
        ):
            raise DataError("map_batches: the source rows must not decrease and lie in the batch")
        return Chunk.from_arrow(node.record, table), source

    def _row_by_row(self, chunk: Chunk, given: Given) -> tuple[Chunk, Int64s]:
        good, sources, bad = [], [], []
        for place in range(len(chunk)):
            row = chunk.slice(place, place + 1)
            try:
                out, source = self._call(row)
            except Exception as error:
                bad.append(
                    contracts.RejectedRow(
                        place, self._node.name, reason_of(error), shorten(row.rows()[0])
                    )
                )
                continue
            good.append(out)
            sources.append(source + place)
        self._setting.give_rejected(self._node, chunk, bad, given)
        if not good:
            return Chunk.empty(self._node.record), contracts.no_rows()
        return Chunk.concat(good), np.concatenate(sources)


def _within(source: Int64s, length: int) -> bool:
    return bool(source[0] >= 0 and source[-1] < length)


def _as_table(answer: Any, schema: Schema) -> pa.Table:
    """A batch or table as a table with exactly the record's columns and types.

    Raises:
        DataError: it is neither, a column is missing, or nulls stand where none may.
    """
    if not isinstance(answer, (pa.RecordBatch, pa.Table)):
        raise DataError(
            f"map_batches must return a pyarrow.RecordBatch, got {type(answer).__name__}"
        )
    missing = [name for name in schema.names if name not in answer.schema.names]
    if missing:
        raise DataError(
            f"map_batches gave no column {', '.join(missing)}; it gave {', '.join(answer.schema.names)}"
        )
    table = pa.table({name: answer.column(name) for name in schema.names}).cast(schema.arrow)
    for field in schema.fields:
        if not field.type.optional and table.column(field.name).null_count:
            raise DataError(
                f"map_batches gave a null in {schema.name}.{field.name}, which is {field.type}"
            )
    return table


class UnionUnit:
    """Merges streams by the order key."""

    def __init__(self, setting: Setting, node: Union) -> None:
        self._setting = setting
        self._node = node
        self._names = setting.plan.order_columns(Ref(node.index), whole=True)

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """The inputs' rows in the order of the flow."""
        node = self._node
        out = union(inputs, self._names, self._setting.columns(Ref(node.index)))
        self._setting.count(node.name, **{"in": len(out), "out": len(out)})
        return {Ref(node.index): out}


class OrderByUnit:
    """order_by inside a flow: a gate of its own domain, in one slot."""

    def __init__(self, setting: Setting, node: OrderBy) -> None:
        self._setting = setting
        self.node = node
        self.gate = Gate(node)
        #: the watermark that it set in its last step, None where it set none
        self.watermark: int | None = None
        self._before = setting.plan.last_domain(node)
        self._last_round = setting.plan.rounds(self._before)

    def run(self, inputs: Sequence[Chunk], moment: Moment) -> Given:
        """The rows up to the operator's own watermark, which it sets for what follows; late rows apart."""
        node = self.node
        for decision in self.gate.active_again(inputs[0]):
            self.gate.decide(decision)  # follows from what was decided, and from the row
        late = self.gate.accept(inputs[0])
        closing = self._before in moment.ending and moment.round == self._last_round
        watermark = NEVER if closing else self.gate.watermark
        rows = self.gate.take(watermark)
        if rows is None:
            rows = Chunk.empty(node.record, late.order)
        self.watermark = None
        if node.index not in moment.ending:
            top = int(rows.order[TIME][-1]) if len(rows) else BEFORE_ALL
            self.watermark = moment.watermarks[node.index] = top if closing else watermark
        self._setting.count(
            node.name, **{"in": len(inputs[0]), "out": len(rows), "late": len(late)}
        )
        ref = Ref(node.index)
        given = {ref: event_columns(rows, self._setting.columns(ref))}
        if len(late):
            self._setting.bad_rows.late(node.name, late, node.field, node.lateness)
            ref = Ref(node.index, "late")
            given[ref] = event_columns(late_order(late), self._setting.columns(ref))
        return given


def late_order(late: Chunk) -> Chunk:
    """Late rows stand in arrival order: their event has no time."""
    order: Mapping[str, Any] = {**late.order, TIME: np.zeros(len(late), np.int64)}
    return Chunk(late.schema, late.columns, len(late), dict(order))
