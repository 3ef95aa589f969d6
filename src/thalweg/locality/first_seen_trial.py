"""Whether placing new keys pays in a query: tried on some batches, judged by what was measured, and tried again.

A look at a batch before it runs takes time. What it can give back is at most the time that tasks would have waited for
rows of other slots, of the tuples whose keys it placed. Both are measured; the look stays where it takes less than
half of that.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from typing import Final

#: Batches that run first: workers start, code is compiled, and what was learnt is better than a guess.
_BEFORE: Final = 5
#: Batches of a trial; the median of them decides.
_TRIES: Final = 3
#: Batches until the next trial, where it did not pay.
_AGAIN: Final = 60
#: The part of what it could give back that a look may take.
_PART: Final = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class PrepassLook:
    """What was measured of a batch that was looked at before.

    Attributes:
        took_s: by the look.
        share: of the batch's pairs, those with a key that was placed.
        slots: of the batch.
        batch_s: that the batch took, without the look.
        waits: the share of their time in which the batch's tasks did not compute, 0 to 1.
    """

    took_s: float
    share: float
    slots: int
    batch_s: float
    waits: float

    @property
    def gives_s(self) -> float:
        """What it can give back at most: by chance a key would have been at the right place already."""
        return self.share * (1 - 1 / self.slots) * self.waits * self.batch_s

    @property
    def surplus_s(self) -> float:
        """What it gives back beyond its price; below 0 it does not pay."""
        return _PART * self.gives_s - self.took_s


class FirstSeenTrial:
    """Says of each batch whether it is looked at before it runs.

    Attributes:
        reason: for people, what holds and why.
    """

    def __init__(self) -> None:
        self.reason = "new keys go by hash: not tried yet"
        self._batches = 0
        self._pays = False
        self._tries_from = _BEFORE
        self._looks: collections.deque[PrepassLook] = collections.deque(maxlen=_TRIES)

    def is_due(self) -> bool:
        """Whether the batch that comes next is looked at."""
        return self._pays or self._batches >= self._tries_from

    def batch_done(self, look: PrepassLook | None) -> None:
        """A batch is over.

        Args:
            look: what was measured, where it was looked at.
        """
        self._batches += 1
        if look is None:
            return
        self._looks.append(look)
        if len(self._looks) == _TRIES:
            self._decide()

    def _decide(self) -> None:
        pays = statistics.median(one.surplus_s for one in self._looks) > 0
        took, gives, share = (
            statistics.median(values)
            for values in zip(
                *((one.took_s, one.gives_s, one.share) for one in self._looks), strict=True
            )
        )
        found = (
            f"{share:.0%} of the pairs had keys to place, a look took {took * 1e3:.0f} ms and gave back at most"
            f" {gives * 1e3:.0f} ms a batch"
        )
        self._pays = pays
        if pays:
            self.reason = f"new keys are placed: {found}"
            return
        self.reason = f"new keys go by hash: {found}; tried again in {_AGAIN} batches"
        self._looks.clear()
        self._tries_from = self._batches + _AGAIN
