"""What steps cost is a line: a fixed part a unit, a part a row; and steps are so long that the fixed part is small."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from thalweg.workers.step_size import StepCosts


def seen(
    costs: StepCosts, fixed: Sequence[float], slope: Sequence[float], sizes: Sequence[float]
) -> None:
    """Looks after ten units of each size, all operators alike."""
    total = np.zeros((3, len(fixed)))
    for rows in sizes:
        total += [
            [10.0] * len(fixed),
            [10 * rows] * len(fixed),
            10 * (np.array(fixed) + np.array(slope) * rows),
        ]
        costs.look(*total)


def test_fixed_part_and_slope_are_found() -> None:
    """Units of different sizes tell what each costs by itself and what a row costs; of one size they do not."""
    costs = StepCosts([1, 1])
    seen(costs, [100_000, 500], [1_000, 20], [64, 64, 64])
    assert not costs.is_known
    seen(costs := StepCosts([1, 1]), [100_000, 500], [1_000, 20], [64, 128, 256, 64, 90])
    assert costs.is_known
    assert costs.fixed == pytest.approx([100_000, 500], rel=0.01)
    assert costs.slope == pytest.approx([1_000, 20], rel=0.01)


def test_a_line_stays_while_sizes_are_alike_and_follows_what_changes() -> None:
    """Long runs of one size keep the fixed part; what costs more now is put to the rows."""
    costs = StepCosts([1])
    seen(costs, [100_000], [1_000], [64, 128, 256, *[1_000] * 50])
    assert costs.fixed == pytest.approx([100_000], rel=0.02)
    assert costs.slope == pytest.approx([1_000], rel=0.02)


def test_steps_are_so_long_that_the_fixed_part_is_small() -> None:
    """A tenth of a step is its fixed part, that of all units of it; but no step takes longer than it may."""
    costs = StepCosts([1, 8])
    seen(costs, [50_000, 100_000], [10, 990], [64, 128, 256, 700])
    fixed, slope = 850_000, 1_000
    rows = costs.rows_for(0.1, 20e6, [1.0, 1.0])
    assert rows == pytest.approx(9 * fixed / slope, rel=0.02)
    assert costs.rows_for(0.1, 4e6, [1.0, 1.0]) == pytest.approx((4e6 - fixed) / slope, rel=0.02)
    # Half of the rows reach the dear operator.
    assert costs.rows_for(0.1, 1e9, [1.0, 0.5]) == pytest.approx(9 * fixed / 505, rel=0.02)
    assert costs.rows_for(0.1, 1_000.0, [1.0, 1.0]) == 0


def test_operators_that_no_row_reaches_do_not_hold_up() -> None:
    """Who has run nothing has no line, and need not have one."""
    costs = StepCosts([1, 1])
    total = np.zeros((3, 2))
    for rows in (64, 128, 256):
        total += [[10, 5], [10 * rows, 0], [10 * (1_000 + rows), 77]]
        costs.look(*total)
    assert costs.is_known
    assert costs.fixed[1] == costs.slope[1] == 0
