"""Keys that come together go to one slot: what is counted of keys, and where they are to be (Caneill et al.)."""

from __future__ import annotations

from thalweg.locality.assignment import Assignment, HeavyKey, Report
from thalweg.locality.evaluate import Outcome, evaluate
from thalweg.locality.exact import ExactCounts
from thalweg.locality.first_seen import FirstSeen, Placed
from thalweg.locality.key_graph import partition
from thalweg.locality.statistics import KeyCount, KeyLoads, PairCount, Statistics

__all__ = [
    "Assignment",
    "ExactCounts",
    "FirstSeen",
    "HeavyKey",
    "KeyCount",
    "KeyLoads",
    "Outcome",
    "PairCount",
    "Placed",
    "Report",
    "Statistics",
    "evaluate",
    "partition",
]
