"""Who runs next: policies as pure objects, the same for the node runtime, the simulator and tests."""

from __future__ import annotations

from typing import Any

from thalweg.checks import no_attribute
from thalweg.renamed import warn_renamed
from thalweg.scheduling.admission import (
    Admission,
    Admitted,
    MostUrgentFirst,
    Phase,
    QueryStats,
)
from thalweg.scheduling.by_function import by
from thalweg.scheduling.c_stream import (
    LeastRecentlyRun,
    MaxQueueLength,
    MaxRunningTime,
    MinLatency,
)
from thalweg.scheduling.features import BUILT_IN, Feature, FeatureKind, feature, stale
from thalweg.scheduling.haren import (
    Chain,
    FirstComeFirstServed,
    HighestRate,
    MultiClass,
    lower_envelope,
)
from thalweg.scheduling.measures import cost_ns, cumulative_selectivity, selectivity
from thalweg.scheduling.placement import (
    Balanced,
    FlowPlacement,
    Placement,
    RandomPlacement,
    RoundRobinPlacement,
)
from thalweg.scheduling.policy import FlowView, Pick, PickLike, PickPolicy, PortView
from thalweg.scheduling.prasaad import (
    CurrentThroughput,
    EstimatedTime,
    LastInPipeline,
    QueueSizeThrottling,
)
from thalweg.scheduling.round_view import OperatorStats, RoundView
from thalweg.scheduling.rounds import (
    Periods,
    Policy,
    Round,
    RoundPolicy,
    overdue,
    plan_round,
    required_features,
)
from thalweg.scheduling.simple import Random, RoundRobin
from thalweg.scheduling.streams import FreeList


def __getattr__(name: str) -> Any:
    if name != "Decision":
        raise no_attribute("tw.scheduling", name, __all__)
    warn_renamed("tw.scheduling.Decision", "tw.scheduling.Admitted")
    return Admitted


__all__ = [
    "Admission",
    "Admitted",
    "BUILT_IN",
    "Balanced",
    "Chain",
    "CurrentThroughput",
    "EstimatedTime",
    "Feature",
    "FeatureKind",
    "FirstComeFirstServed",
    "FlowPlacement",
    "FlowView",
    "FreeList",
    "HighestRate",
    "LastInPipeline",
    "LeastRecentlyRun",
    "MaxQueueLength",
    "MaxRunningTime",
    "MinLatency",
    "MostUrgentFirst",
    "MultiClass",
    "OperatorStats",
    "Periods",
    "Phase",
    "Pick",
    "PickLike",
    "PickPolicy",
    "Placement",
    "Policy",
    "PortView",
    "QueryStats",
    "QueueSizeThrottling",
    "Random",
    "RandomPlacement",
    "Round",
    "RoundPolicy",
    "RoundRobin",
    "RoundRobinPlacement",
    "RoundView",
    "by",
    "cost_ns",
    "cumulative_selectivity",
    "feature",
    "lower_envelope",
    "overdue",
    "plan_round",
    "required_features",
    "selectivity",
    "stale",
]
