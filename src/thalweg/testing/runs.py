"""A flow over lists of rows, at once: by the engine, or by the serial reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thalweg.checks import known_keywords, require_flag, require_instance, require_mapping
from thalweg.columns.chunks import Chunk
from thalweg.connectors.names import check_names
from thalweg.connectors.readers import rows_from_table
from thalweg.embedded.generators import made_rows
from thalweg.engine.contract import CHUNK_ROWS
from thalweg.flow.fields.reading import PLAIN
from thalweg.flow.flow import Flow
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import (
    Source,
)
from thalweg.flow.records import Schema
from thalweg.plan.plan import make_plan
from thalweg.testing.reference import run_reference
from thalweg.testing.reference_parts import Outputs
from thalweg.testing.session import CheckedResult, Mode, Session, without_zeros
from thalweg.workers.options import Options

#: Where inputs are cut into batches: row numbers for all sources, or by source name.
Cuts = Sequence[int] | Mapping[str, Sequence[int]]


@known_keywords
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
) -> CheckedResult:
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


@known_keywords
def reference(
    flow: Flow,
    inputs: Mapping[str, Iterable[Any]],
    *,
    end: bool = True,
    decisions: Iterable[IdleDecision] = (),
) -> CheckedResult:
    """Runs the serial reference runner, one tuple at a time: what the result must be.

    Arguments as for :func:`run`; ``decisions`` are those about idle sources and lanes that a run or session made.

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
    return _of_outputs(run_reference(flow, rows, end=end, decisions=decisions))


def _of_outputs(out: Outputs) -> CheckedResult:
    return CheckedResult(out.sinks, out.states, without_zeros(out.counts))


def _data(source: Source, inputs: Mapping[str, Any]) -> Any:
    """The rows of a source; of an operator without inputs all that it pushes."""
    return inputs[source.name] if source.made_by is None else list(made_rows(source.made_by))


def _rows(data: Any, schema: Schema) -> Iterable[Any]:
    if isinstance(data, pa.RecordBatch):
        data = pa.table(data)
    if isinstance(data, pa.Table):
        if schema.reading != PLAIN:
            data = rows_from_table(data, schema).table
            schema = schema.read_as(PLAIN)
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
