"""``thalweg bench figures``: the papers' figures through the library's own front door, on one scoreboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Only = Annotated[
    list[str] | None,
    typer.Option(help="A paper (prasaad) or a figure of one (caneill:10); again for more. All by default."),
]  # fmt: skip
Full = Annotated[bool, typer.Option("--full/--quick", help="Minutes a figure, or seconds.")]
Simulate = Annotated[bool, typer.Option("--simulate", help="Only those in virtual time.")]
Out = Annotated[Path | None, typer.Option(help="Folder for JSON, a table in Markdown, and plots.")]


def figures(
    only: Only = None, full: Full = False, simulate: Simulate = False, out: Out = None
) -> None:
    """All figures of the five papers: the claim, the paper's numbers, ours, and whether the claim's shape holds.

    Exit status 1 where a check does not hold or a figure fails, 130 when interrupted; the table is printed anyway.
    """
    from thalweg.printing import Terminal, say
    from thalweg_lab.figures.board import Score, Scoreboard
    from thalweg_lab.figures.contract import Effort
    from thalweg_lab.figures.rows import chosen, find_rows
    from thalweg_lab.figures.shown import ResultFolder, print_board

    rows = find_rows()
    asked = [
        ask and (not simulate or (row.figure is not None and "simulated" in row.figure.kind))
        for row, ask in zip(rows, chosen(rows, only or ()), strict=True)
    ]
    folder = None if out is None else ResultFolder(out)
    effort: Effort = "full" if full else "quick"
    usual = {} if folder is None else folder.usual_s(effort)
    board = Scoreboard(rows, asked, effort=effort, say=say, usual_s=usual)

    def keep(score: Score) -> None:
        if folder is not None:
            folder.keep(board.scores, effort)
            folder.draw(score)

    interrupted = board.measure(keep)
    if folder is not None:
        folder.keep(board.scores, effort)
    print_board(board.scores, Terminal())
    if interrupted:
        raise typer.Exit(130)
    if board.is_red:
        raise typer.Exit(1)
