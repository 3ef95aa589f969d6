"""Where the rows of CSV lie: one careful splitter that defines it, and one vectorised scan that agrees.

The language is RFC 4180, strictly: a quote opens only at the start of a cell and must be closed right
before a delimiter or the line's end; inside, it is doubled; delimiters and line ends inside are data. A
line ends with LF or CR LF; any other CR outside quotes is an error. Empty lines are no rows. A row that
breaks the rules is bad as its first line, and reading goes on with the next line, so that a stray quote
cannot swallow what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.connectors.readers.parsed import Int64s
from thalweg.connectors.readers.streams import MAX_ROW_BYTES, newlines


class Marks(NamedTuple):
    """The two bytes that shape a file; ``quote`` is -1 where there is none."""

    delimiter: int
    quote: int

    @classmethod
    def of(cls, delimiter: str, quote: str | None) -> Marks:
        return cls(ord(delimiter), ord(quote) if quote else -1)


class Row(NamedTuple):
    """One row: where it starts and where the next one does, its cells or what is wrong with it."""

    start: int
    stop: int
    #: How many lines it takes.
    lines: int
    cells: list[bytes]
    error: str | None = None


class Scan(NamedTuple):
    """The well-formed rows at the head of a buffer, found without splitting them."""

    #: Where the last whole row ends.
    stop: int
    #: How many lines lie before each row that is not empty.
    lines: Int64s
    #: How many lines there are up to ``stop``.
    total: int
    #: Where the newline of each row is, those of empty lines included.
    ends: Int64s

    def cuts(self, size: int) -> list[int]:
        """Where to cut the rows into pieces of about that many bytes; the last cut is ``stop``."""
        marks = np.arange(size, self.stop + size, size)
        at = np.minimum(np.searchsorted(self.ends, marks), len(self.ends) - 1)
        return [int(end) + 1 for end in self.ends[np.unique(at)]] if len(self.ends) else []


def scan(data: bytes, marks: Marks) -> Scan | None:
    """Finds the whole rows of the buffer, which starts with a row; None if the rules are broken."""
    ends = newlines(data)
    row_ends, inner = ends, None
    if marks.quote >= 0 and marks.quote in data:
        bytes_ = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(bytes_ == marks.quote)
        inner = np.searchsorted(quotes, ends) % 2 == 1
        row_ends = ends[~inner]
        if not len(row_ends):
            return Scan(0, row_ends, 0, row_ends)
        if not _well_quoted(bytes_, quotes[quotes < row_ends[-1]], marks):
            return None
    if not len(row_ends):
        return Scan(0, row_ends, 0, row_ends)
    stop = int(row_ends[-1]) + 1
    returns = data.count(b"\r", 0, stop)
    if returns and returns != data.count(b"\r\n", 0, stop):
        return None
    starts = np.concatenate([np.zeros(1, np.int64), row_ends[:-1] + 1])
    lines = np.arange(len(row_ends)) if inner is None else np.searchsorted(ends, starts)
    total = len(row_ends) if inner is None else int(np.searchsorted(ends, stop))
    return Scan(stop, lines[~_empty(data, starts, row_ends)], total, row_ends)


def _well_quoted(data: npt.NDArray[np.uint8], at: Int64s, marks: Marks) -> bool:
    """Whether quotes open at cell starts, close at cell ends, or are doubled; an even number of them."""
    opening, closing = at[0::2], at[1::2]
    before = np.where(opening > 0, data[opening - 1], 10)
    after = data[closing + 1]
    return bool(
        np.all((before == marks.delimiter) | (before == 10) | (before == marks.quote))
        and np.all(
            (after == marks.delimiter) | (after == 10) | (after == 13) | (after == marks.quote)
        )
    )


def _empty(data: bytes, starts: Int64s, ends: Int64s) -> npt.NDArray[np.bool_]:
    length, first = ends - starts, np.frombuffer(data, np.uint8)[starts]
    empty: npt.NDArray[np.bool_] = (length == 0) | ((length == 1) & (first == 13))
    return empty


def split(data: bytes, marks: Marks, *, final: bool) -> Iterator[Row]:
    """The rows of a buffer that starts with one, empty lines as rows without cells.

    Stops before a row whose end is not in the buffer, unless that is ``final`` (the file ends here; the
    buffer ends with LF) or the row is longer than ``MAX_ROW_BYTES``.
    """
    at = 0
    while at < len(data):
        line_end = data.find(b"\n", at)
        if line_end < 0:
            if len(data) - at <= MAX_ROW_BYTES:
                return
            yield Row(at, len(data), 0, [], f"longer than {MAX_ROW_BYTES} bytes")
            return
        row = _split_row(data, at, line_end, marks)
        if row is None:
            if not final and len(data) - at <= MAX_ROW_BYTES:
                return
            row = Row(at, line_end + 1, 1, [], "a quote is opened and never closed")
        yield row
        at = row.stop


def _split_row(data: bytes, start: int, line_end: int, marks: Marks) -> Row | None:
    """The row that starts here; None if a quote in it is not closed in the buffer."""
    line = data[start:line_end].removesuffix(b"\r")
    if marks.quote < 0 or marks.quote not in line:
        if b"\r" in line:
            return Row(start, line_end + 1, 1, [], "a CR without LF")
        cells = line.split(bytes((marks.delimiter,))) if line else []
        return Row(start, line_end + 1, 1, cells)
    cells, at = [], start
    while True:
        found = _cell(data, at, marks)
        if found is None:
            return None
        if isinstance(found, str):
            return Row(start, line_end + 1, 1, [], found)
        cell, at = found
        cells.append(cell)
        if data[at] == marks.delimiter:
            at += 1
            continue
        at += 1 if data[at] == 10 else 2
        return Row(start, at, data.count(b"\n", start, at), cells)


def _cell(data: bytes, start: int, marks: Marks) -> tuple[bytes, int] | str | None:
    """The cell that starts here and where its end stands; what is wrong; or None: it does not end."""
    if start == len(data):
        return None
    if data[start] != marks.quote:
        return _plain_cell(data, start, marks)
    quote = bytes((marks.quote,))
    at = start + 1
    while True:
        at = data.find(quote, at)
        if at < 0 or at + 1 >= len(data):
            return None
        if data[at + 1] != marks.quote:
            break
        at += 2
    after = data[at + 1]
    if after == marks.delimiter or after == 10 or (after == 13 and data[at + 2 : at + 3] == b"\n"):
        return data[start + 1 : at].replace(quote * 2, quote), at + 1
    if after == 13 and at + 2 >= len(data):
        return None
    return "text after a closing quote"


def _plain_cell(data: bytes, start: int, marks: Marks) -> tuple[bytes, int] | str | None:
    line_end = data.find(b"\n", start)
    if line_end < 0:
        return None
    end = data.find(bytes((marks.delimiter,)), start, line_end)
    if end < 0:
        end = line_end - 1 if line_end > start and data[line_end - 1] == 13 else line_end
    cell = data[start:end]
    if marks.quote in cell:
        return "a quote inside a cell that does not start with one"
    return "a CR without LF" if b"\r" in cell else (cell, end)
