"""How many threads, and how many on one operator: controllers as pure objects, the same for every host."""

from __future__ import annotations

from thalweg.elasticity.controller import Controller
from thalweg.elasticity.samples import PERIOD_NS, Limits, OperatorSample, Sample, Suggestion

__all__ = [
    "PERIOD_NS",
    "Controller",
    "Limits",
    "OperatorSample",
    "Sample",
    "Suggestion",
]
