"""The record of all streams of the kit."""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw


class Event(NamedTuple):
    """The record of all streams: a key of each type, and something to compute with."""

    ts: tw.Timestamp
    key: int
    name: str
    tag: tw.Category
    value: float
    maybe: int | None
    amount: int
    lane: int
