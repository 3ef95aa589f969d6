"""Delta tables: as an output, exactly once, and as a log of versions."""

from thalweg.connectors.delta.target import DeltaTarget, to_delta

__all__ = ["DeltaTarget", "to_delta"]
