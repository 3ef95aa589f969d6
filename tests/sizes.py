"""How much a test tries: a share of it by default, all of it at each merge."""

from __future__ import annotations

#: A short run tries one of so many.
SHORT = 4
_of = {"whole": False}


def try_all(whole: bool) -> None:
    """Said once, before the tests are imported."""
    _of["whole"] = whole


def sized(count: int, short: int | None = None) -> int:
    """``count`` at a merge and in longer runs; by default ``short``, or a quarter of it."""
    if _of["whole"]:
        return count
    return max(1, count // SHORT) if short is None else short
