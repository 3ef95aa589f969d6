"""Entries of a stream as rows: their fields are the record's, as text, or one of them holds the whole row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from thalweg.connectors.messages import MessageContent, MessageParser
from thalweg.connectors.readers import ReadOptions, read_options
from thalweg.connectors.readers.cells import cell_parser, column
from thalweg.connectors.readers.json_lines import json_cell_parser
from thalweg.connectors.readers.parsed import BadRow, bad_row
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.time_texts import Unfit

_NESTED: Final = (Kind.LIST, Kind.RECORD)


class EntryParser(MessageParser):
    """Batches of entries, each the dict of its fields, as chunks of a source's record."""

    def decoder(self, made_by: str) -> Callable[[Sequence[Any]], MessageContent]:
        json, record = self.read, self.value
        # An empty text is a text: what is null was left out of the entry.
        options: dict[str, Any] = {
            "epoch_unit": json.epoch_unit,
            "nanoseconds": json.nanoseconds,
            "null_values": (),
        }
        if json.timestamp_formats:
            options["timestamp_formats"] = json.timestamp_formats
        cells = read_options(made_by, "csv", options).of_source(record)
        parsers = [
            (name.encode(), field.name, field.type, _cell_parser(field.type, cells, json))
            for name, field in zip(record.columns, record.fields, strict=True)
        ]

        def decode(entries: Sequence[Mapping[bytes, bytes]]) -> MessageContent:
            rows: list[int] = []
            bad: list[BadRow] = []
            kept: list[list[Any]] = [[] for _ in parsers]
            for row, entry in enumerate(entries):
                try:
                    values = [_value(entry, *one) for one in parsers]
                except Unfit as error:
                    bad.append(bad_row(row, str(error), _text(entry)))
                    continue
                rows.append(row)
                for place, value in zip(kept, values, strict=True):
                    place.append(value)
            arrays = [column(values, one[2]) for values, one in zip(kept, parsers, strict=True)]
            table = pa.Table.from_arrays(arrays, schema=record.arrow)
            return MessageContent(table, np.array(rows, np.int64), bad)

        return decode


def _value(
    entry: Mapping[bytes, bytes],
    key: bytes,
    name: str,
    kind: FieldType,
    parse: Callable[[bytes], Any],
) -> Any:
    """The value of a field.

    Raises:
        Unfit: it is missing or does not fit.
    """
    cell = entry.get(key)
    if cell is None:
        if kind.optional:
            return None
        raise Unfit(f"{name} is missing")
    try:
        return parse(cell)
    except Unfit as error:
        text = cell[:80].decode("utf-8", "replace")
        raise Unfit(f"{name}: expected {kind}, got {text!r} ({error})") from None


def _cell_parser(kind: FieldType, cells: ReadOptions, json: ReadOptions) -> Callable[[bytes], Any]:
    if kind.kind in _NESTED:
        return json_cell_parser(kind, json)
    return cell_parser(kind, cells)


def _text(entry: Mapping[bytes, bytes]) -> bytes:
    """An entry for messages: ``n=1 text=x``."""
    return b" ".join(key + b"=" + value for key, value in entry.items())
