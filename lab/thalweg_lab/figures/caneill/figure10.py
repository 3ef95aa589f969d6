"""Figure 10: a key has other partners from week to week, which is why tables must be made anew."""

from __future__ import annotations

import collections
from typing import Final, NamedTuple, TypeAlias

import thalweg as tw
from thalweg import data
from thalweg_lab.figures.caneill.checks import PAPER, rises, wins
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)

#: Partners that are shown, as in the paper.
_SHOWN: Final = 3
#: By destination and aircraft, the flights of each week.
Weekly: TypeAlias = dict[tuple[str, str], list[int]]


class FlownLeg(NamedTuple):
    """A flight of an aircraft."""

    time_hour: tw.Timestamp
    tailnum: str | None
    dest: str


def has_aircraft(leg: FlownLeg) -> bool:
    """Whether it is known which aircraft flew."""
    return leg.tailnum is not None


def make_flow() -> tw.Flow:
    """Flights by aircraft and destination, counted by the week."""
    flow = tw.Flow("weekly")
    legs = flow.source("flights", FlownLeg, order_by="time_hour", lateness="7 days")
    known = legs.filter(has_aircraft).key_by("tailnum", "dest")
    known.window("7 days", n=tw.agg.count()).sink("weeks")
    return flow


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Counts, and takes the destination whose partners change most."""
    progress("counting flights by aircraft, destination and week")
    weekly = _weekly()
    dest, partners = most_volatile(weekly)
    lags = range(1, len(partners[0][1]))
    known = [known_before(weekly, lag) for lag in lags]
    leads = [counts.index(max(counts)) for _, counts in partners]
    told = ", ".join(
        f"{name} in week {week + 1} ({counts[week]} of {sum(counts)})"
        for (name, counts), week in zip(partners, leads, strict=True)
    )
    peaks = [max(counts) * len(counts) / sum(counts) for _, counts in partners]
    lines = [
        Line(name, tuple(range(1, len(counts) + 1)), tuple(counts)) for name, counts in partners
    ]
    before = Line("known", tuple(lags), tuple(known))
    return FigureResult(
        f"flights to {dest}: {told}; {known[0]:.0%} of a week's flights have a pair that flew the week before,"
        f" {known[-1]:.0%} one that flew {lags[-1]} weeks before",
        (
            Panel(f"Flights to {dest} by aircraft", "week", "flights", tuple(lines)),
            Panel(
                "Pairs that flew in a week before", "weeks before", "share of flights", (before,)
            ),
        ),
        (
            ShapeCheck("each partner leads in another week", len(set(leads)) == _SHOWN, told),
            wins("in its week each has more than twice its mean", min(peaks), 2.0),
            rises("the longer ago, the fewer pairs are known", known[::-1], slack=0.1),
        ),
        {"known after 1 week": known[0], f"known after {lags[-1]} weeks": known[-1]},
    )


def _weekly() -> Weekly:
    """Of the weeks that are there from their first to their last day."""
    source = tw.files(str(data.path("nyc_flights")), format="csv", null_values=["NA"])
    rows = tw.run(make_flow(), {"flights": source}).rows("weeks")
    whole = sorted({row.start for row in rows})[1:-1]
    weekly: Weekly = collections.defaultdict(lambda: [0] * len(whole))
    for row in rows:
        if row.start in whole:
            weekly[row.dest, row.tailnum][whole.index(row.start)] += row.n
    return dict(weekly)


def most_volatile(weekly: Weekly) -> tuple[str, list[tuple[str, list[int]]]]:
    """The right key of which three partners lead most clearly, each in another week; and these.

    A partner leads where no other one of the key has as many in that week. Of several keys the one whose third leader
    has the most counts; the rule is of the data alone, so that other data are judged alike.
    """
    best: tuple[str, list[tuple[str, list[int]]]] = ("", [])
    for right in sorted({right for right, _ in weekly}):
        mine = [(left, counts) for (key, left), counts in sorted(weekly.items()) if key == right]
        leaders = _leaders(mine)[:_SHOWN]
        if len(leaders) == _SHOWN and (not best[1] or _third(leaders) > _third(best[1])):
            best = (right, leaders)
    return best


def _leaders(mine: list[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
    """Partners that lead in the week in which they come most, one a week, the greatest first."""
    found: dict[int, tuple[str, list[int]]] = {}
    for name, counts in sorted(mine, key=lambda one: -max(one[1])):
        week = counts.index(max(counts))
        found.setdefault(week, (name, counts))
    return sorted(found.values(), key=lambda one: -max(one[1]))


def _third(leaders: list[tuple[str, list[int]]]) -> int:
    return max(leaders[_SHOWN - 1][1])


def known_before(weekly: Weekly, lag: int) -> float:
    """The share of counts whose pair came so many weeks before, too."""
    known = total = 0
    for counts in weekly.values():
        for before, after in zip(counts, counts[lag:], strict=False):
            total += after
            known += after * (before > 0)
    return known / total


FIGURE: Final = PaperFigure(
    paper=PAPER,
    number=10,
    claim="Which keys come together changes from week to week, so that tables must be made anew.",
    published="#nevertrump came with Florida on 3 March, with Virginia on the 9th, with Texas on the 11th",
    kind="real",
    through="tw.run",
    on="flights of two months by aircraft and destination (bundled)",
    measure=measure,
)
