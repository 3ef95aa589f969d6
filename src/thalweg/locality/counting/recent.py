"""What was counted lately: two spans of time, the older one of which is forgotten when the newer one is over.

Caneill et al. (3.2) begin to count anew at each reconfiguration, so that only recent tuples decide. A table that stays
good is not reconfigured, and a count that goes on for days would hide what has changed since an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.locality.counting.sketch import KEYS, PAIRS
from thalweg.locality.counting.summary import KeySummary

#: So many counts of slots wait at most to be joined; each is a sketch, 1 MB at most.
_WAITING: Final = 64


class RecentCounts:
    """The counts of the last ``span`` to ``2 * span`` rounds; of more where these are of few tuples.

    They are joined only when somebody looks, or when many have come: that takes longer than to count a small batch.

    Args:
        span: rounds.
        least: tuples that an operator must have taken before a span is over.
    """

    def __init__(self, span: int, least: int = 0) -> None:
        self._span = span
        self._least = least
        self._rounds = 0
        self._tuples: dict[str, int] = {}
        self._older: KeySummary | None = None
        self._newer: list[KeySummary] = []
        #: by operator, all tuples that were ever counted
        self._taken: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """The tuples that the operator with most has taken since the beginning."""
        return max(self._taken.values(), default=0)

    def __bool__(self) -> bool:
        """Whether anything was counted."""
        return bool(self._newer) or self._older is not None

    def add(self, parts: Sequence[KeySummary]) -> None:
        """Takes the counts of a round."""
        if self._rounds >= self._span and max(self._tuples.values(), default=0) >= self._least:
            self._older, self._newer = self._joined_newer(), []
            self._rounds, self._tuples = 0, {}
        self._rounds += 1
        self._newer += parts
        for part in parts:
            for name, buckets in part.buckets.items():
                tuples = int(buckets.sum())
                self._tuples[name] = self._tuples.get(name, 0) + tuples
                self._taken[name] = self._taken.get(name, 0) + tuples
        if len(self._newer) > _WAITING:
            self._joined_newer()

    def summary(self) -> KeySummary | None:
        """All of it, no longer than one sketch; None where nothing was counted."""
        newer = self._joined_newer()
        parts = [one for one in (self._older, newer) if one is not None]
        return joined(parts) if parts else None

    def clear(self) -> None:
        """Forgets everything."""
        self._older, self._newer = None, []
        self._rounds, self._tuples = 0, {}

    def _joined_newer(self) -> KeySummary | None:
        if not self._newer:
            return None
        self._newer = [joined(self._newer)]
        return self._newer[0]


def joined(parts: Sequence[KeySummary]) -> KeySummary:
    """Counts together, at least one, no longer than one sketch; none of them is longer."""
    if len(parts) == 1:
        return parts[0]
    return KeySummary.merged(parts).top(pairs=PAIRS, keys=KEYS)
