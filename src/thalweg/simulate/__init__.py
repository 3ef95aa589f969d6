"""The node runtime in virtual time: any number of operators and threads on any machine, the same under a seed."""

from __future__ import annotations

from thalweg.simulate.arrivals import Arrivals, At, Bursts, Constant, Poisson, Saturated, Steps
from thalweg.simulate.dedicated import Dedicated
from thalweg.simulate.graph import Graph, Operator, Source
from thalweg.simulate.result import (
    Overhead,
    Simulated,
    SimulatedOperator,
    SimulatedSink,
    SimulatedSource,
    SimulatedThread,
)
from thalweg.simulate.simulation import Simulation, simulate
from thalweg.simulate.topologies import (
    data_parallel,
    haren_chains,
    mesh,
    pipeline,
    reverse_tree,
    tree,
    work_ns,
)

__all__ = [
    "Arrivals",
    "At",
    "Bursts",
    "Constant",
    "Dedicated",
    "Graph",
    "Operator",
    "Overhead",
    "Poisson",
    "Saturated",
    "Simulated",
    "SimulatedOperator",
    "SimulatedSink",
    "SimulatedSource",
    "SimulatedThread",
    "Simulation",
    "Source",
    "Steps",
    "data_parallel",
    "haren_chains",
    "mesh",
    "pipeline",
    "reverse_tree",
    "simulate",
    "tree",
    "work_ns",
]
