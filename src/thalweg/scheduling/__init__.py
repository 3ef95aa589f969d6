"""Who runs next: policies as pure objects, the same for the node runtime, the simulator and tests."""

from __future__ import annotations

from thalweg.scheduling.measures import cost_ns, cumulative_selectivity, selectivity
from thalweg.scheduling.policy import FlowView, Pick, PickPolicy
from thalweg.scheduling.prasaad import (
    CurrentThroughput,
    EstimatedTime,
    LastInPipeline,
    QueueSizeThrottling,
)
from thalweg.scheduling.simple import Random, RoundRobin
from thalweg.scheduling.streams import FreeList

__all__ = [
    "CurrentThroughput",
    "EstimatedTime",
    "FlowView",
    "FreeList",
    "LastInPipeline",
    "Pick",
    "PickPolicy",
    "QueueSizeThrottling",
    "Random",
    "RoundRobin",
    "cost_ns",
    "cumulative_selectivity",
    "selectivity",
]
