"""Seeded data of any size, in bounded memory, for tests, examples and benchmarks.

Example::

    >>> import tempfile
    >>> from thalweg import datagen
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = datagen.write_files(datagen.clickstream(1000), folder, rows=1000, files=2)
    >>> [path.name for path in paths]
    ['part-00000.parquet', 'part-00001.parquet']
"""

from __future__ import annotations

from thalweg.datagen.clicks import ACTIONS, CLICK_SCHEMA, Click, clickstream
from thalweg.datagen.writers import FORMATS, drip, write_files

__all__ = [
    "ACTIONS",
    "CLICK_SCHEMA",
    "FORMATS",
    "Click",
    "clickstream",
    "drip",
    "write_files",
]
