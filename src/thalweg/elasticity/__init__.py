"""How many threads, and how many on one operator: controllers as pure objects, the same for every host."""

from __future__ import annotations

from thalweg.elasticity.batch_costs import BatchCosts
from thalweg.elasticity.combined import Combined
from thalweg.elasticity.controller import Controller
from thalweg.elasticity.replicas import Replicas
from thalweg.elasticity.samples import PERIOD_NS, Limits, OperatorSample, Sample, Suggestion
from thalweg.elasticity.thread_levels import ThreadLevels
from thalweg.elasticity.utilization import Utilization

__all__ = [
    "BatchCosts",
    "Combined",
    "Controller",
    "Limits",
    "OperatorSample",
    "PERIOD_NS",
    "Replicas",
    "Sample",
    "Suggestion",
    "ThreadLevels",
    "Utilization",
]
