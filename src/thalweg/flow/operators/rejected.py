"""The rows of ``rejected`` streams."""

from __future__ import annotations

from typing import NamedTuple

from thalweg.flow.records import Schema


class Rejected(NamedTuple):
    """A row that did not fit or on which a function raised, as the ``rejected`` streams carry it."""

    operator: str
    reason: str
    position: str
    row: str


REJECTED = Schema.of(Rejected)
