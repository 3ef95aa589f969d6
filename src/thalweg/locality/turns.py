"""How often something comes in turn: every so many batches, or every so many rows."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TEXT: Final = re.compile(r"\s*([0-9][0-9_,]*)\s*(batch|batches|row|rows)\s*")


class Turn(NamedTuple):
    """One of both; neither: never.

    Attributes:
        batches: between two turns.
        rows: that an operator took between two turns.
    """

    batches: int | None = None
    rows: int | None = None

    def has_come(self, batches: int, rows: int) -> bool:
        """Whether it is time, so many batches and rows after the last one."""
        if self.rows is not None:
            return rows >= self.rows
        return self.batches is not None and batches >= self.batches


def turn_of(every: int | str | None) -> Turn | None:
    """What a text such as "20 batches" or "100,000 rows" says; an int is of batches. None: it says nothing of the kind.

    Example::

        >>> turn_of("20 batches"), turn_of("100_000 rows").rows, turn_of(3).batches, turn_of("2 hours")
        (Turn(batches=20, rows=None), 100000, 3, None)
    """
    if every is None:
        return Turn()
    if isinstance(every, int):
        return Turn(batches=every)
    found = _TEXT.fullmatch(every)
    if found is None:
        return None
    count = int(re.sub(r"[_,]", "", found[1]))
    return Turn(rows=count) if found[2].startswith("row") else Turn(batches=count)
