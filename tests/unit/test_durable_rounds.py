"""What a durable run reads at once: as much as takes a moment, cut anywhere, and the same again from the spans."""

from __future__ import annotations

import random
from typing import NamedTuple

from thalweg.columns.chunks import Chunk
from thalweg.embedded.durable.reading import ROUND_ROWS, RoundRows
from thalweg.embedded.durable.reels import Count, Reel
from thalweg.flow.records import Schema


class Row(NamedTuple):
    n: int


def test_rounds_follow_the_cost_of_rows() -> None:
    """Few rows at first, many where they are cheap; where a row gets dear a round is soon about as long as it may."""
    rounds, rows = RoundRows(10.0), []
    for _ in range(8):
        rows.append(rounds.rows)
        rounds.took(rounds.rows * 1e-7)
    assert rows[:3] == [64, 256, 1_024] and rows[-1] == ROUND_ROWS
    for _ in range(3):
        rounds.took(rounds.rows * 0.02)
    assert 0.2 <= rounds.rows * 0.02 <= 0.26
    rounds.took(30.0)
    assert rounds.rows == 1  # never none
    commits_at_once = RoundRows(0.0)
    commits_at_once.took(commits_at_once.rows * 1e-3)
    assert commits_at_once.rows == 50


def test_a_reel_is_cut_anywhere() -> None:
    """Pieces of any size are the rows in order, bad ones once, and any place is found again in other pieces."""
    schema, chooser = Schema.of(Row), random.Random(4)
    for _ in range(50):
        sizes = [(chooser.randint(0, 9), chooser.randint(0, 2)) for _ in range(6)]
        first = [sum(good for good, _ in sizes[:at]) for at in range(6)]

        def reel(sizes: list[tuple[int, int]] = sizes, first: list[int] = first) -> Reel:
            feed = (
                (
                    Chunk.from_rows(schema, [Row(n) for n in range(start, start + good)]),
                    [("no", f"row {at}", str(one)) for one in range(bad)],
                )
                for at, ((good, bad), start) in enumerate(zip(sizes, first, strict=True))
            )
            return Reel(feed, "input")

        one, good, bad, places = reel(), [], [], [Count()]
        while (fed := one.next(chooser.choice((1, 2, 4, 100)))) is not None:
            good += fed[0].rows()
            bad += fed[1]
            places.append(one.at)
        assert good == [Row(n) for n in range(sum(n for n, _ in sizes))]
        assert len(bad) == sum(n for _, n in sizes)
        place, other = chooser.choice(places), reel()
        fed_again = list(other.upto(place))
        assert [row for chunk, _ in fed_again for row in chunk.rows()] == good[: place.good]
        assert [row for _, some in fed_again for row in some] == bad[: place.bad]
        assert other.at == place
