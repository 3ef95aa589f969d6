"""``thalweg plan``: partitions of keyed operators from a sample of the input (Prasaad et al., section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from thalweg.brief import counted
from thalweg.cli.arguments import Given, read_inputs
from thalweg.cli.loading import load_flow
from thalweg.cli.locality import rows_of
from thalweg.errors import BuildError
from thalweg.plan.plan import Plan, make_plan
from thalweg.printing import Table, Terminal

if TYPE_CHECKING:
    from thalweg.plan.ranges import Partitioning
    from thalweg.testing.partitions import OperatorPartitions, PartitionPlan

#: Keys that are shown of each operator.
_SHOWN: Final = 3


def plan(
    place: Annotated[
        str, typer.Argument(metavar="FILE[:FLOW]", help="A Python file with a flow, or a module.")
    ],
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="[SOURCE=]PATH[,format=F][,key=value...]...",
            help="The input of a source: a folder, a file or a pattern.",
        ),
    ],
    sample: Annotated[
        int, typer.Option(min=1, metavar="N", help="So many rows of each source are looked at.")
    ] = 10_000,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the run that is planned; all processors.")
    ] = None,
) -> None:
    """Look at the keys of a sample, and say how a keyed operator's partitions should be cut: by hash or by range."""
    from thalweg.testing.partitions import plan_partitions

    flow = load_flow(place)
    made = make_plan(flow)
    if not any(node.key.fields for node in made.keyed):
        raise BuildError(
            f"flow {flow.name!r} has no operator by key, so there are no partitions to plan"
        )
    given = rows_of(made, _inputs(source, made))
    rows = {name: list(itertools.islice(one, sample)) for name, one in given.items()}
    typer.echo(
        f"a sample of {counted(sum(map(len, rows.values())), 'row')}: counted, and run to see what it costs",
        err=True,
    )
    found = plan_partitions(flow, rows, threads=threads)
    for operator in found.operators:
        _show(operator)
    _say_options(found)


def _inputs(given: Sequence[str], plan: Plan) -> Mapping[str, Given]:
    """The inputs, which stand here without an option's name."""
    try:
        return read_inputs(given, plan.sources)
    except typer.BadParameter as error:
        raise typer.BadParameter(
            error.message.replace("--input ", ""), param_hint="SOURCE"
        ) from None


def _show(one: OperatorPartitions) -> None:
    """The skew of its keys, what it costs, what is expected of partitions, and what to take."""
    if not one.tuples:
        typer.echo(f"{one.name}: no row came to it in the sample")
        return
    profile, terminal = one.profile, Terminal()
    tops = ", ".join(f"{value!r} {share:.1%}" for value, share in one.top(_SHOWN))
    typer.echo(
        f"{one.name}: {counted(one.tuples, 'tuple')}, {counted(len(one.values), 'value')} of {one.key!r}; most: {tops}"
    )
    typer.echo(
        f"  {profile.row_ns / 1e3:,.2f} µs a tuple, {profile.unit_ns / 1e3:,.1f} µs a partition and step,"
        f" steps of {profile.step_rows:,}"
    )
    table = Table(f"{one.name}, {counted(profile.threads, 'thread')}, hybrid queue")
    table.column("partitions")
    for column in ("number", "fullest", "expected speed-up"):
        table.column(column, right=True)
    _row(table, "by hash, the default", one.hashed)
    for other in one.compared:
        if other.parts != one.ranged.parts:
            _row(table, "by range", other)
    _row(table, "by range, the fewest that are best", one.ranged)
    terminal.print(table)
    typer.echo(f"  {one.advice()}")


def _row(table: Table, what: str, one: Partitioning) -> None:
    table.row(what, f"{one.parts:,}", f"{one.fullest:.1%}", f"{one.speed_up:.2f} x")


def _say_options(found: PartitionPlan) -> None:
    if not found.boundaries:
        typer.echo("nothing to set: partitions by hash are the default")
        return
    shown = ", ".join(f"{name!r}: {_list(one)}" for name, one in found.boundaries.items())
    typer.echo(f"tw.Options(threads={found.threads}, partition='range', boundaries={{{shown}}})")


def _list(values: Sequence[Any]) -> str:
    return repr(list(values))
