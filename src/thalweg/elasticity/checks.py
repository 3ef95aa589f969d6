"""What controllers have in common: checks of parameters, and how far two measures are apart."""

from __future__ import annotations

import math

from thalweg.errors import BuildError


def require_share(owner: object, **values: float) -> None:
    """Refuses what is no share between 0 and 1, both included."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise BuildError(f"{type(owner).__name__}: {name} must be from 0 to 1, not {value!r}")


def require_int(owner: object, least: int, **values: int) -> None:
    """Refuses what is no int of at least ``least``."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BuildError(
                f"{type(owner).__name__}: {name} must be an int of at least {least}, not {value!r}"
            )


def relative_difference(one: float, other: float) -> float:
    """By how much two measures, none of them negative, differ, as a share of the smaller one."""
    less, more = min(one, other), max(one, other)
    if less == more:
        return 0.0
    return (more - less) / less if less > 0 else math.inf
