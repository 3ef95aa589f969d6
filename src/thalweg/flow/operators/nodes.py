"""The operators of a flow as frozen records: what each one is, what it reads, what it gives.

A node's ``index`` is its place in the order of definition, which is a topological order; it is also the
*level* of the tuples that its timers make (docs/architecture.md). Level 0 stands for rows, so indices start at 1.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from thalweg.flow.fields.field_types import Kind
from thalweg.flow.fields.reading import PLAIN
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.lanes import Lanes
from thalweg.flow.operators.rejected import REJECTED
from thalweg.flow.operators.stamp import without
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec

Errors = Literal["fail", "reject"]
Compile = Literal["auto", "require", "never"]
Order = Literal["total", "key"]
#: How a stream by key is split between slots: all rows of a key to one; or parts of its aggregates.
Grouping = Literal["fields", "partial"]
#: What makes a keyed operator's timers due: the flow's watermark; the next row of the key, or the end ("own", where
#: time is each key's own); only the end, before all other timers ("end").
Timing = Literal["watermark", "own", "end"]


#: Rows that an input of a coroutine operator holds. C-Stream's are limited, too; Sahin & Gedik name no number.
PORT_ROWS: Final = 1_000


class OperatorKind(enum.Enum):
    """The kinds of operators (Prasaad, section 2.1), and the nodes that are no operators in that sense."""

    SOURCE = "source"
    STATELESS = "stateless"
    KEYED = "keyed"
    STATEFUL = "stateful"
    UNION = "union"
    SINK = "sink"


@dataclasses.dataclass(frozen=True, slots=True)
class Ref:
    """A stream: the node that makes it and the port it leaves by (out, late, rejected)."""

    node: int
    port: str = "out"


@dataclasses.dataclass(frozen=True)
class Node:
    """What all nodes have."""

    index: int
    name: str

    KIND: ClassVar[OperatorKind]

    @property
    def kind(self) -> OperatorKind:
        """What kind of operator it is."""
        return self.KIND

    @property
    def label(self) -> str:
        """The name that counts go by: sinks have names of their own, so theirs are ``sink:<name>``."""
        return self.name

    @property
    def inputs(self) -> tuple[Ref, ...]:
        return ()

    @property
    def out(self) -> Schema | None:
        """The record of the main output, None where there is none."""
        return None

    @property
    def main(self) -> tuple[str, ...]:
        """The ports whose streams have the node's own place in time; late and rejected rows have none."""
        return ("out",)

    def record_of(self, port: str) -> Schema | None:
        """The record of the stream that leaves by a port."""
        return REJECTED if port == "rejected" else self.out


class Reader(Node):
    """A node that reads one stream, ``input``, and gives records of ``record``."""

    input: Ref
    record: Schema | None

    @property
    def inputs(self) -> tuple[Ref, ...]:
        return (self.input,)

    @property
    def out(self) -> Schema | None:
        return self.record


@dataclasses.dataclass(frozen=True)
class Source(Node):
    """Where tuples enter; sorts them by event time when ``order_by`` is given (docs/order.md).

    With ``order="key"`` rows pass in arrival order; the first operator by key sorts (see ``operators.key_order``).
    """

    record: Schema
    order_by: str | None
    #: in microseconds, or in the unit of an integer order_by field
    lateness: int
    lane: str | None
    arrival: tuple[str, ...]
    errors: Errors
    order: Order = "total"
    #: what the source says of its lanes, where it has some
    lanes: Lanes = None
    #: the operator without inputs whose rows these are; None: they come from outside
    made_by: Coroutine | None = None
    #: after so long without a row it, or a lane of it, is idle: microseconds of wall time; None: it never is
    idle: int | None = None
    #: the field that the host fills with the time at which a row came; None: the input has all
    stamp: str | None = None
    #: of a source as its input sees it (:attr:`given`), the whole record
    whole: Schema | None = None

    @property
    def given(self) -> Source:
        """The source as its input sees it: without the field that the host fills."""
        if self.stamp is None:
            return self
        by = None if self.order_by == self.stamp else self.order_by
        shorter = without(self.record, self.stamp)
        return dataclasses.replace(self, record=shorter, order_by=by, stamp=None, whole=self.record)

    def column(self, field: str) -> str:
        """The name that a field of the record has where rows come from."""
        return self.record.columns[self.record.index(field)]

    @property
    def sorts(self) -> bool:
        """Whether rows wait here until the watermark has passed them."""
        return self.order_by is not None and self.order == "total"

    @property
    def keeps_lanes(self) -> bool:
        """Whether each lane has an order of its own, and their rows no order of arrival."""
        return self.lane is not None and self.lanes != "arrival"

    @property
    def is_clocked(self) -> bool:
        """Whether its event time has a unit, so that it can run on with a clock."""
        name = self.order_by
        return name is not None and self.record.field(name).type.kind is Kind.TIMESTAMP

    KIND = OperatorKind.SOURCE

    @property
    def out(self) -> Schema:
        # Only what comes in has other names.
        return self.record.read_as(PLAIN) if self.record.reading != PLAIN else self.record


@dataclasses.dataclass(frozen=True)
class Stateless(Reader):
    """map, filter, flat_map: one tuple in, any number out, no memory."""

    verb: Literal["map", "filter", "flat_map"]
    input: Ref
    function: Function
    record: Schema
    many: bool
    errors: Errors
    compile: Compile

    KIND = OperatorKind.STATELESS


@dataclasses.dataclass(frozen=True)
class Batches(Reader):
    """map_batches: a pyarrow.RecordBatch in, one out, or one with the source row of each output row."""

    input: Ref
    function: Function
    record: Schema
    errors: Errors

    KIND = OperatorKind.STATELESS


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """How a keyed operator finds a tuple's key: named fields, or a function of the tuple.

    ``fields`` are the key's fields with their types; with a function there is one field, called after it.
    """

    fields: tuple[Field, ...]
    function: Function | None
    buckets: int


@dataclasses.dataclass(frozen=True, slots=True)
class Collects:
    """What a keyed operator of the library does with a row whose state is that of the rows of a window or session.

    It puts the row, without its last field, behind the others; the last field is a time, and the timer stands ``span``
    behind it. The operator's functions say the same; an engine may do it without calling them.
    """

    item: Schema
    span: int


@dataclasses.dataclass(frozen=True)
class Keyed(Reader):
    """process: a function with one state a key; a stateful operator is a keyed one with one key."""

    input: Ref
    key: Key
    process: Function
    on_timer: Function | None
    state: StateSpec
    record: Schema | None
    many: bool
    timer_many: bool
    errors: Errors
    compile: Compile
    timing: Timing = "watermark"
    collects: Collects | None = None
    #: of the library's operators, what was asked for that their state depends on (docs/evolve.md)
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    #: whether a key's state stays when its timer has fired and none is set
    keeps: bool = False
    #: whether a timer that a timer sets at the end of the stream fires, too; else it is counted as disarmed
    again: bool = False
    #: the user's timers where the state has several, of which the state's own is the least (``operators.timers``)
    timers: tuple[str, ...] = ()

    @property
    def kind(self) -> OperatorKind:
        return OperatorKind.KEYED if self.key.fields else OperatorKind.STATEFUL

    @property
    def timers_give(self) -> bool:
        """Whether a timer can put out rows, or does what the user wrote; else it only drops a state."""
        return self.on_timer is not None


@dataclasses.dataclass(frozen=True)
class OrderBy(Reader):
    """order_by inside a flow: sorts by a field, as a source does; one slot."""

    input: Ref
    record: Schema
    field: str
    lateness: int
    #: after so long without a row it is idle: microseconds of wall time; None: it never is
    idle: int | None = None

    KIND = OperatorKind.STATEFUL


@dataclasses.dataclass(frozen=True)
class Union(Node):
    """The tuples of several streams of one record type, merged by the order key."""

    streams: tuple[Ref, ...]
    record: Schema

    KIND = OperatorKind.UNION

    @property
    def inputs(self) -> tuple[Ref, ...]:
        return self.streams

    @property
    def out(self) -> Schema:
        return self.record


@dataclasses.dataclass(frozen=True, slots=True)
class InPort:
    """An input of a coroutine operator: its name, the parameter of the function that it fills, and what it reads.

    By ``feedback`` it reads a stream that comes from the operator itself (:mod:`thalweg.flow.operators.feedback`).
    """

    name: str
    parameter: str
    ref: Ref
    record: Schema
    control: bool
    feedback: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class OutPort:
    """An output: the port that its stream leaves by ("out" where there is but one), and the parameter."""

    name: str
    parameter: str
    record: Schema


@dataclasses.dataclass(frozen=True)
class Coroutine(Node):
    """An ``async def`` operator with a driver loop of its own, over any number of inputs and outputs; one slot.

    ``state`` is what is kept of it: the fields of the state class that its function asks for (``own``, None
    without), the rows that it has not read, by input, and how far it is (``operators.coroutine_verb``).
    """

    function: Function
    #: those that read by feedback stand behind the others, whose places are those of ``inputs``
    in_ports: tuple[InPort, ...]
    out_ports: tuple[OutPort, ...]
    own: StateSpec | None
    state: StateSpec
    #: the parameter that the state is given to
    state_parameter: str
    #: other arguments by parameter
    constants: tuple[tuple[str, Any], ...] = dataclasses.field(compare=False)
    #: the most rows that may wait at an input
    max_waiting: int | None
    #: the rows from which on an input's sources wait, where they can
    capacity: int = PORT_ROWS
    #: the user's function that the library's loop calls, in operators that the library wrote
    user: Function | None = dataclasses.field(default=None, compare=False)

    KIND = OperatorKind.STATEFUL

    @property
    def key(self) -> Key:
        """It has one state, as a keyed operator without key."""
        return Key((), None, 1)

    @property
    def told(self) -> Function:
        """The function that messages name: the user's where there is one."""
        return self.user or self.function

    @property
    def inputs(self) -> tuple[Ref, ...]:
        return tuple(port.ref for port in self.in_ports if not port.feedback)

    @property
    def out(self) -> Schema | None:
        return self.out_ports[0].record if len(self.out_ports) == 1 else None

    @property
    def main(self) -> tuple[str, ...]:
        return tuple(port.name for port in self.out_ports)

    def record_of(self, port: str) -> Schema | None:
        return next((one.record for one in self.out_ports if one.name == port), None)


@dataclasses.dataclass(frozen=True)
class Sink(Reader):
    """Where tuples leave, by name."""

    input: Ref
    record: Schema
    ordered: bool

    KIND = OperatorKind.SINK

    @property
    def label(self) -> str:
        return f"sink:{self.name}"

    @property
    def out(self) -> None:
        return None
