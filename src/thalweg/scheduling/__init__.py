"""Who runs next: policies as pure objects, the same for the node runtime, the simulator and tests."""

from __future__ import annotations

from thalweg.scheduling.features import BUILT_IN, Feature, FeatureKind, feature, stale
from thalweg.scheduling.measures import cost_ns, cumulative_selectivity, selectivity
from thalweg.scheduling.placement import Balanced, Placement
from thalweg.scheduling.policy import FlowView, Pick, PickPolicy
from thalweg.scheduling.prasaad import (
    CurrentThroughput,
    EstimatedTime,
    LastInPipeline,
    QueueSizeThrottling,
)
from thalweg.scheduling.round_view import OperatorStats, RoundView
from thalweg.scheduling.rounds import (
    Periods,
    Round,
    RoundPolicy,
    overdue,
    plan_round,
    required_features,
)
from thalweg.scheduling.simple import Random, RoundRobin
from thalweg.scheduling.streams import FreeList

__all__ = [
    "BUILT_IN",
    "Balanced",
    "CurrentThroughput",
    "EstimatedTime",
    "Feature",
    "FeatureKind",
    "FlowView",
    "FreeList",
    "LastInPipeline",
    "OperatorStats",
    "Periods",
    "Pick",
    "PickPolicy",
    "Placement",
    "QueueSizeThrottling",
    "Random",
    "Round",
    "RoundPolicy",
    "RoundRobin",
    "RoundView",
    "cost_ns",
    "cumulative_selectivity",
    "feature",
    "overdue",
    "plan_round",
    "required_features",
    "selectivity",
    "stale",
]
