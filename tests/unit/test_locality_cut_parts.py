"""What a cut is made of: names of parts, bounds, edges, and which of several cuts is best."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from thalweg.locality import key_graph as graphs


def test_parts_of_a_cut_keep_their_names() -> None:
    """Each part of a new cut is called as that of now with which it has most in common; new ones take what is left."""
    cut = np.array([0, 0, 0, 1, 1, 2, 2])
    homes = np.array([1, 1, 2, 2, 2, -1, 0])
    costs = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 0.5])
    assert graphs._renamed(cut, homes, costs, 3).tolist() == [1, 1, 1, 2, 2, 0, 0]
    dear = np.array([0.1, 0.1, 9.0, 1.0, 1.0, 9.0, 0.5])
    assert graphs._renamed(cut, homes, dear, 3).tolist()[:3] == [2, 2, 2]


def test_a_cut_within_its_limits_is_best() -> None:
    """However many tuples another one keeps; of two that keep the limits the one that keeps more tuples."""
    cuts = [SimpleNamespace(excess=e, gain=g) for e, g in ((3, 900.0), (0, 10.0), (0, 20.0))]
    best = max(cuts, key=graphs._worth)  # type: ignore[arg-type]
    assert (best.excess, best.gain) == (0, 20.0)


def test_edges_between_two_keys_add_up() -> None:
    """Whichever way they lead; each is there in both directions."""
    starts, adjacent, edges = graphs._adjacency(
        np.array([[0, 1, 3], [1, 0, 4], [0, 1, 2], [1, 2, 5]]), 3
    )
    assert starts.tolist() == [0, 1, 3, 4]
    assert adjacent.tolist() == [1, 0, 2, 1]
    assert edges.tolist() == [9, 9, 5, 5]


def test_what_is_too_heavy_leaves_the_others_their_bound() -> None:
    """Parts of their own for what is above the bound; the rest is bound by the mean of the other parts."""
    assert graphs._limit(np.array([100, 10, 10, 10]), 4, 1.0) == 10
    assert graphs._limit(np.array([10, 10, 10, 10]), 2, 1.5) == 30
    assert graphs._limit(np.array([100, 50, 3, 3]), 3, 1.1) == 6
    assert graphs._limit(np.array([7]), 3, 1.0) == 0
