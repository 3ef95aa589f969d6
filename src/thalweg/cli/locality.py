"""``thalweg locality plan``: a routing table from a sample, for a flow whose keys do not change much."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import thalweg as tw
from thalweg.brief import counted
from thalweg.cli.arguments import Given, read_inputs
from thalweg.cli.loading import load_flow
from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.plan.plan import Plan, make_plan
from thalweg.printing import Table, Terminal

if TYPE_CHECKING:
    from thalweg.locality import Assignment, Outcome, Statistics
    from thalweg.locality.tradeoff import Tradeoff

#: Keys that are shown of each operator.
_SHOWN: Final = 3
#: Keys that fill a slot by themselves and are told of.
_HEAVY: Final = 5
_CHUNK_ROWS: Final = 8_192


def plan(
    place: Annotated[
        str, typer.Argument(metavar="FILE[:FLOW]", help="A Python file with a flow, or a module.")
    ],
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "--input",
            metavar="[SOURCE=]PATH[,format=F][,key=value...]",
            help="A sample of a source: a folder, a file or a pattern.",
        ),
    ],
    slots: Annotated[int, typer.Option(min=1, help="Slots that the table is for.")],
    out: Annotated[Path | None, typer.Option(help="Where the table is written, as JSON.")] = None,
    alpha: Annotated[
        float, typer.Option(min=1.0, help="The fullest slot of an operator by the mean.")
    ] = 1.03,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the graph partitioner; another seed may give a slightly better table."
        ),
    ] = 0,
) -> None:
    """Count which keys come together in a sample, and give them slots so that tuples need not move."""
    from thalweg.locality import RoutingTable, encode_table, evaluate, keyed_operators, partition
    from thalweg.locality.tradeoff import ALPHAS, tradeoffs
    from thalweg.testing.sampling import sample

    if out is not None:
        _require_place(out)
    flow = load_flow(place)
    made = make_plan(flow)
    operators = keyed_operators(made)
    if not operators:
        raise BuildError(f"flow {flow.name!r} has no operator by key, so there is nothing to route")
    before = RoutingTable.hashed(operators, slots)
    taken = sample(flow, rows_of(made, read_inputs(source, made.sources)))
    statistics = taken.statistics()
    if not any(loads.total for loads in statistics.loads.values()):
        typer.echo("no row came to an operator by key: the table is that of hashing", err=True)
    assignment = partition(statistics, parts=slots, alpha=alpha, seed=seed)
    _show(statistics, before.assignment(), assignment)
    if statistics.pairs and slots > 1:
        halves = taken.statistics(stop=0.5), taken.statistics(start=0.5)
        found = tradeoffs(*halves, slots, alphas=(*ALPHAS, alpha), seed=seed)
        _show_later(found, alpha, evaluate(before.assignment(), halves[1]))
    if out is not None:
        out.write_bytes(encode_table(before.assigned(assignment)))
        typer.echo(f"written: {out}, {counted(len(assignment.keys), 'key')} pinned")


def _show_later(found: Sequence[Tradeoff], asked: float, hashed: Outcome) -> None:
    """What tables from the first half of the sample give on the second, by the bound of the balance; which to take."""
    table = Table("tables from the first half, on the second")
    for column in ("--alpha", "on one slot", "fullest slot", "keys pinned"):
        table.column(column, right=True)
    table.row("hashed", f"{hashed.locality:.1%}", f"{hashed.worst:.2f}", "")
    for one in found:
        mark = "*" if one.alpha == asked else ""
        table.row(
            f"{mark}{one.alpha:g}", f"{one.locality:.1%}", f"{one.imbalance:.2f}", f"{one.keys:,}"
        )
    Terminal().print(table)
    typer.echo(_advice(found, asked))


def _advice(found: Sequence[Tradeoff], asked: float) -> str:
    from thalweg.locality.tradeoff import advise

    advice = advise(found)
    if advice.is_one:
        kept = " (as asked)" if advice.network.alpha == asked else ""
        return f"take --alpha {advice.network.alpha:g}{kept}: no other bound keeps more tuples, or balances better"
    here, there = advice
    return (
        f"take --alpha {here.alpha:g} where processors limit (fullest slot {here.imbalance:.2f}), --alpha"
        f" {there.alpha:g} where the network does ({there.locality:.1%} on one slot, fullest {there.imbalance:.2f})"
    )


def _require_place(out: Path) -> None:
    """Refuses a place that no file can be written to, before the work.

    Raises:
        EnvironmentProblem: it says why.
    """
    folder = out.absolute().parent
    if out.is_dir():
        why = "it is a folder; name a file in it"
    elif not folder.is_dir():
        why = f"there is no folder {folder}"
    elif not os.access(out if out.exists() else folder, os.W_OK):
        why = "this user may not write there"
    else:
        return
    raise EnvironmentProblem(f"--out {out}: the table cannot be written: {why}")


def rows_of(plan: Plan, inputs: Mapping[str, Given]) -> dict[str, Iterator[Any]]:
    """The rows of each source, as records; those that do not fit are left out."""
    return {source.name: _read(source, inputs[source.name]) for source in plan.sources}


def _read(source: Any, given: Given) -> Iterator[Any]:
    from thalweg.connectors import never

    files = tw.files(given.path, format=given.format, **given.options)  # type: ignore[arg-type]
    for chunk, _ in files.rows(source, _CHUNK_ROWS, never()):
        yield from chunk.rows()


def _show(statistics: Statistics, before: Assignment, after: Assignment) -> None:
    """By operator the load and the top keys, hashed and planned; the locality; and what heavy keys forbid."""
    from thalweg.locality import evaluate

    hashed, planned = evaluate(before, statistics), evaluate(after, statistics)
    table = Table(f"{after.parts} slot{'s' * (after.parts > 1)}")
    for column in ("operator", "tuples", "keys", "imbalance, hashed", "planned"):
        table.column(column, right=column != "operator")
    table.column("top keys")
    for name in statistics.operators:
        loads = statistics.loads[name]
        table.row(
            name, f"{loads.total:,}", f"{len(loads.keys):,}",
            f"{hashed.imbalance[name]:.2f}", f"{planned.imbalance[name]:.2f}", _top(statistics, name),
        )  # fmt: skip
    Terminal().print(table)
    if statistics.pairs:
        total = sum(pair.count for pair in statistics.pairs)
        typer.echo(
            f"{counted(total, 'pair')} of keys, {len(statistics.pairs):,} different; on one slot:"
            f" {hashed.locality:.1%} hashed, {planned.locality:.1%} planned"
        )
    else:
        typer.echo("no two operators by key follow each other: the table is for balance only")
    heaviest = sorted(after.report.heavy, key=lambda one: -one.share)
    for heavy in heaviest[:_HEAVY]:
        typer.echo(
            f"key {heavy.key!r} of {heavy.operator} has {heavy.share:.1%} of the tuples, so that its slot has"
            f" {heavy.imbalance:.2f} times the mean at least"
        )
    if len(heaviest) > _HEAVY:
        typer.echo(f"so it is with {len(heaviest) - _HEAVY:,} keys more")


def _top(statistics: Statistics, name: str) -> str:
    loads = statistics.loads[name]
    keys: Sequence[Any] = sorted(loads.keys, key=lambda one: -one.count)[:_SHOWN]
    return ", ".join(f"{one.key!r} {one.count / loads.total:.1%}" for one in keys)
