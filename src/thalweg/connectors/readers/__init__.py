"""Reading files strictly: exact positions, typed columns by name, and no nulls in silence."""

from thalweg.connectors.readers.connections import LineParser
from thalweg.connectors.readers.files import FileReport, inspect_file, read_file
from thalweg.connectors.readers.listing import FileInfo, list_files
from thalweg.connectors.readers.options import Format, ReadOptions, read_options
from thalweg.connectors.readers.parsed import (
    BadRow,
    Parsed,
    describe_bad,
    far_out,
    times_within,
    without,
)
from thalweg.connectors.readers.streams import LineCutter
from thalweg.connectors.readers.tables import rows_from_table

__all__ = [
    "BadRow",
    "FileInfo",
    "FileReport",
    "Format",
    "LineCutter",
    "LineParser",
    "Parsed",
    "ReadOptions",
    "describe_bad",
    "far_out",
    "inspect_file",
    "list_files",
    "read_file",
    "read_options",
    "rows_from_table",
    "times_within",
    "without",
]
