"""Bounds of the balance: what each gives on later data, and which one to take."""

from __future__ import annotations

from locality_kit import count

from thalweg.locality import Tradeoff, advise, tradeoffs

NAMES = ("by_user", "by_channel")


def rows(start: int) -> list[tuple[str, str]]:
    """Six channels that half of the users write to, all to all, and others: those can be on one slot of three, or the
    slots even."""
    whole = [(f"u{(start + i) % 60}", f"b{i // 7 % 6}") for i in range(600)]
    others = [(f"v{(start + i) % 60}", f"c{(start + i) % 12}") for i in range(600)]
    return [row for pair in zip(whole, others, strict=True) for row in pair]


def test_a_looser_bound_keeps_more() -> None:
    """The tighter the bound, the fewer tuples stay; what is said is of later data, and bounds come in rising order."""
    learnt, later = count(rows(0), NAMES), count(rows(7), NAMES)
    found = tradeoffs(learnt, later, 3, alphas=(2.0, 1.03, 1.03))
    assert [one.alpha for one in found] == [1.03, 2.0]
    tight, loose = found
    assert loose.locality > tight.locality + 0.1
    assert tight.imbalance < 1.1 < loose.imbalance < 2
    assert tight.keys > 0
    unlike = tradeoffs(learnt, count([("x", "y")] * 10, NAMES), 3, alphas=(1.03,))
    assert unlike[0].imbalance == 3.0
    assert tradeoffs(learnt, later, 3, alphas=(1.03,), seed=0) == found[:1]


def test_which_bound_to_take() -> None:
    """Where processors limit, the most local of the most even; where the network does, the most even of the local."""
    even = Tradeoff(1.03, 0.30, 1.10, 9)
    nearly = Tradeoff(1.2, 0.40, 1.115, 9)
    middle = Tradeoff(1.5, 0.59, 1.6, 9)
    loose = Tradeoff(2.0, 0.60, 1.9, 9)
    advice = advise([even, nearly, middle, loose])
    assert (advice.processors, advice.network) == (nearly, middle)
    assert not advice.is_one
    assert advise([even]).is_one
    assert advise([even, even._replace(alpha=2.0, locality=0.1)]).network == even
    assert advise([even, loose]).network == loose
