"""Records from a connection, one a line: the languages of the file readers, without what spans lines.

A cell of CSV in which a quote is open at the line's end is bad as that line, whatever comes behind it and however the
bytes were cut on their way: so a stray quote holds nothing back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from thalweg.connectors.readers.csv_files import Layout, find_header, layout, read_buffer
from thalweg.connectors.readers.csv_rows import Marks
from thalweg.connectors.readers.json_lines import parse_json, record_parser
from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.parsed import Parsed
from thalweg.connectors.readers.streams import Lines, no_row
from thalweg.connectors.readers.text_lines import check_fields, parse_text
from thalweg.flow.records import Schema


class LineParser:
    """Blocks of lines of one connection as parts, in order.

    Args:
        schema: the record.
        options: of CSV, JSON or text; with ``header`` the first CSV line names the columns.
        where: names the connection in messages, and in the path field of text.
        limit: the bytes of a line that the blocks were cut by, for messages.

    Raises:
        DataError: the record has a field that the format cannot hold.
    """

    def __init__(self, schema: Schema, options: ReadOptions, where: str, limit: int) -> None:
        options = options.of_source(schema)
        self._schema, self._options, self._where, self._limit = schema, options, where, limit
        self._shape: Layout | None = None
        self._raw = options.format == "text" and check_fields(where, schema, options)
        self._parse = record_parser(schema, options)
        if options.format == "csv":
            shape = layout(where, list(schema.columns), schema, options)
            self._shape = None if options.header else shape

    def parse(self, lines: Lines) -> Iterator[Parsed]:
        """The rows of a block, and those that do not fit.

        Raises:
            DataError: it begins with a header that does not fit the record.
        """
        if not lines.is_row:
            yield no_row(lines, self._schema, self._limit)
        elif self._options.format == "json":
            yield from parse_json(lines, self._schema, self._options, self._parse)
        elif self._options.format == "text":
            yield parse_text(lines, self._where, self._schema, self._options, raw=self._raw)
        else:
            yield from self._csv(lines)

    def _csv(self, lines: Lines) -> Iterator[Parsed]:
        shape = self._shape
        if shape is None:
            marks = Marks.of(self._options.delimiter, self._options.quote)
            head = find_header(self._where, lines.data, marks, final=True)
            if head is None:
                return
            names, stop, count = head
            shape = self._shape = layout(self._where, names, self._schema, self._options)
            lines = Lines(lines.data[stop:], lines.ends[count:] - stop, lines.first + count)
        for run in runs(lines, shape.marks):
            for part, _, _ in read_buffer(run.data, run.first, shape, final=True):
                yield part


def runs(lines: Lines, marks: Marks) -> Iterator[Lines]:
    """The lines cut so that each one with an odd number of quotes stands alone, as only such a line leaves one open."""
    if marks.quote < 0 or marks.quote not in lines.data:
        if lines.data:
            yield lines
        return
    quotes = np.flatnonzero(np.frombuffer(lines.data, np.uint8) == marks.quote)
    counts = np.diff(np.searchsorted(quotes, lines.ends), prepend=0)
    odd = np.flatnonzero(counts % 2)
    cuts = np.unique(np.concatenate([[0], odd, odd + 1, [len(lines.ends)]])).tolist()
    for first, stop in itertools.pairwise(cuts):
        start = int(lines.ends[first - 1]) + 1 if first else 0
        yield Lines(
            lines.data[start : int(lines.ends[stop - 1]) + 1],
            lines.ends[first:stop] - start,
            lines.first + first,
        )
