"""Who runs next: policies as pure objects, the same for the node runtime, the simulator and tests."""

from thalweg.scheduling.policy import FlowView, Pick, PickPolicy
from thalweg.scheduling.prasaad import (
    CurrentThroughput,
    EstimatedTime,
    LastInPipeline,
    QueueSizeThrottling,
)
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
]
