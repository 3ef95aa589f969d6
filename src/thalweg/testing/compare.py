"""Two results of a flow compared; the engine compared with the serial reference, over random cuts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from thalweg.brief import counted
from thalweg.engine.contract import CHUNK_ROWS
from thalweg.flow.flow import Flow
from thalweg.flow.operators.built_in import Combine
from thalweg.flow.operators.nodes import Coroutine, Keyed, OrderBy, Ref, Source, Union
from thalweg.plan.plan import Plan, make_plan
from thalweg.testing.runs import reference, run
from thalweg.testing.session import CheckedResult, Mode
from thalweg.workers.options import Options

#: How many rows of context a difference shows before the first row that differs.
_NEIGHBOURS: Final = 3


def assert_same(
    flow: Flow,
    inputs: Mapping[str, Sequence[Any]],
    *,
    seeds: Iterable[int] = range(4),
    compile: Sequence[Mode] = ("auto", "never"),
    end: bool = True,
    options: Callable[[random.Random], Options | None] = lambda chooser: None,
    restart_every: Callable[[random.Random], int] = lambda chooser: 0,
) -> CheckedResult:
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
    """Up to four random cuts of that many rows into batches, which may be empty."""
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


def difference(flow: Flow, expected: CheckedResult, got: CheckedResult) -> str:
    """The first difference between two results, as text; "" when there is none."""
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
    """The first difference between two sequences of rows, with the rows before; "" when they are equal.

    Rows are the same when their text is, so NaN equals NaN, and 1, 1.0 and True differ.
    """
    one, other = [repr(row) for row in expected], [repr(row) for row in got]
    if one == other:
        return ""
    shared = min(len(one), len(other))
    at = next((i for i in range(shared) if one[i] != other[i]), shared)
    lines = [f"row {at} differs ({counted(len(one), 'row')} expected, {len(other)} came)"]
    lines += [f"    {i:>5}  {one[i]}" for i in range(max(0, at - _NEIGHBOURS), at)]
    for sign, rows in (("-", one), ("+", other)):
        shown = [f"  {sign} {i:>5}  {rows[i]}" for i in range(at, min(at + _NEIGHBOURS, len(rows)))]
        lines += shown or [f"  {sign} {at:>5}  (no row)"]
    lines.append("  (- expected, + got)")
    return "\n".join(lines)
