"""The rows of ``rejected`` streams."""

from __future__ import annotations

from typing import NamedTuple

from thalweg.flow.records import Schema


class Rejected(NamedTuple):
    """A row of a ``rejected`` stream: it did not fit its record, or a function raised on it."""

    operator: str
    reason: str
    position: str
    row: str


REJECTED = Schema.of(Rejected)
