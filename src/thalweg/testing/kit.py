"""The test kit: run a flow over lists of rows, step it by hand, and compare it with the serial reference.

Nothing here needs Spark, threads or sleeping: time is what the rows say, or what :meth:`Session.tick` is told.

* :func:`run` runs the engine over rows, cut into batches and chunks as you like;
* :func:`reference` runs the serial reference runner, one tuple at a time (the oracle);
* :func:`assert_same` compares the two over random cuts, compiled and interpreted: what a test of a flow wants;
* :class:`Session` takes rows by hand and shows outputs and state in between;
* :func:`assert_recut` checks that a ``map_batches`` function does not depend on how a stream is cut.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from thalweg.brief import brief, brief_repr
from thalweg.checks import (
    is_int_from,
    refuse,
    require_flag,
    require_instance,
    require_mapping,
    require_rows,
)
from thalweg.columns.chunks import Chunk, Column
from thalweg.columns.keys import KeySpec
from thalweg.connectors import BadRow, as_source, never
from thalweg.connectors.names import check_names
from thalweg.embedded import collect
from thalweg.embedded.generators import made_rows
from thalweg.engine.build import prepare
from thalweg.engine.serial import CHUNK_ROWS, Engine, Leaving
from thalweg.errors import BuildError
from thalweg.flow.flow import Flow
from thalweg.flow.operators.arguments import choice
from thalweg.flow.operators.nodes import (
    Combine,
    Coroutine,
    Keyed,
    OrderBy,
    Ref,
    Source,
    Stateless,
    Union,
)
from thalweg.flow.records import Schema
from thalweg.plan.plan import Plan, make_plan
from thalweg.testing.reference import run_reference
from thalweg.testing.reference_parts import Outputs
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options

Mode = Literal["auto", "never"]
#: Where inputs are cut into batches: row numbers for all sources, or by source name.
Cuts = Sequence[int] | Mapping[str, Sequence[int]]

#: How many rows of context a difference shows before the first row that differs.
_NEIGHBOURS: Final = 3


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a run gave.

    Attributes:
        sinks: rows by sink name, in the order of the flow.
        states: by the name of a keyed operator, the state of each key that is left.
        counts: by operator, the numbers of rows in, out, late, rejected, and of timers disarmed at the end;
            only those that are not zero.
    """

    sinks: dict[str, list[Any]]
    states: dict[str, dict[Any, Any]]
    counts: dict[str, dict[str, int]]

    def rows(self, sink: str) -> list[Any]:
        """A sink's rows as records of the flow's classes."""
        found: list[Any] = _named(self.sinks, sink, "sink")
        return found


def run(
    flow: Flow,
    inputs: Mapping[str, Any],
    *,
    chunk_rows: int | None = CHUNK_ROWS,
    cuts: Cuts = (),
    end: bool = True,
    compile: Mode = "auto",
    options: Options | None = None,
    restart_every: int = 0,
) -> Result:
    """Runs the engine over bounded inputs; the result does not depend on chunks, cuts, threads or compilation.

    Args:
        flow: the flow.
        inputs: rows by source name, in arrival order: a list of records, or a pyarrow table.
        chunk_rows: about how many rows move at once; None: as their cost says, in many threads.
        cuts: the row numbers at which inputs are cut into batches.
        end: whether the streams end: waiting rows are released and the remaining timers fire.
        compile: ``"never"`` interprets every function.
        options: how a run in many threads goes; None runs in the calling thread.
        restart_every: closes each coroutine operator after so many runs of it and starts it again with its
            ``@tw.state`` and its unread input, as a batch of Spark does; 0: never.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Word(NamedTuple):
        ...     text: str
        >>> flow = tw.Flow("words")
        >>> flow.source("lines", Word).filter(lambda word: word.text != "").sink("words")
        >>> tw.testing.run(flow, {"lines": [Word("a"), Word(""), Word("b")]}, cuts=[1]).rows("words")
        [Word(text='a'), Word(text='b')]
    """
    require_flag("testing", end=end)
    require_mapping("testing", "rows by source name", inputs=inputs)
    session = Session(
        flow,
        chunk_rows=chunk_rows,
        compile=compile,
        options=options,
        restart_every=restart_every,
    )
    check_names(session.plan, inputs)
    batches = [
        _cut(data, cuts.get(name, ()) if isinstance(cuts, Mapping) else cuts)
        for name, data in ((one.name, _data(one, inputs)) for one in session.plan.sources)
    ]
    try:
        for number in range(max(map(len, batches), default=0)):
            for source, parts in zip(session.plan.sources, batches, strict=True):
                if number < len(parts):
                    session.feed(source.name, parts[number])
        if end:
            session.end()
        return session.result()
    finally:
        session.close()


def reference(flow: Flow, inputs: Mapping[str, Iterable[Any]], *, end: bool = True) -> Result:
    """Runs the serial reference runner, one tuple at a time: what the result must be.

    Arguments as for :func:`run`.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Word(NamedTuple):
        ...     text: str
        >>> flow = tw.Flow("words")
        >>> flow.source("lines", Word).sink("words")
        >>> tw.testing.reference(flow, {"lines": [Word("a")]}).counts["lines"]
        {'in': 1, 'out': 1}
    """
    require_flag("testing", end=end)
    require_mapping("testing", "rows by source name", inputs=inputs)
    require_instance("testing", Flow, "a tw.Flow", flow=flow)
    plan = make_plan(flow)
    check_names(plan, inputs)
    rows = {one.name: _rows(_data(one, inputs), one.record) for one in plan.sources}
    return _of_outputs(run_reference(flow, rows, end=end))


def _of_outputs(out: Outputs) -> Result:
    return Result(out.sinks, out.states, _without_zeros(out.counts))


def _without_zeros(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    kept = {name: {what: n for what, n in mine.items() if n} for name, mine in counts.items()}
    return {name: mine for name, mine in kept.items() if mine}


def _data(source: Source, inputs: Mapping[str, Any]) -> Any:
    """The rows of a source; of an operator without inputs all that it pushes."""
    return inputs[source.name] if source.made_by is None else list(made_rows(source.made_by))


def _rows(data: Any, schema: Schema) -> Iterable[Any]:
    if isinstance(data, pa.RecordBatch):
        data = pa.table(data)
    if isinstance(data, pa.Table):
        return Chunk.from_arrow(schema, data).rows()
    rows: Iterable[Any] = data
    return rows


def _cut(data: Any, cuts: Sequence[int]) -> list[Any]:
    """The data between the cuts; at least one part."""
    if isinstance(data, pa.RecordBatch):
        data = pa.table(data)
    if not isinstance(data, (pa.Table, Sequence)):
        data = list(data)
    at = sorted({0, *(min(max(cut, 0), len(data)) for cut in cuts)})
    ends = [*at[1:], len(data)]
    if isinstance(data, pa.Table):
        return [data.slice(start, stop - start) for start, stop in zip(at, ends, strict=True)]
    return [data[start:stop] for start, stop in zip(at, ends, strict=True)]


# -- stepping by hand ------------------------------------------------------------------------------------


class Session:
    """A flow that takes rows by hand, with a manual clock; for unit tests of flows.

    Rows of a source with ``order_by`` wait until :meth:`advance`; others run through at once.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Click(NamedTuple):
        ...     ts: tw.Timestamp
        ...     user: int
        >>> flow = tw.Flow("visits")
        >>> clicks = flow.source("clicks", Click, order_by="ts")
        >>> clicks.key_by("user").sessions("1 minute", pages=tw.agg.count()).sink("visits")
        >>> session = tw.testing.Session(flow)
        >>> session.push("clicks", Click(0, 7), Click(tw.seconds(5), 7))
        >>> session.advance()
        >>> session.state("sessions", 7).pages_
        2
        >>> session.rows("visits")
        []
        >>> session.tick(tw.minutes(2))
        >>> session.rows("visits")
        [Session(user=7, start=0, end=5000000, pages=2)]
    """

    def __init__(
        self,
        flow: Flow,
        *,
        chunk_rows: int | None = CHUNK_ROWS,
        compile: Mode = "auto",
        options: Options | None = None,
        restart_every: int = 0,
    ) -> None:
        if chunk_rows is not None:
            require_rows("testing", chunk_rows=chunk_rows)
        if not is_int_from(restart_every, 0):
            raise refuse("testing", "restart_every", "a whole number from 0 on", restart_every)
        if options is not None:
            require_instance("testing", Options, "Options", options=options)
        self.plan = _plan(flow, compile)
        self._chunk_rows = chunk_rows or CHUNK_ROWS
        prepared = prepare(self.plan)
        self._engine = (
            Engine(prepared, chunk_rows=self._chunk_rows)
            if options is None
            else ParallelEngine(prepared, chunk_rows=chunk_rows, options=options)
        )
        for unit in self._engine.coroutines:
            unit.restart_every = restart_every
        self._out: dict[str, list[Chunk]] = {sink.name: [] for sink in self.plan.sinks}
        self._taken = dict.fromkeys(self._out, 0)
        self._fed = {source.name: 0 for source in self.plan.sources}
        self._ended = False

    def push(self, source: str, *rows: Any) -> None:
        """Gives rows to a source, in arrival order."""
        self._feed(source, rows)

    def feed(self, source: str, data: Any) -> None:
        """Gives many rows (a list or a pyarrow table) to a source, and releases what the clock allows."""
        self._feed(source, data, advance=True)

    def advance(self) -> None:
        """Releases the rows that the clocks have passed, and fires the timers that are due."""
        self._collect(self._engine.advance())

    def tick(self, time: int) -> None:
        """Moves the clock as if a row at ``time`` had come in every lane, and advances."""
        for gate in self._engine.gates.values():
            if isinstance(gate.node, Source) and gate.node.sorts:
                gate.tick(time)
        self.advance()

    def end(self) -> None:
        """Ends all streams: waiting rows are released, the remaining timers fire once."""
        if not self._ended:
            self._collect(self._engine.finish())
        self._ended = True

    def close(self) -> None:
        """Ends the threads of a session that has some."""
        self._engine.stop()

    def rows(self, sink: str) -> list[Any]:
        """All rows of a sink so far."""
        self._collect(self._engine.settle())
        return [row for chunk in _named(self._out, sink, "sink") for row in chunk.rows()]

    def take(self, sink: str) -> list[Any]:
        """The rows of a sink since the last take."""
        rows = self.rows(sink)[self._taken[sink] :]
        self._taken[sink] += len(rows)
        return rows

    def state(self, operator: str, key: Any = ()) -> Any | None:
        """The state of a key (without one: of an operator without key), None when it has none."""
        return self.states(operator).get(key)

    def states(self, operator: str) -> dict[Any, Any]:
        """The states of a keyed or stateful operator by key: bare for one key field, else a tuple."""
        self._collect(self._engine.settle())
        return _states(_named(self._engine.keyed, operator, "keyed operator"))

    def result(self) -> Result:
        """Everything so far."""
        self._collect(self._engine.settle())
        return Result(
            {name: self.rows(name) for name in self._out},
            {name: self.states(name) for name in self._engine.keyed},
            _without_zeros(self._engine.counts),
        )

    def __repr__(self) -> str:
        rows = {name: sum(map(len, chunks)) for name, chunks in self._out.items()}
        return f"<Session of flow {self.plan.flow!r}, rows at its sinks: {brief(rows)}>"

    def _feed(self, source: str, data: Any, *, advance: bool = False) -> None:
        node = _named({one.name: one for one in self.plan.sources}, source, "source")
        if self._ended:
            raise BuildError(f"source {source!r}: the streams have ended; start a new Session")
        first = self._fed[source]
        for chunk, bad in as_source(source, data).rows(node, self._chunk_rows, never()):
            self._fed[source] += len(chunk) + len(bad)
            leaving = self._engine.feed(source, chunk, _shifted(bad, first))
            collect(self.plan, leaving, self._out)
            if advance:
                self.advance()

    def _collect(self, leaving: Iterator[Leaving]) -> None:
        for one in leaving:
            collect(self.plan, one, self._out)


def _shifted(bad: list[BadRow], first: int) -> list[BadRow]:
    """Rows that did not fit, those of lists and tables (``row 3``) counted from the first row ever fed."""
    return [
        (reason, f"row {first + int(place[4:])}" if place.startswith("row ") else place, text)
        for reason, place, text in bad
    ]


def _plan(flow: Flow, compile: Mode) -> Plan:
    """The flow's plan; with ``"never"`` nothing in it is compiled."""
    choice("compile", compile, ("auto", "never"), "testing")
    require_instance("testing", Flow, "a tw.Flow", flow=flow)
    plan = make_plan(flow)
    if compile != "never":
        return plan
    nodes = tuple(
        dataclasses.replace(node, compile="never") if isinstance(node, (Keyed, Stateless)) else node
        for node in plan.nodes
    )
    return dataclasses.replace(plan, nodes=nodes)


def _named(found: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise BuildError(f"there is no {what} {name!r}; there are: {known}")
    return found[name]


def _states(unit: Any) -> dict[Any, Any]:
    """The states in a keyed unit's tables, whatever their form: through the form they have on disk."""
    snapshots = [unit.tables[bucket].snapshot() for bucket in sorted(unit.tables)]
    return states_of(unit.node, snapshots)


def states_of(node: Keyed | Coroutine, batches: Iterable[pa.RecordBatch]) -> dict[Any, Any]:
    """The states by key that Arrow batches of key fields and state fields hold, as state files have them."""
    out: dict[Any, Any] = {}
    spec, state = KeySpec(node.key.fields), node.state
    for batch in batches:
        fields = [*spec.fields, *state.schema.fields]
        columns = [Column.from_arrow(f.type, batch.column(i)) for i, f in enumerate(fields)]
        keys = spec.python_keys(columns[: len(spec.fields)], batch.num_rows)
        values = [column.to_python() for column in columns[len(spec.fields) :]]
        for place, key in enumerate(keys):
            out[key] = state.restore([one[place] for one in values])
    return out


# -- comparing -------------------------------------------------------------------------------------------


def assert_same(
    flow: Flow,
    inputs: Mapping[str, Sequence[Any]],
    *,
    seeds: Iterable[int] = range(4),
    compile: Sequence[Mode] = ("auto", "never"),
    end: bool = True,
    options: Callable[[random.Random], Options | None] = lambda chooser: None,
    restart_every: Callable[[random.Random], int] = lambda chooser: 0,
) -> Result:
    """Checks the engine against the serial reference: outputs in order, counts, and the state that is left.

    Of counts not the number of parts that ``key_by(..., grouping="partial")`` makes of rows, which depends on cuts.

    Each seed gives a random size of chunks and random cuts into batches. A flow that merges streams without
    event time depends on cuts (see the docs on order) and is run uncut. ``options`` may draw how many threads run
    it, and how, and ``restart_every`` how often coroutine operators start again from their state.

    Returns:
        What the reference gave.

    Raises:
        AssertionError: something differs; the message shows the first row that does, with its neighbours.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Word(NamedTuple):
        ...     text: str
        >>> flow = tw.Flow("words")
        >>> flow.source("lines", Word).filter(lambda word: word.text != "").sink("words")
        >>> result = tw.testing.assert_same(flow, {"lines": [Word("a"), Word("")]})
        >>> result.counts["filter"]
        {'in': 2, 'out': 1}
    """
    data = {
        name: rows if isinstance(rows, pa.Table) else list(rows) for name, rows in inputs.items()
    }
    expected = reference(flow, data, end=end)
    whole = depends_on_cuts(make_plan(flow))
    for seed in seeds:
        chooser = random.Random(seed)
        for mode in compile:
            sizes = [1, 2, 3, 7, 20, CHUNK_ROWS, None]
            chunk_rows = CHUNK_ROWS if whole else chooser.choice(sizes)
            cuts = {} if whole else {name: random_cuts(chooser, len(data[name])) for name in data}
            how, every = options(chooser), restart_every(chooser)
            got = run(
                flow, data, chunk_rows=chunk_rows, cuts=cuts, end=end, compile=mode, options=how,
                restart_every=every,
            )  # fmt: skip
            found = difference(flow, expected, got)
            if found:
                raise AssertionError(
                    f"{found}\nwith chunk_rows={chunk_rows}, cuts={cuts}, compile={mode!r}, {how},"
                    f" restart_every={every} (seed {seed})"
                )
    return expected


def random_cuts(chooser: random.Random, rows: int) -> list[int]:
    """Up to four places at which so many rows are cut into batches, some of them perhaps empty."""
    return sorted(chooser.randint(0, rows) for _ in range(chooser.randint(0, 4)))


def depends_on_cuts(plan: Plan) -> bool:
    """Whether the flow merges streams that have no event time in common, so that batches show in the order."""
    return any(
        isinstance(node, (Union, Coroutine))
        and not plan.domains[node.index - 1]
        and len({origin for ref in node.inputs for origin in _origins(plan, ref)}) > 1
        for node in plan.nodes
    )


def _origins(plan: Plan, ref: Any) -> Iterator[tuple[str, int]]:
    """The places from which a stream without event time comes: arrival at a source, or a time domain."""
    node = plan.node(ref.node)
    if isinstance(node, Source):
        yield ref.port, ref.node
    elif isinstance(node, OrderBy) or (plan.domains[ref.node - 1] and not plan.domain(ref)):
        yield "domain", plan.domain(node.inputs[0])
    else:
        for one in node.inputs:
            yield from _origins(plan, one)


def difference(flow: Flow, expected: Result, got: Result) -> str:
    """The first difference between two results as text for people; "" when there is none."""
    for name in expected.sinks:
        found = row_difference(expected.sinks[name], got.sinks[name])
        if found:
            return f"sink {name!r}: {found}"
    plan = make_plan(flow)
    parts = counts_of_parts(plan)
    for name in sorted(expected.counts.keys() | got.counts.keys()):
        one, other = (
            {what: n for what, n in all_of.get(name, {}).items() if (name, what) not in parts}
            for all_of in (expected.counts, got.counts)
        )
        if one != other:
            return f"counts of {name!r} differ: expected {one}, got {other}"
    holding: list[Keyed | Coroutine] = [*plan.keyed, *plan.coroutines]
    for node in holding:
        mine = _state_rows(node, expected.states.get(node.name, {}))
        found = row_difference(mine, _state_rows(node, got.states.get(node.name, {})))
        if found:
            return f"state of {node.name!r} (key, values): {found}"
    return ""


def counts_of_parts(plan: Plan) -> set[tuple[str, str]]:
    """The counts that depend on how a stream is cut: of partial aggregates, which are merged in the next operator."""
    return {
        place
        for node in plan.nodes
        if isinstance(node, Combine)
        for edge in plan.readers[Ref(node.index)]
        for place in ((node.name, "out"), (plan.node(edge.node).name, "in"))
    }


def _state_rows(node: Keyed | Coroutine, states: Mapping[Any, Any]) -> list[Any]:
    rows = [(key, node.state.values(state)) for key, state in states.items()]
    return sorted(rows, key=lambda one: repr(one[0]))


def row_difference(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """Where two sequences of rows differ first, with the rows before; "" when they are the same.

    Rows are the same when their text is, so NaN equals NaN, and 1, 1.0 and True differ.
    """
    one, other = [repr(row) for row in expected], [repr(row) for row in got]
    if one == other:
        return ""
    shared = min(len(one), len(other))
    at = next((i for i in range(shared) if one[i] != other[i]), shared)
    lines = [f"row {at} differs ({len(one)} rows expected, {len(other)} came)"]
    lines += [f"    {i:>5}  {one[i]}" for i in range(max(0, at - _NEIGHBOURS), at)]
    for sign, rows in (("-", one), ("+", other)):
        shown = [f"  {sign} {i:>5}  {rows[i]}" for i in range(at, min(at + _NEIGHBOURS, len(rows)))]
        lines += shown or [f"  {sign} {at:>5}  (no row)"]
    lines.append("  (- expected, + got)")
    return "\n".join(lines)


# -- map_batches -----------------------------------------------------------------------------------------


def assert_recut(
    function: Callable[[pa.RecordBatch], Any],
    record: Any,
    rows: Sequence[Any],
    *,
    seeds: Iterable[int] = range(8),
) -> None:
    """Checks that a ``map_batches`` function gives the same however the stream is cut into batches.

    Args:
        function: the function.
        record: the record of its input: a NamedTuple class or a pyarrow schema.
        rows: rows to try it on.
        seeds: a random cut each, beside the cut into single rows.

    Raises:
        AssertionError: some cut gives other rows than the whole.

    Example::

        >>> import pyarrow as pa
        >>> import thalweg as tw
        >>> schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
        >>> def best(batch):
        ...     top = max(batch.column("n").to_pylist())
        ...     return batch.set_column(0, "n", pa.array([top] * len(batch)))
        >>> tw.testing.assert_recut(best, schema, [(1,), (2,)])
        Traceback (most recent call last):
        ...
        AssertionError: best depends on how the stream is cut: cut at [1], row 0 differs (2 rows expected, 2 came)
          -     0  (0, {'n': 2})
          -     1  (1, {'n': 2})
          +     0  (0, {'n': 1})
          +     1  (1, {'n': 2})
          (- expected, + got)
    """
    schema = Schema.of(record)
    batch = Chunk.from_rows(schema, [schema.coerce(tuple(row)) for row in rows]).to_arrow()
    expected = _answer(function, batch, 0)
    everywhere = list(range(1, len(batch)))
    some = (sorted(random.Random(s).choices(everywhere or [0], k=3)) for s in seeds)
    for cuts in (everywhere, *some):
        edges = [0, *cuts, len(batch)]
        parts = [(start, stop) for start, stop in itertools.pairwise(edges) if stop > start]
        got = [row for start, stop in parts for row in _answer(function, batch[start:stop], start)]
        found = row_difference(expected, got)
        if found:
            name = getattr(function, "__name__", "the function")
            raise AssertionError(
                f"{name} depends on how the stream is cut: cut at {sorted(set(cuts))}, {found}"
            )


def _answer(
    function: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch, first: int
) -> list[tuple[int, dict[str, Any]]]:
    """The function's rows, each with the place of its input row in the whole."""
    if not len(batch):
        return []
    answer = function(batch)
    source = np.arange(len(batch))
    if isinstance(answer, tuple):
        answer, source = answer[0], np.asarray(answer[1], np.int64)
    assert len(source) == answer.num_rows, (
        f"the function gave {answer.num_rows} rows for {len(source)}; return (batch, source rows)"
        " when the number changes"
    )
    return list(zip((source + first).tolist(), answer.to_pylist(), strict=True))


__all__ = [
    "Result",
    "Session",
    "assert_recut",
    "assert_same",
    "counts_of_parts",
    "depends_on_cuts",
    "difference",
    "random_cuts",
    "reference",
    "row_difference",
    "run",
    "states_of",
]
