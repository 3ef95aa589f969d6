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

from thalweg.datagen.calls import CALL_SCHEMA, FIRST_AREA, Call, call_records
from thalweg.datagen.clicks import ACTIONS, CLICK_SCHEMA, Click, clickstream
from thalweg.datagen.items import CATEGORIES
from thalweg.datagen.pairs import KEY_PAIR_SCHEMA, KeyPair, key_pairs
from thalweg.datagen.sales import MAX_LINES, SALE_SCHEMA, Sale, store_sales
from thalweg.datagen.writers import FORMATS, drip, write_files

__all__ = [
    "ACTIONS",
    "CALL_SCHEMA",
    "CATEGORIES",
    "CLICK_SCHEMA",
    "FIRST_AREA",
    "FORMATS",
    "KEY_PAIR_SCHEMA",
    "MAX_LINES",
    "SALE_SCHEMA",
    "Call",
    "Click",
    "KeyPair",
    "Sale",
    "call_records",
    "clickstream",
    "drip",
    "key_pairs",
    "store_sales",
    "write_files",
]
