"""Checks of parameters: numbers that must be whole, shares, and priority classes."""

from __future__ import annotations

from typing import Any, TypeGuard

from thalweg.errors import BuildError


def is_int_from(value: Any, least: int) -> TypeGuard[int]:
    """Whether it is an int of at least ``least``; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def require_share(owner: object, **values: float) -> None:
    """Refuses what is no share between 0 and 1, both included."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise BuildError(f"{type(owner).__name__}: {name} must be from 0 to 1, not {value!r}")


def require_int(owner: object, least: int, **values: int) -> None:
    """Refuses what is no int of at least ``least``."""
    for name, value in values.items():
        if not is_int_from(value, least):
            raise BuildError(
                f"{type(owner).__name__}: {name} must be an int of at least {least}, not {value!r}"
            )


def require_count(name: str, value: Any) -> None:
    """Refuses what is no int from 1 on."""
    if not is_int_from(value, 1):
        raise BuildError(f"{name}: expected a number from 1 on, got {value!r}")


def require_class(owner: str, value: Any) -> None:
    """Refuses what is no priority class.

    Args:
        owner: whose class it is, as the message begins.
        value: the class.
    """
    if not is_int_from(value, 0):
        raise BuildError(f"{owner}: a priority class is an int, 0 the most urgent, not {value!r}")
