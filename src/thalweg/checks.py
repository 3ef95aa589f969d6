"""Checks of parameters: numbers that must be whole, or shares."""

from __future__ import annotations

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
