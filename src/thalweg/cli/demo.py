"""``thalweg demo``: sessions in a real access log, on Spark, with all that there is to see."""

from __future__ import annotations

from typing import Annotated

import typer

from thalweg.brief import counted
from thalweg.cli.progress import open_display
from thalweg.cli.run import start_session
from thalweg.printing import Terminal

_NEXT = """\
What to try next
  thalweg demo --slots 4                     the same output from four slots
  thalweg explain thalweg.examples.cart_abandonment
  python -m thalweg.examples.flights         planes and their connections
  python -m thalweg.examples.login_failures /var/log/auth.log
  thalweg datagen clicks --out clicks        a clickstream of any size, and a flow over it:
  thalweg run thalweg.examples.cart_abandonment --input clicks --output averages --once
  thalweg --help
"""


def demo(
    slots: Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")] = 1,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the log.")] = False,
) -> None:
    """Find the sessions in 10,000 lines of a real access log that is out of order."""
    from thalweg.examples import running, web_sessions

    display = open_display(verbose=verbose)
    try:
        if not embedded:
            start_session(master, display)
        display.say("finding the sessions in 10,000 lines of an access log …")
        outcome = web_sessions.run(slots=slots, embedded=embedded)
        display.say("and once more, now that everything is warm …")
        again = web_sessions.run(slots=slots, embedded=embedded)
    finally:
        display.close()
    console = Terminal()
    sessions = outcome.tables["sessions"]
    console.print()
    console.print(running.rows_table(outcome.flow, "sessions", sessions.slice(0, 10)))
    clients = len(set(sessions.column("client").to_pylist()))
    left = sessions.num_rows - min(10, sessions.num_rows)
    where = "in this process" if embedded else f"on Spark, {counted(slots, 'slot')}"
    typer.echo(
        f"… and {left:,} more\n\n"
        f"{sessions.num_rows:,} sessions of {clients:,} clients\n"
        f"{outcome.count('rejected'):,} line rejected: it does not parse\n"
        f"{counted(outcome.count('late'), 'row')} late, though most are out of order: they wait up to a minute\n"
        f"{counted(outcome.rows_in, 'line')} in {outcome.wall_s:.1f} s ({where}) from cold;"
        f" warm: {again.wall_s:.1f} s, {again.rows_in / again.wall_s:,.0f} lines/s\n"
    )
    typer.echo(f"The plan\n{outcome.flow.explain()}")
    typer.echo(_NEXT, nl=False)
