"""A feed whose rows are counted, so that it can be cut behind any row, however its chunks are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from thalweg.connectors.contracts import Fed, Feed
from thalweg.errors import DataError


class Count(NamedTuple):
    """How many rows of an input lie before a place: those that fit, and those that do not."""

    good: int = 0
    bad: int = 0


class Reel:
    """The rows of one input that always gives the same ones.

    Args:
        feed: its rows from the first one on.
        name: of the input, for messages.
    """

    def __init__(self, feed: Feed, name: str) -> None:
        self._feed, self._name = feed, name
        self._rest: Fed | None = None
        #: what was given so far
        self.at = Count()

    def next(self, most: int | None = None) -> Fed | None:
        """The next chunk, of so many good rows at most; None at the end."""
        fed = self._rest or next(self._feed, None)
        self._rest = None
        if fed is None:
            return None
        chunk, bad = fed
        if most is not None and len(chunk) > most:
            self._rest = chunk.slice(most, len(chunk)), []
            chunk = chunk.slice(0, most)
        self.at = Count(self.at.good + len(chunk), self.at.bad + len(bad))
        return chunk, bad

    def upto(self, place: Count) -> Iterator[Fed]:
        """The rows before a place.

        Raises:
            DataError: the input is not what it was: it has fewer rows, or others that do not fit.
        """
        while self.at != place:
            before = self.at
            fed = self.next()
            if fed is None:
                raise self._changed(place)
            chunk, bad = fed
            good_rows, bad_rows = place.good - before.good, place.bad - before.bad
            if self.at.good <= place.good and self.at.bad <= place.bad:
                yield fed
                continue
            if good_rows < 0 or bad_rows < 0 or not (good_rows or bad_rows):
                raise self._changed(place)
            good_rows, bad_rows = min(good_rows, len(chunk)), min(bad_rows, len(bad))
            self.at = Count(before.good + good_rows, before.bad + bad_rows)
            self._rest = chunk.slice(good_rows, len(chunk)), bad[bad_rows:]
            yield chunk.slice(0, good_rows), bad[:bad_rows]

    def skip(self, place: Count) -> None:
        """Leaves out the rows before a place; errors as :meth:`upto`."""
        for _ in self.upto(place):
            pass

    def _changed(self, place: Count) -> DataError:
        rows, had = sum(self.at), sum(place)
        return DataError(
            f"{self._name}: it is not what was read before: the checkpoint stands behind row {had:,}"
            f" ({place.bad:,} of them did not fit), and now the first {rows:,} rows have {self.at.bad:,} that do not.\n"
            "Give the input as it was; more may stand behind it."
        )

    def close(self) -> None:
        """Lets go of the input."""
        self._feed.close()
