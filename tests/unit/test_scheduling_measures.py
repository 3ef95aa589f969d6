"""Cost and selectivity from counts, and selectivity from the source on."""

from __future__ import annotations

import pytest

from thalweg import scheduling


def test_measures_count_from_a_hundred_tuples_on() -> None:
    """Before, an operator is an ordinary one."""
    assert scheduling.cost_ns(9_900_000, 99) == 1_000.0
    assert scheduling.cost_ns(5_000_000, 100) == 50_000.0
    assert scheduling.selectivity(99, 0) == 1.0
    assert scheduling.selectivity(200, 50) == 0.25


def test_measures_have_floors() -> None:
    """Nothing is for free, and nothing lets nothing through."""
    assert scheduling.cost_ns(100, 1_000) == 10.0
    assert scheduling.selectivity(1_000, 0) == 1e-6


def test_cumulative_selectivity_of_a_pipeline_is_the_product() -> None:
    """cs_i of Prasaad et al., without and with the operator's own."""
    arriving, leaving = scheduling.cumulative_selectivity(
        [1.0, 3.0, 0.5, 0.1], [(), (0,), (1,), (2,)]
    )
    assert arriving.tolist() == [1.0, 1.0, 3.0, 1.5]
    assert leaving == pytest.approx([1.0, 3.0, 1.5, 0.15])


def test_cumulative_selectivity_is_summed_over_paths() -> None:
    """Two branches that meet again, one of them read twice, beside a source of its own."""
    feeders = [(), (0,), (0,), (1, 2, 2), (), (3, 4)]
    arriving, leaving = scheduling.cumulative_selectivity([1, 2, 0.5, 0.25, 1, 1], feeders)
    assert arriving.tolist() == [1, 1, 1, 3, 1, 1.75]
    assert leaving.tolist() == [1, 2, 0.5, 0.75, 1, 1.75]


@pytest.mark.parametrize("feeders", [[(1,), ()], [(0,)], [(), (-1,)]])
def test_cumulative_selectivity_refuses_another_order(feeders: list[tuple[int, ...]]) -> None:
    """An operator reads those before it."""
    with pytest.raises(ValueError, match="not in topological order"):
        scheduling.cumulative_selectivity([1.0] * len(feeders), feeders)
