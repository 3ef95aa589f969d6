"""Keys that come together go to one slot: what is counted of keys, and where they are to be (Caneill et al.)."""

from __future__ import annotations

from thalweg.locality.assignment import Assignment, HeavyKey, Report
from thalweg.locality.statistics import KeyCount, KeyLoads, PairCount, Statistics

__all__ = [
    "Assignment",
    "HeavyKey",
    "KeyCount",
    "KeyLoads",
    "PairCount",
    "Report",
    "Statistics",
]
