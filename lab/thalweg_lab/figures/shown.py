"""The scoreboard as people read it: a table on the terminal and in Markdown, JSON, and a plot of each figure."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil

import thalweg
from thalweg.printing import Terminal, say
from thalweg_lab.figures.board import Score, checks_of, summary
from thalweg_lab.figures.contract import Effort, FigureResult

#: How wide the scoreboard is, and where its texts begin.
_WIDE: Final = max(shutil.get_terminal_size((110, 24)).columns, 60)
_MARGIN: Final = 19
#: What a figure says of itself.
_SAID: Final = ("claim", "published", "kind", "through", "on")
_COLUMNS: Final = ("figure", "claim", "the paper", "ours", "how", "checks")


def print_board(scores: Sequence[Score], console: Terminal) -> None:
    """A block for each figure, what does not hold once more below them, and the line that sums up.

    A table of so much text would have columns of a few letters on most terminals; Markdown has one (:func:`markdown`).
    """
    for score in scores:
        console.print(f"{_name(score):<18} {_verdict(score)}")
        told = 4 if score.seconds else 1
        for name, text in zip(_COLUMNS[1 : told + 1], _cells(score)[1 : told + 1], strict=True):
            for line, part in enumerate(textwrap.wrap(text, _WIDE - _MARGIN)):
                console.print(f"  {'' if line else name:<{_MARGIN - 2}}{part}")
    for score in scores:
        for wrong in score.failed:
            console.print(f"red: {_name(score)}: {wrong}")
    console.print(summary(scores))


def _cells(score: Score) -> tuple[str, ...]:
    figure = score.row.figure
    if figure is None:
        return (_name(score), "", "", "", "", _verdict(score))
    how = f"{figure.kind}, {figure.through}; {figure.on}"
    ours = score.result.ours if score.result else ""
    return (_name(score), figure.claim, figure.published, ours, how, _verdict(score))


def _name(score: Score) -> str:
    return f"{score.row.paper.title} {score.row.number}"


def _verdict(score: Score) -> str:
    if score.verdict in ("green", "red") and not score.why:
        return f"{score.verdict}: {checks_of(score)}"
    return f"{score.verdict}: {score.why}" if score.why else score.verdict


def markdown(scores: Sequence[Score]) -> str:
    """The table for a page."""
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{' --- |' * len(_COLUMNS)}"]
    for score in scores:
        cells = (one.replace("|", "\\|").replace("\n", " ") for one in _cells(score))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


class ResultFolder:
    """Where results go, as they come.

    Args:
        place: the folder, made if it is not there.
    """

    _NAME: Final = "figures.json"

    def __init__(self, place: Path) -> None:
        self._place = place
        self._told = False
        place.mkdir(parents=True, exist_ok=True)

    def usual_s(self, effort: Effort) -> dict[str, float]:
        """By figure, the seconds that it took at the last run into this folder with that effort."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            before = json.loads((self._place / self._NAME).read_text())
            if before["effort"] == effort:
                return {one["name"]: one["seconds"] for one in before["figures"] if one["seconds"]}
        return {}

    def keep(self, scores: Sequence[Score], effort: Effort) -> None:
        """Writes all that is known."""
        found = {
            "effort": effort,
            "summary": summary(scores),
            "machine": f"{platform.processor() or platform.machine()}, {psutil.cpu_count()} logical processors",
            "version": thalweg.__version__,
            "figures": [_as_json(one) for one in scores],
        }
        text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=True)
        (self._place / self._NAME).write_text(text + "\n", encoding="utf-8")
        (self._place / "figures.md").write_text(markdown(scores), encoding="utf-8")

    def draw(self, score: Score) -> None:
        """A png of the figure; where matplotlib is not installed it says so, once."""
        figure = score.row.figure
        if score.result is None or not score.result.panels or figure is None:
            return
        try:
            from thalweg_lab.figures.drawing import draw
        except ImportError:
            if not self._told:
                say("no plots: they need matplotlib (pip install 'thalweg[bench]')")
            self._told = True
            return
        name = f"{score.row.paper.folder}-{score.row.number}-{figure.kind.replace(' ', '-')}.png"
        draw(score.result.panels, f"{_name(score)}: {figure.claim}", self._place / name)


def _as_json(score: Score) -> dict[str, Any]:
    figure = score.row.figure
    said = {} if figure is None else {name: getattr(figure, name) for name in _SAID}
    return {
        "name": score.row.name,
        "paper": score.row.paper.title,
        "number": score.row.number,
        **said,
        "verdict": score.verdict,
        "why": score.why,
        "traceback": score.story,
        "seconds": round(score.seconds, 3),
        "result": None if score.result is None else _result(score.result),
    }


def _result(result: FigureResult) -> dict[str, Any]:
    return {
        "ours": result.ours,
        "numbers": dict(result.numbers),
        "checks": [dataclasses.asdict(one) for one in result.checks],
        "panels": [dataclasses.asdict(one) for one in result.panels],
    }
