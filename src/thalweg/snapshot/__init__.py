"""What a running flow does, as one record that every host gives: terminal, metrics, page and notebooks read it."""

from __future__ import annotations

from thalweg.snapshot.bottleneck import bottleneck
from thalweg.snapshot.schema import (
    VERSION,
    BatchParts,
    KeyTraffic,
    PolicyRound,
    SinkProgress,
    Snapshot,
    SourceProgress,
    StateSize,
    StreamEdge,
)

__all__ = [
    "VERSION",
    "BatchParts",
    "KeyTraffic",
    "PolicyRound",
    "SinkProgress",
    "Snapshot",
    "SourceProgress",
    "StateSize",
    "StreamEdge",
    "bottleneck",
]
