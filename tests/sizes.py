"""How much a test tries: a share of it by default, half at each merge, all of it in the long runs."""

from __future__ import annotations

#: A short run tries one of so many, a merge one of so many.
SHORT, MERGE = 4, 2
_of = {"whole": False, "merge": False}


def try_more(*, merge: bool, whole: bool) -> None:
    """Said once, before the tests are imported."""
    _of.update(merge=merge, whole=whole)


def sized(count: int, short: int | None = None) -> int:
    """``count`` with ``--slow``, half of it at a merge; by default ``short``, or a quarter of it."""
    least = max(1, count // SHORT) if short is None else short
    if _of["whole"]:
        return count
    return max(least, count // MERGE) if _of["merge"] else least
