"""A flow as a picture, before it runs: what :meth:`thalweg.Flow.draw` gives."""

from __future__ import annotations

from thalweg.drawing import Drawing, DrawnEdge, DrawnNode
from thalweg.engine.meter import edges_of
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Sink, Source
from thalweg.plan.plan import make_plan


def draw(flow: Flow) -> Drawing:
    """The operators of a flow and who reads whom.

    Raises:
        BuildError: the flow is not whole.
    """
    plan = make_plan(flow)
    nodes = [
        DrawnNode(
            node.label, node.name,
            "source" if isinstance(node, Source) else "sink" if isinstance(node, Sink) else node.kind.value,
        )
        for node in plan.nodes
    ]  # fmt: skip
    edges = [
        DrawnEdge(one.giver, one.reader, "" if one.port == "out" else one.port, one.feedback)
        for one in edges_of(plan)
    ]
    return Drawing(flow.name, nodes, edges)
