"""The node runtime in virtual time: any number of operators and threads on any machine, the same under a seed."""

from __future__ import annotations

from thalweg.simulate.arrivals import (
    Arrivals,
    At,
    Bursts,
    Constant,
    Poisson,
    Saturated,
    Steps,
    Varying,
)
from thalweg.simulate.elastic import ElasticHost, Period
from thalweg.simulate.graph import Graph, Operator, Source
from thalweg.simulate.hardware import POWER8, TWO_SIXES, XEON, Hardware
from thalweg.simulate.loads import Levels, Load, Periodic, Ramp
from thalweg.simulate.result import (
    Counters,
    OperatorCounters,
    Overhead,
    Simulated,
    SimulatedOperator,
    SimulatedSink,
    SimulatedSource,
    SimulatedThread,
)
from thalweg.simulate.simulation import Simulation, simulate
from thalweg.simulate.threads.dedicated import Dedicated
from thalweg.simulate.threads.manual import Manual
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
    "Counters",
    "Dedicated",
    "ElasticHost",
    "Graph",
    "Hardware",
    "Levels",
    "Load",
    "Manual",
    "Operator",
    "OperatorCounters",
    "Overhead",
    "POWER8",
    "Period",
    "Periodic",
    "Poisson",
    "Ramp",
    "Saturated",
    "Simulated",
    "SimulatedOperator",
    "SimulatedSink",
    "SimulatedSource",
    "SimulatedThread",
    "Simulation",
    "Source",
    "Steps",
    "TWO_SIXES",
    "Varying",
    "XEON",
    "data_parallel",
    "haren_chains",
    "mesh",
    "pipeline",
    "reverse_tree",
    "simulate",
    "tree",
    "work_ns",
]
