"""The rows of one side of a join as columns, oldest first, in pieces that grow as they are merged."""

from __future__ import annotations

from typing import Final

import numpy as np

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.flow.records import Schema

#: Shorter pieces are merged with those behind them.
_SHORT: Final = 16_384
#: Of longer ones there are at most so many: of more, each two become one.
_MOST: Final = 16


class HeldRows:
    """Rows by number; the first held one has number 0.

    Of short pieces each is at least twice as long as the next one. So there are few, and a row is copied a few times at
    most; where rows are soon forgotten, long pieces go as they came.
    """

    def __init__(self, record: Schema) -> None:
        self.record = record
        self._pieces: list[Chunk] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def add(self, rows: Chunk) -> None:
        """Holds further rows."""
        if not len(rows):
            return
        pieces = self._pieces
        pieces.append(Chunk(self.record, rows.columns, len(rows)))
        while len(pieces) > 1 and len(pieces[-2]) < min(2 * len(pieces[-1]), _SHORT):
            pieces[-2:] = [Chunk.concat(pieces[-2:])]
        if len(pieces) > _MOST and len(pieces[-1]) >= _SHORT:
            self._pieces = [Chunk.concat(pieces[i : i + 2]) for i in range(0, len(pieces), 2)]

    def forget(self, count: int) -> None:
        """Forgets the oldest rows, so many of them; the numbers of the others fall."""
        pieces = self._pieces
        while pieces and len(pieces[0]) <= count:
            count -= len(pieces.pop(0))
        if count:
            # A copy: a slice would hold the memory of those that are gone.
            pieces[0] = pieces[0].take(np.arange(count, len(pieces[0])))

    def whole(self) -> Chunk:
        """All of them."""
        return Chunk.concat(self._pieces) if self._pieces else Chunk.empty(self.record)

    def take(self, numbers: Int64s, places: tuple[int, ...]) -> Chunk:
        """The rows with these numbers, in that order; of the columns those at ``places``."""
        starts = np.cumsum([0, *map(len, self._pieces)])
        of = np.searchsorted(starts, numbers, side="right") - 1
        touched = np.flatnonzero(np.bincount(of))
        pieces = [self._narrow(self._pieces[i], places) for i in touched]
        if not pieces:
            return self._narrow(Chunk.empty(self.record), places)
        if len(pieces) == 1:
            return pieces[0].take(numbers - starts[touched[0]])
        rows = [np.flatnonzero(of == i) for i in touched]
        named = zip(pieces, touched, rows, strict=True)
        found = [piece.take(numbers[mine] - starts[i]) for piece, i, mine in named]
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate(rows)] = np.arange(len(numbers))
        return Chunk.concat(found).take(back)

    @staticmethod
    def _narrow(piece: Chunk, places: tuple[int, ...]) -> Chunk:
        return Chunk(piece.schema, [piece.columns[i] for i in places], len(piece))
