"""The rows of the scoreboard: every figure of the five papers, with the module that measures it or without one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Final, NamedTuple

from thalweg.errors import BuildError
from thalweg_lab.figures.contract import PaperFigure

_HOME: Final = "thalweg_lab.figures"


class PaperNumbers(NamedTuple):
    """A paper's folder, how it is called, and its figures that measure something."""

    folder: str
    title: str
    numbers: range


PAPERS: Final = (
    PaperNumbers("prasaad", "Prasaad", range(8, 15)),
    PaperNumbers("schneider_wu", "Schneider & Wu", range(8, 11)),
    PaperNumbers("haren", "Haren", range(4, 10)),
    PaperNumbers("c_stream", "C-Stream", range(4, 14)),
    PaperNumbers("caneill", "Caneill", range(7, 15)),
)


class BoardRow(NamedTuple):
    """A figure of the scoreboard.

    Attributes:
        paper, number: which one.
        figure: how it is measured; None: it is not.
        why: where it cannot be loaded, the reason.
    """

    paper: PaperNumbers
    number: int
    figure: PaperFigure | None
    why: str = ""

    @property
    def name(self) -> str:
        """As ``--only`` takes it."""
        return f"{self.paper.folder}:{self.number}"


def find_rows(papers: Sequence[PaperNumbers] = PAPERS, home: str = _HOME) -> list[BoardRow]:
    """Every figure in the papers' order; one that is measured in two ways has two rows.

    Args:
        papers: whose figures.
        home: the package with a folder for each paper, and in it a module ``figureN`` for each figure.
    """
    return [
        row for paper in papers for number in paper.numbers for row in _rows(home, paper, number)
    ]


def _rows(home: str, paper: PaperNumbers, number: int) -> Iterator[BoardRow]:
    name = f"{home}.{paper.folder}.figure{number}"
    try:
        figures = _figures(importlib.import_module(name), number)
    except ModuleNotFoundError as error:
        why = "" if error.name and name.startswith(error.name) else _told(error)
        yield BoardRow(paper, number, None, why)
    except Exception as error:  # its row is red, and the others are measured
        yield BoardRow(paper, number, None, _told(error))
    else:
        if not figures:
            yield BoardRow(paper, number, None, f"{name} has no PaperFigure with number={number}")
        yield from (BoardRow(paper, number, figure) for figure in figures)


def _figures(module: ModuleType, number: int) -> list[PaperFigure]:
    found = [one for one in vars(module).values() if isinstance(one, PaperFigure)]
    return [one for one in found if one.number == number]


def _told(error: Exception) -> str:
    return f"its module cannot be loaded: {type(error).__name__}: {error}"


def chosen(rows: Sequence[BoardRow], only: Sequence[str]) -> list[bool]:
    """Which rows are asked for: by paper (``prasaad``) or by figure (``caneill:10``); all where nothing is named.

    Raises:
        BuildError: there is no such paper or figure.
    """
    wanted = [one for text in only for one in re.split(r"[,\s]+", text.replace("-", "_")) if one]
    for one in wanted:
        if not any(_is(row, one) for row in rows):
            folders = ", ".join(dict.fromkeys(row.paper.folder for row in rows))
            raise BuildError(
                f"--only {one}: expected a paper ({folders}) or a figure of one, as {rows[0].name}"
            )
    return [not wanted or any(_is(row, one) for one in wanted) for row in rows]


def _is(row: BoardRow, wanted: str) -> bool:
    return wanted in (row.paper.folder, row.name)
