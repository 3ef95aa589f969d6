"""Columns of several chunks in one order, which are put together when somebody looks at them.

Who takes of a merged chunk the rows of one of its parts gets them as they were: a join does so of both its sides, whose
texts are then copied by nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from thalweg.columns.chunks import Bools, Chunk, Column, Int64s, concat_order, take_order


class Merging:
    """Where the rows of an order come from: places in the parts, one after the other."""

    def __init__(self, lengths: Sequence[int], places: Int64s | None) -> None:
        """``places``: None where the parts stand in order already."""
        self.places = places
        self.starts = [0, *itertools.accumulate(lengths)]
        #: the last question and its answer, since all columns of a chunk ask the same
        self._asked: tuple[Int64s | None, tuple[int, int, int] | None] = None, None

    def __len__(self) -> int:
        return self.starts[-1]

    def stretch(self, rows: Int64s) -> tuple[int, int, int] | None:
        """The part that has these rows side by side, and from where to where; None where none has."""
        asked, answer = self._asked
        if asked is not rows:
            answer = self._stretch(rows)
            self._asked = rows, answer
        return answer

    def _stretch(self, rows: Int64s) -> tuple[int, int, int] | None:
        if not len(rows):
            return 0, 0, 0
        places = rows if self.places is None else self.places[rows]
        first, last = int(places[0]), int(places[-1])
        if last - first != len(places) - 1 or (np.diff(places) != 1).any():
            return None
        part = int(np.searchsorted(self.starts, first, side="right")) - 1
        start = self.starts[part]
        return (part, first - start, last + 1 - start) if last < self.starts[part + 1] else None


class MergedColumn(Column):
    """A column that several threads may look at: then all see the same."""

    __slots__ = ("_made", "_merging", "_parts")

    def __init__(self, parts: Sequence[Column], merging: Merging) -> None:
        self.type = parts[0].type
        self._parts: Sequence[Column] = parts
        self._merging = merging
        self._made: Column | None = None

    def __len__(self) -> int:
        return len(self._merging)

    @property
    def values(self) -> object:
        """As of any column."""
        return self._whole().values

    @property
    def valid(self) -> Bools | None:  # type: ignore[override]
        """As of any column."""
        return self._whole().valid

    def _whole(self) -> Column:
        # In this order: who finds no parts any more finds what was made of them.
        parts, made = self._parts, self._made
        if made is None:
            made, places = Column.concat(parts), self._merging.places
            made = made if places is None else made.take(places)
            self._made, self._parts = made, ()
        return made

    def take(self, rows: Int64s) -> Column:
        parts, made = self._parts, self._made
        found = self._merging.stretch(rows) if made is None else None
        if found is None:
            return self._whole().take(rows)
        part, start, stop = found
        return parts[part].slice(start, stop)

    def slice(self, start: int, stop: int) -> Column:
        return self._whole().slice(start, stop)


def merged_chunk(parts: Sequence[Chunk], places: Int64s | None) -> Chunk:
    """The rows of several chunks one after the other, or at these places; at least one part."""
    merging = Merging([len(one) for one in parts], places)
    columns: list[Column] = [
        MergedColumn(group, merging) for group in zip(*[one.columns for one in parts], strict=True)
    ]
    order = {name: concat_order([one.order[name] for one in parts]) for name in parts[0].order}
    if places is not None:
        order = {name: take_order(values, places) for name, values in order.items()}
    return Chunk(parts[0].schema, columns, len(merging), order)
