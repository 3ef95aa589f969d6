"""Placing new keys stays where it pays: tried on some batches, judged by their median, and tried again later."""

from __future__ import annotations

import pytest

from thalweg.locality.first_seen_trial import FirstSeenTrial, PrepassLook

#: Half of the pairs are placed on two slots; tasks wait for 0.8 of a second: 0.2 s can be saved.
CHEAP = PrepassLook(took_s=0.05, share=0.5, slots=2, batch_s=1.0, waits=0.8)
DEAR = PrepassLook(took_s=0.15, share=0.5, slots=2, batch_s=1.0, waits=0.8)


def batches(trial: FirstSeenTrial, look: PrepassLook, most: int) -> list[bool]:
    """Runs batches; which of them were looked at."""
    found = []
    for _ in range(most):
        found.append(trial.is_due())
        trial.batch_done(look if found[-1] else None)
    return found


def test_what_a_look_gives_back() -> None:
    """Of the tuples whose keys it placed those that would have left their slot, and only what tasks waited."""
    assert CHEAP.gives_s == pytest.approx(0.2)
    assert CHEAP.surplus_s == pytest.approx(0.05)
    assert DEAR.surplus_s == pytest.approx(-0.05)
    assert PrepassLook(0.0, 1.0, 4, 2.0, 1.0).gives_s == pytest.approx(1.5)
    assert PrepassLook(0.0, 1.0, 1, 2.0, 1.0).gives_s == 0.0
    assert PrepassLook(0.0, 1.0, 2, 2.0, 0.0).surplus_s == 0.0


def test_it_stays_where_it_pays() -> None:
    """Five batches run first; then each is looked at, as long as it pays."""
    trial = FirstSeenTrial()
    assert trial.reason == "new keys go by hash: not tried yet"
    assert batches(trial, CHEAP, 20) == [False] * 5 + [True] * 15
    assert trial.reason == (
        "new keys are placed: 50% of the pairs had keys to place, a look took 50 ms and gave back at most 200 ms a"
        " batch"
    )
    assert batches(trial, DEAR, 5) == [True, True, False, False, False]
    assert trial.reason.startswith("new keys go by hash: 50%")


def test_it_goes_where_it_does_not_and_is_tried_again() -> None:
    """Three batches are tried, then none for sixty; then it may have come to pay."""
    trial = FirstSeenTrial()
    assert batches(trial, DEAR, 5 + 3 + 60) == [False] * 5 + [True] * 3 + [False] * 60
    assert "took 150 ms" in trial.reason and "tried again in 60 batches" in trial.reason
    assert batches(trial, CHEAP, 10) == [True] * 10
    assert trial.reason.startswith("new keys are placed")


def test_one_odd_batch_decides_nothing() -> None:
    """The median of three does; a batch that was not looked at counts for none of them."""
    trial = FirstSeenTrial()
    batches(trial, CHEAP, 5)
    odd = PrepassLook(took_s=9.0, share=0.5, slots=2, batch_s=1.0, waits=0.8)
    for look in (CHEAP, None, odd, None, CHEAP):
        trial.batch_done(look)
    assert trial.is_due() and trial.reason.startswith("new keys are placed")
    trial.batch_done(CHEAP)
    assert trial.reason.startswith("new keys are placed")
