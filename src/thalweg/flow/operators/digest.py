"""A stable digest of a whole tuple, so that two payloads can be compared by one word of state."""

from __future__ import annotations

import math
from typing import Any

from xxhash import xxh64_intdigest


def digest(row: tuple[Any, ...]) -> int:
    """XXH64 of the tuple's text form, as a signed 64-bit integer; NaN equals NaN, -0.0 equals 0.0."""
    value = xxh64_intdigest(repr(_plain(row)).encode("utf-8", "surrogatepass"))
    return value - 2**64 if value >= 2**63 else value


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value
