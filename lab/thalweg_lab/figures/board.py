"""The scoreboard: measures the papers' figures one after the other, and says of each whether its shape holds."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from thalweg_lab.figures.contract import CannotMeasureHere, Effort, FigureResult, PaperFigure
from thalweg_lab.figures.progress import Talk
from thalweg_lab.figures.rows import BoardRow

#: ``green``: each check holds; ``red``: one does not, or it failed; the others were not measured.
Verdict: TypeAlias = Literal["green", "red", "not possible here", "not measured"]

#: What a figure is expected to take before any was measured, s.
_USUAL_S: Final[dict[Effort, float]] = {"quick": 15.0, "full": 120.0}


@dataclass(frozen=True, slots=True)
class Score:
    """A row of the scoreboard once it is over.

    Attributes:
        row: the figure.
        verdict: see :data:`Verdict`.
        result: what was found, where it was measured.
        why: where it was not, or not to its end, the reason.
        story: the traceback of what it raised.
        seconds: that it took.
    """

    row: BoardRow
    verdict: Verdict
    result: FigureResult | None = None
    why: str = ""
    story: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> list[str]:
        """What does not hold, with what was seen instead."""
        found = [
            f"{one.says}: {one.seen}" for one in (self.result.checks if self.result else ()) if not one.holds
        ]  # fmt: skip
        return found or ([self.why] if self.verdict == "red" else [])


class Scoreboard:
    """Measures rows in turn.

    Args:
        rows: all that are shown.
        asked: which of them are measured.
        effort: how much is measured.
        say: takes lines that tell how it goes on.
        usual_s: by row's name, what it took last time.
    """

    def __init__(
        self,
        rows: Sequence[BoardRow],
        asked: Sequence[bool],
        *,
        effort: Effort,
        say: Callable[[str], None],
        usual_s: dict[str, float] | None = None,
    ) -> None:
        self.scores = [_before(row, ask) for row, ask in zip(rows, asked, strict=True)]
        self.effort: Effort = effort
        self._asked = [
            place for place, (row, ask) in enumerate(zip(rows, asked, strict=True)) if ask and row.figure
        ]  # fmt: skip
        self._say = say
        self._usual = usual_s or {}

    def measure(self, kept: Callable[[Score], None] = lambda _: None) -> bool:
        """Measures what is asked for; whether that was interrupted (Ctrl-C). The rest then says so.

        Args:
            kept: called with each score once it is known.
        """
        rows = [self.scores[place].row for place in self._asked]
        usual = _USUAL_S[self.effort]
        with Talk(self._say, [self._usual.get(row.name, usual) for row in rows]) as talk:
            for turn, place in enumerate(self._asked):
                try:
                    self.scores[place] = self._score(self.scores[place].row, talk)
                except KeyboardInterrupt:
                    for later in self._asked[turn:]:
                        row = self.scores[later].row
                        self.scores[later] = Score(row, "not measured", why="interrupted")
                    return True
                kept(self.scores[place])
        return False

    def _score(self, row: BoardRow, talk: Talk) -> Score:
        figure = row.figure
        assert figure is not None
        talk.begin(f"{row.paper.title} {row.number}")
        score = _measured(row, figure, self.effort, talk.tell)
        held = f"{score.verdict}: {score.why or checks_of(score)}"
        return _timed(score, talk.end(held))

    @property
    def is_red(self) -> bool:
        """Whether any row is."""
        return any(one.verdict == "red" for one in self.scores)


def _before(row: BoardRow, ask: bool) -> Score:
    """A row whose module is broken is red if it is asked for."""
    return Score(row, "red" if row.why and ask else "not measured", why=row.why)


def _measured(
    row: BoardRow, figure: PaperFigure, effort: Effort, tell: Callable[[str], None]
) -> Score:
    try:
        result = figure.measure(effort, tell)
    except CannotMeasureHere as error:
        return Score(row, "not possible here", why=str(error))
    # A figure that ends the process must not take the others with it.
    except (Exception, SystemExit) as error:
        return Score(row, "red", why=_raised(error), story=traceback.format_exc())
    if not result.checks:
        return Score(row, "red", result, why="it checks nothing")
    holds = all(one.holds for one in result.checks)
    return Score(row, "green" if holds else "red", result)


def _timed(score: Score, seconds: float) -> Score:
    return Score(score.row, score.verdict, score.result, score.why, score.story, seconds)


def _raised(error: BaseException) -> str:
    """What it raised, and where in the lab or, failing that, at all."""
    stack = traceback.extract_tb(error.__traceback__)
    lab = [one for one in stack if f"{Path('thalweg_lab', 'figures')}" in one.filename][1:]
    place = (lab or stack)[-1]
    lines = str(error).strip().splitlines() or ["no message"]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    return f"{type(error).__name__}: {lines[0]} ({where})"


def checks_of(score: Score) -> str:
    """How many checks hold."""
    checks = score.result.checks if score.result else ()
    return f"{sum(one.holds for one in checks)} of {len(checks)} hold"


def summary(scores: Sequence[Score]) -> str:
    """The scoreboard in a line."""
    counts = [
        f"{many} {verdict}"
        for verdict in ("green", "red", "not possible here", "not measured")
        if (many := sum(one.verdict == verdict for one in scores))
    ]
    return f"{len(scores)} figures: {', '.join(counts)}"
