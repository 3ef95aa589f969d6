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
from thalweg.locality.key_graph import partition
from thalweg.locality.moves import KeyMove, Moves, Reconfiguration, UnitMove, moves_between
from thalweg.locality.reconfiguration import Manager
from thalweg.locality.routing import Routes, RoutingTable, keyed_operators, routed_by
from thalweg.locality.statistics import Key, KeyCount, KeyLoads, OperatorKey, PairCount, Statistics
from thalweg.locality.table_text import decode_table, encode_table
from thalweg.locality.tradeoff import Tradeoff, advise, tradeoffs
from thalweg.locality.triggers import Decision, History, Online

__all__ = [
    "Assignment",
    "Counts",
    "Decision",
    "ExactCounts",
    "FirstSeen",
    "HeavyKey",
    "History",
    "Key",
    "KeyCount",
    "KeyLoads",
    "KeyMove",
    "KeySketch",
    "KeySummary",
    "Link",
    "Manager",
    "Moves",
    "Online",
    "OperatorKey",
    "Outcome",
    "PairCount",
    "PlacedKeys",
    "Reconfiguration",
    "Report",
    "Routes",
    "RoutingTable",
    "SpaceSaving",
    "Statistics",
    "Tradeoff",
    "UnitMove",
    "advise",
    "decode_table",
    "encode_table",
    "evaluate",
    "keyed_operators",
    "moves_between",
    "partition",
    "routed_by",
    "tradeoffs",
]
