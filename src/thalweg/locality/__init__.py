"""Keys that come together go to one slot: what is counted of keys, and where they are to be (Caneill et al.)."""

from __future__ import annotations

from thalweg.locality.assignment import Assignment, HeavyKey, Report
from thalweg.locality.counting.counts import Counts
from thalweg.locality.counting.sketch import KeySketch
from thalweg.locality.counting.space_saving import SpaceSaving
from thalweg.locality.counting.summary import KeySummary, Link
from thalweg.locality.evaluate import Outcome, evaluate
from thalweg.locality.exact import ExactCounts
from thalweg.locality.first_seen import FirstSeen, PlacedKeys
from thalweg.locality.groupings import (
    FieldsByHash,
    FieldsByTable,
    Grouping,
    LocalOrShuffle,
    PartialKey,
    Shuffle,
    partial_key,
)
from thalweg.locality.key_graph import partition
from thalweg.locality.moves import KeyMove, Moves, Reconfiguration, UnitMove, moves_between
from thalweg.locality.reconfiguration import Manager
from thalweg.locality.routing import Routes, RoutingTable, keyed_operators, routed_by
from thalweg.locality.statistics import Key, KeyCount, KeyLoads, OperatorKey, PairCount, Statistics
from thalweg.locality.table_text import decode_table, encode_table
from thalweg.locality.triggers import Decision, History, Online

__all__ = [
    "Assignment",
    "Counts",
    "Decision",
    "ExactCounts",
    "FieldsByHash",
    "FieldsByTable",
    "FirstSeen",
    "Grouping",
    "HeavyKey",
    "History",
    "Key",
    "KeyCount",
    "KeyLoads",
    "KeyMove",
    "KeySketch",
    "KeySummary",
    "Link",
    "LocalOrShuffle",
    "Manager",
    "Moves",
    "Online",
    "OperatorKey",
    "Outcome",
    "PairCount",
    "PartialKey",
    "PlacedKeys",
    "Reconfiguration",
    "Report",
    "Routes",
    "RoutingTable",
    "Shuffle",
    "SpaceSaving",
    "Statistics",
    "UnitMove",
    "decode_table",
    "encode_table",
    "evaluate",
    "keyed_operators",
    "moves_between",
    "partial_key",
    "partition",
    "routed_by",
]
