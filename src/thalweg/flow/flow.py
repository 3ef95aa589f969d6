"""What the user writes: a flow of operators, put together by verbs on streams.

Nothing runs here. Sources begin streams (:mod:`thalweg.flow.streams`), whose verbs append nodes;
:mod:`thalweg.plan.plan` turns the nodes into a plan.
"""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from thalweg.brief import counted
from thalweg.checks import (
    Guessable,
    known_keywords_of,
    require_flag,
    require_text,
)
from thalweg.errors import BuildError
from thalweg.flow.blocks import Block
from thalweg.flow.coroutine_verb import check_times, coroutine_node
from thalweg.flow.feedback import Feedback
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.generics import Row
from thalweg.flow.joining.barriers import SeveralVerbs
from thalweg.flow.loops.verb import add_by_key, add_stateless, without_keys
from thalweg.flow.operators import key_order
from thalweg.flow.operators.arguments import (
    Duration,
    choice,
    names_renamed,
    record_of,
)
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.generators import source_of
from thalweg.flow.operators.idle import GivenIdle
from thalweg.flow.operators.lanes import GivenLanes
from thalweg.flow.operators.nodes import (
    PORT_ROWS,
    Compile,
    Coroutine,
    Errors,
    Key,
    Node,
    Order,
    Ref,
    Sink,
)
from thalweg.flow.regions import Region, ThreadingVerbs
from thalweg.flow.sources import source_node
from thalweg.flow.streams import Stream
from thalweg.flow.tags import Tag, TagVerbs
from thalweg.time_texts import EpochUnit

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.drawing import Drawing
    from thalweg.flow.records import Schema


@known_keywords_of
class Flow(SeveralVerbs, TagVerbs, ThreadingVerbs, Guessable):
    """A named graph of operators.

    Args:
        name: the flow's name; checkpoints carry it.
        errors: what a row that does not fit, or on which a function raises, does: ``"fail"`` stops the query
            with an error that names it, ``"reject"`` sends it to the ``rejected`` stream and counts it.
        compile: ``"auto"`` compiles what can be compiled, ``"require"`` makes a fallback an error,
            ``"never"`` interprets everything. Operators can override both.
        renamed: names that operators and sources had before, by which a checkpoint knows their state, and those that
            they have now: ``{"totals": "totals by shop"}`` (docs/evolve.md). It stands here, since it is true of each
            checkpoint of the older flow, whoever starts it; once all know the new name, it may go.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Word(NamedTuple):
        ...     text: str
        >>> flow = tw.Flow("words")
        >>> flow.source("lines", Word).filter(lambda w: w.text != "").sink("words")
    """

    def __init__(
        self,
        name: str,
        *,
        errors: Errors = "fail",
        compile: Compile = "auto",
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or "/" in name:
            raise BuildError(f"a flow's name is a non-empty text without '/', got {name!r}")
        self.name = name
        self.errors: Errors = choice("errors", errors, ("fail", "reject"), name)
        self.compile: Compile = choice("compile", compile, ("auto", "require", "never"), name)
        self.renamed = names_renamed(name, renamed)
        self._nodes: list[Node] = []
        #: by stream and key, the stream with each key's rows in order
        self._by_key: dict[tuple[Ref, Key, int], Stream[Any]] = {}
        self._prefix = ""
        #: by operator, what its author says of it
        self._tagged: dict[int, dict[str, Tag]] = {}
        #: and by which threads they are run
        self._regions: dict[int, Region] = {}
        self._region_count = 0
        #: of ``tags`` and ``threading``, those that nobody has entered
        self._blocks: list[Block] = []

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The operators in order of definition."""
        return tuple(self._nodes)

    @overload
    def source(
        self,
        name: str,
        record: type[Row],
        *,
        order_by: str | None = None,
        lateness: Duration = 0,
        lane: str | None = None,
        lanes: GivenLanes = None,
        idle: GivenIdle = None,
        stamp: str | None = None,
        arrival: Sequence[str] = (),
        order: Order = "total",
        errors: Errors | None = None,
        names: Mapping[str, str] | None = None,
        epoch_unit: EpochUnit | None = None,
        timestamp_formats: Sequence[str] = (),
    ) -> Stream[Row]: ...

    @overload
    def source(
        self,
        name: str,
        record: Schema | pa.Schema,
        *,
        order_by: str | None = None,
        lateness: Duration = 0,
        lane: str | None = None,
        lanes: GivenLanes = None,
        idle: GivenIdle = None,
        stamp: str | None = None,
        arrival: Sequence[str] = (),
        order: Order = "total",
        errors: Errors | None = None,
        names: Mapping[str, str] | None = None,
        epoch_unit: EpochUnit | None = None,
        timestamp_formats: Sequence[str] = (),
    ) -> Stream[Any]: ...

    def source(
        self,
        name: str,
        record: Any,
        *,
        order_by: str | None = None,
        lateness: Duration = 0,
        lane: str | None = None,
        lanes: GivenLanes = None,
        idle: GivenIdle = None,
        stamp: str | None = None,
        arrival: Sequence[str] = (),
        order: Order = "total",
        errors: Errors | None = None,
        names: Mapping[str, str] | None = None,
        epoch_unit: EpochUnit | None = None,
        timestamp_formats: Sequence[str] = (),
    ) -> Stream[Any]:
        """Adds a source of records and returns its stream.

        Args:
            name: the source's name; inputs are given by it.
            record: a NamedTuple class or a pyarrow schema.
            order_by: the field whose order the stream has from here on, a Timestamp or an int; ties stay in
                arrival order. Without it the stream has arrival order and no event time.
            lateness: how far a row may lie behind the greatest time that arrived before it in its lane; rows
                further behind go to ``late``. A duration, or a number in the unit of an int ``order_by``.
            lane: the field that names a row's lane, a sequence that the source itself orders (say a Kafka
                partition); one lane without it. Ties are then by lane and place in the lane.
            lanes: all values that ``lane`` has. The watermark does not move before each has given a row, one that is
                silent holds it back, and a row of another one does not fit. Without it the lanes are those of the
                whole input, whose rows wait for its end where it is not in memory. ``"arrival"``: for an input with
                one whole order of arrival and lanes that nobody can list; a lane counts from its first row, ties are
                in order of arrival, and rows that the watermark has passed before their lane appeared are late.
            idle: after so long without a row the source, or with ``lane=`` each lane, is idle, such as ``"10 seconds"``
                by the clock on the wall: it holds no other source or lane back until a row comes again. Where all
                are idle, time runs on with the clock, from the greatest time and since the last row came, so that
                sessions, windows and timers close without further input; an int ``order_by`` has no unit, and stands.
                Rows behind the watermark are then late. Only live inputs are ever idle (docs/idle.md).
            stamp: a field of type Timestamp that the input does not have and the host fills: the time, by the clock on
                the wall, at which a row came. As ``order_by``, too, time is that of the clock: with ``idle=``
                windows and timers then go by it. What was stamped is logged with the input's place in a checkpoint, so
                a repeat has the same stamps (docs/wall-clock.md).
            arrival: fields that give the order of arrival where the source does not say (see the docs on order); of
                a source with lanes, the order within each lane.
            order: ``"total"``: all rows in one order, and one watermark. ``"key"``: no point sorts all rows. Rows pass
                as they arrive until the first operator by key; it takes each key's rows by (time, arrival), judges
                lateness against that key's own earlier rows, and fires a key's timers before its next row with a
                greater time, or at the end of the stream. The order of the output is promised by key only, and a
                key that stays idle closes at the end only. Windows, unions with other sources, a state for all
                rows and a second key need ``"total"``.
            errors: overrides the flow's policy for rows that do not fit the record.
            names: the columns by the record's fields that have another name than theirs, in every input:
                ``{"station": "start station id"}``. Fields of records inside the rows keep their names.
            epoch_unit: what whole numbers in Timestamp fields count from 1970 on, ``"s"``, ``"ms"``, ``"us"`` or
                ``"ns"``; microseconds without it. An input's own option goes first.
            timestamp_formats: patterns of ``datetime.strptime`` for times in text that is not ISO 8601; likewise.
        """
        node, time, own = source_node(
            self._next(), lambda: self._stateful_name(name, "source"), self._errors(errors), name, record,
            order_by=order_by, lateness=lateness, lane=lane, lanes=lanes, idle=idle, arrival=arrival, order=order,
            names=names, epoch_unit=epoch_unit, timestamp_formats=timestamp_formats,
            stamp=stamp,
        )  # fmt: skip
        return self._add(node, time, own)

    def operator(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *,
        into: Any = None,
        max_waiting: int | None = None,
        capacity: int = PORT_ROWS,
        stateless: bool = False,
        **given: Any,
    ) -> Any:
        """Adds an ``async def`` operator over any number of inputs and outputs (docs/coroutines.md).

        ``function`` is ``async def``. Its annotations say what each parameter is: ``tw.Input`` (``*views:
        tw.Input`` for any number), ``tw.Control``, ``tw.Output``, a class declared with ``@tw.state`` for what
        must outlive a wait; other parameters are constants. Inputs are merged in the order of the flow, so the
        output is that of a serial run, and stands at the place of the row that triggered it. One without inputs is
        a source, whose rows are what it pushes, in that order; only ``tw.run`` and ``tw.testing`` can run it.

        Args:
            name: the operator's name; its state hangs on it.
            function: the coroutine function.
            into: the record of its output, or a mapping of outputs to records; without it outputs are annotated
                ``tw.Output[Record]``.
            max_waiting: the most unread rows at an input; beyond it the flow stops with an error that names the
                idle input. None: rows wait without limit.
            capacity: in ``tw.run``, unread rows at an input from which on live sources without event time wait that
                feed it. Where nobody may wait, it doubles, which is counted (``grown``) and logged by name.
            stateless: the loop reads one input, a row at a time, and remembers nothing from one row to the next: it
                starts from its top at each, in as many threads and slots as there are.
            given: by parameter, streams (for ``*views`` a list of them, or a mapping that names them) and constants.
                With all streams by key (``views.key_by("page")``), there is a loop for each key, started from its top
                at each of the key's rows, with its state and what it has not read.

        Returns:
            The output stream; of several outputs a named tuple of streams; of none, None.

        Raises:
            BuildError: a parameter lacks its stream, record or annotation, or the inputs have no order in common.
        """
        return self._operator(
            name, function, given, into=into, max_waiting=max_waiting, capacity=capacity,
            stateless=stateless,
        )  # fmt: skip

    @overload
    def feedback(self, name: str, record: type[Row]) -> Feedback[Row]: ...

    @overload
    def feedback(self, name: str, record: Schema | pa.Schema) -> Feedback[Any]: ...

    def feedback(self, name: str, record: Any) -> Feedback[Any]:
        """Declares a stream that control ports upstream read, to be connected later (docs/coroutines.md).

        Give it to ``tw.Control`` ports of :meth:`operator`; where the flow is so far, :meth:`Feedback.connect
        <thalweg.flow.feedback.Feedback.connect>` says which stream it is. The operators between the two run
        as one, a row at a time: what a row sends back is there before the next one.

        Args:
            name: for messages.
            record: its rows: a NamedTuple class or a pyarrow schema.
        """
        require_text("feedback", name=name)
        return Feedback(self, name, record_of(f"feedback {name!r}", "record", record))

    def explain(self, *, compile: bool = True) -> str:
        """The plan as text: operators, kinds, stages, buckets, compiled or interpreted and why.

        Args:
            compile: whether to try the compiler on each function, which takes seconds the first time.
        """
        require_flag("explain", compile=compile)
        # By name, since the engine stands above: only who asks needs it.
        text: str = importlib.import_module("thalweg.engine.explain").explain(self, compile=compile)
        return text

    def draw(self) -> Drawing:
        """The flow as a picture: a notebook shows it; ``.svg``, ``.mermaid`` and ``.save(path)`` are for documents.

        >>> flow.draw().save("flow.svg")
        """
        drawing: Drawing = importlib.import_module("thalweg.plan.drawn").draw(self)
        return drawing

    def _repr_svg_(self) -> str:
        return self.draw().svg

    # -- for the verbs -----------------------------------------------------------------------------------

    def _next(self) -> int:
        return len(self._nodes) + 1

    def _add(
        self, node: Node, time: FieldType | None, own: key_order.Own | None = None
    ) -> Stream[Any]:
        self._nodes.append(node)
        assert node.out is not None
        return Stream(self, Ref(node.index), node.out, time, own)

    def _operator(
        self,
        name: str,
        function: Callable[..., Any],
        given: Mapping[str, Any],
        *,
        into: Any = None,
        max_waiting: int | None = None,
        capacity: int = PORT_ROWS,
        stateless: bool = False,
        user: Function | None = None,
    ) -> Any:
        """See :meth:`operator`; ``user`` is the function that messages name, of a library operator that calls one."""
        require_flag(f"operator {name!r}", stateless=stateless)
        given, keys = without_keys(given)
        node = coroutine_node(self, name, function, given, into, max_waiting, capacity, user)
        if stateless and keys:
            raise BuildError(
                f"operator {node.name!r}: a loop is stateless or by key, not both; leave stateless=True out where the"
                " rows of a key belong together, or give the streams without key_by"
            )
        if not (node.in_ports or stateless):
            return _outputs(node, self._add_generator(node))
        time = check_times(node, given) if node.in_ports else None
        if stateless:
            return _outputs(node, add_stateless(self, node, time))
        if keys:
            return _outputs(node, add_by_key(self, node, keys, time))
        self._nodes.append(node)
        return _outputs(
            node,
            [
                Stream(self, Ref(node.index, port.name), port.record, time)
                for port in node.out_ports
            ],
        )

    def _add_generator(self, node: Coroutine) -> list[Stream[Any]]:
        """An operator without inputs, as the source that it is; its streams."""
        source, outputs = source_of(node, self.errors)
        stream = self._add(source, None)
        return [self._add(output, None) for output in outputs] or [stream]

    def _errors(self, errors: Errors | None) -> Errors:
        if errors is None:
            return self.errors
        chosen: Errors = choice("errors", errors, ("fail", "reject"), self.name)
        return chosen

    def _compile(self, compile: Compile | bool | None) -> Compile:
        if compile is None:
            return self.compile
        if isinstance(compile, bool):
            return "auto" if compile else "never"
        chosen: Compile = choice("compile", compile, ("auto", "require", "never"), self.name)
        return chosen

    def _stateful_name(self, name: str, what: str) -> str:
        """A name that state hangs on: it must be unique and stay the same."""
        full = self._prefix + name
        others = [n for n in self._nodes if isinstance(n, Sink) == (what == "sink")]
        taken = next((n for n in others if n.name == full), None)
        if taken is not None and what == "sink":
            raise BuildError(
                f"two sinks are called {full!r}; outputs are given by name, so rename one"
            )
        if taken is not None:
            raise BuildError(
                f"two operators are called {full!r} (the other is a {taken.kind.value} operator);"
                f" this {what} keeps state or has an address under its name, so "
                + (
                    "call it something else"
                    if what == "source"
                    else "give it another name (name= of a verb)"
                )
            )
        return full

    def _stateless_name(self, name: str) -> str:
        full, count = self._prefix + name, 1
        taken = {node.name for node in self._nodes if not isinstance(node, Sink)}
        while full in taken:
            count += 1
            full = f"{self._prefix}{name}_{count}"
        return full

    def __repr__(self) -> str:
        return f"Flow({self.name!r}, {counted(len(self._nodes), 'operator')})"


def _outputs(node: Coroutine, streams: Sequence[Stream[Any]]) -> Any:
    """One stream as it is, several as a named tuple, none as None."""
    if len(streams) < 2:
        return streams[0] if streams else None
    outputs: Any = collections.namedtuple("Outputs", node.main)  # type: ignore[misc]
    return outputs(*streams)
