"""What an interpreted keyed operator's function gave for the rows of a chunk: soon columns, not records.

Records that wait for the end of their chunk are objects that Python's collector looks at again and again. So a block of
them becomes columns at once, and records again only where one is to be replaced, or a block is not plain.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.encoding import try_columns
from thalweg.engine.interpreter.row_loop import at_once
from thalweg.flow.operators.nodes import Keyed


class _Block(NamedTuple):
    columns: list[Column]
    #: by output, the place of its row
    source: Int64s


class MadeColumns(NamedTuple):
    """Outputs as records, and the place of the row of each."""

    rows: list[Any]
    source: Int64s


@dataclasses.dataclass(slots=True)
class Answers:
    """By row, what the function gave.

    Attributes:
        rows: an answer a row so far; None where it is a column by now.
    """

    node: Keyed
    rows: list[Any] = dataclasses.field(default_factory=list)
    _blocks: list[_Block] = dataclasses.field(default_factory=list)
    #: so many rows' answers are columns
    _packed: int = 0
    #: whether further blocks become columns
    _packs: bool = True

    def pack(self) -> None:
        """Makes columns of the answers that are not yet, if they are plain."""
        record, start = self.node.record, self._packed
        if record is None or not record.stays or not self._packs:
            return
        made = self._made(start)
        if made.rows:
            columns = try_columns(record, made.rows)
            if columns is None:
                self._packs = False
                return
            self._blocks.append(_Block(columns, made.source))
        self._packed = len(self.rows)
        self.rows[start:] = itertools.repeat(None, self._packed - start)

    def unpack(self) -> None:
        """Makes answers of the columns again; no further ones become columns."""
        self._packs, self._packed = False, 0
        blocks, self._blocks = self._blocks, []
        for columns, source in blocks:
            assert self.node.record is not None
            rows = Chunk(self.node.record, columns, len(source)).rows()
            for place, row in zip(source.tolist(), rows, strict=True):
                if not self.node.many:
                    self.rows[place] = row
                elif self.rows[place] is None:
                    self.rows[place] = [row]
                else:
                    self.rows[place].append(row)

    def columns(self) -> _Block | None:
        """All outputs; None where they are not columns yet, or there are none."""
        if not self._blocks or self._packed < len(self.rows):
            return None
        parts = zip(*[one.columns for one in self._blocks], strict=True)
        source = np.concatenate([one.source for one in self._blocks])
        return _Block(list(map(Column.concat, parts)), source)

    def records(self) -> MadeColumns:
        """All outputs, as they were given; those that were not coerced may be anything."""
        self.unpack()
        return self._made(0)

    def _made(self, start: int) -> MadeColumns:
        """The outputs of the rows from a place on."""
        answers, many = self.rows[start:], self.node.many
        places = [i for i, answer in enumerate(answers, start) if answer is not None]
        made = answers if len(places) == len(answers) else [self.rows[i] for i in places]
        source = np.array(places, np.int64)
        if not many:
            return MadeColumns(made, source)
        source = np.repeat(source, list(map(len, made)))
        made = list(itertools.chain.from_iterable(made))
        if not at_once(self.node) and type(None) in set(map(type, made)):
            source = source[[one is not None for one in made]]
            made = [one for one in made if one is not None]
        return MadeColumns(made, source)
