"""Reading files strictly: exact positions, typed columns by name, and no nulls in silence."""

from thalweg.readers.files import FileReport, inspect_file, read_file
from thalweg.readers.listing import FileInfo, list_files
from thalweg.readers.options import EpochUnit, Format, ReadOptions
from thalweg.readers.parsed import BadRow, Parsed, describe_bad, far_out, times_within
from thalweg.readers.tables import rows_from_table

__all__ = [
    "BadRow",
    "EpochUnit",
    "FileInfo",
    "FileReport",
    "Format",
    "Parsed",
    "ReadOptions",
    "describe_bad",
    "far_out",
    "inspect_file",
    "list_files",
    "read_file",
    "rows_from_table",
    "times_within",
]
