"""The scoreboard of the papers' figures, with toy figures: what is green, what is red, and that the rest goes on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from thalweg_lab.figures import progress
from thalweg_lab.figures.board import Scoreboard, summary
from thalweg_lab.figures.contract import (
    CannotMeasureHere,
    Effort,
    FigureResult,
    Kind,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)
from thalweg_lab.figures.progress import clock, left_s
from thalweg_lab.figures.rows import PAPERS, BoardRow, PaperNumbers, chosen, find_rows
from thalweg_lab.figures.shown import ResultFolder, markdown, print_board

from thalweg.errors import BuildError
from thalweg.printing import Terminal

PAPER = PaperNumbers("toys", "Toys", range(1, 7))


def found(*holds: bool) -> FigureResult:
    """A result whose checks hold or do not."""
    lines = (Line("ours", (1.0, 2.0), (3.0, 4.0)),)
    checks = tuple(ShapeCheck(f"claim {i}", one, f"saw {i}") for i, one in enumerate(holds))
    return FigureResult("4 | 5", (Panel("p", "x", "y", lines),), checks, {"x": 1.0})


def row(number: int, does: Callable[[], FigureResult], kind: Kind = "real") -> BoardRow:
    """A row of the toys' paper."""

    def measure(effort: Effort, tell: Progress) -> FigureResult:
        tell(f"{effort} of {number}")
        return does()

    figure = PaperFigure("toys", number, "two is more", "2 > 1", kind, "tw.run", "toys", measure)
    return BoardRow(PAPER, number, figure)


def raises(error: BaseException) -> Callable[[], FigureResult]:
    """A figure that fails."""

    def fail() -> FigureResult:
        raise error

    return fail


def test_a_row_of_each_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Held is green, else red with what was seen; what raises is red with the reason, and the rest is measured."""
    rows = [
        row(1, lambda: found(True, True)),
        row(2, lambda: found(True, False)),
        row(3, raises(ValueError("no such thing\nat all"))),
        row(4, raises(CannotMeasureHere("no Java"))),
        row(5, raises(SystemExit(3))),
        BoardRow(PAPER, 6, None),
        row(7, found),
    ]
    said: list[str] = []
    board = Scoreboard(rows, [True] * 7, effort="quick", say=said.append)
    folder = ResultFolder(tmp_path)
    assert not board.measure(lambda _: folder.keep(board.scores, "quick"))
    verdicts = [one.verdict for one in board.scores]
    assert verdicts == ["green", "red", "red", "not possible here", "red", "not measured", "red"]
    assert board.is_red
    assert board.scores[1].failed == ["claim 1: saw 1"]
    assert board.scores[2].why.startswith("ValueError: no such thing (test_figures_board.py, line ")
    assert "Traceback" in board.scores[2].story
    assert board.scores[6].failed == ["it checks nothing"]
    assert summary(board.scores) == "7 figures: 1 green, 4 red, 1 not possible here, 1 not measured"
    assert any("quick of 1" in one or "begins" in one for one in said)
    print_board(board.scores, Terminal())
    out = capsys.readouterr().out
    assert "red: Toys 2: claim 1: saw 1" in out
    assert "not measured" in out
    assert "4 \\| 5" in markdown(board.scores)
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert [one["verdict"] for one in kept["figures"]] == verdicts
    check = kept["figures"][1]["result"]["checks"][1]
    assert check == {"says": "claim 1", "holds": False, "seen": "saw 1"}
    assert set(folder.usual_s("quick")) <= {f"toys:{i}" for i in range(1, 8)}
    assert folder.usual_s("full") == {}


def test_an_interruption_leaves_what_is_known() -> None:
    """Ctrl-C ends the measuring; rows before keep their result, this and later ones say that they were interrupted."""
    rows = [row(1, lambda: found(True)), row(2, raises(KeyboardInterrupt())), row(3, found)]
    board = Scoreboard(rows, [True] * 3, effort="quick", say=lambda _: None)
    assert board.measure()
    assert [(one.verdict, one.why) for one in board.scores] == [
        ("green", ""),
        ("not measured", "interrupted"),
        ("not measured", "interrupted"),
    ]


def test_all_34_rows_are_there_and_chosen_by_name() -> None:
    """Each figure of each paper has a row, whether it has a module or not; names choose them, unknown ones are told."""
    rows = find_rows()
    assert len({(one.paper.folder, one.number) for one in rows}) == 34
    assert sum(len(paper.numbers) for paper in PAPERS) == 34
    asked = chosen(rows, ["caneill:10, haren"])
    assert {one.name for one, ask in zip(rows, asked, strict=True) if ask} == {
        "caneill:10", *(f"haren:{i}" for i in range(4, 10))
    }  # fmt: skip
    assert all(chosen(rows, []))
    assert any(chosen(rows, ["c-stream"]))
    with pytest.raises(BuildError, match="haren:99"):
        chosen(rows, ["haren:99"])


def test_modules_are_found_and_broken_ones_are_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module's figures are rows; one that cannot be imported or has none is a red row; no module is none."""
    home = tmp_path / "toy_figures"
    (home / "toys").mkdir(parents=True)
    (home / "__init__.py").write_text("")
    (home / "toys" / "__init__.py").write_text("")
    make = (
        "from tests.unit.test_figures_board import found, row\n"
        "REAL = row(1, found).figure\nVIRTUAL = row(1, found, 'simulated').figure\nOTHER = row(2, found).figure\n"
    )
    (home / "toys" / "figure1.py").write_text(make)
    (home / "toys" / "figure2.py").write_text("1 / 0")
    (home / "toys" / "figure3.py").write_text("import no_such_package")
    (home / "toys" / "figure4.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        rows = find_rows([PAPER], "toy_figures")
    finally:
        for name in [one for one in sys.modules if one.startswith("toy_figures")]:
            del sys.modules[name]
    assert [one.figure and one.figure.kind for one in rows[:2]] == ["real", "simulated"]
    whys = [one.why for one in rows]
    assert "ZeroDivisionError" in whys[2]
    assert "no_such_package" in whys[3]
    assert "no PaperFigure" in whys[4]
    assert whys[5:] == ["", ""]
    board = Scoreboard(rows, [True, *[False] * 6], effort="quick", say=lambda _: None)
    assert not board.is_red
    assert Scoreboard(rows, [True] * 7, effort="quick", say=lambda _: None).is_red


def test_what_is_left_follows_what_was_measured() -> None:
    """Twice as slow as expected so far is expected of the rest; a figure that runs is not counted again."""
    assert left_s([10, 10, 20], [], 0.0) == 40
    assert left_s([10, 10, 20], [20], 5.0) == 55
    assert left_s([10, 10, 20], [10, 10], 99.0) == 0
    assert left_s([10], [10], 0.0) == 0
    assert (clock(119), clock(600)) == ("about 119 s", "about 10 min")


def test_a_silent_figure_is_spoken_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that says nothing is told of again by itself, and each line has its place and the time left."""
    monkeypatch.setattr(progress, "_SILENCE_S", 0.0)
    said: list[str] = []

    def silent() -> FigureResult:
        limit = time.monotonic() + 20
        while len(said) < 4 and time.monotonic() < limit:
            time.sleep(0.01)
        return found(True)

    Scoreboard([row(1, silent)], [True], effort="full", say=said.append).measure()
    assert sum("full of 1" in one for one in said) >= 1
    assert all(one.startswith("[1/1] Toys 1: ") and "left)" in one for one in said)


def test_panels_are_drawn(tmp_path: Path) -> None:
    """Each measured figure has a picture."""
    pytest.importorskip("matplotlib")
    board = Scoreboard([row(1, lambda: found(True))], [True], effort="quick", say=lambda _: None)
    folder = ResultFolder(tmp_path)
    board.measure(folder.draw)
    assert [one.name for one in tmp_path.glob("*.png")] == ["toys-1-real.png"]
