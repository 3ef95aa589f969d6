"""Delta tables: as an output, exactly once, and as a log of versions."""

from thalweg.connectors.delta.log import DeltaLog, delta
from thalweg.connectors.delta.target import DeltaTarget, to_delta

__all__ = ["DeltaLog", "DeltaTarget", "delta", "to_delta"]
